"""What becomes of a child when the client of the product is gone."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.gateway.test_failures import entry, running, until_listed
from tests.places import ROOT

HOSTILE = str(ROOT / "tests" / "gateway" / "hostile.py")
KEEPS = """\
import runpy, sys, time
sys.argv = ["hostile.py", "fine"]
runpy.run_path({script!r}, run_name="__main__")
time.sleep(0.3)
open({kept!r}, "w").write("kept")
"""


async def test_a_child_has_time_to_write_down_what_it_holds(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    code = KEEPS.format(script=HOSTILE, kept=str(kept))
    async with running(tmp_path, entry("fine", command=sys.executable, args=["-I", "-c", code])) as client:
        await until_listed(client, "fine__echo")
    assert kept.read_text() == "kept"
