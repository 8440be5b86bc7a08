/* The collector tells a developer's zorivest-rpc what happens in the page that carries it, and cannot run code for it.
Nothing thrown here reaches the page, which never waits; secrets are taken out before sending; all that is kept is
bounded; own traffic is not collected. Frames: frames.py. */
(() => {
"use strict";
try {
// --- what the page may replace later

const MARK = "__zorivest_devtools__";
const script = document.currentScript || document.querySelector('script[src*="/devtools/collector.js?k="]');
if (window[MARK] || !script) return;
Object.defineProperty(window, MARK, { value: true });

const { origin, search } = new URL(script.src);
const HOME = `${origin}/devtools/`;
const { WebSocket: NativeSocket, fetch: nativeFetch, setTimeout: nativeLater, clearTimeout: forget } = window;
const { warn } = console;
const { apply, construct } = Reflect;
const { entries, fromEntries, keys } = Object;
const { stringify, parse } = JSON;
const now = Date.now;
const clock = performance.now.bind(performance);
const encoder = new TextEncoder();

let settings = { log_level: "debug", ws_mode: "lifecycle", network_bodies: true, actions: true };
let limits = {
	message: 10240, depth: 10, request_body: 8192, response_body: 16384, ws_message: 4096, value: 100,
};

/** What goes wrong in `work` stays in it, and what it logs or loads is not collected. */
let inside = false;
const safely = (work) => (...args) => {
	const outer = inside;
	inside = true;
	try {
		return apply(work, null, args);
	} catch {
		return null;
	} finally {
		inside = outer;
	}
};
const later = (work, ms) => nativeLater(safely(work), ms);
const listeners = [];
const listen = (target, type, work, options) => {
	const handler = safely(work);
	const add = () => target.addEventListener(type, handler, options);
	add();
	if (target === window || target === document) listeners.push(add);
};

const ignore = () => {};
const wrap = (target, name, before, after = ignore) => {
	const original = target[name];
	const see = safely(before);
	target[name] = function (...args) {
		if (!inside) see(this, args);
		const result = apply(original, this, args);
		after();
		return result;
	};
};
// these drop listeners
for (const name of ["open", "write", "writeln"]) wrap(Document.prototype, name, ignore, () => listeners.forEach((add) => add()));

const randomId = () => crypto.getRandomValues(new BigUint64Array(1))[0].toString(16).padStart(16, "0");
const PAGE = randomId();
let TAB = randomId();
try {
	const kept = sessionStorage.getItem(MARK);
	if (/^[0-9a-f]{16}$/.test(kept)) TAB = kept;
	sessionStorage.setItem(MARK, TAB);
} catch {} // a sandboxed frame

// --- redaction; the server does it again

const GONE = "[redacted]";
const WORDS = "pass|secret|token|auth|key|ssn|card|cvv|cvc|iban";
const SECRET = RegExp(`${WORDS}|cookie`, "i");
const SECRET_VALUE =
	/\b(?:bearer|basic)\s+[\w.~+/=-]{6,}|\b(?:zrv_sk_|ctk_|zdk_)[\w-]+|\beyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*/gi;
const USER = /(:(?:\\*\/){2})[^/?#\s"'<>]{0,512}@/g;
const PART = /(name="([^"]*)"(?:[^\n]*\n){1,5}?\r?\n)[^]*?(?=\r?\n--|$)/gi;
// the end of a name, a sign, how the value begins; quotes within texts have backslashes
const NAMED = RegExp(`(?:${WORDS})(?:[\\w.[\\]$%-]|\\\\{1,99}"(?!\\s*:)){0,99}(\\\\{0,99}["'\`])?\\s{0,20}([:=])(\\s{0,20})(\\\\{0,99}["'\`{[])?`, "gi");
const PLAIN = /^(?:(?:basic|digest|token)\s{1,20})?[^\s,;#&"'`{}<>\])]*/i;

/** Of a text or list; a quote with fewer backslashes than its own ends the text around it. */
const lengthOf = (text) => {
	let depth = 0;
	let open = null;
	for (const found of text.matchAll(/(\\{0,99})(["'`])|[{}[\]]/g)) {
		const [all, slashes, mark] = found;
		if (open && mark === open[2]) {
			const more = slashes.length - open[1].length;
			if (more < 0) return found.index;
			if (more % (2 * open[1].length + 2) === 0) open = null;
		} else if (!open && mark) open = found;
		else if (!open) depth += /[{[]/.test(all) ? 1 : -1;
		if (!open && depth < 1) return found.index + all.length;
	}
	return text.length;
};
const cleanNamed = (text) => {
	let result = "";
	let done = 0;
	for (const found of text.matchAll(NAMED)) {
		const [all, closing = "", sign, space, opening = ""] = found;
		const start = found.index + all.length - opening.length;
		const rest = text.slice(start);
		const isText = /["'`]/.test(opening);
		const quote = isText ? opening : closing;
		let length = 0;
		if (found.index < done || rest.startsWith(GONE)) continue;
		if (isText || (opening && closing)) length = lengthOf(rest);
		else if (closing || space || sign === "=") [{ length }] = rest.match(PLAIN);
		if (!length) continue;
		result += text.slice(done, start) + quote + GONE + quote;
		done = start + length;
	}
	return result + text.slice(done);
};
const cleanText = (text, depth = 4) => {
	// as servers read p%61ss and \u0070ass; a quote gets the backslashes of a plain one
	const plain = text.replace(/(\\{1,99})u00(?!5c)([2-7][\da-f])/gi, (all, { length }, code) => (
		code === "22" ? "\\".repeat(length + (length & -length) - 1) + '"' : unescape(`%${code}`)
	)).replace(/%([46][1-9a-f]|[57][\da])/gi, unescape);
	const inner = !depth || !plain.includes("%") ? plain : plain.replace(/(?:[!$%'-;?-[\]-~]|\\{1,99}(?!["\\]))+/g, (run) => {
		const decoded = unescape(run); // byte by byte; escape undoes it
		const cleaned = decoded === run ? run : cleanText(decoded, depth - 1);
		return cleaned === decoded ? run : escape(cleaned).replaceAll("%5Bredacted%5D", GONE);
	});
	const cleaned = cleanNamed(inner
		.replace(USER, `$1${GONE}@`)
		.replace(PART, (all, before, name) => (SECRET.test(name) ? before + GONE : all))
		.replace(SECRET_VALUE, GONE));
	return cleaned === plain ? text : cleaned;
};
/** Done when something is sent, not while the page's own code runs. */
const clean = (value, name, owner) => {
	if (typeof value === "string") return /_headers$|^attributes$/.test(owner) && SECRET.test(name) ? GONE : cleanText(value);
	if (!value || typeof value !== "object") return value;
	if (Array.isArray(value)) return value.map((each) => clean(each));
	return fromEntries(entries(value).map(([key, each]) => [key, clean(each, key, name)]));
};
const isSecretField = (field) =>
	field.type === "password" || /^cc-|-password$|one-time-code/.test(field.autocomplete || "") ||
	[field.name, field.id, field.ariaLabel].some((name) => name && SECRET.test(name));

// --- texts: bounded, and without calling the page's getters

/** Cut to `most` bytes of UTF-8. */
const cut = (text, most) => {
	if (text.length * 3 <= most) return text;
	const { read } = encoder.encodeInto(text, new Uint8Array(most));
	// parsed anew: a slice keeps the whole of a long text alive
	return read < text.length ? parse(stringify(text.slice(0, read))) : text;
};
const sizeOf = (data) => (typeof data === "string" ? encoder.encode(data).length : data.byteLength ?? data.size ?? 0);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const squeeze = (text) => (text || "").replace(/\s+/g, " ").trim();

const describe = (value, budget = { left: limits.message }, depth = 0, seen = []) => {
	budget.left -= 8;
	if (typeof value === "string") {
		budget.left -= value.length;
		return depth ? stringify(cut(value, limits.message)) : value;
	}
	if (typeof value === "function") return `function ${value.name}()`;
	if (typeof value === "bigint") return `${value}n`;
	if (value === null || typeof value !== "object") return String(value);
	if (seen.includes(value)) return '"[circular]"';
	if (depth >= limits.depth) return '"[…]"';
	let isList = Array.isArray(value);
	if (!isList && Object.getPrototypeOf(value) !== Object.prototype) {
		if (value instanceof Error) return String(value.stack || value);
		if (value instanceof Node) return `<${value.nodeName.toLowerCase()}${value.id ? `#${value.id}` : ""}>`;
		if (value instanceof Date || value instanceof RegExp) return `${value}`;
		isList = value instanceof Set || value instanceof Map;
	}
	seen.push(value);
	let text = "";
	for (const each of isList ? value : keys(value)) {
		if (text) text += ",";
		if (budget.left <= 0) {
			text += "…";
			break;
		}
		if (!isList) text += `${stringify(each)}:`;
		const own = isList ? { value: each } : Object.getOwnPropertyDescriptor(value, each);
		text += own && "value" in own ? describe(own.value, budget, depth + 1, seen) : '"[getter]"';
	}
	seen.pop();
	return isList ? `[${text}]` : `{${text}}`;
};

const joinArguments = ([first, ...rest]) => {
	if (typeof first !== "string") return [first, ...rest].map((each) => describe(each)).join(" ");
	const filled = first.replace(/%[sdifoOc]/g, (all) => {
		if (!rest.length) return all;
		const value = rest.shift();
		if (all === "%c") return "";
		return /[di]/.test(all) ? parseInt(value, 10) : describe(value);
	});
	return [filled, ...rest.map((each) => describe(each))].join(" ");
};

// --- the queue; batches stay until they are settled

const QUEUE = 500;
const BATCH_BYTES = 256 << 10;
const BATCH_MS = 6; // of the page's time
const IN_FLIGHT = 3;
let queue = [];
let dropped = 0;
let flushTimer = 0;
let seq = 0;
let unacked = [];

const flushIn = (ms) => {
	if (!flushTimer) flushTimer = later(flush, ms);
};
const push = (kind, item) => {
	if (blocked) return;
	if (queue.length >= QUEUE) {
		queue.shift();
		dropped += 1;
	}
	queue.push({ kind, ts: now(), ...item });
	flushIn(250);
};
const makeBatch = (bytes) => {
	const texts = [];
	const started = clock();
	let size = 0;
	let taken = 0;
	for (; taken < queue.length && clock() - started < BATCH_MS; taken += 1) {
		const text = stringify(clean(queue[taken]));
		size += sizeOf(text) + 1;
		if (size > bytes && taken) break;
		texts.push(text);
	}
	queue.splice(0, taken);
	seq += 1;
	const text = `{"frame":"events","seq":${seq},"dropped":${dropped},"items":[${texts}]}`;
	dropped = 0;
	unacked.push({ seq, text, count: texts.length, resent: false });
	return text;
};
const flush = () => {
	flushTimer = 0;
	if (!ready || unacked.length >= IN_FLIGHT) return; // settling flushes again
	reportState();
	if (!queue.length && !dropped) return;
	send(makeBatch(BATCH_BYTES));
	// below 1000 a second
	if (queue.length) flushIn(Math.max(30, unacked[unacked.length - 1].count * 1.3));
};
const settle = (isDone) => {
	unacked = unacked.filter((batch) => !isDone(batch));
	if (queue.length) flushIn(30);
};

// --- the connection: a WebSocket, or requests that the server holds

let ready = false; // to send
let blocked = false; // by the page's policy
let failures = 0; // since the last welcome
let socket = null;
let syncing = 0; // requests under way
let outbox = []; // for the next of them
let watch;
let retry;
let lastState = "";

const address = (name) => HOME + name + search;
const envelope = (frames) => `{"page":"${PAGE}","tab":"${TAB}","frames":[${frames}]}`;
const state = () => clean({ url: location.href, title: document.title.slice(0, 300), visible: !document.hidden });
const hello = () => stringify({ frame: "hello", v: 1, page: PAGE, tab: TAB, ...state() });
const reportState = () => {
	const text = stringify({ frame: "state", ...state(), focused: document.hasFocus() });
	if (ready && text !== lastState) send((lastState = text));
};

const connect = () => {
	if (blocked || socket || syncing) return;
	if (failures > 1 && failures % 2 === 0) { // twice a socket, then each in turn
		outbox = [hello()];
		return sync();
	}
	let made;
	try {
		made = socket = new NativeSocket(address("ws").replace(/^http/, "ws"), "zorivest.devtools.v1");
	} catch {
		return lose(); // mixed content
	}
	listen(made, "open", () => made.send(hello()));
	listen(made, "message", (event) => receive(parse(event.data)));
	listen(made, "close", () => socket === made && lose());
};
/** The server holds the newest, and answers the one before. */
const sync = async () => {
	const sent = outbox;
	outbox = [];
	syncing += 1;
	let frames;
	try {
		const signal = AbortSignal.timeout(30000); // the server holds for 20 s
		const reply = await nativeFetch(address("sync"), { method: "POST", body: envelope(sent), credentials: "omit", signal });
		if (reply.status === 429) {
			frames = [{ frame: "slow", ms: 1000 }];
			outbox.unshift(...sent);
		} else if (reply.status === 410) frames = outbox = [hello()];
		else if (reply.ok) ({ frames } = await reply.json());
	} catch {}
	syncing -= 1;
	if (!frames) return lose();
	frames.forEach(safely(receive));
	if (!syncing) later(() => syncing || socket || sync(), ready ? 0 : 1000);
};
const send = (text) => {
	if (!socket) return outbox.push(text) === 1 && later(() => outbox.length && sync(), 0);
	socket.send(text);
	// a browser may not notice for minutes
	forget(watch);
	watch = later(() => unacked.length && socket && socket.close(), 30000);
};
const lose = () => {
	ready = false;
	socket = null;
	outbox = [];
	failures += 1;
	forget(watch);
	forget(retry);
	retry = later(connect, Math.min(30000, 500 * 2 ** Math.min(9, failures - 1)) * (0.75 + Math.random() / 4));
};

const cancelled = new Set();
const RECEIVERS = {
	welcome(frame) {
		ready = true;
		failures = 0;
		lastState = "";
		limits = { ...limits, ...frame.limits };
		({ settings } = frame);
		settle((batch) => batch.seq <= frame.seq);
		unacked = unacked.filter((batch) => {
			if (batch.resent) dropped += batch.count; // lost a second time
			else send(batch.text);
			return !batch.resent && (batch.resent = true);
		});
		flush();
	},
	ack: (frame) => settle((batch) => batch.seq === frame.seq),
	settings: (frame) => (settings = frame),
	slow({ ms }) {
		ready = false;
		later(() => {
			if (failures) return; // lost meanwhile
			ready = true;
			if (socket) for (const batch of unacked) send(batch.text);
			flush();
		}, Math.min(60000, ms || 1000));
	},
	query: (frame) => answer(frame),
	cancel: ({ q }) => cancelled.add(q),
};
const receive = (frame) => RECEIVERS[frame.frame] && RECEIVERS[frame.frame](frame);

listen(document, "securitypolicyviolation", ({ blockedURI, disposition, effectiveDirective }) => {
	if (blocked || disposition !== "enforce" || effectiveDirective !== "connect-src") return;
	if (new URL(blockedURI.replace(/^ws/, "http")).origin !== origin) return;
	blocked = true; // another attempt, another violation
	queue = [];
	warn.call(console, `[zorivest-rpc devtools] connect-src of the Content-Security-Policy lacks ${origin} and ${origin.replace(/^http/, "ws")}.`);
});

/** The rest goes as a beacon; a browser takes 64 KiB of that. */
listen(window, "pagehide", () => {
	endTyping();
	snapshot();
	dropped += Math.max(0, queue.length - 100);
	queue = queue.slice(-100);
	const kept = unacked.map((batch) => batch.text);
	const frames = sizeOf(kept.join()) < 20000 ? kept : [];
	if (queue.length || dropped) frames.push(makeBatch(35000));
	if (frames.length && !blocked && navigator.sendBeacon(address("beacon"), envelope([hello(), ...frames]))) unacked = [];
});
for (const type of ["focus", "blur"]) listen(window, type, reportState);
listen(document, "visibilitychange", () => {
	if (document.hidden) snapshot();
	reportState();
});

// --- console and errors

const LEVELS = ["debug", "info", "warn", "error"];
const METHODS = { debug: 0, trace: 0, log: 1, info: 1, dir: 1, table: 1, group: 1, warn: 2, error: 3, assert: 3 };
let stacks = 0; // of this second: they cost most

const pushLog = (level, text, source, stack) => {
	const message = cut(text, limits.message);
	const last = queue[queue.length - 1];
	if (last && last.message === message && last.level === level && last.source === source) last.count += 1;
	else push("log", { level, message, source, stack: stack ? cut(String(stack), limits.message) : undefined, count: 1 });
};
const callerStack = () => {
	if (stacks >= 20) return "";
	if (!stacks) later(() => (stacks = 0), 1000);
	stacks += 1;
	return new Error().stack.split("\n").slice(1).filter((line) => !line.includes(HOME)).join("\n");
};
for (const [method, level] of entries(METHODS)) {
	wrap(console, method, (self, args) => {
		const isAssertion = method === "assert";
		if (level < LEVELS.indexOf(settings.log_level) || (isAssertion && args[0])) return;
		const told = isAssertion ? ["Assertion failed:", ...args.slice(1)] : args;
		pushLog(LEVELS[level], joinArguments(told), "console", level === 3 && callerStack());
	});
}
listen(window, "error", ({ target, message, filename, lineno, colno, error }) => {
	if (target instanceof Element) {
		const url = String(target.currentSrc || target.src || target.href);
		if (!isOwn(url)) pushLog("error", `Failed to load ${target.localName}: ${url}`, url);
	} else if (message !== undefined) {
		pushLog("error", String(message), `${cleanText(filename || location.href)}:${lineno}:${colno}`, error?.stack);
	}
}, true);
listen(window, "unhandledrejection", ({ reason }) => {
	const text = reason instanceof Error ? reason : describe(reason);
	pushLog("error", `Uncaught (in promise) ${text}`, "rejection", reason?.stack);
});

// --- requests

const TEXTUAL = /^text\/(?!event-stream)|json|xml|javascript|yaml|graphql|urlencoded/i;
const isOwn = (url) => url.startsWith(HOME);

const newRequest = (method, url) => ({
	ts: now(), started: clock(), method: String(method).toUpperCase(), url: new URL(url, document.baseURI).href,
	status: 0, request_headers: {},
});
const addRequestBody = (item, body) => {
	let text = body;
	let type = "text/plain";
	if (body instanceof URLSearchParams) [text, type] = [String(body), "application/x-www-form-urlencoded"];
	else if (body instanceof FormData) {
		const pairs = [...body].map(([name, value]) => [name, value.name ? `[file ${value.name}]` : value]);
		[text, type] = [String(new URLSearchParams(pairs)), "multipart/form-data"];
	}
	if (typeof text !== "string") type = ""; // nothing, or binary
	item.request_content_type = item.request_headers["content-type"] || type;
	if (!type) return;
	item.request_size = sizeOf(text);
	if (!settings.network_bodies) return;
	item.request_body = cut(text, limits.request_body);
	item.request_truncated = item.request_body.length < text.length;
};
const addResponse = (item, status, headers) => {
	item.status = status;
	item.response_headers = fromEntries(headers);
	item.content_type = headers.get("content-type") || "";
	if (headers.has("content-length")) item.response_size = +headers.get("content-length");
};
const addResponseBody = (item, text) => {
	item.response_body = cut(text, limits.response_body);
	item.response_truncated = item.response_body.length < text.length;
};
const finishRequest = ({ started, ...item }) => push("request", { ...item, duration_ms: clock() - started });

/** A copy, up to the limit: the page's own is not delayed. */
const readBody = async (item, copy) => {
	const reader = copy.body.getReader();
	const decoder = new TextDecoder();
	const leave = () => reader.cancel().catch(ignore);
	const timer = later(leave, 5000);
	let text = "";
	let size = 0;
	for (let part = await reader.read(); !part.done; part = await reader.read()) {
		size += part.value.length;
		text += decoder.decode(part.value, { stream: true });
		if (size > limits.response_body) break;
	}
	leave();
	forget(timer);
	addResponseBody(item, text);
};
const finishFetch = safely((item, response) => {
	addResponse(item, response.status, response.headers);
	item.wait_ms = clock() - item.started;
	const isKept = settings.network_bodies && response.body && TEXTUAL.test(item.content_type);
	const read = isKept ? readBody(item, response.clone()).catch(ignore) : Promise.resolve();
	read.then(safely(() => finishRequest(item)));
});
const failFetch = safely((item, error) => finishRequest({ ...item, error: String(error?.message).slice(0, 300) }));
const beginFetch = safely((input, init) => {
	const request = input instanceof Request ? input : null;
	const { method, headers, body } = { ...init };
	const item = newRequest(method || request?.method || "GET", request?.url ?? input);
	if (isOwn(item.url) || !/^http/.test(item.url)) return null;
	item.request_headers = fromEntries(new Headers(headers || request?.headers));
	addRequestBody(item, body);
	if (request?.body && body === undefined && TEXTUAL.test(item.request_content_type)) {
		request.clone().text().then(safely((text) => addRequestBody(item, text)), ignore);
	}
	return item;
});
const isPromise = safely((value) => apply({}.toString, value, []) === "[object Promise]" && value.then);
window.fetch = function fetch(input, init) {
	const item = inside ? null : beginFetch(input, init);
	const promise = apply(nativeFetch, this, arguments);
	if (!item || !isPromise(promise)) return promise;
	// handed on: watched alone, a rejection would be lost to the page
	return promise.then((response) => (finishFetch(item, response), response), (error) => {
		failFetch(item, error);
		throw error;
	});
};

const requests = new WeakMap();
const finishXhr = (request, item) => {
	const lines = request.getAllResponseHeaders().match(/.+/g) || [];
	addResponse(item, request.status, new Headers(lines.map((line) => line.trim().split(/: *(.*)/, 2))));
	const { response, responseType } = request;
	if (settings.network_bodies && response && (typeof response === "string" || responseType === "json")) {
		addResponseBody(item, responseType === "json" ? describe(response, { left: limits.response_body }, 1) : response);
	}
	finishRequest(item);
};
const watchXhr = (name, work) => wrap(XMLHttpRequest.prototype, name, work);
watchXhr("open", (request, [method, url]) => {
	const item = newRequest(method, url);
	if (isOwn(item.url)) requests.delete(request);
	else requests.set(request, item);
});
watchXhr("setRequestHeader", (request, [name, value]) => {
	requests.get(request).request_headers[name.toLowerCase()] = String(value);
});
watchXhr("send", (request, [body]) => {
	const item = requests.get(request);
	addRequestBody(item, body);
	for (const type of ["error", "abort", "timeout"]) listen(request, type, () => (item.error = type), { once: true });
	listen(request, "loadend", () => finishXhr(request, item), { once: true });
});

// --- sockets of the page

const sockets = new WeakMap();
let socketCount = 0;

const NO_RATE = { incoming: 0, outgoing: 0, incoming_bytes: 0, outgoing_bytes: 0 };
const pushRate = (watched) => {
	watched.timer = 0;
	push("ws_rate", { connection_id: watched.id, ...watched.rate });
	watched.rate = { ...NO_RATE };
};
const tellSocket = ({ id, url }, event, more) => {
	if (settings.ws_mode !== "off") push("ws", { event, connection_id: id, url, ...more });
};
const countMessage = (watched, direction, data) => {
	if (settings.ws_mode === "off") return;
	const size = sizeOf(data);
	watched.rate[direction] += 1;
	watched.rate[`${direction}_bytes`] += size;
	if (!watched.timer) watched.timer = later(() => watched.timer && pushRate(watched), 1000);
	const text = typeof data === "string" ? cut(data, limits.ws_message) : undefined;
	if (settings.ws_mode === "messages") tellSocket(watched, "message", { direction, size, data: text });
};
const watchSocket = safely((made) => {
	if (isOwn(made.url.replace(/^ws/, "http"))) return;
	const watched = { id: String((socketCount += 1)), url: made.url, timer: 0, rate: { ...NO_RATE } };
	sockets.set(made, watched);
	for (const type of ["open", "error"]) listen(made, type, () => tellSocket(watched, type));
	listen(made, "message", ({ data }) => countMessage(watched, "incoming", data));
	listen(made, "close", ({ code, reason }) => {
		if (watched.timer) pushRate(watched);
		tellSocket(watched, "close", { code, reason });
	});
});
if (NativeSocket) {
	window.WebSocket = new Proxy(NativeSocket, {
		construct(...args) {
			const made = apply(construct, null, args);
			watchSocket(made);
			return made;
		},
	});
	NativeSocket.prototype.constructor = window.WebSocket;
	wrap(NativeSocket.prototype, "send", (made, [data]) => {
		if (sockets.has(made) && made.readyState === 1) countMessage(sockets.get(made), "outgoing", data);
	});
}

// --- elements: ways to find one again

const FIELD = "input:not([type=hidden]),select,textarea";
const PRESSED = "input:is([type=button],[type=submit],[type=reset],[type=image])";
const ROLES = {
	button: `button,summary,${PRESSED}`,
	link: "a[href]", checkbox: "input[type=checkbox]", radio: "input[type=radio]",
	combobox: "select:not([multiple]):not([size])", listbox: "select[multiple],select[size]",
	textbox: "input:is(:not([type]),[type=text],[type=email],[type=tel],[type=url]),textarea",
	heading: "h1,h2,h3,h4,h5,h6", img: "img[alt]:not([alt=''])", option: "option",
	tab: "", menuitem: "", switch: "",
};
const withRole = (role) => [ROLES[role], `[role=${role}]`].filter(Boolean).join();
const roleOf = (node) => {
	const given = node.getAttribute("role");
	return keys(ROLES).find((role) => (given ? role === given : ROLES[role] && node.matches(ROLES[role])));
};
const textOf = (node) => squeeze(node.innerText ?? node.textContent);
const labelOf = (field) => {
	const words = [...(field.labels || [])].map((label) => {
		const copy = label.cloneNode(true);
		all("select,textarea,button", copy).forEach((each) => each.remove()); // options are no label
		return copy.textContent;
	});
	return squeeze(words.join(" ")) || squeeze(field.ariaLabel);
};
const nameOf = (node) => {
	const ids = (node.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean);
	const own = [ids.map((id) => document.getElementById(id)?.textContent).join(" ").trim(), node.ariaLabel?.trim()];
	if (node.matches("img,input[type=image]")) own.push(node.alt);
	else if (node.matches(PRESSED)) own.push(node.value);
	else if (node.matches(FIELD)) own.push(labelOf(node), node.title, node.placeholder);
	else {
		const pictures = all("img[alt]", node).map((each) => each.alt);
		own.push(squeeze([textOf(node), ...pictures].join(" ")));
	}
	return squeeze([...own, node.title].find(Boolean));
};
/** Whether no other of at most 500 elements reads the same. */
const isAlone = (selector, node, read) => {
	const others = all(selector);
	const wanted = read(node);
	return wanted && wanted.length <= 100 && others.length <= 500 && others.includes(node) &&
		others.every((each) => each === node || read(each) !== wanted);
};
/** Not in a shadow tree: hosts are alike. */
const isOnly = (selector, node) => {
	const [first, second] = all(selector);
	return first === node && !second;
};
const pathOf = (node) => {
	const steps = [];
	for (let each = node; each; each = each.parentElement || each.getRootNode().host) {
		const id = each.id && `#${CSS.escape(each.id)}`;
		if (id && isOnly(id, each)) return [id, ...steps].join(" > ");
		const alike = [...(each.parentNode?.children || [])].filter((other) => other.localName === each.localName);
		steps.unshift(CSS.escape(each.localName) + (alike.length > 1 ? `:nth-of-type(${alike.indexOf(each) + 1})` : ""));
	}
	return steps.join(" > ");
};
const selectorsOf = (node) => {
	const found = { css: pathOf(node).slice(0, 500) };
	const testId = node.getAttribute("data-testid");
	if (testId && isOnly(`[data-testid="${CSS.escape(testId)}"]`, node)) found.test_id = testId;
	const role = roleOf(node);
	if (role && isAlone(withRole(role), node, nameOf)) found.role = { role, name: nameOf(node) };
	if (node.matches(FIELD)) {
		if (isAlone(FIELD, node, labelOf)) found.label = labelOf(node);
	} else if (isAlone(`${node.localName},body :not(:has(*))`, node, textOf)) {
		// a parent may have the same text
		if (!node.parentElement || textOf(node.parentElement) !== textOf(node)) found.text = textOf(node);
	}
	if (node.id && isOnly(`#${CSS.escape(node.id)}`, node)) found.id = node.id;
	return found;
};

// --- actions

const KEYS = /^(Enter|Escape|Tab|Arrow\w+|Backspace|Delete)$/;
const CHOSEN = /^(checkbox|radio|file|select-\w+)$/;
const ACTIVE = "button,a,input,select,textarea,summary,option,[role],[data-testid],[onclick]";
let typing = null; // one item until a second of rest
let lastEnter = 0;
let scrolling = 0;

const newAction = (type, node, more) => ({
	ts: now(), type, url: location.href, selectors: node ? selectorsOf(node) : {}, ...more,
});
const act = (...action) => push("action", newAction(...action));
const typeOf = (field) => (field.isContentEditable ? "contenteditable" : field.type);
const valueOf = (field) => {
	if (isSecretField(field)) return GONE;
	if (field.type === "checkbox" || field.type === "radio") return String(field.checked);
	const chosen = field.selectedOptions || field.files;
	const text = chosen ? [...chosen].map((each) => each.value ?? each.name).join() : field.value ?? field.innerText;
	return [...text].slice(0, limits.value).join("");
};
const endTyping = () => {
	if (!typing) return;
	const { field, item, timer } = typing;
	typing = null;
	forget(timer);
	push("action", { ...item, value: valueOf(field) });
};
const onAction = (type, work) => listen(window, type, (event) => {
	const target = event.composedPath()[0];
	// a script is no user
	if (!settings.actions || !event.isTrusted || !target.nodeType) return;
	if (/click|change|submit/.test(type)) endTyping();
	work(target, event);
}, true);

onAction("click", (target, event) => {
	const node = target.closest(ACTIVE) || target;
	const field = target.closest("label")?.control;
	if (field && field !== target && node === target) return; // its field is clicked next
	if (event.detail === 0 && clock() - lastEnter < 100) return; // Enter, replayed, does this again
	if (!node.matches("option,select")) act("click", node, { input_type: node.type || undefined });
});
onAction("input", (field) => {
	if (CHOSEN.test(field.type)) return;
	if (typing && typing.field !== field) endTyping();
	forget(typing?.timer);
	const item = typing?.item || newAction("input", field, { input_type: typeOf(field) });
	typing = { field, item, timer: later(endTyping, 1000) };
});
onAction("change", (field) => {
	if (CHOSEN.test(field.type)) act("change", field, { value: valueOf(field), input_type: field.type });
});
onAction("keydown", (target, { key }) => {
	if (!KEYS.test(key)) return;
	endTyping();
	if (key === "Enter") lastEnter = clock();
	act("key", target, { key, input_type: typeOf(target) });
});
onAction("submit", (form) => act("submit", form));
onAction("scroll", (target) => {
	if (target !== document || scrolling) return;
	scrolling = later(() => {
		scrolling = 0;
		act("scroll", null, { value: `${Math.round(scrollX)},${Math.round(scrollY)}` });
	}, 250);
});

let here = location.href;
const noticeMove = safely(() => {
	const from = here;
	here = location.href;
	if (from === here) return;
	endTyping();
	if (settings.actions) act("navigate", null, { url: from, to_url: here });
	reportState();
});
for (const method of ["pushState", "replaceState"]) wrap(history, method, ignore, noticeMove);
for (const type of ["popstate", "hashchange"]) listen(window, type, noticeMove);
if (window.navigation) listen(navigation, "currententrychange", noticeMove);

// --- performance: the document's metrics so far

let lcp;
let cls = 0;
let shift = { value: 0, first: 0, last: 0 };
const interactions = new Map();
let longTasks = 0;
let blocking = 0;
let lastSnapshot = "";

const observe = (type, work) => {
	try {
		const observer = new PerformanceObserver((list) => list.getEntries().forEach(safely(work)));
		observer.observe({ type, buffered: true, durationThreshold: 16 });
	} catch {}
};
observe("largest-contentful-paint", (entry) => (lcp = entry.startTime));
observe("layout-shift", ({ hadRecentInput, startTime, value }) => {
	if (hadRecentInput) return;
	// shifts less than 1 s apart, within 5 s, are one; the worst counts
	const joins = startTime - shift.last < 1000 && startTime - shift.first < 5000;
	shift = joins ? { ...shift, value: shift.value + value, last: startTime } : { value, first: startTime, last: startTime };
	cls = Math.max(cls, shift.value);
});
observe("event", ({ interactionId, duration }) => {
	if (interactionId && interactions.size < 500) interactions.set(interactionId, Math.max(duration, interactions.get(interactionId) || 0));
});
observe("longtask", ({ duration }) => {
	longTasks += 1;
	blocking += Math.max(0, duration - 50);
});

const snapshot = () => {
	const [page] = performance.getEntriesByType("navigation");
	if (!page || !page.loadEventEnd) return;
	const loads = performance.getEntriesByType("resource").filter((entry) => !isOwn(entry.name));
	const waits = [...interactions.values()].sort((a, b) => b - a);
	const slowest = [...loads].sort((a, b) => b.duration - a.duration).slice(0, 10);
	const metrics = {
		url: location.href, ttfb: page.responseStart, fcp: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
		lcp, cls, inp: waits[Math.floor(waits.length / 50)], // of each 50 one may be worse
		dom_content_loaded: page.domContentLoadedEventEnd, load: page.loadEventEnd, requests: loads.length + 1,
		bytes: [page, ...loads].reduce((sum, entry) => sum + entry.transferSize, 0), long_tasks: longTasks, blocking_ms: blocking,
		slowest: slowest.map((e) => ({ url: e.name, initiator: e.initiatorType, duration_ms: e.duration, bytes: e.transferSize })),
	};
	const text = stringify(metrics);
	if (text !== lastSnapshot) push("perf", metrics);
	lastSnapshot = text;
};

// --- live queries

const STYLES = "display position visibility opacity color background-color font-size font-weight width height";

const find = (selector) => {
	try {
		return all(selector);
	} catch {
		throw { code: "invalid_selector", message: `Invalid CSS selector: ${selector}.` };
	}
};
const matchOf = (node, params, depth, budget) => {
	budget.left -= 1;
	const { x, y, width, height } = node.getBoundingClientRect();
	const attributes = [...node.attributes].map(({ name, value }) => (
		[name, name === "value" && isSecretField(node) ? GONE : value.slice(0, 500)]
	));
	const match = {
		tag: node.localName, text: textOf(node).slice(0, 500),
		visible: node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && width > 0 && height > 0,
		attributes: fromEntries(attributes), box: { x, y, width, height },
	};
	if (params.include_styles) {
		const style = getComputedStyle(node);
		const wanted = params.properties || STYLES.split(" ");
		match.styles = fromEntries(wanted.map((name) => [name, style.getPropertyValue(name)]));
	}
	if (params.include_children && depth < params.max_depth) {
		match.children = [...node.children].flatMap((child) => (budget.left > 0 ? [matchOf(child, params, depth + 1, budget)] : []));
	}
	return match;
};
const place = () => ({ url: location.href, title: document.title });
const queryDom = (given) => {
	const params = { limit: 20, max_depth: 3, ...given };
	const found = find(params.selector);
	const budget = { left: 500 };
	const matches = found.slice(0, params.limit).map((each) => matchOf(each, params, 0, budget));
	return { ...place(), match_count: found.length, returned_count: matches.length, matches };
};
const queryPage = () => ({
	...place(), viewport: { width: innerWidth, height: innerHeight },
	scroll: { x: scrollX, y: scrollY }, document_height: document.documentElement.scrollHeight,
	headings: all(ROLES.heading).slice(0, 100).map((each) => ({ level: +each.localName[1], text: textOf(each).slice(0, 200) })),
	links: document.links.length, images: document.images.length,
	interactive: all(`a[href],button,${FIELD},summary,[tabindex],[role=button],[role=link]`).length,
	forms: all("form").slice(0, 20).map((form) => ({
		id: form.getAttribute("id") || "", action: form.getAttribute("action") || "",
		fields: all(FIELD, form).slice(0, 50).map((field) => ({
			name: field.name || field.id, type: field.type, label: labelOf(field).slice(0, 100), required: !!field.required,
		})),
	})),
});

/** The page's own copy, else the server's, out of its globals again. */
let ourAxe = null;
const loadAxe = () => new Promise((resolve) => {
	if (window.axe?.run || ourAxe) return resolve(window.axe || ourAxe);
	const tag = document.createElement("script");
	tag.src = `${HOME}axe.min.js`;
	tag.nonce = script.nonce;
	tag.onload = tag.onerror = () => {
		ourAxe = window.axe || null;
		delete window.axe;
		tag.remove();
		resolve(ourAxe);
	};
	document.documentElement.append(tag);
});
const shapeRule = ({ id, impact, description, help, helpUrl, tags, nodes }) => ({
	id, impact: impact || null, description, help, helpUrl, tags, node_count: nodes.length,
	nodes: nodes.slice(0, 10).map(({ target, html, failureSummary }) => ({
		target: target.map((part) => [].concat(part).join(" ")), html: html.replace(/ value="[^"]*"/g, "").slice(0, 200), failureSummary: (failureSummary || "").slice(0, 1000),
	})),
});
const newAudit = (engine, engine_version, partial) => ({ engine, engine_version, partial, violations: [], incomplete: [], passes: [] });

/** In four parts: what is found in time is sent. */
const runAxe = async (axe, params, deadline) => {
	const rules = axe.getRules(params.tags).filter((rule) => params.tags || !/experimental|deprecated|wcag2aaa/.test(rule.tags));
	const audit = newAudit("axe-core", String(axe.version), false);
	const size = Math.ceil(rules.length / 4);
	for (let at = 0; at < rules.length && !audit.partial; at += size) {
		const values = rules.slice(at, at + size).map((rule) => rule.ruleId);
		const options = { runOnly: { type: "rule", values }, iframes: false, elementRef: false };
		const run = axe.run(params.scope ? find(params.scope) : document, options);
		const found = await Promise.race([run, new Promise((resolve) => nativeLater(resolve, deadline - clock()))]);
		if (!found) audit.partial = true;
		else for (const kind of ["violations", "incomplete", "passes"]) audit[kind].push(...found[kind].map(shapeRule));
	}
	return audit;
};

// twelve of axe-core's rules, simplified
const hasNoName = (each) => !nameOf(each);
const RULES = [
	["image-alt", "Images need a text", "img:not([alt],[role=presentation],[role=none])"],
	["input-image-alt", "Image buttons need a text", "input[type=image]"],
	["label", "Form fields need labels", `:is(input:not([type=hidden],${PRESSED}),textarea):not([aria-labelledby],[title])`,
		"critical", (each) => !labelOf(each)],
	["select-name", "Select fields need a name", "select"],
	["button-name", "Buttons need a name", "button,[role=button]"],
	["link-name", "Links need a name", "a[href]", "serious"],
	["frame-title", "Frames need a title", "iframe", "serious"],
	["html-has-lang", "The document needs a language", "html", "serious", (each) => !each.lang],
	["document-title", "The document needs a title", "html", "serious", () => !squeeze(document.title)],
	["meta-viewport", "Zooming must be possible", "meta[name=viewport]", "moderate",
		(each) => /user-scalable\s*=\s*(no|0)|maximum-scale\s*=\s*1(\.0*)?\b/.test(each.content), "wcag2aa"],
	["empty-heading", "Headings need text", ROLES.heading, "minor", hasNoName, "best-practice"],
	["tabindex", "No tabindex above zero", "[tabindex]", "serious", (each) => each.tabIndex > 0, "best-practice"],
];
const runBuiltin = (params) => {
	const roots = params.scope ? find(params.scope) : [document];
	const audit = newAudit("builtin", "1", true);
	for (const [id, help, selector, impact = "critical", isWrong = hasNoName, tag = "wcag2a"] of RULES) {
		if (params.tags && !params.tags.includes(tag)) continue;
		const wrong = all(selector).filter((each) => roots.some((root) => root.contains(each)) && isWrong(each));
		const nodes = wrong.map((each) => ({ target: [pathOf(each)], html: each.outerHTML, failureSummary: help }));
		const rule = { id, impact, description: help, help, helpUrl: `https://dequeuniversity.com/rules/axe/4.10/${id}` };
		audit[nodes.length ? "violations" : "passes"].push(shapeRule({ ...rule, tags: [tag], nodes }));
	}
	return audit;
};

let auditing = Promise.resolve(); // axe-core runs one audit at a time
const queryA11y = (params, timeout) => {
	const deadline = clock() + timeout;
	const audit = async () => {
		if (params.scope) find(params.scope);
		const axe = await loadAxe().catch(ignore); // a policy of trusted types
		const found = (axe && (await runAxe(axe, params, deadline).catch(() => null))) || runBuiltin(params);
		return { url: location.href, ...found, passes: params.include_passes ? found.passes : [] };
	};
	auditing = auditing.then(audit, audit);
	return auditing;
};

const QUERIES = { dom: queryDom, page: queryPage, a11y: queryA11y };
const answer = async ({ q, type, params, timeout_ms }) => {
	let result;
	try {
		// an empty list is like none
		const given = fromEntries(entries(params).filter(([, value]) => `${value}`));
		result = { ok: true, data: clean(await QUERIES[type](given, timeout_ms)) };
	} catch ({ code, message }) {
		result = { ok: false, error: { code: code || "failed", message: String(message).slice(0, 500) } };
	}
	if (!cancelled.delete(q)) safely(send)(stringify({ frame: "result", q, ...result }));
};

// --- start: after the page has loaded

let begun = false;
const begin = () => {
	if (!begun) connect();
	begun = true;
};
const afterLoad = () => {
	later(begin, 0);
	later(snapshot, 2000);
};
if (document.readyState === "complete") afterLoad();
else listen(window, "load", afterLoad);
later(begin, 3000);
} catch {}
})();
