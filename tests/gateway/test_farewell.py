"""What becomes of a child when the client of the product is gone."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.gateway.test_failures import entry, running, until_listed
from tests.places import ROOT

CHILD = str(ROOT / "tests" / "gateway" / "stdio_server.py")
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


@pytest.mark.skipif(os.name != "posix", reason="processes are ended by signals")
async def test_a_killed_product_leaves_no_process_behind(tmp_path: Path) -> None:
    """Not even the server behind a wrapper that heeds no signal but the last."""
    entries = [
        entry("fine", command=sys.executable, args=["-I", HOSTILE, "fine"]),
        entry("wrapped", command=sys.executable, args=["-I", CHILD, "wrapper"]),
    ]
    async with running(tmp_path, *entries) as client:
        await until_listed(client, "fine__echo", "wrapped__echo")
        family = psutil.Process(client.process.pid).children(recursive=True)
        assert sum("-I" in each.cmdline() for each in family) == 3
        client.process.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, family, 30)
    assert alive == []
