"""Every command of the guide works as written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.places import ROOT
from zorivest_rpc.embedded.locate import find

GUIDE = ROOT / "docs" / "guide" / "embedded-backend.md"
PREAMBLE = f"""
set -euo pipefail
zorivest-rpc() {{ "{sys.executable}" -m zorivest_rpc "$@"; }}
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A home as short as most are: the page speaks of the socket, which a long path cannot have."""
    with tempfile.TemporaryDirectory(prefix="zg-") as place:
        yield Path(place)


def test_the_commands_of_the_guide_run_from_top_to_bottom(place: Path) -> None:
    home = place / ".local" / "share" / "zorivest"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ZORIVEST_", "XDG_"))}
    environ |= {"HOME": str(place), "ZORIVEST_KEYRING": "off", "PYTHONPATH": str(ROOT)}
    script = PREAMBLE + "\n".join(re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL))
    try:
        ran = subprocess.run(
            ["bash", "-c", script], cwd=place, env=environ, capture_output=True, text=True, timeout=120, check=False
        )
        assert ran.returncode == 0, ran.stderr
        assert "'counters': {'trades': 0" in ran.stdout
        assert "'status': 'updated'" in ran.stdout
        assert "bootstrap.json" in ran.stdout
    finally:
        if located := find(home):
            os.kill(located.pid, signal.SIGTERM)
            psutil.Process(located.pid).wait(30)
