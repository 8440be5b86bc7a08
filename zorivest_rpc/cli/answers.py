"""Where the answers to a command's questions come from: a terminal, lines of a pipe, or one JSON object.

A secret is typed without being shown, or piped; it is never an argument, and no message repeats it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from zorivest_rpc.cli.admin import RequestRefused, ask_secret

__all__ = ["Answers", "Object", "Piped", "Typed", "answers"]


class Answers(Protocol):
    def get(self, name: str, label: str, *, secret: bool = False, required: bool = True, default: str = "") -> str:
        """What was answered; empty only where nothing is required. Refused otherwise."""
        ...


def answers(*, as_json: bool, names: Iterable[str]) -> Answers:
    if as_json:
        return Object(names)
    return Typed() if sys.stdin is not None and sys.stdin.isatty() else Piped()


class Typed:
    """Asked at the terminal; the questions go to stderr, so that stdout has the result alone."""

    def get(self, name: str, label: str, *, secret: bool = False, required: bool = True, default: str = "") -> str:
        hint = f" [{default}]" if default else "" if required else " (Enter for none)"
        prompt = f"{label[:1].upper()}{label[1:]}{hint}: "
        with _readable(label):
            if secret:
                return _check_line(ask_secret(prompt, f"the {label}"), label, required)
            print(prompt, end="", file=sys.stderr, flush=True)
            return _check_line(sys.stdin.readline(), label, required and not default) or default


class Piped:
    """One line each, in the order asked; what has a default is not read."""

    def get(self, name: str, label: str, *, secret: bool = False, required: bool = True, default: str = "") -> str:
        if default:
            return default
        with _readable(label):
            line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line and required:
            raise RequestRefused(f"standard input ended before the {label}; nothing was stored")
        return _check_line(line, label, required)


class Object:
    """By name, from one JSON object on standard input."""

    def __init__(self, names: Iterable[str]) -> None:
        allowed = list(names)
        try:
            value = json.load(sys.stdin)
        except (ValueError, AttributeError):
            value = None
        if not isinstance(value, dict):
            raise RequestRefused("standard input is not a JSON object; nothing was stored")
        if not set(value) <= set(allowed):
            raise RequestRefused(f"the JSON object may hold {', '.join(allowed) or 'nothing'}; nothing was stored")
        if any(isinstance(entry, bool) or not isinstance(entry, (str, int)) for entry in value.values()):
            raise RequestRefused("the values of the JSON object must be texts; nothing was stored")
        self._given = {name: str(entry) for name, entry in value.items()}

    def get(self, name: str, label: str, *, secret: bool = False, required: bool = True, default: str = "") -> str:
        if name not in self._given and required and not default:
            raise RequestRefused(f"the JSON object has no {name}; nothing was stored")
        return _check_line(self._given.get(name, default), label, required)


@contextmanager
def _readable(label: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError:
        raise RequestRefused(f"the {label} is not text; nothing was stored") from None


def _check_line(line: str, label: str, required: bool) -> str:
    """The line without its end; a secret may hold spaces, but not be made of them."""
    text = line.rstrip("\r\n")
    if not text.strip():
        if required:
            raise RequestRefused(f"the {label} is empty; nothing was stored")
        return ""
    return text
