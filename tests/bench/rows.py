"""The servers that are compared, one row each: how to start it, what it serves, what it stands for.

A server offers exactly the 70 tools of the file named by `BENCH_CATALOG`, on stdio or at `/mcp`; answers `echo` with
the file's `echo_text`; for `forward` posts the arguments to `BENCH_BACKEND` and returns the body as text; and, with
`BENCH_BROADCAST` set, takes a call of `broadcast` (with the arguments of `echo`) as the order to send one
`notifications/tools/list_changed` to every session before it answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.setup_peers import MCP2_PYTHON, TS1_DIRECTORY, node

__all__ = ["CACHE", "PEERS", "ROOT", "Row", "environment", "rows"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "bench"
SERVERS = HERE / "servers"
# What would change how an interpreter starts or a peer behaves; the rows are compared without it.
DROPPED = ("PYTHON", "ZORIVEST", "FASTMCP", "MCP_", "NODE_OPTIONS", "BENCH_")


@dataclass(frozen=True)
class Row:
    """One server: commands for each transport (`{port}` is filled in), and what to expect of it."""

    name: str
    about: str
    stdio: tuple[str, ...] | None
    http: tuple[str, ...] | None
    modern: bool = True  # serves 2026-07-28 over HTTP as well
    broadcast: str | None = None  # how to make it tell every stream: "tool:NAME" or "post:PATH"
    forwards: bool = True
    warmup: float = 0.5  # seconds of discarded load; a JIT needs more than the interpreter does
    env: Mapping[str, str] = field(default_factory=dict)


def _python(script: str, *arguments: str, python: str = sys.executable) -> tuple[str, ...]:
    return (python, str(SERVERS / script), *arguments)


FLOOR = Row(
    "floor",
    "bare asyncio line loop / bare `aiohttp.web` handler, orjson; not an MCP server, checks nothing",
    _python("floor_stdio.py"),
    _python("floor_http.py", "{port}"),
    broadcast="post:/broadcast",
)
REAL = Row(
    "real-rs",
    "realistic floor: msgspec envelope, a task per call, arguments checked by jsonschema-rs",
    _python("real_rs.py", "stdio"),
    _python("real_rs.py", "http", "{port}"),
    forwards=False,
)
OURS = Row(
    "ours",
    "this project: dispatcher, sessions and transports of the product, arguments checked",
    (sys.executable, "-m", "tests.bench.server", "--stdio"),
    (sys.executable, "-m", "tests.bench.server", "--port", "{port}"),
    broadcast="tool:broadcast",
)
OURS_PLAIN = Row(
    "ours-plain",
    "the same server answering HTTP through aiohttp's public `Response` (the fallback)",
    None,
    OURS.http,
    env={"ZORIVEST_HTTP_WRITER": "plain"},
)


def _ts1() -> Row:
    script = str(SERVERS / "ts1_low.mjs")
    return Row(
        "ts1-low",
        "`@modelcontextprotocol/sdk` 1.x, low-level `Server`, JSON answers; checks no arguments",
        (str(node()), script, "stdio"),
        (str(node()), script, "http", "{port}"),
        modern=False,
        broadcast="tool:broadcast",
        warmup=2.0,
        env={"BENCH_TS1": str(TS1_DIRECTORY)},
    )


def _mcp2() -> Row:
    return Row(
        "mcp2-low",
        "`mcp` 2.x, low-level `Server`, JSON answers, uvicorn with uvloop and httptools; checks no arguments",
        _python("mcp2_low.py", "stdio", python=str(MCP2_PYTHON)),
        _python("mcp2_low.py", "http", "{port}", python=str(MCP2_PYTHON)),
        broadcast="tool:broadcast",
    )


PEERS = {"ts1-low": _ts1, "mcp2-low": _mcp2}


def rows(peers: tuple[str, ...] = (), *, ours: bool = True) -> list[Row]:
    """Floors first, then this project, then the peers that were asked for."""
    own = [OURS, OURS_PLAIN] if ours else []
    return [FLOOR, REAL, *own, *(PEERS[name]() for name in peers)]


def environment(row: Row, catalog: Path, **more: str) -> dict[str, str]:
    """The environment of one server: ours without what would tilt the comparison, plus what the row needs."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(DROPPED)}
    return {**kept, "BENCH_CATALOG": str(catalog), **row.env, **more}
