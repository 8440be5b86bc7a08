"""`python -m tests.bench.exposure`: lists that follow the state: rendering, refreshing, a write, what a start pays.

80 tools of 90 KB, the five that observe and five of trading among them. The start is that of the product on two copies
of its tool files, with their exposure keys and without, in turns within one run; those without are started as two
kinds, so that the run shows what it can tell. Where valgrind is installed, the instructions of one
start of each are counted.

Exit code 0: measured, whatever the verdicts; 1: a server failed; 2: misused.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
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
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Figure(NamedTuple):
    """A figure with its bar, if it has one; `unit` is µs, calls or a ratio."""

    what: str
    limit: float | None
    measured: float
    unit: str = "µs"

    def line(self) -> str:
        shown = f"{self.measured:.3f} ×" if self.unit == "×" else f"{self.measured:.1f} {self.unit}"
        if self.limit is None:
            return f"| {self.what} |  | {shown} |  |"
        verdict = "pass" if self.measured <= self.limit else "**miss**"
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


def command_of(schemas: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.bench.exposure", "--server", schemas)


class Starts(NamedTuple):
    """What starts of each kind took, in milliseconds, and the instructions of one each."""

    clock: dict[str, list[float]]
    processor: dict[str, list[float]]
    instructions: dict[str, int]


def take_starts(spawns: int) -> Starts:
    """From the spawn to the first list, with rules in the files and without."""
    from tests.bench.loadgen import Stdio
    from tests.bench.processes import cores
    from tests.bench.rows import FLOOR, ROOT, environment
    from tests.bench.turns import order_of, processor_ms
    from zorivest_rpc.serving.catalog.load import schemas_dir

    with tempfile.TemporaryDirectory() as directory:
        without = str(schemas_without(Path(directory)))
        places = {"with": schemas_dir(), "without": without, "again": without}
        clock: dict[str, list[float]] = {kind: [] for kind in places}
        processor: dict[str, list[float]] = {kind: [] for kind in places}
        variables = environment(FLOOR, Path(directory), ZORIVEST_DATA_DIR=directory)
        for turn in range(spawns + 1):
            for kind in order_of(list(places), turn):
                server = Stdio(command_of(places[kind]), variables, cores().every, ROOT)
                try:
                    server.initialize()
                    ms, used = server.first("list", 2), processor_ms(server.pid)
                finally:
                    server.close()
                if turn:  # the first of each reads the files from the disk
                    clock[kind].append(ms)
                    processor[kind].append(used)
        return Starts(clock, processor, count_starts(places, variables))


def start_figures(starts: Starts) -> list[Figure]:
    from tests.bench.turns import fastest_quarter, ratio

    what = "spawn → first `tools/list`, rules in the tool files, over the same without"
    figures = []
    if counted := starts.instructions:
        million = counted["with"] / 1e6
        figures.append(
            Figure(f"{what}: instructions ({million:,.1f} million)", 1.02, counted["with"] / counted["without"], "×")
        )
    for name, taken in (("processor time", starts.processor), ("time", starts.clock)):
        ms, control = fastest_quarter(taken["with"]), f"{name} of the same files twice, which tells how far to trust it"
        figures.append(Figure(f"{what}: {name} ({ms:.0f} ms)", 1.02, ratio(taken, "with", "without"), "×"))
        figures.append(Figure(control, None, ratio(taken, "again", "without"), "×"))
    return figures


def count_starts(places: dict[str, str], variables: dict[str, str]) -> dict[str, int]:
    """Instructions of one start up to the first list; none where valgrind is not installed."""
    from tests.bench.instructions import COUNT, counted
    from tests.bench.rows import ROOT

    if shutil.which(COUNT[0]) is None:
        return {}
    opening = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in opening)
    counts = {}
    for kind in ("with", "without"):
        command = [*COUNT, *command_of(places[kind])]
        fixed = variables | {"PYTHONHASHSEED": "0"}  # the order of sets decides how often a table is searched
        done = subprocess.run(command, input=lines, capture_output=True, env=fixed, cwd=ROOT, timeout=600, check=False)
        if b'"id":2' not in done.stdout:
            raise ValueError(f"no list: {done.stdout[-300:]!r} {done.stderr[-300:]!r}")
        counts[kind] = counted(done.stderr.decode())
    return counts


def main(argv: list[str]) -> int:
    if argv[:1] == ["--server"]:
        serve(argv[1])
        return 0
    from tests.bench.report import about_run
    from tests.bench.rows import FLOOR, ROOT

    parser = argparse.ArgumentParser(prog="python -m tests.bench.exposure", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per figure")
    parser.add_argument("--spawns", type=int, default=60, help="starts of each kind")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks.md", help="page to write")
    chosen = parser.parse_args(argv)
    if chosen.seconds <= 0 or chosen.spawns < 1:
        parser.error("--seconds and --spawns must be positive")
    about = about_run([FLOOR], 1, chosen.seconds, chosen.spawns)
    figures = fixed_figures(chosen.seconds)
    try:
        figures += start_figures(take_starts(chosen.spawns))
    except (OSError, ValueError, LookupError) as failure:
        print(f"a server failed: {failure}", file=sys.stderr)
        return 1
    lines = [
        f"{about['date']}, {about['machine']}; {about['python']}, load average before the run {about['load'][0]}; "
        f"{chosen.seconds:g} s per figure, {chosen.spawns} starts of each kind in turns, the fastest quarter counts.",
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
