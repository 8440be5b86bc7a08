"""What a page answers when it is asked."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Page

from tests.devtools.page.server import FrameServer, open_page

pytestmark = pytest.mark.asyncio(loop_scope="session")

BODY = """
<h1>Journal</h1><h2></h2><a href="/a?token=t">one</a><img src="data:," width=5 height=5>
<form id="f" action="/send"><label>Name <input name="n" required></label><input type="password" value="hunter22"></form>
<ul><li class="row">first</li><li class="row" hidden>second</li><li class="row">third <b>bold</b></li></ul>
<iframe srcdoc="x"></iframe><button></button><div tabindex=3>t</div>
"""


async def test_the_page_is_outlined(server: FrameServer, page: Page) -> None:
    await open_page(server, page, BODY)
    answer = await server.ask("p", "page")
    assert answer["ok"] is True
    data = answer["data"]
    assert (data["url"], data["title"]) == (f"{server.origin}/shop", "Shop")
    assert data["headings"] == [{"level": 1, "text": "Journal"}, {"level": 2, "text": ""}]
    assert (data["links"], data["images"]) == (1, 1)
    assert data["viewport"]["width"] > 0
    [form] = data["forms"]
    assert (form["id"], form["action"]) == ("f", "/send")
    assert form["fields"] == [
        {"name": "n", "type": "text", "label": "Name", "required": True},
        {"name": "", "type": "password", "label": "", "required": False},
    ]


async def test_elements_are_found_by_selector_with_what_was_asked_for(server: FrameServer, page: Page) -> None:
    await open_page(server, page, BODY)
    params = {"selector": "li.row", "limit": 2, "include_styles": True, "properties": ["display"]}
    data = (await server.ask("d1", "dom", params))["data"]
    assert (data["match_count"], data["returned_count"]) == (3, 2)
    first, second = data["matches"]
    assert (first["tag"], first["text"], first["visible"]) == ("li", "first", True)
    assert first["attributes"] == {"class": "row"}
    assert first["box"]["width"] > 0
    assert first["styles"] == {"display": "list-item"}
    assert second["visible"] is False
    params = {"selector": "ul", "include_children": True, "max_depth": 2, "limit": 1, "properties": []}
    [found] = (await server.ask("d2", "dom", params))["data"]["matches"]
    assert [child["text"] for child in found["children"]] == ["first", "second", "third bold"]
    assert [child["tag"] for child in found["children"][2]["children"]] == ["b"]
    secret = (await server.ask("d3", "dom", {"selector": "a,input[type=password]"}))["data"]["matches"]
    assert [each["attributes"].get("href", each["attributes"].get("value")) for each in secret] == [
        "/a?token=[redacted]",
        "[redacted]",
    ]


async def test_a_wrong_selector_is_told(server: FrameServer, page: Page) -> None:
    await open_page(server, page)
    answer = await server.ask("w", "dom", {"selector": "li["})
    assert answer["ok"] is False
    assert answer["error"] == {"code": "invalid_selector", "message": "Invalid CSS selector: li[."}
    scoped = await server.ask("w2", "a11y", {"scope": ">>"})
    assert scoped["error"]["code"] == "invalid_selector"


async def test_an_audit_comes_from_axe_core_and_leaves_nothing_in_the_page(server: FrameServer, page: Page) -> None:
    await open_page(server, page, BODY)
    data = (await server.ask("a", "a11y", {"include_passes": True}, 30000))["data"]
    assert (data["engine"], data["partial"]) == ("axe-core", False)
    assert data["engine_version"] == "4.14.0"
    found = {rule["id"]: rule for rule in data["violations"]}
    assert {"image-alt", "button-name", "label", "empty-heading"} <= set(found)
    rule = found["image-alt"]
    assert rule["impact"] == "critical"
    assert "wcag2a" in rule["tags"]
    assert rule["helpUrl"].startswith("https://")
    assert rule["node_count"] == 1
    assert rule["nodes"][0]["target"] == ["img"]
    assert rule["nodes"][0]["html"].startswith("<img")
    assert rule["nodes"][0]["failureSummary"]
    assert data["passes"]
    assert await page.evaluate("typeof window.axe") == "undefined"
    scoped = (await server.ask("b", "a11y", {"scope": "form", "tags": ["wcag2a"]}, 30000))["data"]
    assert {rule["id"] for rule in scoped["violations"]} == {"label"}
    assert scoped["passes"] == []
    both = await asyncio.gather(*(server.ask(q, "a11y", {}, 30000) for q in ("c1", "c2")))
    assert [answer["data"]["engine"] for answer in both] == ["axe-core", "axe-core"]


async def test_where_the_engine_cannot_load_twelve_rules_are_built_in(server: FrameServer, page: Page) -> None:
    await page.route("**/axe.min.js", lambda route: route.abort())
    await open_page(server, page, BODY.replace("<h1>", "<meta name=viewport content='user-scalable=no'><h1>"))
    data = (await server.ask("a", "a11y", {"include_passes": True}, 30000))["data"]
    assert (data["engine"], data["partial"]) == ("builtin", True)
    wrong = {rule["id"] for rule in data["violations"]}
    assert wrong == {"image-alt", "label", "button-name", "frame-title", "meta-viewport", "empty-heading", "tabindex"}
    assert len(wrong) + len(data["passes"]) == 12
    for rule in data["violations"]:
        for node in rule["nodes"]:
            assert await page.locator(node["target"][0]).count() == 1


async def test_where_scripts_have_to_be_trusted_the_built_in_rules_answer(server: FrameServer, page: Page) -> None:
    server.headers["content-security-policy"] = "require-trusted-types-for 'script'"
    await open_page(server, page, "<img src='x.png'>")
    answer = await server.ask("a", "a11y", {}, 30000)
    assert (answer["ok"], answer["data"]["engine"], answer["data"]["partial"]) == (True, "builtin", True)
    assert "image-alt" in [rule["id"] for rule in answer["data"]["violations"]]


async def test_a_cancelled_question_is_not_answered(server: FrameServer, page: Page) -> None:
    await open_page(server, page, BODY)
    socket = server.live[0]
    await socket.send_json({"frame": "query", "q": "late", "type": "a11y", "params": {}, "timeout_ms": 30000})
    await socket.send_json({"frame": "cancel", "q": "late"})
    assert (await server.ask("next", "page"))["ok"] is True
    assert (await server.ask("audit", "a11y", {}, 30000))["ok"] is True
    assert [frame["q"] for frame in server.frames if frame["frame"] == "result"] == ["next", "audit"]


async def test_a_question_that_cannot_be_answered_in_time_says_what_was_found(server: FrameServer, page: Page) -> None:
    await open_page(server, page, BODY)
    data = (await server.ask("a", "a11y", {}, 1))["data"]
    assert (data["engine"], data["partial"]) == ("axe-core", True)
