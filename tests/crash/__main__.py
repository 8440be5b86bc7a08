"""`python -m tests.crash --kills 300`: kill the backend at random moments while trades are written, and count.

Exit code 0: every acknowledged trade was there exactly once after every restart and nothing else was wrong; 1: not."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.crash.run import crash


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how often (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the trades (default 1)")
    parser.add_argument("--most-seconds", type=float, default=float("inf"), help="stop after the kill that is then due")
    chosen = parser.parse_args(argv)
    if chosen.kills < 1:
        parser.error("--kills must be positive")
    with tempfile.TemporaryDirectory(prefix="zorivest-crash-") as place:
        run = crash(Path(place), chosen.kills, chosen.seed, chosen.most_seconds)
    print(f"seed {chosen.seed}")
    for name, value in run.figures().items():
        print(f"{name:>40}  {value}")
    for problem in (*sorted(run.lost), *sorted(run.duplicated), *run.problems):
        print(problem, file=sys.stderr)
    return 0 if run.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
