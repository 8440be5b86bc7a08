"""Pages that do not mean well, or do a lot: the collector stays quiet and bounded, and they stay as they are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page

from tests.devtools.page.server import FrameServer, open_page

pytestmark = pytest.mark.asyncio(loop_scope="session")

BURST = """() => {
    for (let n = 0; n < 10000; n++) console.log("line", n, { order: n, legs: [1, 2] });
}"""


async def test_of_ten_thousand_console_calls_the_newest_are_told_and_how_many_were_not(
    server: FrameServer, page: Page
) -> None:
    own = "window.own = []; console.log = (...args) => { own.push(args); };"
    server.pages["/busy"] = f"<title>busy</title><script>{own}</script>COLLECTOR"
    await page.goto(server.origin + "/busy")
    await server.until(lambda: server.frames)
    await page.evaluate(BURST)
    # all of it is one task of the page, so that nothing could be sent before its end
    await server.item("log", message='line 9999 {"order":9999,"legs":[1,2]}')
    told = [item["message"] for item in server.items("log")]
    assert told == [f'line {n} {{"order":{n},"legs":[1,2]}}' for n in range(9_500, 10_000)]
    batches = [frame for frame in server.frames if frame["frame"] == "events"]
    assert sum(frame["dropped"] for frame in batches) == 9_500
    assert await page.evaluate("own.length") == 10_000
    assert await page.evaluate("own[17]") == ["line", 17, {"order": 17, "legs": [1, 2]}]


async def test_a_burst_of_console_calls_sets_one_timer_and_takes_few_stacks(server: FrameServer, page: Page) -> None:
    """What costs is counted, whatever the machine: timers, stacks, and work on what will be dropped."""
    count = """<script>
        window.timers = window.stacks = window.encoded = 0;
        const { setTimeout: later } = window, { stringify } = JSON;
        window.setTimeout = (...args) => { timers += 1; return later(...args); };
        JSON.stringify = (...args) => { encoded += 1; return stringify(...args); };
        Object.defineProperty(Error, "prepareStackTrace", { value: (error) => { stacks += 1; return "at x"; } });
        console.error = () => {};
    </script>"""
    server.pages["/counted"] = f"<title>counted</title>{count}COLLECTOR"
    await page.goto(server.origin + "/counted")
    await server.until(lambda: server.frames)
    counted = await page.evaluate(
        """() => {
        timers = stacks = encoded = 0;
        for (let n = 0; n < 10000; n++) console.error(n, { n });
        return [timers, stacks, encoded];
    }"""
    )
    # a timer for the batch and one that lets stacks be taken again; of each call the name of its one member
    assert counted == [2, 20, 10_000]
    await server.item("log", message='9999 {"n":9999}')
    # the batch, and no more than is left of ten thousand: secrets are looked for in what is sent
    assert await page.evaluate("encoded") < 10_000 + 1_000


async def test_a_page_that_wraps_fetch_keeps_its_wrapper_and_is_told_once(server: FrameServer, page: Page) -> None:
    wrapper = """<script>
        const before = window.fetch; window.calls = 0;
        window.fetch = function (...args) { window.calls += 1; return before.apply(this, args); };
    </script>"""
    server.pages["/wraps"] = f"<title>wraps</title>{wrapper}COLLECTOR"
    await page.goto(server.origin + "/wraps")
    assert await page.evaluate("fetch('/echo?n=1').then((reply) => reply.status)") == 200
    await page.evaluate(
        """() => {
        const ours = window.fetch;
        window.fetch = (...args) => { window.calls += 10; return ours(...args); };
    }"""
    )
    assert await page.evaluate("fetch('/echo?n=2').then((reply) => reply.status)") == 200
    await server.until(lambda: len(server.items("request")) == 2)
    assert await page.evaluate("window.calls") == 12


@pytest.mark.parametrize(
    "lie",
    [
        "() => 'no promise'",
        "() => { throw new Error('refused') }",
        "() => Promise.resolve({ ok: true, status: 200, json: async () => ({ frames: 7 }) })",
        "() => Promise.resolve({ status: 200, headers: null, get body() { throw new Error('no') } })",
    ],
)
async def test_a_page_that_lies_about_fetch_gets_what_it_made(server: FrameServer, page: Page, lie: str) -> None:
    server.pages["/lies"] = f"<title>lies</title><script>window.fetch = {lie}</script>COLLECTOR"
    await page.goto(server.origin + "/lies")
    outcome = "(async () => { try { return typeof (await fetch('/x')) } catch (error) { return error.message } })()"
    expected = {"'no": "string", "thr": "refused"}.get(next((p for p in ("'no", "thr") if p in lie[:12]), ""), "object")
    assert await page.evaluate(outcome) == expected
    await page.evaluate("console.log('alive')")
    await server.item("log", message="alive")


async def test_a_page_that_breaks_the_built_ins_breaks_itself_alone(server: FrameServer, page: Page) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.message))
    await open_page(server, page)
    await page.evaluate(
        """() => {
        JSON.stringify = () => { throw new Error("stringify") };
        Date.now = () => NaN; window.setTimeout = () => { throw new Error("timer") };
        window.WebSocket = null; navigator.sendBeacon = null;
        console.log("still", { toJSON() { throw new Error("toJSON") } }, new Proxy({}, { ownKeys() { throw 1 } }));
        console.error({ get stack() { throw new Error("stack") } });
        Promise.reject({ get stack() { throw new Error("stack") } });
        console.log("after");
    }"""
    )
    await server.item("log", message="after")
    assert [message for message in errors if message not in ("Object", "")] == []


BROKEN = {
    "iterators": ("Array.prototype", "Symbol.iterator"),
    "apply": ("Function.prototype", "'apply'"),
    "Reflect": ("Reflect", "'construct'"),
    "WeakMap": ("WeakMap.prototype", "'get'"),
    "String": ("String.prototype", "'replace'"),
    "RegExp": ("RegExp.prototype", "'test'"),
    "Object": ("Object", "'entries'"),
    "Response": ("Response.prototype", "'clone'"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_page_that_breaks_a_built_in_is_answered_as_without_the_collector(
    server: FrameServer, page: Page, name: str
) -> None:
    owner, member = BROKEN[name]
    await open_page(server, page)
    did = await page.evaluate(
        f"""async (url) => {{
        const kept = {owner}[{member}], did = [];
        const request = new XMLHttpRequest();
        {owner}[{member}] = () => {{ throw new Error("broken") }};
        let reply, socket;
        try {{
            console.log("said"); did[0] = "console";
            reply = fetch("/echo"); did[1] = "fetch";
            request.open("GET", "/echo"); request.setRequestHeader("a", "b"); request.send(); did[2] = "xhr";
            history.pushState(null, "", "#there"); did[3] = "history";
            socket = new WebSocket(url); did[4] = "socket";
        }} catch (error) {{ did[5] = String(error) }} finally {{ {owner}[{member}] = kept }}
        return [...did, (await reply).status];
    }}""",
        server.origin.replace("http", "ws") + "/talk",
    )
    assert did == ["console", "fetch", "xhr", "history", "socket", 200]
    await page.evaluate("console.log('mended')")
    await server.item("log", message="mended")


@pytest.mark.parametrize("own", ["class extends Promise {}", "function () { throw new Error('no') }", "undefined"])
async def test_requests_are_told_whatever_a_library_made_of_promises(server: FrameServer, page: Page, own: str) -> None:
    await open_page(server, page)
    status = await page.evaluate(
        f"""async () => {{
        const kept = Promise;
        window.Promise = {own};
        const reply = fetch("/echo?n=1");
        window.Promise = kept;
        return (await reply).status;
    }}"""
    )
    assert status == 200
    told = await server.item("request", status=200)
    assert told["url"].endswith("/echo?n=1")
    assert told["response_body"] == "{}"


async def test_a_document_that_is_written_anew_is_still_observed(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    await page.evaluate(
        "(html) => { document.open(); document.write(html); document.close(); }",
        f"<title>new</title>{server.tag()}<button>Go</button>",
    )
    await page.get_by_role("button").click()
    told = await server.item("action", type="click")
    assert told["selectors"]["role"] == {"role": "button", "name": "Go"}
    await page.evaluate("setTimeout(() => { throw new Error('late') })")
    await server.item("log", message="Uncaught Error: late")
    await page.evaluate("console.log('last')")
    await page.goto("about:blank")
    await server.item("log", message="last")
    assert len({frame["page"] for frame in server.frames if frame["frame"] == "hello"}) == 1


async def test_elements_of_shadow_trees_have_the_way_through_their_hosts_alone(server: FrameServer, page: Page) -> None:
    define = """<script>customElements.define("own-buy", class extends HTMLElement {
        connectedCallback() {
            const inside = "<button id=b data-testid=t>Buy</button><input aria-label=Count>";
            this.attachShadow({ mode: "open" }).innerHTML = inside;
        }
    })</script>"""
    await open_page(server, page, f"<own-buy></own-buy><own-buy></own-buy>{define}")
    second = page.locator("own-buy").nth(1)
    await second.get_by_role("button").click()
    await second.get_by_label("Count").fill("5")
    for type, tag in (("click", "BUTTON"), ("input", "INPUT")):
        told = await server.item("action", type=type)
        assert list(told["selectors"]) == ["css"]  # its like is in the other host
        found = page.locator(told["selectors"]["css"])
        assert await found.evaluate(
            "(node) => [node.tagName, node.getRootNode().host.previousElementSibling.tagName]"
        ) == [
            tag,
            "OWN-BUY",
        ]


async def test_navigation_without_a_state_of_history_is_told(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    await page.evaluate(
        """async () => {
        navigation.addEventListener("navigate", (event) => event.intercept({ handler: async () => {} }));
        await navigation.navigate("/orders/7").finished;
    }"""
    )
    told = await server.item("action", type="navigate")
    assert (told["url"], told["to_url"]) == (server.origin + "/shop", server.origin + "/orders/7")
    await server.until(lambda: [f for f in server.frames if f["frame"] == "state" and f["url"].endswith("/orders/7")])


async def test_an_endless_socket_is_counted_and_not_copied(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    await page.evaluate(
        """(url) => new Promise((done) => {
        const socket = new WebSocket(url); let got = 0;
        socket.onmessage = () => { if (++got === 3000) done(); };
    })""",
        server.origin.replace("http", "ws") + "/talk?count=3000",
    )
    await server.until(lambda: sum(item["incoming"] for item in server.items("ws_rate")) == 3000)
    assert [item["event"] for item in server.items("ws")] == ["open"]


async def test_frames_are_documents_of_their_own(server: FrameServer, page: Page) -> None:
    server.pages["/inner"] = "<title>inner</title>COLLECTOR<script>console.log('from inside')</script><h1>inner</h1>"
    await open_page(
        server, page, '<iframe src="/inner"></iframe><iframe sandbox="allow-scripts" src="/inner"></iframe>'
    )
    await server.until(lambda: len({f["page"] for f in server.frames if f["frame"] == "hello"}) == 3)
    hellos = {frame["page"]: frame for frame in server.frames if frame["frame"] == "hello"}
    assert sorted(hello["title"] for hello in hellos.values()) == ["Shop", "inner", "inner"]
    # the sandboxed one has no session storage, and a tab's name of its own
    assert len({hello["tab"] for hello in hellos.values()}) == 2
    await server.until(lambda: len(server.items("log")) == 2)
    logs = [frame["_page"] for frame in server.frames if frame["frame"] == "events"]
    assert set(logs) <= {page for page, hello in hellos.items() if hello["title"] == "inner"}


async def test_a_page_that_goes_away_during_a_question_does_not_answer_it(server: FrameServer, page: Page) -> None:
    await open_page(server, page, "<p>" * 3000)
    socket = server.live[0]
    await socket.send_json({"frame": "query", "q": "gone", "type": "a11y", "params": {}, "timeout_ms": 30000})
    await page.goto("about:blank")
    await server.until(lambda: not server.live)
    assert [frame for frame in server.frames if frame["frame"] == "result"] == []


PLANTED: dict[str, Any] = {
    "bearer": "Bearer abcdef0123456789",
    "ours": "zrv_sk_planted_planted",
    "token": "ctk_planted_planted",
    "jwt": "eyJhbGciOi.eyJzdWIiOiIx.c2lnbmF0dXJl",
}


async def test_planted_secrets_do_not_leave_the_page(server: FrameServer, page: Page) -> None:
    server.settings["ws_mode"] = "messages"
    server.pages["/secret"] = '{"access_token":"planted-reply","who":"ada"}'
    fields = "<input name=card_number value=4111111111111111><input autocomplete=cc-csc aria-label=Three>"
    await open_page(server, page, f"{fields}<p>{PLANTED['ours']}</p><a href='/x?auth=planted-auth'>x</a>")
    await page.evaluate(
        """async ([planted, ws]) => {
        for (const text of Object.values(planted)) console.log("it is " + text, { deep: { text } });
        console.log({ apiKey: "planted-key", nested: { passphrase: "planted-pass" } });
        const headers = { Authorization: planted.bearer, "X-Secret-Thing": "planted-header" };
        await fetch("/secret?api_token=planted-query",
            { method: "POST", headers, body: JSON.stringify(
                { user: "ada", password: "planted-body", list: [{ cvv: "planted-cvv" }] }) });
        await fetch("/echo", { method: "POST", body: "name=ada&iban=planted-iban" });
        const socket = new WebSocket(ws + "?key=planted-socket");
        await new Promise((done) => { socket.onopen = done; });
        socket.send(JSON.stringify({ secret: "planted-message" }));
        await new Promise((done) => { socket.onmessage = done; });
        setTimeout(() => { throw new Error("failed with " + planted.bearer); });
        history.pushState({}, "", "/there#access_token=planted-fragment");
    }""",
        [PLANTED, server.origin.replace("http", "ws") + "/talk"],
    )
    await page.locator("[name=card_number]").fill("5500005555555559")
    await page.get_by_label("Three").fill("999")
    await page.locator("p").click()
    await server.ask("d", "dom", {"selector": "body", "include_children": True, "max_depth": 3, "limit": 20})
    await server.ask("p", "page")
    await server.ask("a", "a11y", {"include_passes": True}, 30000)
    await server.item("log", level="error")
    await server.until(lambda: len(server.items("action")) >= 3 and len(server.items("request")) == 2)
    await server.until(lambda: [item for item in server.items("ws") if item["event"] == "message"][1:])
    told = str(server.frames)
    leaked = [text for text in (*PLANTED.values(), "5500005555555559", "'999'", "4111111111111111") if text in told]
    assert leaked == []
    assert sorted(set(re.findall(r"planted-\w+", told))) == []
    assert "ada" in told
