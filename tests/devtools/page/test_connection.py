"""The way of the frames: sockets, held requests, the last words of a page, and what is told twice or not at all."""

from __future__ import annotations

import pytest
from playwright.async_api import BrowserContext, Page

from tests.devtools.page.server import FrameServer, open_page

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_loading_the_script_twice_does_nothing(server: FrameServer, page: Page) -> None:
    await open_page(server, page, "COLLECTOR<script>console.log('once')</script>COLLECTOR")
    await server.item("log", message="once")
    assert [frame["frame"] for frame in server.frames].count("hello") == 1
    assert [item["count"] for item in server.items("log")] == [1]


async def test_a_batch_without_an_answer_is_sent_once_more_after_the_connection_was_lost(
    server: FrameServer, page: Page
) -> None:
    server.acknowledge = False
    await open_page(server, page)
    await page.evaluate("console.log('kept')")
    first = await server.until(lambda: [f for f in server.frames if f["frame"] == "events"])
    await server.live[0].close()
    again = await server.until(lambda: [f for f in server.frames if f["frame"] == "events"][1:])
    assert again[0]["seq"] == first[0]["seq"]
    assert again[0]["items"] == first[0]["items"]
    await server.live[0].close()
    await server.until(lambda: [f["frame"] for f in server.frames].count("hello") == 3)
    await page.evaluate("console.log('next')")
    await server.item("log", message="next")
    sent = [(f["seq"], f["dropped"]) for f in server.frames if f["frame"] == "events"]
    assert sent[:2] == [(1, 0), (1, 0)]
    assert [seq for seq, _ in sent[2:]] == list(range(2, len(sent)))
    assert sum(dropped for _, dropped in sent) == 1


async def test_what_the_server_has_is_not_sent_again(server: FrameServer, page: Page) -> None:
    server.acknowledge = False
    await open_page(server, page)
    await page.evaluate("console.log('kept')")
    await server.item("log", message="kept")
    server.stored = 1
    await server.live[0].close()
    await server.until(lambda: [f["frame"] for f in server.frames].count("hello") == 2)
    await page.evaluate("console.log('next')")
    await server.item("log", message="next")
    assert [f["seq"] for f in server.frames if f["frame"] == "events"] == [1, 2]


async def test_where_sockets_fail_requests_carry_the_frames(server: FrameServer, page: Page) -> None:
    server.sockets_allowed = False
    await open_page(server, page)
    assert server.ways[0] == "sync"
    await page.evaluate("console.log('by request')")
    await server.item("log", message="by request")
    answer = await server.ask("q1", "page")
    assert answer["ok"] is True
    server.refusals = 1
    await page.evaluate("console.log('after a refusal')")
    await server.item("log", message="after a refusal")
    server.forgotten = True
    count = len(server.frames)
    await page.evaluate("console.log('to a new server')")
    await server.until(lambda: any(f["frame"] == "hello" for f in server.frames[count:]))
    await server.item("log", message="to a new server")
    assert set(server.ways) == {"sync"}


async def test_the_last_words_of_a_page_are_not_lost(server: FrameServer, page: Page) -> None:
    await open_page(server, page, "<input aria-label=Name>")
    await page.get_by_label("Name").press_sequentially("Ada")
    await page.evaluate("addEventListener('pagehide', () => console.error('last'), {capture: true})")
    await page.evaluate("console.log('z'.repeat(3000))")
    await page.goto("about:blank")
    await server.item("action", type="input", value="Ada")
    await server.item("perf")
    assert "beacon" in server.ways


async def test_the_queue_keeps_the_newest_and_tells_what_it_dropped(server: FrameServer, page: Page) -> None:
    server.pages["/busy"] = "COLLECTOR<script>for (let n = 0; n < 800; n++) console.log('line', n)</script>"
    await page.goto(server.origin + "/busy")
    await server.item("log", message="line 799")
    batches = [frame for frame in server.frames if frame["frame"] == "events"]
    assert batches[0]["dropped"] == 300
    assert batches[0]["items"][0]["message"] == "line 300"
    assert len(server.items("log")) == 500


async def test_a_policy_that_blocks_the_connection_is_reported_once(server: FrameServer, page: Page) -> None:
    lines: list[str] = []
    page.on("console", lambda line: lines.append(line.text))
    server.headers["content-security-policy"] = f"script-src {server.origin} 'unsafe-inline'; connect-src 'none'"
    server.pages["/strict"] = (
        "<title>strict</title>COLLECTOR<script>setTimeout(() => console.log('works'), 900)</script>"
    )
    async with page.expect_console_message(lambda line: line.text == "works"):
        await page.goto(server.origin + "/strict")
    ours = [line for line in lines if line.startswith("[zorivest-rpc devtools]")]
    assert len(ours) == 1
    assert "Content-Security-Policy" in ours[0]
    # the browser tells its own violation, and no second attempt makes another
    assert len([line for line in lines if "connect-src" in line and line not in ours]) == 1
    assert server.frames == []


async def test_a_page_whose_script_is_blocked_stays_as_it_is(server: FrameServer, page: Page) -> None:
    server.headers["content-security-policy"] = "script-src 'none'"
    server.pages["/stricter"] = "<title>stricter</title>COLLECTOR<p>text"
    await page.goto(server.origin + "/stricter")
    assert await page.inner_text("p") == "text"


async def test_two_tabs_have_two_names_and_a_question_reaches_the_right_one(
    server: FrameServer, context: BrowserContext
) -> None:
    first, second = await context.new_page(), await context.new_page()
    await open_page(server, first, "<h1>first</h1>", "/one")
    await open_page(server, second, "<h1>second</h1>", "/two")
    hellos = [frame for frame in server.frames if frame["frame"] == "hello"]
    assert len({hello["tab"] for hello in hellos}) == len({hello["page"] for hello in hellos}) == 2
    # the fake's newest socket is the second tab's
    answer = await server.ask("q2", "page")
    assert [heading["text"] for heading in answer["data"]["headings"]] == ["second"]
    assert answer["_page"] == hellos[1]["page"]
    await first.reload()
    known = [hello["page"] for hello in hellos]
    hello = await server.until(
        lambda: next((f for f in server.frames if f["frame"] == "hello" and f["page"] not in known), None)
    )
    assert hello["tab"] == hellos[0]["tab"]


async def test_a_browser_that_refuses_sockets_outright_is_observed_by_requests(server: FrameServer, page: Page) -> None:
    refusal = "function () { throw new DOMException('mixed content', 'SecurityError') }"
    server.pages["/no-sockets"] = f"<script>window.WebSocket = {refusal}</script>COLLECTOR"
    await page.goto(server.origin + "/no-sockets")
    await page.evaluate("console.log('by request')")
    await server.item("log", message="by request")
    assert set(server.ways) == {"sync"}
