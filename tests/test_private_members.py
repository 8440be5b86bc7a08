"""What the package uses of aiohttp without a promise: listed in one module per wing, there in the installed release."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from tests.places import ROOT
from zorivest_rpc.mcp.transports import answers
from zorivest_rpc.serving.backend import wire

MODULES = {
    "zorivest_rpc/mcp/transports/answers.py": answers.PRIVATE_MEMBERS,
    "zorivest_rpc/serving/backend/wire.py": wire.PRIVATE_MEMBERS,
}
PUBLIC = {"_replace", "_asdict", "_mapping", "_exit"}  # documented in spite of their names: tuples, SQLAlchemy, os


@pytest.mark.parametrize("member", [member for members in MODULES.values() for member in members])
def test_each_listed_member_exists(member: str) -> None:
    where, name = member.rsplit(".", 1)
    module, owner = where.rsplit(".", 1)
    found = getattr(importlib.import_module(module), owner)
    if not hasattr(found, name):  # made by the constructor
        assert f"self.{name}" in inspect.getsource(found), f"{member} is gone"


def test_no_other_module_that_speaks_http_uses_one() -> None:
    for place in ("mcp/transports", "serving/backend"):
        for path in sorted((ROOT / "zorivest_rpc" / place).glob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            listed = {member.rsplit(".", 1)[1] for member in MODULES.get(file, ())}
            assert _foreign(path) <= listed, file


def test_each_listed_member_is_used() -> None:
    for file, members in MODULES.items():
        source = (ROOT / file).read_text()
        for member in members:
            assert source.count(member.rsplit(".", 1)[1]) > 1, member


def _foreign(path: Path) -> set[str]:
    """Private attributes that the module reads and does not define."""
    used: set[str] = set()
    defined = set(PUBLIC)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            (defined if isinstance(node.ctx, ast.Store) else used).add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    return used - defined
