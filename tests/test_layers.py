"""The direction of imports: a room imports what stands above it only. Also the briefest map of the architecture.

A room is a folder of a wing, or a module that stands beside folders. Rooms of one row do not import each other. `mcp`
knows nothing of trading; `embedded` knows REST and not MCP; `app` alone knows all of them.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipe import converse
from tests.places import ROOT

PACKAGE = ROOT / "zorivest_rpc"
ROOMS = (
    ("errors", "proof", "core_dumps", "private_files", "retry_after"),
    # the protocol machine
    ("mcp.protocol", "mcp.eager"),
    ("mcp.client",),
    ("mcp.catalog",),
    ("mcp.call",),
    ("mcp.offer",),
    ("mcp.dispatcher",),
    ("mcp.announce", "mcp.tasks"),
    ("mcp.methods",),
    ("mcp.server",),
    ("mcp.connection",),
    ("mcp.transports",),
    ("config_file",),
    ("showcase", "config"),
    # the journal as a server
    ("exposure",),
    ("serving.catalog",),
    ("serving.modes",),
    ("serving.audience",),
    ("serving.backend",),
    ("serving.middleware",),
    ("serving.tools",),
    ("serving.pipeline",),
    # other MCP servers beside it
    ("gateway",),
    # a live web page, observed
    ("devtools",),
    # a REST backend on one encrypted file
    ("embedded.errors",),
    ("embedded.disk", "embedded.values"),
    ("embedded.analytics", "embedded.tax", "embedded.imports"),
    ("embedded.link",),
    ("embedded.runtime", "embedded.wake"),
    ("embedded.database",),
    ("embedded.vault", "embedded.settings", "embedded.guard"),
    ("embedded.locate", "embedded.safekeeping", "embedded.market"),
    ("embedded.journal",),
    ("embedded.imports.stored", "embedded.tax.stored"),
    ("embedded.brokers", "embedded.scheduling"),
    ("embedded.analytics.stored", "embedded.summary"),
    ("embedded.backend",),
    ("embedded.demo",),
    ("embedded.rest",),
    ("embedded.app",),
    ("embedded.process",),
    # who is served: several tenants behind one server
    ("tenants",),
    # what puts them together, and what people type
    ("app",),
    ("clients",),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
WINGS = ("mcp", "serving", "embedded")
BETWEEN_WINGS = ("errors", "proof", "core_dumps", "config", "config_file", "retry_after", "__version__")
# They take values and return values: no clock, no waiting, no storage. `load` reads files; `pdf_pages` runs a child.
PURE = (
    *("mcp.protocol", "mcp.client", "mcp.catalog", "serving.catalog", "serving.modes"),
    *("embedded.analytics", "embedded.tax", "embedded.imports"),
)
IMPURE = ("serving.catalog.load", "embedded.imports.pdf_pages")
WAITING = {"asyncio", "aiohttp", "socket", "selectors", "sqlalchemy"}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(module: str) -> str:
    """`zorivest_rpc.mcp.protocol.jsonrpc` -> `mcp.protocol`; `stored` beside a pure package is a room of its own."""
    parts = module.split(".")[1:]
    if parts[0] not in WINGS:
        return parts[0]
    return ".".join(parts[:3] if parts[2:3] == ["stored"] else parts[:2])


def wing(module: str) -> str:
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
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name if is_module(name) else module for name in names)


def is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def own_imports(path: Path) -> list[str]:
    """The modules of this package that a file imports."""
    return [name for name in imported(path) if name.startswith("zorivest_rpc.")]


def named(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", modules(), ids=named)
def test_imports_point_one_way(path: Path) -> None:
    if named(path).split(".")[1:] in [[name] for name in WINGS]:
        assert own_imports(path) == [], "the sentence of a wing imports nothing"
        return
    own = room(named(path))
    assert own in RANK, f"{own} has no place among the rooms"
    for name in own_imports(path):
        other = room(name)
        if other == own:
            continue
        assert other in RANK, f"{named(path)} imports {name}, which has no place among the rooms"
        assert RANK[other] < RANK[own], f"{named(path)} imports {name}, which does not stand above it"


def test_every_room_is_there() -> None:
    there = {room(named(path)) for path in modules()} - set(WINGS)
    assert sorted(set(RANK) - there) == []


@pytest.mark.parametrize("path", [p for p in modules() if wing(named(p)) in ("mcp", "embedded")], ids=named)
def test_a_wing_that_stands_alone_imports_no_other(path: Path) -> None:
    allowed = ("errors", "__version__") if wing(named(path)) == "mcp" else BETWEEN_WINGS
    for name in own_imports(path):
        assert wing(name) in (wing(named(path)), *allowed), f"{named(path)} imports {name}"


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in modules()
        if wing(named(path)) not in ("embedded", "cli", "app", "__main__")
        and named(path) != "zorivest_rpc.tenants.embedded"  # which starts and ends those of tenants
    ],
    ids=named,
)
def test_only_the_composition_root_and_the_commands_know_the_embedded_backend(path: Path) -> None:
    assert not [name for name in own_imports(path) if wing(name) == "embedded"]


@pytest.mark.parametrize(
    "path",
    [p for p in modules() if room(named(p)) in PURE and named(p).removeprefix("zorivest_rpc.") not in IMPURE],
    ids=named,
)
def test_what_is_pure_neither_waits_nor_stores(path: Path) -> None:
    assert not {name.split(".")[0] for name in imported(path)} & WAITING
    tree = ast.walk(ast.parse(path.read_text()))
    assert not [node for node in tree if isinstance(node, ast.AsyncFunctionDef | ast.Await)]


def test_every_folder_says_what_it_is() -> None:
    silent = [
        str(path.parent.relative_to(ROOT))
        for path in PACKAGE.rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_only_config_and_the_composition_root_read_the_environment() -> None:
    readers = [named(path) for path in modules() if "os.environ" in path.read_text() or "getenv" in path.read_text()]
    assert [name for name in readers if wing(name) not in ("config", "embedded", "app", "cli")] == []


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


@pytest.mark.one_journal("counts the modules that are loaded, and several clients need more of them")
def test_a_client_that_starts_and_lists_loads_nothing_heavy(tmp_path: Path) -> None:
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = converse([sys.executable, "-c", PROBE, str(tmp_path)], *messages, cwd=ROOT, env=environ)
    assert (done.code, list(done.answers)) == (0, [1, 2])
    assert done.answers[2]["result"]["tools"]
    loaded = set(json.loads(done.stderr))
    assert "zorivest_rpc.mcp.transports.stdio" in loaded
    assert sorted(loaded & set(HEAVY)) == []
    unwanted = ("zorivest_rpc.mcp.transports.http", "zorivest_rpc.embedded", "zorivest_rpc.exposure")
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
