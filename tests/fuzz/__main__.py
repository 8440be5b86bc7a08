"""The long run: `python -m tests.fuzz --count 100000 --transport memory|stdio|http|sse [--seed N]`.

Exits with 1 if anything was found."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.fuzz.drive import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--transport", choices=("memory", "stdio", "http", "sse", "all"), default="all")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    transports = ("memory", "stdio", "http", "sse") if given.transport == "all" else (given.transport,)
    found = 0
    for transport in transports:
        report = asyncio.run(run(transport, given.count, given.seed))
        print(f"{transport} (seed {given.seed}): {report}", flush=True)
        found += len(report.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
