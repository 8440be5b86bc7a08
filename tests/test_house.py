"""Rules of the house that ruff and mypy do not know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from tests.places import ROOT

MOST_LINES = 50
REASONS = ("# long: ", "# noqa: C901 - ")
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def test_a_function_above_fifty_lines_has_its_reason_beside_it() -> None:
    files = [path for room in ("zorivest_rpc", "tests") for path in sorted((ROOT / room).rglob("*.py"))]
    ours = [path for path in files if ".env" not in path.parts]  # the peers of the benchmarks are not
    assert len(ours) > 500
    assert [place for path in ours for place in long_functions(path)] == []


def test_the_rule_sees_what_it_forbids(tmp_path: Path) -> None:
    def write(lines: int, reason: str = "", behind: str = "") -> list[str]:
        path = tmp_path / "module.py"
        path.write_text(f"{reason}def f():{behind}\n" + "    pass\n" * (lines - 1))
        return [place.partition(":")[2] for place in long_functions(path)]

    assert write(MOST_LINES) == []
    assert write(MOST_LINES + 1) == ["1: f has 51 lines"]
    assert write(MOST_LINES + 1, "# long: a table\n") == []
    assert write(MOST_LINES + 1, behind="  # noqa: C901 - one ladder") == []


def long_functions(path: Path) -> Iterator[str]:
    text = path.read_text()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            count = (node.end_lineno or node.lineno) - node.lineno + 1
            beside = lines[first - 2 if first > 1 else 0] + lines[node.lineno - 1]
            if count > MOST_LINES and not any(reason in beside for reason in REASONS):
                yield f"{path}:{node.lineno}: {node.name} has {count} lines"
