"""The analytics know no clock, no database, no network and no files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from zorivest_rpc.embedded import analytics

FOLDER = Path(str(analytics.__file__)).parent
MODULES = [*sorted(FOLDER.glob("*.py")), *(FOLDER.parent / f"{name}.py" for name in ("answers", "money", "symbols"))]
ALLOWED = {
    "__future__", "calendar", "collections", "datetime", "decimal", "functools", "hashlib", "msgspec", "numpy", "re",
    "statistics", "typing", "zlib", "zoneinfo", "zorivest_rpc",
}  # fmt: skip
TABLES = {"futures"}  # a table that comes with the program; read once, the same for every caller
PURE = tuple(f"zorivest_rpc.embedded.{name}" for name in ("analytics", "answers", "money", "symbols"))
CLOCKS = {"now", "today", "utcnow", "time_ns", "default_rng", "open"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_a_module_reaches_for_nothing_outside_its_arguments(module: Path) -> None:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= ALLOWED
        if isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            assert origin.split(".")[0] in ALLOWED or (node.level == 1 and origin in TABLES)
            assert not origin.startswith("zorivest_rpc") or origin.startswith(PURE)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            assert called not in CLOCKS, f"line {node.lineno} calls {called}"
