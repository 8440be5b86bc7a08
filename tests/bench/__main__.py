"""`python -m tests.bench`: measure this project beside the floors, and beside peers on request; judge it by its bars.

Exit code 0: measured, whatever the verdicts; 1: a server failed or answered wrongly; 2: misused.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from tests.bench.page import CORE
from tests.bench.report import about_run, report
from tests.bench.rows import CACHE, OURS, PEERS, ROOT, rows
from tests.bench.run import TESTS, Plan, measure
from tests.bench.setup_peers import is_ready

JUDGED = frozenset("ABCDG")


def _names(allowed: dict[str, Any]) -> Any:
    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(dict.fromkeys(word for word in text.split(",") if word))
        for name in chosen:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(allowed)}")
        return chosen

    return parse


def _arguments(argv: list[str]) -> argparse.Namespace:
    tests = "; ".join(f"{key} {what}" for key, what in TESTS.items())
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds per cell (default 1)")
    parser.add_argument(
        "--tests", type=_names(TESTS), default=tuple(sorted(JUDGED)), help=f"default A,B,C,D,G. {tests}"
    )
    parser.add_argument(
        "--peers",
        type=_names(PEERS),
        default=(),
        help=f"from {','.join(PEERS)}; their environments are made by python -m tests.bench.setup_peers",
    )
    parser.add_argument(
        "--only-floors", action="store_true", help="leave this project out: what does the machine give?"
    )
    parser.add_argument("--sessions", type=int, default=2000, help="idle sessions of test G (default 2000)")
    parser.add_argument(
        "--out",
        type=Path,
        help="page to write; default docs/benchmarks.md when every bar was measured without a failure",
    )
    parser.add_argument("--from", dest="source", type=Path, metavar="RAW", help="report on a raw file, measure nothing")
    chosen = parser.parse_args(argv)
    if chosen.rounds < 1 or chosen.seconds <= 0 or chosen.sessions < 1:
        parser.error("--rounds, --seconds and --sessions must be positive")
    for peer in chosen.peers:
        if not is_ready(peer):
            parser.error(f"the environment of {peer} is not there; make it: python -m tests.bench.setup_peers {peer}")
    return chosen


def _measured(chosen: argparse.Namespace) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    plan = Plan(
        rows=rows(chosen.peers, ours=not chosen.only_floors),
        tests=frozenset(chosen.tests),
        rounds=chosen.rounds,
        seconds=chosen.seconds,
        sessions=chosen.sessions,
    )
    about = about_run(plan.rows, plan.rounds, plan.seconds, plan.spawns)
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.jsonl"
    with path.open("wb") as raw:
        raw.write(orjson.dumps({"about": about}) + b"\n")
        records = measure(plan, raw)
    print(f"raw figures: {path}", file=sys.stderr)
    return about, records


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    first, *rest = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return first["about"], rest


def main(argv: list[str]) -> int:
    chosen = _arguments(argv)
    about, records = _read(chosen.source) if chosen.source else _measured(chosen)
    block = report(records, about)
    print(block)
    measured = {record["test"][0] for record in records if record["name"] == OURS.name}
    failed = any("failed" in record or record.get("errors") for record in records)
    page = chosen.out or (ROOT / "docs" / "benchmarks.md" if measured >= JUDGED and not failed else None)
    if page is not None:
        CORE.write(page, block)
        print(f"written: {page}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
