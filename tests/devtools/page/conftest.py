"""One browser for all tests of a process, and a fresh context and server for each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page

from tests.browser import chromium
from tests.devtools.page.server import FrameServer, serve


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium.launch() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context()
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> Page:
    return await context.new_page()


@pytest_asyncio.fixture(loop_scope="session")
async def server() -> AsyncIterator[FrameServer]:
    async with serve() as server:
        yield server
