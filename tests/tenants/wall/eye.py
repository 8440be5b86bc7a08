"""What looks at everything that leaves a server: no name of a tenant that was not granted, no value of another tenant
than the one that was asked for, and no secret at all."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

__all__ = ["Expected", "Leak", "LogEye", "check", "check_files", "look", "names_in", "part", "search"]

_NAME, _MARK = re.compile(r"tenant-\d\d"), re.compile(r"book-of-(tenant-\d\d)")
_ECHO = re.compile(r'(?:Unknown client ID: |clientId |inner clientId )\\*"(tenant-\d\d)\\*"')  # the caller's own words
_SECRET = re.compile(r"tok_tenant|tok-of-tenant|zrv_sk_|header-tenant|zdk_|key-(?:one|two|three|four|all)")
_OWN_WORDS = re.compile(
    r'"tool":"call_tool".*?"clientId":"(tenant-\d\d)"'
)  # a caller's arguments, before they are refused
_ABOUT_SEVERAL = ("is not offered to ",)  # log lines for the operator that set two clients side by side


class Leak(AssertionError):
    """Something of one tenant where only another one's may be."""


class Expected:
    """What all callers together asked for, and what they hold; by the figures everything is judged at the end."""

    def __init__(self) -> None:
        self.steps = 0
        self.calls: Counter[str] = Counter()
        self.forwarded: Counter[str] = Counter()  # calls that the server with a token for each tenant has to see
        self.locks: Counter[str] = Counter()
        self.tokens: list[tuple[str, str, str]] = []  # caller, tenant, confirmation token
        self.states: list[tuple[str, str, dict[str, Any]]] = []  # caller, tenant, the request that brings the answer
        self.tasks: list[tuple[str, str]] = []  # caller, id of the task
        self.done: Counter[str] = Counter()  # what was really tried
        self.faults: list[Leak] = []  # seen where nobody waits for an answer

    def raise_faults(self) -> None:
        if self.faults:
            raise self.faults[0]


def names_in(text: str) -> set[str]:
    return set(_NAME.findall(text))


def search(text: str, granted: Collection[str], what: str, *, echoed: str | None = None) -> None:
    """Bytes on their way to a caller. `echoed` is the name that the caller itself sent and may read in the refusal."""
    if echoed is not None:
        text = _ECHO.sub(lambda found: "" if found[1] == echoed else found[0], text)
    strangers = names_in(text) - set(granted)
    if strangers:
        raise Leak(f"{what}: {sorted(strangers)} were not granted: {_around(text, min(strangers))}")
    if (secret := _SECRET.search(text)) is not None:
        raise Leak(f"{what} carries a secret: {_around(text, secret[0])}")


def look(answer: Any, granted: Collection[str], about: str | Iterable[str] | None, what: str) -> str:
    """The whole of an answer: no name that was not granted, and no value of another tenant than the one named."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    search(text, granted, what)
    own = {about} if isinstance(about, str) else set(about or ())
    values = set(_MARK.findall(text)) - own
    if values:
        raise Leak(f"{what} for {about} carries {sorted(values)}: {_around(text, min(values))}")
    return text


def _around(text: str, word: str) -> str:
    place = text.find(word)
    return text[max(0, place - 300) : place + 200]


def check(condition: object, what: str, answer: Any) -> None:
    if not condition:
        raise Leak(f"{what}: {json.dumps(answer)[:800]}")


def part(answer: Any, *path: str | int) -> Any:
    """What stands there in an answer; one without it is not the answer that its tenant would have got."""
    found = answer
    for step in path:
        there = step in found if isinstance(found, dict) else isinstance(step, int) and len(found) > step
        check(there, f"an answer without {step}", answer)
        found = found[step]
    return found


class LogEye(logging.Handler):
    """Every line of the log is about one tenant at most."""

    def __init__(self, expected: Expected) -> None:
        super().__init__(logging.INFO)
        self._expected = expected

    def emit(self, record: logging.LogRecord) -> None:
        try:
            _judge_line(record.getMessage(), "a line of the log")
        except Leak as leak:
            self._expected.faults.append(leak)


def _judge_line(line: str, what: str) -> None:
    own = _OWN_WORDS.search(line)
    names = names_in(line if own is None else line.replace(f'"clientId":"{own[1]}"', ""))
    if len(names) > 1 and not any(words in line for words in _ABOUT_SEVERAL):
        raise Leak(f"{what} is about {sorted(names)}: {line[:600]}")
    if (secret := _SECRET.search(line)) is not None:
        raise Leak(f"{what} carries a secret: {_around(line, secret[0])}")


def check_files(data: Path) -> int:
    """What was written: telemetry, log and notes. The number of lines that were looked at."""
    lines = 0
    for path in data.glob("telemetry.jsonl*"):
        for line in path.read_text().splitlines():
            own = json.loads(line).get("tenant", "")
            _judge_line(f"{line} {own}", "telemetry")
            if not own and names_in(line):
                raise Leak(f"telemetry of nobody: {line[:600]}")
            lines += 1
    for path in data.glob("server.log*"):
        for line in path.read_text().splitlines():
            _judge_line(line, "a line of the log")
            lines += 1
    notes = data / "devtools" / "store"
    for path in notes.rglob("*") if notes.is_dir() else ():
        if path.is_file():
            owner = path.relative_to(notes).parts[0]
            look(path.read_text(errors="replace"), [owner], owner, f"a note of {owner}")
            lines += 1
    return lines
