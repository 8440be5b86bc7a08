"""Every command and every sample of the guides works as written."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.docs.shell import Machine, blocks, machine
from tests.docs.test_docs import pages
from tests.docs.__main__ import ROOT
from zorivest_rpc.tools.prompts import ARGUMENTS

GUIDE = ROOT / "docs" / "guide"
FIRST = GUIDE / "first-ten-minutes.md"


def test_the_first_ten_minutes_run_from_top_to_bottom(tmp_path: Path) -> None:
    with machine(tmp_path / "home") as reader:
        said = reader.run(FIRST)
    assert 'Cursor: "zorivest" added' in said
    assert "loaded: 68 trades" in said
    assert ", 0 failed" in said
    assert '"status": "created"' in said
    assert '"caption": "the entry"' in said
    assert '"share_size": 50' in said
    assert '"category": "chasing"' in said
    assert "removed: 68 trades" in said
    assert said.count('"exec_id": "FIRST-1"') >= 4, "recorded, left after the demo data went, and in the backup"
    assert said.rstrip().endswith('"total": 1,\n  "limit": 50,\n  "offset": 0\n}')
