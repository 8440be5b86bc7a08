"""`python -m tests.soak --minutes 15`: churn of sessions, vanished clients and kills; what it takes at start and end.

Exit code 0: nothing grew and nothing slowed; 1: something did, and the last lines say what."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.soak.run import soak


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0, help="how long (default 15)")
    parser.add_argument("--clients", type=int, default=12, help="how many at once (default 12)")
    parser.add_argument("--seed", type=int, default=1, help="of what they do (default 1)")
    chosen = parser.parse_args(argv)
    if not 0 < chosen.minutes <= 240 or not 0 < chosen.clients <= 500:
        parser.error("--minutes is up to 240 and --clients up to 500")
    with tempfile.TemporaryDirectory(prefix="zorivest-soak-") as place:
        figures = asyncio.run(soak(Path(place), chosen.minutes, chosen.clients, chosen.seed))
        print("\n".join(figures.lines()), flush=True)
    problems = figures.problems()
    for problem in problems[:20]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
