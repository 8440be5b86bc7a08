"""One table put into, or taken out of, a TOML document, and not another byte changed.

`tomllib` judges whether a document is sound; the scanner here only finds where its statements begin and end, so it may
trust what it reads."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .refusal import ClientFileRefused

__all__ = ["append_entry", "block", "parse", "place", "remove", "remove_entry", "span"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MEND = "Mend the file, or restore it from a backup, and run this again."


class _Statement(NamedTuple):
    """A header or an assignment with its lines; `path` is absolute."""

    header: bool
    path: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The document; Refused names line and column."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as exc:
        where = re.search(r"\(at (line \d+, column \d+|end of document)\)", str(exc))
        raise ClientFileRefused("it is not TOML", _MEND, where.group(1) if where else "") from None
    except RecursionError:
        raise ClientFileRefused("it is nested too deeply", _MEND) from None


def block(path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The entry as a table of its own."""
    return f"[{'.'.join(map(_key, path))}]\n{_assignments(entry)}"


def place(
    text: str, path: Sequence[str], entry: Mapping[str, Any], raw: str | None = None, owned: Sequence[str] = ()
) -> str:
    """The document with the table under the path: its `owned` keys replaced, or the whole table added at the end.

    `raw` is what is added instead of the entry's own text."""
    parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    ours = _ours(text, path)
    if not ours:
        gap = "" if not text.strip("\ufeff") else newline if text.endswith("\n") else newline * 2
        return text + gap + (_lines(block(path, entry), newline) if raw is None else raw)
    header = next((each for each in ours if each.header and each.path == tuple(path)), None)
    if header is None:
        raise ClientFileRefused(
            f"{'.'.join(path)} is not a table of its own",
            f"Write it as [{'.'.join(path)}], or remove it, and run this again.",
            _line(text, ours[0].start),
        )
    drop = [each for each in ours if not each.header and len(each.path) > len(path) and each.path[len(path)] in owned]
    after = text[: header.end] + ("" if text[: header.end].endswith("\n") else newline)
    after += _lines(_assignments(entry), newline)
    position = header.end
    for each in drop:
        after += text[position : each.start]
        position = each.end
    return after + text[position:]


def remove(text: str, path: Sequence[str]) -> str:
    """The document without the table, its sub-tables and the blank lines that led to it."""
    parse(text)
    ours = _ours(text, path)
    for each in reversed(ours):
        start = each.start
        while each.header and (previous := _blank_line_before(text, start)) is not None:
            start = previous
        text = text[:start] + text[each.end :]
    return text


def append_entry(text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
    """The document with one more `[[path]]` at its end."""
    parse(text)
    _must_be_tables(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text.strip("\ufeff") else newline if text.endswith("\n") else newline * 2
    return text + gap + _lines(f"[[{'.'.join(map(_key, path))}]]\n{_assignments(entry)}", newline)


def remove_entry(text: str, path: Sequence[str], index: int) -> str:
    """The document without that `[[path]]`, its sub-tables and the blank lines before it; comments around it stay."""
    parse(text)
    _must_be_tables(text, path)
    ours = _ours(text, path)
    starts = [place for place, each in enumerate(ours) if each.header and each.path == tuple(path)]
    ends = [*starts[1:], len(ours)]
    for each in reversed(ours[starts[index] : ends[index]]):
        start = each.start
        while each.header and (previous := _blank_line_before(text, start)) is not None:
            start = previous
        text = text[:start] + text[each.end :]
    return text


def _must_be_tables(text: str, path: Sequence[str]) -> None:
    """Entries of an array that is written in one piece (`a = [{…}]`) have no lines of their own to add or remove."""
    wanted = tuple(path)
    for each in _statements(text):
        inline = not each.header and (each.path == wanted[: len(each.path)] or each.path[: len(wanted)] == wanted)
        if inline and not _inside_entries(text, wanted, each.start):
            name = ".".join(path)
            raise ClientFileRefused(
                f"{'.'.join(each.path)} is written in one piece",
                f"Write each server as a table of its own, [[{name}]], and run this again.",
                _line(text, each.start),
            )


def _inside_entries(text: str, path: tuple[str, ...], position: int) -> bool:
    """Whether an assignment stands below a header of the array."""
    last = [each for each in _statements(text) if each.header and each.start < position]
    return bool(last) and last[-1].path[: len(path)] == path


def span(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """Where the table and its sub-tables are, if they are one uninterrupted stretch at the end of the document."""
    ours = _ours(text, path)
    if not ours or ours[-1].end != len(text):
        return None
    return ours[0].start, ours[-1].end


def _assignments(entry: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in entry.items())


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _lines(text: str, newline: str) -> str:
    return text.replace("\n", newline)


def _line(text: str, position: int) -> str:
    return f"line {text.count(chr(10), 0, position) + 1}"


def _blank_line_before(text: str, start: int) -> int | None:
    if not start:
        return None
    line = text.rfind("\n", 0, start - 1) + 1
    return line if not text[line:start].strip() else None


def _ours(text: str, path: Sequence[str]) -> list[_Statement]:
    wanted = tuple(path)
    return [each for each in _statements(text) if each.path[: len(wanted)] == wanted]


def _statements(text: str) -> Iterator[_Statement]:
    position, table = 1 if text.startswith("\ufeff") else 0, ()
    here: tuple[str, ...] = table
    while position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end + 1
        start = position
        first = _skip_blanks(text, position)
        if first >= len(text) or text[first] in "#\r\n":
            position = line_end
            continue
        if text[first] == "[":
            double = text.startswith("[[", first)
            here, end = _keys(text, first + (2 if double else 1))
            position = _end_of_line(text, end)
            yield _Statement(True, here, start, position)
            continue
        own, equals = _keys(text, first)
        position = _end_of_value(text, equals + 1)
        yield _Statement(False, here + own, start, position)


def _keys(text: str, position: int) -> tuple[tuple[str, ...], int]:
    """A dotted key, and where it ends (at `=` or `]`)."""
    keys: list[str] = []
    while True:
        position = _skip_blanks(text, position)
        if text[position] in "\"'":
            end = _end_of_string(text, position)
            quoted = text[position:end]
            keys.append(tomllib.loads(f"k = {quoted}")["k"])
            position = end
        else:
            bare = _BARE.match(text, position)
            assert bare is not None
            keys.append(bare.group())
            position = bare.end()
        position = _skip_blanks(text, position)
        if text[position] != ".":
            return tuple(keys), position
        position += 1


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t":
        position += 1
    return position


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _end_of_string(text: str, position: int) -> int:
    quote = text[position]
    long = text.startswith(quote * 3, position)
    closing = quote * 3 if long else quote
    position += len(closing)
    while position < len(text) and not text.startswith(closing, position):
        position += 2 if quote == '"' and text[position] == "\\" else 1
    position += len(closing)
    while long and text.startswith(quote, position):  # up to two quotes may stand before the closing three
        position += 1
    return position


def _end_of_value(text: str, position: int) -> int:
    """After the newline that ends an assignment; brackets and long strings may hold newlines of their own."""
    depth = 0
    while position < len(text):
        char = text[position]
        if char in "\"'":
            position = _end_of_string(text, position)
            continue
        if char == "#":
            position = _end_of_line(text, position) - 1 if "\n" in text[position:] else len(text)
            continue
        if char == "\n" and depth == 0:
            return position + 1
        depth += (char in "[{") - (char in "]}")
        position += 1
    return len(text)
