"""The analytics know no clock, no database, no network and no files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.places import ROOT

EMBEDDED = ROOT / "zorivest_rpc" / "embedded"
VALUES = ("answers", "money", "kinds", "symbols")
MODULES = [*sorted((EMBEDDED / "analytics").glob("*.py")), *(EMBEDDED / "values" / f"{name}.py" for name in VALUES)]
ALLOWED = {
    "__future__", "calendar", "collections", "datetime", "decimal", "enum", "functools", "hashlib", "msgspec", "numpy",
    "re", "statistics", "typing", "zlib", "zoneinfo",
}  # fmt: skip
# `futures` reads a table that comes with the program: once, and the same for every caller
PURE = ("zorivest_rpc.embedded.analytics", *(f"zorivest_rpc.embedded.values.{name}" for name in (*VALUES, "futures")))
CLOCKS = {"now", "today", "utcnow", "time_ns", "default_rng", "open"}


def origin(node: ast.ImportFrom, module: Path) -> str:
    """The absolute name of what an import names."""
    package = module.relative_to(ROOT).parts[:-1]
    above = package[: len(package) - node.level + 1] if node.level else ()
    return ".".join((*above, *([node.module] if node.module else [])))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_reaches_for_nothing_outside_its_arguments(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= ALLOWED
        if isinstance(node, ast.ImportFrom):
            name = origin(node, module)
            assert name.split(".")[0] in ALLOWED or name.startswith(PURE), f"line {node.lineno} imports {name}"
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in CLOCKS, f"line {node.lineno} calls {called}"
