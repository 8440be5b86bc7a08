"""`python -m tests.bench.observed_page`: what observing a page costs.

The page: 60 KB of HTML, 12 scripts that compute for a while, 20 pictures, a style sheet and four requests, each of them
answered after 30 ms as over a network; it is loaded in turns with the collector and without, each time by a browser
without a cache. The collector itself comes from loopback at once, as it does for who develops a page.

Exit code 0: measured, whatever the verdicts; 1: the browser or a server failed; 2: misused.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.page import Section

if TYPE_CHECKING:
    from aiohttp import web
    from playwright.async_api import Browser

SECTION = Section(
    "<!-- observed-page:begin (written by python -m tests.bench.observed_page; do not edit) -->",
    "<!-- observed-page:end -->",
    "## The observed page",
)
LATENCY = 0.03  # seconds
SCRIPT = "(() => { let sum = 0; for (let n = 0; n < 400000; n++) sum += Math.sqrt(n); window.sum = sum; })();"


class Figure(NamedTuple):
    """A figure with its bar, which is the most or the least that it may be."""

    what: str
    limit: float
    measured: float
    unit: str
    is_least: bool = False

    def line(self) -> str:
        passed = self.measured >= self.limit if self.is_least else self.measured <= self.limit
        sign, places = "≥" if self.is_least else "≤", 3 if self.unit == "×" else 0
        shown = f"{self.measured:,.{places}f} {self.unit}"
        return f"| {self.what} | {sign} {self.limit:,g} {self.unit} | {shown} | {'pass' if passed else '**miss**'} |"


# --- the page


def make_page(tag: str) -> str:
    scripts = "".join(f'<script src="/slow/{n}.js"></script>' for n in range(12))
    pictures = "".join(f'<img src="/slow/{n}.svg" width="20" height="20" alt="">' for n in range(20))
    rows = "".join(f"<tr><td>{n}</td><td>order {n}</td><td>{n * 1.5:.2f}</td></tr>" for n in range(1200))
    asks = "<script>for (let n = 0; n < 4; n++) fetch(`/slow/${n}.json`).then((r) => r.json());</script>"
    head = f"<title>bench</title>{tag}<link rel=stylesheet href=/slow/a.css>{scripts}"
    return f"<!doctype html><html lang=en><head>{head}</head><body>{asks}{pictures}<table>{rows}</table></body></html>"


async def answer_slowly(request: web.Request) -> web.Response:
    from aiohttp import web

    bodies = {
        "js": (SCRIPT + "\n// " + "x" * 30_000, "text/javascript"),
        "svg": ('<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/></svg>', "image/svg+xml"),
        "css": ("td { padding: 1px }" * 200, "text/css"),
        "json": ('{"rows": [' + "1," * 2000 + "1]}", "application/json"),
    }
    text, kind = bodies[request.path.rpartition(".")[2]]
    await asyncio.sleep(LATENCY)
    return web.Response(text=text, content_type=kind)


async def load_once(browser: Browser, address: str) -> float:
    """Milliseconds from the start of the navigation to the end of the load event, in a browser without a cache."""
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(address, wait_until="load")
        ended: float = await page.evaluate(
            "new Promise((done) => setTimeout(() => done(performance.getEntriesByType('navigation')[0].loadEventEnd)))"
        )
        return ended
    finally:
        await context.close()


async def page_figures(loads: int) -> list[Figure]:
    from aiohttp import web

    from tests.browser import chromium
    from tests.devtools.page.server import serve

    async with serve() as collected, chromium.launch() as browser:
        app = web.Application()
        app.router.add_get("/slow/{name}", answer_slowly)
        for path, tag in (("/with", collected.tag()), ("/without", "")):

            async def page(request: web.Request, text: str = make_page(tag)) -> web.Response:
                await asyncio.sleep(LATENCY)
                return web.Response(text=text, content_type="text/html")

            app.router.add_get(path, page)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        taken: dict[str, list[float]] = {"/with": [], "/without": []}
        try:
            for turn in range(loads + 1):
                for path in sorted(taken, reverse=bool(turn % 2)):
                    ended = await load_once(browser, origin + path)
                    if turn:  # the first of each warms the browser up
                        taken[path].append(ended)
        finally:
            await runner.cleanup()
        assert collected.frames, "the collector did not report"
    plain, watched = statistics.median(taken["/without"]), statistics.median(taken["/with"])
    what = f"load time of a page ({plain:.0f} ms) with the collector, over the same without: medians of {loads}"
    return [Figure(what, 1.02, watched / plain, "×")]


def main(argv: list[str]) -> int:
    from tests.bench.report import about_run
    from tests.bench.rows import FLOOR, ROOT

    parser = argparse.ArgumentParser(prog="python -m tests.bench.observed_page", description=__doc__)
    parser.add_argument("--loads", type=int, default=41, help="loads of each page")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md", help="page to write")
    chosen = parser.parse_args(argv)
    if chosen.loads < 1:
        parser.error("--loads must be positive")
    about = about_run([FLOOR], 1, 0, chosen.loads)
    try:
        figures = asyncio.run(page_figures(chosen.loads))
    except (OSError, RuntimeError, AssertionError) as failure:
        print(f"the browser or a server failed: {failure}", file=sys.stderr)
        return 1
    lines = [
        f"{about['date']}, {about['machine']}; {about['python']}, load average before the run {about['load'][0]}; "
        f"{chosen.loads} loads of each page in turns, headless Chromium.",
        "",
        "| figure | bar | measured | verdict |",
        "|---|---|---|---|",
        *(figure.line() for figure in figures),
    ]
    block = "\n".join(lines) + "\n"
    print(block)
    SECTION.write(chosen.out, block)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
