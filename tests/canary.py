"""`make canary`: the newest aiohttp that can be installed, under everything that reaches below its public interface.

The project pins aiohttp to the minor release that its tests have seen. This installs the newest one into an environment
of its own and runs the tests of both transports' writers, so that a new release is known to fit before the pin moves.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from tests.places import ROOT

PLACE: Final = ROOT / ".cache" / "canary"
TESTS: Final = ("tests/test_private_members.py", "tests/serving/backend", "tests/mcp/transports", "tests/faults")


def main() -> int:
    inside = PLACE / "bin" / "python"
    if not inside.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PLACE)], check=True)
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-c", "constraints.txt", "-e", ".[dev,speed]"], cwd=ROOT, check=True)
    subprocess.run([*install, "--upgrade", "aiohttp"], cwd=ROOT, check=True)
    version = "import aiohttp; print('aiohttp', aiohttp.__version__, flush=True)"
    subprocess.run([str(inside), "-c", version], check=True)
    return subprocess.run(
        [str(inside), "-m", "pytest", "-n", "2", "--dist", "loadfile", *TESTS], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
