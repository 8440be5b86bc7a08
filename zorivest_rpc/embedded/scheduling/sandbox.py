"""Runs untrusted SQL: it can read the journal's own numbers and nothing else.

Rule 1: a statement sees temporary views, never the tables behind them. There is one view per table that holds no
secret; amounts are plain numbers in it. What is not a view of ours cannot be named, so a table added later is hidden
until it passes the same test.
Rule 2: SQLite's authorizer allows SELECT, reading those views, and functions from a list of harmless ones. Attaching,
pragmas, recursion, writing and loading code are refused while the statement is compiled.
Rule 3: statements run in a process of their own (`sandbox_child.py`) on a read-only connection, with bounded memory.
One that takes more than two seconds is ended, and killed if it does not listen."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import LargeBinary, Table

from ..database.columns import Exact, Scaled
from ..database.engine import Database
from ..database.schema.journal import metadata

__all__ = ["ROW_LIMIT", "SECONDS", "QueryRefused", "Rows", "Sandbox", "Statement", "forbidden_sql", "visible_tables"]

SECONDS = 2.0
ROW_LIMIT = 5000
_PATIENCE = 1.0  # beyond the limit, before a statement that does not listen is killed
_START_SECONDS = 10.0  # for a busy machine to start the process and open the file
_LONGEST_SQL = 10_000
_LONGEST_LINE = 64 * 1024 * 1024
_AT_ONCE = 2
_CHILD = Path(__file__).with_name("sandbox_child.py")

_HIDDEN = frozenset(
    {
        "app_defaults",
        "broker_configs",
        "email_provider",
        "market_provider_settings",
        "mcp_guard",
        "schema_migrations",
        "settings",
    }
)
_WITHOUT = frozenset({("audit_log", "details_json")})  # it tells of what the hidden tables hold
_SECRET = re.compile(r"(?i)encrypt|secret|passw|token|api_?key|credential|cipher|wrapped")
_WORDS = re.compile(r"(?i)\b(DROP|DELETE|UPDATE|INSERT|ALTER|ATTACH|DETACH|PRAGMA|CREATE|VACUUM|REINDEX)\b")
_NOISE = re.compile(r"--[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", re.DOTALL)


class Statement(NamedTuple):
    """A statement and the values for its `:names`."""

    sql: str
    binds: Mapping[str, Any]


class QueryRefused(Exception):
    """The statement is not allowed, wrong, too slow or too large; the text says which."""


class Rows(NamedTuple):
    columns: list[str]
    rows: list[list[Any]]
    truncated: bool

    def records(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def forbidden_sql(sql: str) -> str | None:
    """What can be said against a statement by its words alone, or None."""
    if len(sql) > _LONGEST_SQL:
        return f"must have at most {_LONGEST_SQL} characters"
    bare = _NOISE.sub(" ", sql)
    if found := _WORDS.search(bare):
        return f"holds the forbidden word {found[1].upper()}"
    if not re.match(r"(?i)\s*(?:select|with|values)\b", bare):
        return "must be one SELECT (or WITH … SELECT) statement"
    if bare.rstrip().rstrip(";").count(";"):
        return "must be a single statement"
    return None


def visible_tables() -> list[Table]:
    """The tables that statements may see, through views."""
    return [
        table
        for table in metadata.sorted_tables
        if table.name not in _HIDDEN
        and not table.name.startswith("sqlite_")
        and not any(_SECRET.search(column.name) for column in table.columns)
    ]


# `trades.sequence` stands in the microseconds of the stored time; statements see the time that was given.
_GIVEN_TIME = (
    """CASE "sequence" WHEN 0 THEN "time" ELSE """
    """substr("time", 1, 20) || printf('%06d', CAST(substr("time", 21) AS INTEGER) - "sequence") END AS "time\""""
)


def _view(table: Table) -> str:
    """The view over a table: amounts as numbers, no blobs."""
    columns = []
    for column in table.columns:
        name = f'"{column.name}"'
        if isinstance(column.type, LargeBinary) or (table.name, column.name) in _WITHOUT:
            continue
        if (table.name, column.name) == ("trades", "time"):
            columns.append(_GIVEN_TIME)
        elif isinstance(column.type, Scaled):
            columns.append(f"{name} / 1e{column.type.places} AS {name}")
        elif isinstance(column.type, Exact):
            columns.append(f"CAST({name} AS REAL) AS {name}")
        else:
            columns.append(name)
    return f'CREATE TEMP VIEW "{table.name}" AS SELECT {", ".join(columns)} FROM main."{table.name}"'


class Sandbox:
    """The sandbox of one open database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._views = {table.name: _view(table) for table in visible_tables()}
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def query(self, sql: str, binds: Mapping[str, Any] | None = None, limit: int = ROW_LIMIT) -> Rows:
        """The statement's rows, at most `limit`; a cancelled caller ends the statement too."""
        (found,) = await self.query_all({"": Statement(sql, binds or {})}, limit)
        return found

    async def query_all(self, statements: Mapping[str, Statement], limit: int = ROW_LIMIT) -> list[Rows]:
        """The rows of several statements, which have names for the refusal to tell."""
        found = []
        answers = await self._answers(list(statements.values()), limit, check=False)
        for name, answer in zip(statements, answers, strict=True):
            if "error" in answer:
                raise QueryRefused(f'Query "{name}": {answer["error"]}' if name else answer["error"])
            found.append(Rows(answer["columns"], answer["rows"], answer["truncated"]))
        return found

    async def check(self, statements: Sequence[Statement]) -> list[str | None]:
        """What is wrong with each statement, found by compiling it under the same rules; None if nothing."""
        return [answer.get("error") for answer in await self._answers(statements, 0, check=True)]

    async def _answers(self, statements: Sequence[Statement], limit: int, *, check: bool) -> list[dict[str, Any]]:
        """One answer per statement; those that are wrong by their words alone never reach a database."""
        answers: list[dict[str, Any]] = []
        sound: list[dict[str, Any]] = []
        for statement in statements:
            problem = forbidden_sql(statement.sql)
            answers.append({"error": f"The statement {problem}."} if problem else {})
            if problem is None:
                sound.append({"sql": statement.sql, "binds": dict(statement.binds), "limit": limit, "check": check})
        if sound:
            async with self._room:
                found = iter(await self._ask_child(sound))
            answers = [answer or next(found) for answer in answers]
        return answers

    async def _ask_child(self, statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
        path, key = self._db.reopening()
        request = {"path": str(path), "key": key, "views": self._views, "statements": statements, "seconds": SECONDS}
        environ = {name: os.environ[name] for name in ("SYSTEMROOT", "LANG") if name in os.environ}
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(_CHILD)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environ,
            limit=_LONGEST_LINE,
        )
        try:
            return await _read(child, json.dumps(request).encode(), len(statements))
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()


async def _read(child: asyncio.subprocess.Process, request: bytes, count: int) -> list[dict[str, Any]]:
    """The child's answers; when it dies or has to be killed, the statement it was at is to blame."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(request)
    child.stdin.close()
    await _line(child.stdout, _START_SECONDS)  # it is ready: from now on the time is the statement's
    answers: list[dict[str, Any]] = []
    while len(answers) < count:
        line = await _line(child.stdout, SECONDS + _PATIENCE)
        if not line:
            reason = "used too much memory" if line is not None else f"took longer than {SECONDS:g} seconds"
            answers.append({"error": f"The statement {reason}."})
            break
        answers.append(json.loads(line))
    unknown = {"error": "The statement was not looked at, because one before it ran too long."}
    return answers + [unknown] * (count - len(answers))


async def _line(stream: asyncio.StreamReader, seconds: float) -> bytes | None:
    """The next line; empty at the end, None if it does not come in time."""
    try:
        async with asyncio.timeout(seconds):
            return await stream.readline()
    except TimeoutError:
        return None
