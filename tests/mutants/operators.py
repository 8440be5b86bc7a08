"""The changes that are tried: each one edits a single expression or statement of a module's source.

A mutant is a replacement of one span of the text. The text is edited, not printed from the syntax tree, so a mutant
differs from the module in that span alone and a person can read the difference.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Mutant", "find_mutants"]

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
SYMBOLS: dict[type[ast.AST], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitOr: "|",
    ast.BitAnd: "&",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
}


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what stood there, what stands there now."""

    line: int
    function: str  # the qualified name around it, or `module`
    start: int  # byte offsets into the module's text
    end: int
    text: str
    before: str  # the source line, stripped, without and with the change; they identify a mutant across edits elsewhere
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    @property
    def key(self) -> tuple[str, str, str]:
        return self.function, self.before, self.after


def find_mutants(source: bytes) -> list[Mutant]:
    """Every mutant of a module, in the order of its text. A mutant that does not compile is left out."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    # a change is inside one statement of the module, and compiling that alone takes a quarter of the time
    heads = [starts[_first_line(statement) - 1] for statement in tree.body]
    found: dict[tuple[int, int, str], Mutant] = {}
    for function, start, end, text in _Walk(source, starts).changes(tree, "module"):
        changed = source[:start] + text.encode() + source[end:]
        if changed == source or (start, end, text) in found:
            continue
        place = bisect_right(heads, start)
        head, tail = heads[place - 1], heads[place] if place < len(heads) else len(source)
        try:
            compile(source[head:start] + text.encode() + source[end:tail], "mutant", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        number = source.count(b"\n", 0, start)
        before = source.splitlines()[number].decode().strip()
        after = changed.splitlines()[number].decode().strip()
        found[start, end, text] = Mutant(number + 1, function, start, end, text, before, after)
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.text))


def _first_line(statement: ast.stmt) -> int:
    """Of a statement with its decorators."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return min([statement.lineno, *(one.lineno for one in statement.decorator_list)])
    return statement.lineno


class _Walk:
    """Finds changes in a tree, with the offsets of what they replace."""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self._source = source
        self._starts = starts

    def changes(self, node: ast.AST, function: str) -> Iterator[tuple[str, int, int, str]]:
        for child in ast.iter_child_nodes(node):
            if _is_annotation(node, child) or _is_inert(child):
                continue
            name = function
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = child.name if function == "module" else f"{function}.{child.name}"
            for start, end, text in self._of(child):
                yield name, start, end, text
            yield from self.changes(child, name)

    def _of(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:  # noqa: C901 - one branch for each kind of node
        match node:
            case ast.Compare():
                for (left, right), op in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
                    for text in COMPARISONS.get(type(op), ()):
                        yield from self._between(left, right, SYMBOLS[type(op)], text)
            case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_text(node.left):
                yield from self._between(node.left, node.right, SYMBOLS[type(node.op)], ARITHMETIC[type(node.op)])
            case ast.AugAssign() if type(node.op) in ARITHMETIC:
                symbol, text = SYMBOLS[type(node.op)], ARITHMETIC[type(node.op)]
                yield from self._between(node.target, node.value, f"{symbol}=", f"{text}=")
            case ast.BoolOp():
                other = "or" if isinstance(node.op, ast.And) else "and"
                for left, right in pairwise(node.values):
                    yield from self._between(left, right, SYMBOLS[type(node.op)], other)
            case ast.UnaryOp(op=ast.Not()):
                yield *self._span(node), self._text(node.operand)
            case ast.UnaryOp(op=ast.USub()):
                yield *self._span(node), self._text(node.operand)
            case ast.Constant(value=bool(value)):
                yield *self._span(node), str(not value)
            case ast.Constant(value=int(value)):
                yield *self._span(node), str(value + 1)
            case ast.If() | ast.IfExp() | ast.While():
                if not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
                    yield *self._span(node.test), f"(not ({self._text(node.test)}))"
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
                yield *self._span(node), "pass"
            case ast.Set() | ast.Tuple() | ast.List() if len(node.elts) > 1 and _is_table(node):
                for index in range(len(node.elts)):
                    yield self._without(node.elts, index)
            case ast.Dict() if len(node.keys) > 1 and all(isinstance(key, ast.Constant) for key in node.keys):
                for index, key in enumerate(node.keys):
                    assert key is not None
                    start, _ = self._span(key)
                    _, end = self._span(node.values[index])
                    yield (start, self._comma(end), "")

    def _without(self, elements: list[ast.expr], index: int) -> tuple[int, int, str]:
        start, end = self._span(elements[index])
        return start, self._comma(end), ""

    def _comma(self, end: int) -> int:
        """The offset behind the comma that follows, if one does."""
        rest = self._source[end:]
        stripped = rest.lstrip()
        return end + len(rest) - len(stripped) + 1 if stripped.startswith(b",") else end

    def _between(self, left: ast.expr, right: ast.expr, symbol: str, text: str) -> Iterator[tuple[int, int, str]]:
        """Replace the operator between two operands; parentheses and line ends may stand beside it."""
        start, end = self._span(left)[1], self._span(right)[0]
        at = self._source.find(symbol.encode(), start, end)
        if at >= 0:
            yield at, at + len(symbol), text

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()


def _is_annotation(parent: ast.AST, child: ast.AST) -> bool:
    """Types are mypy's business: no test can notice a changed one. So are the options of a struct that say who may
    write to it and how it is made; whether it is seen by the garbage collector is a matter of speed."""
    match parent:
        case ast.ClassDef() if isinstance(child, ast.keyword):
            return child.arg in {"frozen", "kw_only", "gc"}
        case ast.AnnAssign() | ast.arg():
            return child is parent.annotation
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return child is parent.returns
        case _:
            return False


def _is_inert(child: ast.AST) -> bool:
    """Docstrings, and the list of public names, which only `import *` would read."""
    if isinstance(child, ast.Assign):
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in child.targets)
    return isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)


def _is_text(node: ast.expr) -> bool:
    """Joined text has no other operator that would make sense."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_table(node: ast.Set | ast.Tuple | ast.List) -> bool:
    """Is it a table of cases? Tests tend to visit one member of such a table, so each is left out once."""
    if isinstance(node, ast.Tuple | ast.List) and not isinstance(node.ctx, ast.Load):
        return False
    return all(isinstance(item, ast.Constant | ast.Attribute) for item in node.elts)
