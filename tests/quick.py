"""The quick suite: `pytest --quick` runs a share of every test file, by what its tests took when last measured.

Each file has the same budget of seconds. As many of its cases as fit are run, at least two (one of a file whose cases
outlast the budget), spread over all of its functions before a second case of any. Tests marked slow, files of cases
that take more than six seconds each, and tests that install or measure something, are left out.

    python -m tests.quick junit.xml …     record the durations of a run (`pytest --junitxml`)
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

__all__ = ["choose", "is_left_out"]

ROOT: Final = Path(__file__).parent
RECORD: Final = ROOT / "durations.json"
BUDGET: Final = 0.7  # seconds of each file
LONGEST: Final = 6.0  # seconds of a case; a file of longer ones is left to the whole suite
UNKNOWN: Final = 0.5  # seconds of a case in a file that was never measured
MEANS: Final[dict[str, float]] = json.loads(RECORD.read_text())  # seconds of a case of each file
LEFT_OUT: Final = ("bench", "conformance", "crash", "devtools/page", "fuzz", "interop")


def is_left_out(path: Path) -> bool:
    """Whether a file is not even imported."""
    file = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return file.startswith(LEFT_OUT) or MEANS.get(file, UNKNOWN) > LONGEST


def choose(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    files: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None:
            files[item.path.relative_to(ROOT).as_posix()].append(item)
    chosen: list[pytest.Item] = []
    for file, cases in files.items():
        mean = MEANS.get(file, UNKNOWN)
        count = max(2 if mean < BUDGET else 1, int(BUDGET / max(0.001, mean)))
        wanted = set(_spread(cases)[:count])
        chosen += [case for case in cases if case in wanted]
    return chosen


def _spread(cases: list[pytest.Item]) -> list[pytest.Item]:
    """The first case of each function, then the second of each, and so on."""
    seen: defaultdict[str, int] = defaultdict(int)
    ranked = []
    for case in cases:
        function = getattr(case, "originalname", case.name)
        ranked.append((seen[function], case))
        seen[function] += 1
    return [case for _, case in sorted(ranked, key=lambda pair: pair[0])]


def _record(reports: list[str]) -> None:
    """The mean of each file's cases; files that were not run keep what was known of them."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    for report in reports:
        for case in ElementTree.parse(report).iter("testcase"):
            file = case.attrib["classname"].removeprefix("tests.").replace(".", "/") + ".py"
            if case.find("failure") is None and case.find("error") is None:
                times[file].append(float(case.attrib["time"]))
    known = MEANS | {file: round(sum(each) / len(each), 4) for file, each in times.items()}
    kept = {file: mean for file, mean in sorted(known.items()) if (ROOT / file).exists()}
    RECORD.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    _record(sys.argv[1:])
