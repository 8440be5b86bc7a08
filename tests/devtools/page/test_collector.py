"""What the collector sees in a page, and what of it leaves the page."""

from __future__ import annotations

import json

import pytest
from playwright.async_api import Page

from tests.devtools.corpus import CORPUS, KEPT, PLANTED
from tests.devtools.page.server import FrameServer, open_page

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_page_says_who_it_is_and_what_its_console_gets(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    hello = server.frames[0]
    assert hello["frame"] == "hello"
    assert (hello["v"], hello["url"], hello["title"]) == (1, f"{server.origin}/shop", "Shop")
    await page.evaluate("console.log('%s of %d', 'one', 2.7, {a: [1, {b: null}]})")
    log = await server.item("log", level="info")
    assert log["message"] == 'one of 2 {"a":[1,{"b":null}]}'
    assert (log["source"], log["count"]) == ("console", 1)


async def test_every_console_method_has_its_level_and_equal_calls_are_one_item(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    await page.evaluate(
        """() => {
        console.debug("d"); console.info("i"); console.warn("w");
        console.assert(true, "no"); console.assert(false, "a");
        for (let n = 0; n < 7; n++) console.error("again"); console.trace("t");
    }"""
    )
    await server.item("log", message="t")
    told = [(item["level"], item["message"], item["count"]) for item in server.items("log")]
    assert told == [
        ("debug", "d", 1),
        ("info", "i", 1),
        ("warn", "w", 1),
        ("error", "Assertion failed: a", 1),
        ("error", "again", 7),
        ("debug", "t", 1),
    ]
    assert "collector.js" not in (await server.item("log", message="again"))["stack"]


async def test_what_is_logged_is_bounded_and_its_getters_are_not_called(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    text = await page.evaluate(
        """() => {
        const ring = {name: "ring"}; ring.self = ring;
        const trap = {get boom() { window.called = true; throw new Error("no"); }, fine: 1};
        let deep = {}; const top = deep; for (let n = 0; n < 30; n++) deep = deep.in = {};
        console.log(ring); console.log(trap); console.log(top); console.log("x".repeat(50000));
        console.log("é".repeat(9000));
        console.log(new Map([["k", new Set([1])]]), document.body, 10n, undefined, () => 1);
        console.log(Array.from({length: 1e5}, (_, n) => n));
        console.log("end"); return window.called;
    }"""
    )
    assert text is None
    await server.item("log", message="end")
    ring, trap, deep, long, wide, mixed, many, _ = [item["message"] for item in server.items("log")]
    assert ring == '{"name":"ring","self":"[circular]"}'
    assert trap == '{"boom":"[getter]","fine":1}'
    assert deep.count('{"in"') == 10
    assert len(long) == 10240
    assert len(wide.encode()) == 10240
    assert mixed == '[["k",[1]]] <body> 10n undefined function ()'
    assert many.endswith(",…]")
    assert len(many) < 12000


async def test_uncaught_errors_and_rejections_and_what_does_not_load_are_errors(
    server: FrameServer, page: Page
) -> None:
    await open_page(server, page, '<img src="/missing.png"><script>setTimeout(() => nowhere.at.all)</script>')
    await page.evaluate("() => { Promise.reject(new TypeError('refused')); }")
    error = await server.item("log", message="Uncaught ReferenceError: nowhere is not defined")
    assert error["level"] == "error"
    assert error["source"].startswith(f"{server.origin}/shop:1:")
    assert "ReferenceError" in error["stack"]
    rejection = await server.item("log", message="Uncaught (in promise) TypeError: refused")
    assert (rejection["level"], rejection["source"]) == ("error", "rejection")
    await server.item("log", message=f"Failed to load img: {server.origin}/missing.png", level="error")


async def test_a_fetch_is_told_with_its_bodies_and_the_page_gets_its_own(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    got = await page.evaluate(
        """async () => {
        const reply = await fetch("/echo?body=" + encodeURIComponent('{"id":7}') + "&status=201",
            {method: "post", headers: {"Content-Type": "application/json"}, body: '{"name":"ada"}'});
        return [reply.status, await reply.json(), reply instanceof Response];
    }"""
    )
    assert got == [201, {"id": 7}, True]
    request = await server.item("request", method="POST")
    assert (request["status"], json.loads(request["response_body"])) == (201, {"id": 7})
    assert json.loads(request["request_body"]) == {"name": "ada"}
    assert request["content_type"].startswith("application/json")
    assert request["request_content_type"] == "application/json"
    assert request["response_headers"]["x-plain"] == "shown"
    assert request["response_headers"]["x-api-key"] == "[redacted]"
    assert request["duration_ms"] >= request["wait_ms"] > 0
    assert (request["request_size"], request["response_size"]) == (14, 8)


async def test_no_secret_of_the_corpus_leaves_the_page_by_its_console_its_requests_or_its_sockets(
    server: FrameServer, page: Page
) -> None:
    server.settings["ws_mode"] = "messages"
    await open_page(server, page)
    await page.evaluate(
        """async ([texts, url]) => {
        const socket = new WebSocket(url);
        await new Promise((done) => { socket.onopen = done; });
        for (const text of texts) {
            console.log(text);
            socket.send(text);
            await fetch("/echo?body=" + encodeURIComponent(text), { method: "POST", body: text });
            await fetch("/echo?" + (/\\s--/.test(text) ? encodeURIComponent(text) : text));
        }
        console.log("end");
    }""",
        [[*CORPUS, *KEPT], server.origin.replace("http", "ws") + "/talk"],
    )
    await server.item("log", message="end")
    await server.until(lambda: len(server.items("request")) == 2 * len(CORPUS | dict.fromkeys(KEPT)))
    items = [item for kind in ("log", "request", "ws") for item in server.items(kind)]
    assert [item for item in items if PLANTED in json.dumps(item)] == []
    told = {item["message"] for item in server.items("log")}
    asked = {item.get("request_body") for item in server.items("request")}
    answered = {item.get("response_body") for item in server.items("request")}
    said = {item.get("data") for item in server.items("ws")}
    for text in KEPT:
        assert text in told & asked & answered & said


async def test_request_objects_forms_and_xhr_are_told_alike(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    await page.evaluate(
        """async () => {
        await fetch(new Request("/echo?a=1", {method: "PUT", body: "plain"}));
        await fetch("/echo?a=2", {method: "POST", body: new URLSearchParams({b: "1"})});
        const form = new FormData(); form.set("c", "2"); form.set("f", new File(["x"], "x.bin"));
        await fetch("/echo?a=3", {method: "POST", body: form});
        await fetch("/echo?a=4", {method: "POST", body: new Uint8Array([1, 2])});
        for (const [type, n] of [["", 5], ["json", 6], ["arraybuffer", 7]]) await new Promise((done) => {
            const xhr = new XMLHttpRequest();
            xhr.open("POST", "/echo?a=" + n + "&body=" + encodeURIComponent('{"x":[1]}'));
            xhr.responseType = type; xhr.setRequestHeader("X-Mine", "1"); xhr.onload = done; xhr.send("b");
        });
    }"""
    )
    await server.until(lambda: len(server.items("request")) == 7)
    told = {
        item["url"][-1] if "body" not in item["url"] else item["url"].split("a=")[1][0]: item
        for item in server.items("request")
    }
    bodies = {n: told[n].get("request_body") for n in sorted(told)}
    assert bodies == {"1": "plain", "2": "b=1", "3": "c=2&f=%5Bfile+x.bin%5D", "4": None, "5": "b", "6": "b", "7": "b"}
    assert [told[n].get("response_body") for n in "567"] == ['{"x":[1]}', '{"x":[1]}', None]
    assert told["5"]["request_headers"] == {"x-mine": "1"}
    assert told["5"]["response_headers"]["x-plain"] == "shown"
    assert told["2"]["request_content_type"].startswith("application/x-www-form-urlencoded")


async def test_failures_stay_the_pages_own(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    seen = await page.evaluate(
        """async () => {
        const seen = [];
        addEventListener("unhandledrejection", (event) => { seen.push("unhandled"); event.preventDefault(); });
        fetch("http://127.0.0.1:1/nothing");
        await fetch("http://127.0.0.1:1/caught").catch((error) => seen.push(error.constructor.name));
        try { await fetch("http://["); } catch (error) { seen.push(error.constructor.name); }
        const leave = new AbortController(); const waits = fetch("/echo", {signal: leave.signal}); leave.abort();
        await waits.catch((error) => seen.push(error.name));
        await new Promise((done) => setTimeout(done, 50));
        return seen.sort();
    }"""
    )
    assert seen == ["AbortError", "TypeError", "TypeError", "unhandled"]
    failed = await server.item("request", url="http://127.0.0.1:1/caught")
    assert (failed["status"], failed["error"]) == (0, "Failed to fetch")


async def test_long_bodies_are_cut_and_streams_without_end_are_left(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    length = await page.evaluate(
        """async () => {
        const address = "/echo?body=" + "y".repeat(7000);
        const reply = await fetch(address, {method: "POST", body: "w".repeat(30000)});
        return (await reply.text()).length;
    }"""
    )
    assert length == 7000
    request = await server.item("request", method="POST")
    assert (len(request["request_body"]), request["request_truncated"], request["request_size"]) == (8192, True, 30000)
    assert (len(request["response_body"]), request["response_truncated"]) == (7000, False)


async def test_settings_are_followed_at_once(server: FrameServer, page: Page) -> None:
    server.settings |= {"log_level": "warn", "network_bodies": False, "actions": False}
    await open_page(server, page, "<button>buy</button>")
    await server.until(lambda: any(frame["frame"] == "state" for frame in server.frames))
    await page.evaluate("console.info('left out'); console.warn('kept'); fetch('/echo', {method: 'POST', body: 'b'})")
    await page.click("button")
    request = await server.item("request")
    assert "request_body" not in request
    assert "response_body" not in request
    assert [item["message"] for item in server.items("log")] == ["kept"]
    await server.set(actions=True)
    await page.evaluate("new Promise((done) => setTimeout(done, 20))")
    await page.click("button")
    await server.item("action", type="click")
    assert len(server.items("action")) == 1


async def test_a_socket_is_told_with_its_life_and_its_messages_if_asked_for(server: FrameServer, page: Page) -> None:
    server.settings["ws_mode"] = "messages"
    await open_page(server, page)
    kinds = await page.evaluate(
        """async (url) => {
        await new Promise((done) => setTimeout(done, 50));
        const socket = new WebSocket(url); const got = [];
        await new Promise((done) => {
            socket.onopen = () => { socket.send("hi"); socket.send(new Uint8Array(3)); };
            socket.onmessage = (event) => { got.push(event.data); if (got.length === 4) socket.send("bye"); };
            socket.onclose = done;
        });
        return [socket instanceof WebSocket, socket.constructor === WebSocket, WebSocket.OPEN, got.length];
    }""",
        server.origin.replace("http", "ws") + "/talk?count=2&token=abc",
    )
    assert kinds == [True, True, 1, 4]
    closed = await server.item("ws", event="close")
    assert (closed["code"], closed["reason"]) == (4001, "asked to")
    assert closed["url"].endswith("/talk?count=2&token=[redacted]")
    messages = [
        (item["direction"], item.get("data"), item["size"]) for item in server.items("ws") if item["event"] == "message"
    ]
    assert ("outgoing", "hi", 2) in messages
    assert ("outgoing", None, 3) in messages
    assert ("incoming", "message 0", 9) in messages
    rate = await server.item("ws_rate")
    assert (rate["incoming"], rate["outgoing"]) == (4, 3)


async def test_metrics_come_two_seconds_after_the_load_and_when_the_page_is_left(
    server: FrameServer, page: Page
) -> None:
    await open_page(server, page, '<h1>hello</h1><script src="/late.js"></script>')
    perf = await server.item("perf")
    assert perf["url"] == f"{server.origin}/shop"
    assert perf["fcp"] > 0
    assert perf["lcp"] >= perf["fcp"]
    assert perf["load"] >= perf["dom_content_loaded"] > 0
    assert [each["url"] for each in perf["slowest"]] == [f"{server.origin}/late.js"]
    assert perf["requests"] == 2


async def test_own_traffic_is_never_collected(server: FrameServer, page: Page) -> None:
    server.sockets_allowed = False  # so that requests carry the frames
    await open_page(server, page)
    await page.evaluate("console.log('one')")
    await server.item("log", message="one")
    await server.item("perf")
    assert "sync" in server.ways
    assert server.items("request") == []
    assert server.items("ws") == []
