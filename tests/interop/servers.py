"""How each server that nobody here wrote is started, over stdio or HTTP, and ourselves among them."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from tests.conformance.node import node
from tests.interop.environments import modules_with, python_with

__all__ = ["PROGRAM", "command"]

UPSTREAMS = Path(__file__).parent / "upstreams"
OFFICIAL = "servers-2026.8.31"
PYTHON = {"mcp-2.3.0": "python_sdk.py", "mcp-1.30.0": "python_sdk.py", "fastmcp-4.1.4": "fastmcp_4.py"}
NODE = {"sdk-1.32.2": "ts_1.mjs", "server-2.4.0": "ts_2.mjs"}
PROGRAM = str(Path(sysconfig.get_path("scripts")) / "zorivest-rpc")


def command(name: str, transport: str, port: int, directory: Path) -> list[str]:
    """The command of the server with this name; one that keeps files keeps them in `directory`."""
    place = ["stdio"] if transport == "stdio" else ["http", str(port)]
    if name in PYTHON:
        return [str(python_with(name)), "-W", "ignore", str(UPSTREAMS / PYTHON[name]), *place]
    if name in NODE:
        return [str(node()), str(_beside_modules(name) / NODE[name]), *place]
    if name == "ourselves":
        own = ["stdio"] if transport == "stdio" else ["serve", "--port", str(port), "--no-auth"]
        return [PROGRAM, *own, "--showcase", "--data-dir", str(directory / "data")]
    script = str(modules_with(OFFICIAL) / "@modelcontextprotocol" / name / "dist" / "index.js")
    arguments = {"server-everything": ["stdio" if transport == "stdio" else "streamableHttp"]}
    return [str(node()), script, *arguments.get(name, [str(directory)])]


def _beside_modules(name: str) -> Path:
    """Node looks for a script's modules beside it, so the scripts are copied to where they are."""
    place = modules_with(name).parent
    for script in UPSTREAMS.glob("*.mjs"):
        shutil.copy(script, place)
    return place
