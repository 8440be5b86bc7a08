"""The direction of imports: a module imports leftwards only. Also the briefest map of the architecture.

A row is a layer; modules of one layer do not import each other unless they are one package.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT

PACKAGE = ROOT / "zorivest_rpc"
LAYERS = (
    ("dumps", "errors", "proof"),
    ("config",),
    ("protocol",),
    ("exposure",),
    ("catalog",),
    ("modes", "tenants"),
    ("audience",),
    ("call",),
    ("offer",),
    ("backend",),
    ("embedded", "middleware", "gateway", "devtools"),
    ("tools",),
    ("pipeline",),
    ("eager",),
    ("dispatcher",),
    ("announce", "tasks"),
    ("methods",),
    ("server",),
    ("connection",),
    ("transports", "console"),
    ("showcase", "app", "clients"),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
PURE = ("protocol", "catalog", "modes")  # but for catalog/load.py, which reads files
WAITING = {"asyncio", "aiohttp", "socket", "threading", "selectors", "time"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part(module: str) -> str:
    """`zorivest_rpc.mcp.protocol.jsonrpc` -> `protocol`."""
    return module.split(".")[1]


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names, at its top or inside a function."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def named(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", modules(), ids=named)
def test_imports_point_one_way(path: Path) -> None:
    own = part(named(path))
    assert own in RANK, f"{own} has no place among the layers"
    for name in imported(path):
        if not name.startswith("zorivest_rpc."):
            continue
        other = part(name)
        if other in ("__version__", own):
            continue
        assert other in RANK, f"{named(path)} imports {name}, which has no place among the layers"
        assert RANK[other] < RANK[own], f"{named(path)} imports {name}, which is not to its left"


@pytest.mark.parametrize("path", [p for p in modules() if part(named(p)) == "embedded"], ids=named)
def test_the_embedded_backend_knows_rest_and_not_mcp(path: Path) -> None:
    for name in imported(path):
        if name.startswith("zorivest_rpc."):
            assert part(name) in ("embedded", "dumps", "errors", "proof", "config", "__version__"), (
                f"{named(path)} imports {name}"
            )


@pytest.mark.parametrize(
    "path", [p for p in modules() if part(named(p)) not in ("embedded", "cli", "app", "__main__")], ids=named
)
def test_only_the_composition_root_knows_the_embedded_backend(path: Path) -> None:
    assert not [name for name in imported(path) if name.startswith("zorivest_rpc.embedded")]


@pytest.mark.parametrize("path", [p for p in modules() if part(named(p)) in PURE], ids=named)
def test_what_is_pure_neither_waits_nor_knows_the_time(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & WAITING
    tree = ast.walk(ast.parse(path.read_text()))
    assert not [node for node in tree if isinstance(node, ast.AsyncFunctionDef | ast.Await)]


def test_only_config_and_the_composition_root_read_the_environment() -> None:
    readers = [named(path) for path in modules() if "os.environ" in path.read_text() or "getenv" in path.read_text()]
    assert [name for name in readers if part(name) not in ("config", "embedded", "app", "cli")] == []


def test_there_is_no_drawer() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
    assert [named(path) for path in modules() if drawers & set(path.with_suffix("").parts)] == []


# --- what a start on stdio may cost

HEAVY = ("aiohttp", "jsonschema", "jsonschema_rs", "argparse", "importlib.metadata", "sqlalchemy", "numpy")
PROBE = """
import json, os, sys
leave = os._exit
def tell(code):
    os.write(2, json.dumps(sorted(sys.modules)).encode())
    leave(code)
os._exit = tell
import zorivest_rpc.cli.stdio as command
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
settings = parse("stdio", ["--log-level", "error", "--data-dir", sys.argv[1]])
command.serve_stdio(lambda: Journal(settings).offer, settings)  # without what is warmed up behind the first answer
"""


def test_a_client_that_starts_and_lists_loads_nothing_heavy(tmp_path: Path) -> None:
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(tmp_path)],
        input=b"".join(json.dumps(message).encode() + b"\n" for message in messages),
        capture_output=True,
        timeout=30,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["tools"]
    loaded = set(json.loads(done.stderr))
    assert "zorivest_rpc.mcp.transports.stdio" in loaded
    assert sorted(loaded & set(HEAVY)) == []
    unwanted = ("zorivest_rpc.mcp.transports.http", "zorivest_rpc.embedded")
    assert not [name for name in loaded if name.startswith(unwanted)]


REFUSALS = (
    "ToolError",
    "InvalidArguments",
    "FileRefused",
    "ConfirmationRequired",
    "BackendError",
    "BackendUnreachable",
)


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_every_refusal_names_the_next_step(path: Path) -> None:
    """One shape for all: a code, a reason, and what would help."""
    bare = [
        f"line {node.lineno}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in REFUSALS
        and not any(keyword.arg in ("next", None) for keyword in node.keywords)
    ]
    assert bare == []
