"""The pictures of the guide: the demo page in a browser, with what the tools found in it.

python -m tests.docs.pictures             take them and say whether they can be taken
python -m tests.docs.pictures --write     and write them to docs/guide/images
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from aiohttp import web
from playwright.async_api import Page

from tests.browser import chromium
from tests.devtools.page.relay import COMMAND, Relay, connect, snippet
from tests.places import ROOT
from zorivest_rpc.devtools.demo import make_demo

__all__ = ["IMAGES", "take_pictures"]

IMAGES = ROOT / "docs" / "guide" / "images"
SIZE: Any = {"width": 820, "height": 780}
# what was found, drawn over the page: for the picture alone, the tools change nothing in a page
OUTLINE = """(found) => {
    for (const { id, target } of found) {
        const box = document.querySelector(target)?.getBoundingClientRect();
        if (!box || !box.width) continue;
        const mark = document.createElement("div");
        mark.style.cssText = `position:absolute;left:${box.x + scrollX - 3}px;top:${box.y + scrollY - 3}px;`
            + `width:${box.width + 6}px;height:${box.height + 6}px;outline:3px solid #d33;`;
        const name = document.createElement("span");
        name.textContent = id;
        name.style.cssText = "position:absolute;left:0;bottom:100%;background:#d33;color:#fff;"
            + "font:12px/1.4 sans-serif;padding:0 4px;white-space:nowrap";
        mark.append(name);
        document.body.append(mark);
    }
}"""


async def use_page(page: Page) -> None:
    """What the guide tells the reader to do."""
    await page.wait_for_selector("#banner")
    await page.locator("[name=symbol]").fill("ACME")
    await page.locator("[name=quantity]").fill("12")
    await page.get_by_test_id("send").click()
    for name in ("Lost page", "Slow report", "Show profit"):
        await page.get_by_role("button", name=name).click()


async def take_pictures(directory: Path) -> list[dict[str, Any]]:
    """Write the pictures into the directory; the audit that one of them shows."""
    with tempfile.TemporaryDirectory() as data:
        options = ["--toolsets", "devtools", "--devtools-port", "0", "--data-dir", data]
        async with connect("stdio", *COMMAND, "stdio", *options) as client, chromium.launch() as browser:
            tag = await snippet(Path(data))
            runner = web.AppRunner(make_demo(lambda: tag), shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                context = await browser.new_context(viewport=SIZE)
                page = await context.new_page()
                await page.goto(f"http://127.0.0.1:{runner.addresses[0][1]}/")
                return await _take(client, page, directory)
            finally:
                await runner.cleanup()


async def _take(client: Relay, page: Page, directory: Path) -> list[dict[str, Any]]:
    await use_page(page)
    async with asyncio.timeout(20):
        while not (await client.ask("observe", what="errors"))["entries"]:
            pass
    await page.screenshot(path=directory / "devtools-demo.png")
    audit = await client.ask("analyze", target="accessibility")
    violations: list[dict[str, Any]] = audit["violations"]
    found = [{"id": rule["id"], "target": node["target"][0]} for rule in violations for node in rule["nodes"]]
    await page.evaluate(OUTLINE, found)
    await page.screenshot(path=directory / "devtools-audit.png")
    return violations


def _main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as directory:
        target = IMAGES if "--write" in arguments else Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        violations = asyncio.run(take_pictures(target))
        for path in sorted(target.glob("devtools-*.png")):
            print(f"{path.name}: {path.stat().st_size} bytes")
    print(f"shown: {', '.join(rule['id'] for rule in violations)}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
