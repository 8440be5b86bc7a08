"""The quick suite under every Python from 3.11 on that this machine has.

The Python of `.venv` runs there, each other one in an environment of its own below `.cache`.

Interpreters are `python3.N` on the path and pyenv's versions, one per minor version, the newest first found. What was
not found is told before anything runs, so that the output ends with pytest's own summary.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.places import ROOT

__all__ = ["find_interpreters"]

FIRST, NEWEST = 11, 14  # minor versions; later ones are looked for as well
PLACE: Final = ROOT / ".cache" / "pythons"


def find_interpreters() -> dict[int, str]:
    """Minor version -> interpreter."""
    found: dict[int, str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    versions = sorted(pyenv.glob("3.*/bin/python"), key=_numbers, reverse=True)
    for minor in range(FIRST, NEWEST + 4):
        candidates = [each for each in (shutil.which(f"python3.{minor}"),) if each]
        candidates += [str(each) for each in versions if _numbers(each)[:2] == (3, minor)]
        for candidate in candidates:  # pyenv's shims are on the path for versions that are not switched on
            if _minor(candidate) == minor:
                found[minor] = candidate
                break
    return found


def _numbers(python: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", python.parent.parent.name))


def _minor(python: str) -> int | None:
    script = "import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else -1)"
    told = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    return int(told.stdout) if told.returncode == 0 else None


def _environment(minor: int, python: str) -> Path:
    """The interpreter of an environment with the versions of constraints.txt; made anew when those change."""
    if minor == sys.version_info[1]:
        return Path(sys.executable)
    place = PLACE / f"3.{minor}"
    ready, inside = place / ".ready", place / "bin" / "python"
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    if ready.exists() and all(ready.stat().st_mtime >= source.stat().st_mtime for source in sources):
        return inside
    print(f"installing for Python 3.{minor} into {place.relative_to(ROOT)} ...", flush=True)
    if not inside.exists():
        subprocess.run([python, "-m", "venv", str(place)], check=True)
    install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "-c", "constraints.txt", "-e", ".[dev,speed]"], cwd=ROOT, check=True)
    ready.touch()
    return inside


def main() -> int:
    found = find_interpreters()
    missing = [f"3.{minor}" for minor in range(FIRST, NEWEST + 1) if minor not in found]
    print("found Python " + ", ".join(f"3.{minor} ({python})" for minor, python in found.items()), flush=True)
    print(f"not found: {', '.join(missing) or 'none'}", flush=True)
    workers = os.environ.get("WORKERS", "2")
    for minor, python in found.items():
        inside = _environment(minor, python)
        print(f"Python 3.{minor}: the quick suite", flush=True)
        command = [str(inside), "-m", "pytest", "-n", workers, "--dist", "loadfile", "--quick"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            print(f"the quick suite failed under Python 3.{minor}", file=sys.stderr)
            return done.returncode
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
