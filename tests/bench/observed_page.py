"""`python -m tests.bench.observed_page`: what observing a page costs.

The page: 60 KB of HTML, 12 scripts that compute for a while, 20 pictures, a style sheet and four requests, each of them
answered after 30 ms as over a network; it is loaded in turns with the collector and without, each time by a browser
without a cache, and without it as two kinds, so that the run shows what it can tell. The collector itself comes from
loopback at once, as it does for who develops a page. Beside the time, which other work on the machine adds to, the
processor time of the page's main thread is taken, which it does not.

Then 10 000 console calls in one task of a page: on a page whose own console does nothing, so that all of the
time is the collector's, and on one with the browser's console, with the collector and without.

Exit code 0: measured, whatever the verdicts; 1: the browser or a server failed; 2: misused.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench.page import Section

if TYPE_CHECKING:
    from aiohttp import web
    from playwright.async_api import Browser

    from tests.devtools.page.server import FrameServer

SECTION = Section(
    "<!-- observed-page:begin (written by python -m tests.bench.observed_page; do not edit) -->",
    "<!-- observed-page:end -->",
    "## The observed page",
)
LATENCY = 0.03  # seconds
SCRIPT = "(() => { let sum = 0; for (let n = 0; n < 400000; n++) sum += Math.sqrt(n); window.sum = sum; })();"


class Figure(NamedTuple):
    """A figure with the most that it may be, if there is a bar for it."""

    what: str
    limit: float | None
    measured: float
    unit: str

    def line(self) -> str:
        shown = f"{self.measured:,.{3 if self.unit == '×' else 1}f} {self.unit}"
        if self.limit is None:
            return f"| {self.what} |  | {shown} |  |"
        verdict = "pass" if self.measured <= self.limit else "**miss**"
        return f"| {self.what} | ≤ {self.limit:,g} {self.unit} | {shown} | {verdict} |"


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


class Load(NamedTuple):
    """Milliseconds of one load in a browser without a cache."""

    time: float  # from the start of the navigation to the end of the load event
    processor: float  # of the page's main thread, until then


async def load_once(browser: Browser, address: str) -> Load:
    context = await browser.new_context()
    try:
        page = await context.new_page()
        protocol = await context.new_cdp_session(page)
        await protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
        await page.goto(address, wait_until="load")
        ended: float = await page.evaluate(
            "new Promise((done) => setTimeout(() => done(performance.getEntriesByType('navigation')[0].loadEventEnd)))"
        )
        told = await protocol.send("Performance.getMetrics")
        metrics = {metric["name"]: metric["value"] for metric in told["metrics"]}
        return Load(ended, metrics["TaskDuration"] * 1000)
    finally:
        await context.close()


async def take_loads(browser: Browser, tag: str, loads: int) -> dict[str, list[Load]]:
    from aiohttp import web

    from tests.bench.turns import order_of

    app = web.Application()
    app.router.add_get("/slow/{name}", answer_slowly)
    kinds = {"with": tag, "without": "", "again": ""}
    for kind, each in kinds.items():

        async def page(request: web.Request, text: str = make_page(each)) -> web.Response:
            await asyncio.sleep(LATENCY)
            return web.Response(text=text, content_type="text/html")

        app.router.add_get(f"/{kind}", page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    taken: dict[str, list[Load]] = {kind: [] for kind in kinds}
    try:
        for turn in range(loads + 1):
            for kind in order_of(list(kinds), turn):
                load = await load_once(browser, f"{origin}/{kind}")
                if turn:  # the first of each warms the browser up
                    taken[kind].append(load)
    finally:
        await runner.cleanup()
    return taken


def load_figures(taken: dict[str, list[Load]]) -> list[Figure]:
    from tests.bench.turns import fastest_quarter, ratio

    times = {kind: [load.time for load in each] for kind, each in taken.items()}
    used = {kind: [load.processor for load in each] for kind, each in taken.items()}
    plain = fastest_quarter(times["without"])
    added = fastest_quarter(used["with"]) - fastest_quarter(used["without"])
    noise = abs(fastest_quarter(used["again"]) - fastest_quarter(used["without"]))
    return [
        Figure(
            f"load time of a page ({plain:.0f} ms) with the collector, over the same without",
            1.02,
            ratio(times, "with", "without"),
            "×",
        ),
        Figure(
            "the same page without it twice, which tells how far to trust that",
            None,
            ratio(times, "again", "without"),
            "×",
        ),
        Figure(
            f"processor time that the collector adds to the main thread ({added:.1f} ms, ± {noise:.1f}), of that load",
            2,
            100 * added / plain,
            "%",
        ),
    ]


# --- the console

QUIET = "<script>console.log = () => {}</script>"
BURST = """() => {
    const started = performance.now();
    for (let n = 0; n < 10000; n++) console.log("line", n, { order: n, legs: [1, 2] });
    return performance.now() - started;
}"""


async def console_figures(browser: Browser, collected: FrameServer, bursts: int) -> list[Figure]:
    from tests.bench.turns import fastest_quarter

    kinds = {"quiet": (QUIET, True), "bare": ("", False), "both": ("", True)}
    for kind, (before, is_observed) in kinds.items():
        collected.pages[f"/{kind}"] = f"<title>{kind}</title>{before}{'COLLECTOR' if is_observed else ''}"
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(bursts):
        for kind in kinds:
            context = await browser.new_context()
            try:
                page = await context.new_page()
                await page.goto(f"{collected.origin}/{kind}")
                taken[kind] += [await page.evaluate(BURST) for _ in range(3)]
            finally:
                await context.close()
    quiet, bare, both = (fastest_quarter(taken[kind]) for kind in ("quiet", "bare", "both"))
    return [
        Figure("10 000 console calls: what the collector takes of them", 50, quiet, "ms"),
        Figure(
            f"the same with the browser's own console ({both:.0f} ms), over it without the collector ({bare:.0f} ms)",
            None,
            both / bare,
            "×",
        ),
    ]


async def page_figures(loads: int) -> list[Figure]:
    from tests.browser import chromium
    from tests.devtools.page.server import serve

    async with serve() as collected, chromium.launch() as browser:
        figures = load_figures(await take_loads(browser, collected.tag(), loads))
        assert collected.frames, "the collector did not report"
        return figures + await console_figures(browser, collected, max(3, loads // 6))


def main(argv: list[str]) -> int:
    from tests.bench.report import about_run
    from tests.bench.rows import FLOOR, ROOT

    parser = argparse.ArgumentParser(prog="python -m tests.bench.observed_page", description=__doc__)
    parser.add_argument("--loads", type=int, default=60, help="loads of each page")
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
        f"{chosen.loads} loads of each page in turns, headless Chromium; the fastest quarter of each counts.",
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
