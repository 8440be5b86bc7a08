"""The page of errors names every exception, every code and the shape of a refusal, and nothing that is not there."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.docs.shell import blocks
from tests.places import ROOT
from zorivest_rpc import errors
from zorivest_rpc.gateway.errors import TOOLING
from zorivest_rpc.mcp.call import fail
from zorivest_rpc.mcp.protocol import jsonrpc
from zorivest_rpc.tenants import refusals

PAGE = ROOT / "docs" / "reference" / "errors.md"
TEXT = PAGE.read_text()
PACKAGE = ROOT / "zorivest_rpc"


def part(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_tree_is_the_tree_of_the_code() -> None:
    tree = next(block.inside for block in blocks(PAGE) if block.language == "text")
    drawn: dict[str, str | None] = {}
    above: dict[int, str] = {}
    for line in tree.splitlines():
        found = re.match(r"([│├└─ ]*)(\w+)", line)
        assert found, line
        depth = len(found[1]) // 4
        above[depth] = found[2]
        drawn[found[2]] = above.get(depth - 1)
        if kind := re.search(r"class (\w+)", line):
            assert getattr(errors, found[2]).kind == kind[1], line
    real = {name: getattr(errors, name).__base__.__name__ for name in errors.__all__}
    assert drawn == real | {"ZorivestError": None}


def test_every_code_of_a_refusal_is_in_the_table_and_no_other() -> None:
    told = re.findall(r"^\| `(\w+)` \|", part("Codes of refused calls"), re.MULTILINE)
    assert len(told) == len(set(told))
    assert set(told) == set(_codes())


def test_every_json_rpc_code_is_in_the_table_and_no_other() -> None:
    rows = re.findall(r"^\| (−\d+) \| `(\w+)` \|", part("JSON-RPC errors"), re.MULTILINE)
    told = {name: int(code.replace("−", "-")) for code, name in rows}
    real = {name: value for name in jsonrpc.__all__ if isinstance(value := getattr(jsonrpc, name), int)}
    assert told == real


def test_the_sample_is_what_a_locked_guard_answers() -> None:
    sample = json.loads(next(block.inside for block in blocks(PAGE) if block.words == "refusal"))
    outcome = fail(errors.GuardLocked("runaway agent"))
    assert sample["isError"] is outcome.is_error is True
    assert sample["_meta"] == outcome.meta
    assert sample["content"][0]["text"] == errors.GuardLocked("runaway agent").text


def _codes() -> Iterator[str]:
    """The codes of every ToolError of the MCP side, read from the source."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if "embedded" in file.relative_to(PACKAGE).parts:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                yield from (word for key in node.keywords if key.arg == "code" for word in _words(key.value))
                if isinstance(node.func, ast.Name) and node.func.id == "_refusal" and file.name == "confirmation.py":
                    yield from (f"confirmation_{word}" for word in _words(node.args[0]))
            elif isinstance(node, ast.FunctionDef):
                yield from _defaults(node)
                if node.name == "refusal" and file.name == "audience.py":
                    yield from _first_returned(node)
            elif isinstance(node, ast.Assign):
                yield from _assigned(node)
            elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_TEXTS":
                assert isinstance(node.value, ast.Dict)
                for row in node.value.values:
                    assert isinstance(row, ast.Tuple)
                    yield from _words(row.elts[0])


def _words(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _words(node.body)
        yield from _words(node.orelse)


def _defaults(node: ast.FunctionDef) -> Iterator[str]:
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if argument.arg == "code" and default is not None:
            yield from _words(default)


def _first_returned(node: ast.FunctionDef) -> Iterator[str]:
    for inside in ast.walk(node):
        if isinstance(inside, ast.Return) and isinstance(inside.value, ast.Tuple):
            yield from _words(inside.value.elts[0])


def _assigned(node: ast.Assign) -> Iterator[str]:
    """`x.code = "…"`, `code, what = "…", …`, and the row that stands in for a status without one."""
    for target in node.targets:
        if isinstance(target, ast.Attribute) and target.attr == "code":
            yield from _words(node.value)
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for name, value in zip(target.elts, node.value.elts, strict=False):  # `*rest` may stand for several
                if isinstance(name, ast.Name) and name.id == "code":
                    yield from _words(value)
        elif isinstance(target, ast.Name) and target.id == "known" and isinstance(node.value, ast.Tuple):
            yield from _words(node.value.elts[0])


def test_the_package_is_where_the_codes_are_looked_for() -> None:
    assert Path(errors.__file__).parent == PACKAGE


def test_every_class_is_told_and_no_other() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", part("A refused call"), re.MULTILINE))))
    assert told == set(_classes())


def _classes() -> Iterator[str]:
    """Those of the exceptions, and those that a refusal about clients is made with."""
    yield from (kind for name in errors.__all__ if (kind := getattr(getattr(errors, name), "kind", None)))
    yield TOOLING
    for value in vars(refusals).values():
        if callable(value) and getattr(value, "__annotations__", {}).get("return") == "ClientRefused":
            yield value(*({"str": "x", "int": 1}.get(each, "x") for each in _positional(value))).kind


def _positional(function: Callable[..., object]) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [str(each.annotation) for each in parameters if each.default is each.empty]
