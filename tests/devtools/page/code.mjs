// Runs the collector in Node with a browser of cardboard, and prints what it sent. Reads {source, steps, missing}:
// steps are console calls by their arguments; what is named in `missing` is taken out of the browser first.
import fs from "node:fs";
import vm from "node:vm";

const { source, steps, missing } = JSON.parse(fs.readFileSync(0, "utf8"));
const nothing = () => {};
const timers = [];
const sent = [];
const errors = [];
const opened = [];

class Socket {
  constructor(url) {
    opened.push(url);
    this.listeners = {};
    timers.push([0, () => this.fire("open", {})]);
  }
  addEventListener(type, work) { (this.listeners[type] ||= []).push(work); }
  fire(type, event) { for (const work of this.listeners[type] || []) work(event); }
  send(text) {
    const frame = JSON.parse(text);
    sent.push(frame);
    const settings = { log_level: "debug", ws_mode: "lifecycle", network_bodies: true, actions: true };
    if (frame.frame === "hello") this.answer({ frame: "welcome", settings, limits: {}, seq: 0 });
    if (frame.frame === "events") this.answer({ frame: "ack", seq: frame.seq });
  }
  answer(frame) { this.fire("message", { data: JSON.stringify(frame) }); }
  close() {}
}
class Request {}
class Node {}
const listeners = {};
const methods = ["log", "info", "dir", "table", "group", "warn", "error", "assert", "debug", "trace"];
const browser = {
  console: Object.fromEntries(methods.map((name) => [name, nothing])),
  document: {
    currentScript: { src: "http://127.0.0.1:1/devtools/collector.js?k=zdk_x" },
    addEventListener: nothing, readyState: "loading", title: "t", hidden: false, hasFocus: () => true, baseURI: "http://a/",
  },
  addEventListener: (type, work) => (listeners[type] ||= []).push(work),
  location: { href: "http://a/?token=planted-address" }, history: { pushState: nothing, replaceState: nothing },
  navigator: { sendBeacon: nothing }, performance: { now: () => 0, getEntriesByType: () => [], getEntriesByName: () => [] },
  sessionStorage: { getItem: () => null, setItem: nothing }, crypto, CSS: { escape: String },
  XMLHttpRequest: class { open() {} setRequestHeader() {} send() {} }, WebSocket: Socket, PerformanceObserver: class { observe() {} },
  Document: class { open() {} write() {} writeln() {} },
  fetch: nothing, Request, Node, Element: Node, FormData: class {}, Headers, URL, URLSearchParams, TextEncoder, TextDecoder,
  AbortController, AbortSignal, setTimeout: (work, ms) => timers.push([ms, work]), clearTimeout: nothing,
};
for (const name of missing) delete browser[name];
browser.window = browser;
vm.createContext(browser);

const run = (code) => {
  try {
    return vm.runInContext(code, browser);
  } catch (error) {
    errors.push(String(error && error.stack));
  }
};
run(source);
const early = opened.length;
run(source); // twice does nothing
browser.steps = steps;
run("for (const step of steps) console.log(...step)");
for (const work of listeners.load || []) work({});
for (let turn = 0; turn < 50 && timers.length; turn += 1) {
  for (const [, work] of timers.splice(0)) work();
}
console.log(JSON.stringify({ sent, errors, early, opened: opened.length }));
