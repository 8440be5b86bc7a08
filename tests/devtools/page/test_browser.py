"""The browser that the tests of the live page stand on."""

from __future__ import annotations

import pytest
from playwright.async_api import BrowserContext

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_browser_runs_scripts_and_lays_out_text(context: BrowserContext) -> None:
    page = await context.new_page()
    await page.set_content("<h1>one</h1><script>document.title = 'two'</script>")
    assert await page.title() == "two"
    box = await page.locator("h1").bounding_box()
    assert box is not None
    assert box["height"] > 0
    assert len(await page.screenshot()) > 1000


async def test_a_test_sees_nothing_of_the_one_before(context: BrowserContext) -> None:
    assert await context.cookies() == []
    assert context.pages == []
