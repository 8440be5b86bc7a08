"""`python -m tests.bench.exposure`: lists that follow the state: rendering, refreshing, a write, what a start pays.

80 tools of 90 KB, the five that observe and five of trading among them. The start is that of the product on two copies
of its tool files, with their exposure keys and without, in turns within one run.

Exit code 0: measured, whatever the verdicts; 1: a server failed; 2: misused.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.page import Section

SECTION = Section(
    "<!-- exposure:begin (written by python -m tests.bench.exposure; do not edit) -->",
    "<!-- exposure:end -->",
    "## Lists that follow the state",
)
COUNTERS = ("errors", "logs", "network", "ws_events", "ws_open", "actions", "perf", "endpoints")
TOOLS, BYTES = 80, 90_000


class Figure(NamedTuple):
    """A figure with its bar; `unit` is µs, calls or a ratio."""

    what: str
    limit: float
    measured: float
    unit: str = "µs"

    def line(self) -> str:
        verdict = "pass" if self.measured <= self.limit else "**miss**"
        shown = f"{self.measured:.3f} ×" if self.unit == "×" else f"{self.measured:.1f} {self.unit}"
        return f"| {self.what} | ≤ {self.limit:g} {self.unit} | {shown} | {verdict} |"


class Stage:
    """One view of 80 tools; `encoded` counts the calls of its encoder."""

    def __init__(self) -> None:
        from zorivest_rpc.exposure.engine import Engine
        from zorivest_rpc.exposure.view import ExposedView, Manner
        from zorivest_rpc.mcp.catalog.tool import Tool
        from zorivest_rpc.mcp.protocol.jsonrpc import dumps
        from zorivest_rpc.mcp.protocol.revisions import LATEST_LEGACY
        from zorivest_rpc.serving.catalog.load import load

        definitions = load(opt_in=("devtools",))
        observers = [spec for spec in definitions.tools if spec.toolset == "devtools"]
        trading = [spec for spec in definitions.tools if spec.exposure is not None and spec.toolset != "devtools"][:5]
        rules = {spec.name: spec.exposure for spec in (*observers, *trading) if spec.exposure is not None}
        engine = Engine(definitions.state_names, rules)
        ruled = [Tool(spec.name, spec.description.rich, spec.input_schema) for spec in (*observers, *trading)]
        shape = LATEST_LEGACY.shape
        left = BYTES - sum(len(tool.fragment(shape)) + 1 for tool in ruled)
        others = TOOLS - len(ruled)
        plain = [Tool(f"plain_{number}", "x" * (left // others - 110)) for number in range(others)]
        self.encoded = 0

        def encode(value: Any) -> bytes:
            self.encoded += 1
            return dumps(value)

        manner = Manner(filters=True, gates=True, meta=True, hints=False)
        listed = [*plain[:40], *ruled, *plain[40:]]
        self.state = engine.state()
        self.view = ExposedView(listed, (), engine.rules, [self.state], manner, shape, encode=encode)
        self.shape = shape
        self.state.raise_flag("devtools.observed")
        for name in COUNTERS:
            self.state.set(f"devtools.{name}", 5)

    def page(self) -> bytes:
        return self.view.page(self.shape, 0, 1_000)


def spread(work: Callable[[], object], seconds: float = 1.0) -> tuple[float, float]:
    """Median and 95th percentile of one execution, in microseconds."""
    from tests.bench.loadgen import without_collector

    now, taken = time.perf_counter_ns, []
    with without_collector():
        end = now() + int(seconds * 1e9)
        while (started := now()) < end:
            work()
            taken.append((now() - started) / 1000)
    taken.sort()
    return statistics.median(taken), taken[int(len(taken) * 0.95)]


def fixed_figures(seconds: float) -> list[Figure]:
    stage = Stage()
    size, count = len(stage.page()), len(stage.view.listed)
    assert count == TOOLS, count

    def render() -> None:
        stage.state.add("devtools.logs")
        stage.page()

    def refresh() -> None:
        stage.state.set("devtools.network", 0 if stage.state.counters["devtools.network"] else 3)
        stage.page()

    def write() -> None:
        for _ in range(100):
            stage.state.add("devtools.logs")

    refresh()
    refresh()
    stage.encoded = 0
    render()
    encoded = stage.encoded
    median, late = spread(render, seconds)
    changed, _ = spread(refresh, seconds)
    written, _ = spread(write, seconds)
    return [
        Figure(f"render after a count moved, {count} tools, {size:,} bytes: median", 200, median),
        Figure("the same: 95th percentile", 1_000, late),
        Figure("calls of the encoder for it", 8, encoded, "calls"),
        Figure("refresh and render after a test flipped: median", 1_000, changed),
        Figure("one write that flips nothing", 2, written / 100),
    ]


# --- what a start pays


def schemas_without(directory: Path) -> Path:
    """The tool files as they were without the key `exposure`."""
    from zorivest_rpc.serving.catalog.load import CHECKED, make_stamp, schemas_dir

    copy = directory / "schemas"
    shutil.copytree(schemas_dir(), copy)
    for path in (copy / "tools").glob("*/*.json"):
        given = json.loads(path.read_bytes())
        if given.pop("exposure", None) is not None:
            path.write_text(json.dumps(given, indent=2))
    (copy / CHECKED).write_text(json.dumps(make_stamp(str(copy))))
    return copy


def serve(schemas: str) -> None:
    """The product on stdio, on these tool files."""
    from zorivest_rpc.app import Journal
    from zorivest_rpc.cli.stdio import fast_loop, serve_stdio
    from zorivest_rpc.config import parse

    data = os.environ["ZORIVEST_DATA_DIR"]
    settings = parse("stdio", ["--toolsets", "all", "--data-dir", data, "--api-url", "http://127.0.0.1:9"], {})
    journal = Journal(settings, schemas)

    async def stay_cold() -> None:
        return

    serve_stdio(lambda: journal.offer, settings, stay_cold, journal.close, fast_loop)


def start_ratio(spawns: int) -> tuple[float, float]:
    """Milliseconds to the first list, with rules in the files and without: (ratio of the medians, the one with)."""
    from tests.bench.loadgen import Stdio
    from tests.bench.processes import cores
    from tests.bench.rows import FLOOR, ROOT, environment
    from zorivest_rpc.serving.catalog.load import schemas_dir

    taken: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as directory:
        places = {"with": schemas_dir(), "without": str(schemas_without(Path(directory)))}
        variables = environment(FLOOR, Path(directory), ZORIVEST_DATA_DIR=directory)
        for turn in range(spawns):
            for kind in sorted(places, reverse=bool(turn % 2)):
                command = (sys.executable, "-m", "tests.bench.exposure", "--server", places[kind])
                server = Stdio(command, variables, cores().every, ROOT)
                try:
                    server.initialize()
                    taken[kind].append(server.first("list", 2))
                finally:
                    server.close()
    ours = statistics.median(taken["with"])
    return ours / statistics.median(taken["without"]), ours


def main(argv: list[str]) -> int:
    if argv[:1] == ["--server"]:
        serve(argv[1])
        return 0
    from tests.bench.report import about_run
    from tests.bench.rows import FLOOR, ROOT

    parser = argparse.ArgumentParser(prog="python -m tests.bench.exposure", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per figure")
    parser.add_argument("--spawns", type=int, default=41, help="starts of each kind")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md", help="page to write")
    chosen = parser.parse_args(argv)
    if chosen.seconds <= 0 or chosen.spawns < 1:
        parser.error("--seconds and --spawns must be positive")
    about = about_run([FLOOR], 1, chosen.seconds, chosen.spawns)
    figures = fixed_figures(chosen.seconds)
    try:
        ratio, listed = start_ratio(chosen.spawns)
    except (OSError, ValueError, LookupError) as failure:
        print(f"a server failed: {failure}", file=sys.stderr)
        return 1
    what = f"spawn → first `tools/list` ({listed:.0f} ms) with rules in the tool files, over the same without"
    figures.append(Figure(what, 1.02, ratio, "×"))
    lines = [
        f"{about['date']}, {about['machine']}; {about['python']}, load average before the run {about['load'][0]}; "
        f"{chosen.seconds:g} s per figure, {chosen.spawns} starts of each kind in turns.",
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
