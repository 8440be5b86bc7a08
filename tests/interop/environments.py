"""One environment per client library, made on demand from its lock file and kept in the cache."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from tests.conformance import node
from tests.conformance.cache import CACHE, file_key, once

HERE = Path(__file__).parent


def python_with(name: str, folder: Path = HERE / "requirements") -> Path:
    """The interpreter of a virtual environment that holds exactly `<name>.txt` of the folder."""
    requirements = folder / f"{name}.txt"

    def build(directory: Path) -> None:
        venv.create(directory, with_pip=True, symlinks=sys.platform != "win32")
        command = [str(interpreter(directory)), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--requirement", str(requirements)],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"pip failed for {name}:\n{done.stdout}{done.stderr}")

    directory = CACHE / "interop" / f"{name}-{file_key([requirements], sys.version, sys.base_prefix)}"
    return interpreter(once(directory, build))


def interpreter(directory: Path) -> Path:
    return directory / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def modules_with(name: str) -> Path:
    """The `node_modules` directory that holds exactly `npm/<name>/package-lock.json`."""
    return node.install(HERE / "npm" / name, f"interop/{name}") / "node_modules"
