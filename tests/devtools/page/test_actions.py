"""What the user does, and how the elements that it is done to are found again."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.devtools.page.server import FrameServer, open_page

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORM = """
<form id="order" action="javascript:void 0">
  <label>Symbol <input name="symbol"></label>
  <label for="pw">Password</label><input id="pw" type="password">
  <input name="cvc" aria-label="Code">
  <select aria-label="Side"><option value="b">Buy</option><option value="s">Sell</option></select>
  <label><input type="checkbox" data-testid="gtc"> Good till cancelled</label>
  <button>Place order</button>
</form>
<p><span>Twice</span> <span>Twice</span> <b>Once</b> <i>Same</i> <u>Same</u></p>
<div style="height: 3000px"></div>
"""


def told(server: FrameServer) -> list[tuple[Any, ...]]:
    return [(item["type"], item.get("value", item.get("key", item.get("to_url")))) for item in server.items("action")]


async def test_a_form_is_filled_in_and_sent(server: FrameServer, page: Page) -> None:
    await open_page(server, page, FORM)
    await page.get_by_label("Symbol").press_sequentially("AAPL")
    await page.fill("#pw", "hunter22")
    await page.get_by_label("Code").fill("123")
    await page.get_by_label("Side").press("ArrowDown")
    await page.get_by_test_id("gtc").check()
    await page.get_by_text("Place order").click()
    await server.item("action", type="submit")
    assert told(server) == [
        ("input", "AAPL"),
        ("input", "[redacted]"),
        ("input", "[redacted]"),
        ("key", "ArrowDown"),
        ("change", "s"),
        ("click", None),
        ("change", "true"),
        ("click", None),
        ("submit", None),
    ]
    symbol, password, _, _, side, _, box, press, sent = [item["selectors"] for item in server.items("action")]
    assert symbol["role"] == {"role": "textbox", "name": "Symbol"}
    assert symbol["label"] == "Symbol"
    assert (password["id"], password["label"], "role" in password) == ("pw", "Password", False)
    assert side["role"] == {"role": "combobox", "name": "Side"}
    assert (box["test_id"], box["role"]["name"]) == ("gtc", "Good till cancelled")
    assert (press["role"], press["text"]) == ({"role": "button", "name": "Place order"}, "Place order")
    assert sent["id"] == "order"
    assert "hunter22" not in str(server.frames)


async def test_enter_is_told_once_and_a_secret_field_hides_even_its_length(server: FrameServer, page: Page) -> None:
    await open_page(server, page, FORM)
    await page.get_by_label("Symbol").press("Enter")
    await server.item("action", type="submit")
    assert told(server) == [("key", "Enter"), ("submit", None)]


async def test_a_selector_is_told_only_where_it_names_one_element(server: FrameServer, page: Page) -> None:
    await open_page(server, page, FORM)
    await page.locator("span").nth(1).click()
    await page.locator("b").click()
    await page.locator("u").click()
    await server.until(lambda: len(server.items("action")) == 3)
    twice, once, same = [item["selectors"] for item in server.items("action")]
    assert twice == {"css": "html > body > p > span:nth-of-type(2)"}
    assert once["text"] == "Once"
    assert same == {"css": "html > body > p > u"}
    for selectors in (twice, once, same):
        assert await page.locator(selectors["css"]).count() == 1


async def test_scrolling_and_navigation_within_a_document_are_told(server: FrameServer, page: Page) -> None:
    await open_page(server, page, FORM)
    await page.mouse.wheel(0, 700)
    scroll = await server.item("action", type="scroll")
    assert scroll["value"].startswith("0,")
    await page.evaluate("history.pushState({}, '', '/next?token=abc'); document.querySelector('button').click()")
    moved = await server.item("action", type="navigate")
    assert (moved["url"], moved["to_url"]) == (f"{server.origin}/shop", f"{server.origin}/next?token=[redacted]")
    # what a script clicks was not the user
    assert [item["type"] for item in server.items("action") if item["type"] == "click"] == []
    await server.until(lambda: any(f["frame"] == "state" and "/next" in f["url"] for f in server.frames))
