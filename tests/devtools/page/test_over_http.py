"""The same over HTTP: pages and clients come to one port, and a page without sockets is as good as another."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from aiohttp import web
from playwright.async_api import BrowserContext

from tests.devtools.page.relay import COMMAND, connect, snippet
from zorivest_rpc.devtools.demo import make_demo

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_pages_and_clients_meet_on_one_port(context: BrowserContext, tmp_path: Path) -> None:
    options = ["--no-auth", "--toolsets", "devtools", "--port", "0", "--data-dir", str(tmp_path)]
    log = tmp_path / "log"
    with log.open("wb") as file:
        server = await asyncio.create_subprocess_exec(
            *COMMAND, "serve", *options, stdout=file, stderr=file, env=os.environ | {"ZORIVEST_KEYRING": "off"}
        )
    runner = None
    try:
        tag = await snippet(tmp_path)
        origin = tag.partition('src="')[2].partition("/devtools/")[0]
        runner = web.AppRunner(make_demo(lambda: tag), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        async with connect("http", f"{origin}/mcp") as client:
            with_socket, without = await context.new_page(), await context.new_page()
            await without.add_init_script("delete window.WebSocket")
            for page in (with_socket, without):
                await page.goto(address)
                await page.get_by_role("button", name="Show profit").click()
            async with asyncio.timeout(90):
                while True:
                    found = await client.ask("observe", what="errors")
                    if len({entry["page"] for entry in found["entries"]}) == 2:
                        break
            for id in {entry["page"] for entry in found["entries"]}:
                answer = await client.ask("query_dom", selector="h1", page=id)
                assert answer["matches"][0]["text"] == "Order ticket"
            audit = await client.ask("analyze", target="accessibility", page=found["entries"][1]["page"])
            assert audit["engine"] == "axe-core"
    finally:
        if runner is not None:
            await runner.cleanup()
        server.terminate()
        async with asyncio.timeout(90):
            await server.wait()
    assert "Traceback" not in log.read_text(), log.read_text()
