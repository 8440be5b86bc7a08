"""One member put into, or taken out of, a JSON document with comments, and not another byte changed.

Rule 1: the document is never printed anew. An edit is a splice at positions that the parser reports.
Rule 2: what `place` inserts, `remove` takes out again, whitespace and commas too, unless it was reformatted.
Rule 3: a document that a strict reader would refuse (but for comments and trailing commas) is refused here too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .refusal import ClientFileRefused

__all__ = ["Leaf", "Member", "Node", "find", "is_blank", "parse", "place", "remove", "render"]

Leaf = Callable[[str, str, bool], str]  # indentation, its unit, whether over several lines -> the text of a value

_DEPTH = 200
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_WORDS = {"true": True, "false": False, "null": None}
_MEND = "Mend the file in the client's editor, or restore it from a backup, and run this again."


class Member(NamedTuple):
    """`before` is where the token in front of the key ends, `commented` if that is a comment up to the end of its line;
    `comma` is where the comma behind the value is, or -1."""

    key: str
    before: int
    start: int
    node: Node
    comma: int
    commented: bool


class Node(NamedTuple):
    """A value and its span; `tail` is where an object's last token before the closing brace ends."""

    value: Any
    start: int
    end: int
    members: tuple[Member, ...] | None = None
    tail: int = -1


def parse(text: str) -> Node:
    """The document's one value; Refused names line and column."""
    parser = _Parser(text)
    start, _ = parser.trivia(1 if text.startswith("\ufeff") else 0)
    node = parser.value(start, 0)
    end, _ = parser.trivia(node.end)
    if end != len(text):
        raise parser.wrong(end, "there is more after the end of the document")
    return node


def is_blank(text: str) -> bool:
    """Nothing but whitespace and comments: what an editor calls an empty settings file."""
    end, _ = _Parser(text).trivia(1 if text.startswith("\ufeff") else 0)
    return end == len(text)


def find(text: str, path: Sequence[str]) -> Node | None:
    """The value under a path of keys; Refused where something on the way is not an object."""
    node = parse(text)
    for depth in range(len(path)):
        member = _member(text, node, path, depth)
        if member is None:
            return None
        node = member.node
    return node


def place(text: str, path: Sequence[str], leaf: Leaf) -> str:
    """The document with a value under the path, replaced or added; objects on the way are made as needed."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if is_blank(text):
        gap = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        return text + gap + _lines(_nest(path, leaf, "", "  ", True), newline) + newline
    root = parse(text)
    unit = _unit(text, root)
    node, several = root, True
    for depth, key in enumerate(path):
        member = _member(text, node, path, depth)
        if member is None:
            return _insert(text, node, key, path[depth + 1 :], leaf, unit, newline)
        node, several = member.node, _own_line_indent(text, member.start) is not None
    indent = _line_indent(text, node.start)
    return text[: node.start] + _lines(leaf(indent, unit, several), newline) + text[node.end :]


def remove(text: str, path: Sequence[str]) -> str:
    """The document without the member at the path; an object that held nothing else becomes `{}`."""
    node = parse(text)
    parent, member = node, None
    for depth in range(len(path)):
        parent, member = node, _member(text, node, path, depth)
        if member is None:
            return text
        node = member.node
    assert member is not None
    assert parent.members is not None
    position = parent.members.index(member)
    end = member.node.end if member.comma < 0 else member.comma + 1
    head, rest = text[: member.before], text[end:]
    if member.commented and not rest.lstrip(" \t\r").startswith("\n"):
        head = text[: text.index("\n", member.before) + 1]  # or the comment would swallow what follows
    if member.comma < 0 and position > 0:
        previous = parent.members[position - 1].comma  # ours was last: the comma that led to it goes as well
        head = head[:previous] + head[previous + 1 :]
    if len(parent.members) == 1:
        inside = text[parent.start + 1 : member.before] + text[end : parent.end - 1]
        if not inside.strip():
            return text[: parent.start] + "{}" + text[parent.end :]
    return head + rest


def render(value: Any) -> Leaf:
    """A value as this module writes it: indented like its surroundings, or on one line where they are."""

    def leaf(indent: str, unit: str, several: bool) -> str:
        if not several:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", "\n" + indent)

    return leaf


def _member(text: str, node: Node, path: Sequence[str], depth: int) -> Member | None:
    if node.members is None:
        name = ".".join(path[:depth]) or "the document"
        raise _Parser(text).wrong(node.start, f"{name} is not an object")
    found = [member for member in node.members if member.key == path[depth]]
    if len(found) > 1:
        raise _Parser(text).wrong(found[1].start, f'"{path[depth]}" is there twice')
    return found[0] if found else None


def _insert(text: str, node: Node, key: str, rest: Sequence[str], leaf: Leaf, unit: str, newline: str) -> str:
    """A member behind the last one of an object."""
    assert node.members is not None
    closing = text[node.tail : node.end - 1]  # whitespace only
    outer = _line_indent(text, node.start)
    first = node.members[0] if node.members else None
    several = first is None or "\n" in text[node.start : first.start] or "\n" in closing
    indent = outer + unit
    if node.members and (own := _own_line_indent(text, node.members[-1].start)) is not None:
        indent = own
    member = f"{json.dumps(key, ensure_ascii=False)}: " + _lines(_nest(rest, leaf, indent, unit, several), newline)
    lead = newline + indent if several else " " if node.members else ""
    if not node.members:
        end = closing if "\n" in closing else newline + outer
        return text[: node.tail] + lead + member + end + text[node.end - 1 :]
    last = node.members[-1]
    if last.comma >= 0:  # the author ends lists with a comma, so we do
        return text[: node.tail] + lead + member + "," + text[node.tail :]
    return text[: last.node.end] + "," + text[last.node.end : node.tail] + lead + member + text[node.tail :]


def _nest(path: Sequence[str], leaf: Leaf, indent: str, unit: str, several: bool) -> str:
    """The value under `path` inside as many new objects as the path has keys."""
    if not path:
        return leaf(indent, unit, several)
    inner = _nest(path[1:], leaf, indent + unit, unit, several)
    key = json.dumps(path[0], ensure_ascii=False)
    if not several:
        return f"{{{key}: {inner}}}"
    return f"{{\n{indent}{unit}{key}: {inner}\n{indent}}}"


def _lines(text: str, newline: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", newline)


def _line_indent(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    line = text[start:position].lstrip("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def _own_line_indent(text: str, position: int) -> str | None:
    """What stands before a token that is the first of its line."""
    start = text.rfind("\n", 0, position) + 1
    lead = text[start:position]
    return lead if start and not lead.strip(" \t") else None


def _unit(text: str, root: Node) -> str:
    """One step of indentation, as the document's own first member shows it."""
    if root.members and (lead := _own_line_indent(text, root.members[0].start)):
        outer = _line_indent(text, root.start)
        if lead.startswith(outer) and len(lead) > len(outer):
            return lead[len(outer) :]
    return "  "


class _Parser:
    """Recursive descent with positions; `//` and `/* */` comments and trailing commas are allowed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_comments: set[int] = set()  # where they end

    def wrong(self, position: int, problem: str) -> ClientFileRefused:
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return ClientFileRefused(problem, _MEND, f"line {line}, column {column}")

    def trivia(self, position: int) -> tuple[int, int]:
        """Where the next token starts, and where the last comment before it ends (else where this began)."""
        text, last = self.text, position
        while position < len(text):
            if text[position] in " \t\r\n":
                position += 1
            elif text.startswith("//", position):
                end = text.find("\n", position)
                position = len(text) if end < 0 else end - (text[end - 1] == "\r")
                last = position
                self.line_comments.add(position)
            elif text.startswith("/*", position):
                end = text.find("*/", position + 2)
                if end < 0:
                    raise self.wrong(position, "a comment is not closed")
                position = last = end + 2
            else:
                break
        return position, last

    def value(self, position: int, depth: int) -> Node:
        text = self.text
        if position >= len(text):
            raise self.wrong(position, "the document ends too early")
        if depth > _DEPTH:
            raise self.wrong(position, "it is nested too deeply")
        start = text[position]
        if start == "{":
            return self.object(position, depth)
        if start == "[":
            return self.array(position, depth)
        if start == '"':
            return self.string(position)
        if number := _NUMBER.match(text, position):
            return Node(self.number(position, number.group()), position, self._ends(number.end()))
        for word, meaning in _WORDS.items():
            if text.startswith(word, position):
                return Node(meaning, position, self._ends(position + len(word)))
        raise self.wrong(position, "a value is expected")

    def number(self, position: int, digits: str) -> Any:
        try:
            return json.loads(digits)
        except ValueError:  # more digits than Python converts
            raise self.wrong(position, "a number is too long") from None

    def _ends(self, position: int) -> int:
        if position < len(self.text) and (self.text[position].isalnum() or self.text[position] in "_.+-"):
            raise self.wrong(position, "a value is expected")
        return position

    def string(self, position: int) -> Node:
        match = _STRING.match(self.text, position)
        try:
            return Node(json.loads(match.group()), position, match.end()) if match else self._no_string(position)
        except json.JSONDecodeError:
            raise self.wrong(position, "a string has a wrong escape") from None

    def _no_string(self, position: int) -> Node:
        raise self.wrong(position, "a string is not closed")

    def array(self, position: int, depth: int) -> Node:
        values: list[Any] = []
        here, _ = self.trivia(position + 1)
        while self.text[here : here + 1] != "]":
            node = self.value(here, depth + 1)
            values.append(node.value)
            here, _ = self.trivia(node.end)
            if self.text[here : here + 1] == ",":
                here, _ = self.trivia(here + 1)
            elif self.text[here : here + 1] != "]":
                raise self.wrong(here, "a comma or ] is expected")
        return Node(values, position, here + 1)

    def object(self, position: int, depth: int) -> Node:
        members: list[Member] = []
        here, tail = self.trivia(position + 1)
        while self.text[here : here + 1] != "}":
            if self.text[here : here + 1] != '"':
                raise self.wrong(here, "a key in double quotes or } is expected")
            before, key = tail, self.string(here)
            colon, _ = self.trivia(key.end)
            if self.text[colon : colon + 1] != ":":
                raise self.wrong(colon, "a colon is expected")
            node = self.value(self.trivia(colon + 1)[0], depth + 1)
            after, tail = self.trivia(node.end)
            comma = -1
            if self.text[after : after + 1] == ",":
                comma = after
                after, tail = self.trivia(comma + 1)
            elif self.text[after : after + 1] != "}":
                raise self.wrong(after, "a comma or } is expected")
            members.append(Member(key.value, before, here, node, comma, before in self.line_comments))
            here = after
        value = {member.key: member.node.value for member in members}
        return Node(value, position, here + 1, tuple(members), tail)
