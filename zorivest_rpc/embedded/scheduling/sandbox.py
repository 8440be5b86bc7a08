"""Runs SQL that somebody else wrote: it can read the journal's own numbers and nothing else.

Rule 1: a statement sees temporary views, never the tables behind them. There is one view per table that holds no
secret; amounts are plain numbers in it. What is not a view of ours cannot be named, so a table added later is hidden
until it passes the same test.
Rule 2: SQLite's authorizer allows SELECT, reading those views, and functions from a list of harmless ones.
Attaching, pragmas, recursion, writing and loading code are refused while the statement is compiled.
Rule 3: the connection is read-only, and a statement ends after two seconds, or earlier when its rows grow too large."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from sqlalchemy import LargeBinary, Table

from ..columns import Exact, Scaled
from ..db import Database
from ..tables import metadata

__all__ = ["ROW_LIMIT", "SECONDS", "QueryRefused", "Rows", "Sandbox", "forbidden_sql", "visible_tables"]

SECONDS = 2.0
ROW_LIMIT = 5000
_MOST_BYTES = 4_000_000
_LONGEST_SQL = 10_000
_HEAP = 512 * 1024 * 1024
_OPS_BETWEEN_LOOKS = 2000

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
_SECRET = re.compile(r"(?i)encrypt|secret|passw|token|api_?key|credential|cipher|wrapped")
_VIRTUAL = frozenset({"json_each", "json_tree"})
_FUNCTIONS = frozenset(
    {
        *("abs", "acos", "asin", "atan", "atan2", "avg", "ceil", "ceiling", "coalesce", "concat", "concat_ws", "cos"),
        *("count", "cume_dist", "date", "datetime", "degrees", "dense_rank", "exp", "first_value", "floor", "format"),
        *("glob", "group_concat", "hex", "ifnull", "iif", "if", "instr", "json", "json_array", "json_array_length"),
        *("json_each", "json_extract", "json_group_array", "json_group_object", "json_object", "json_quote"),
        *("json_tree", "json_type", "json_valid", "julianday", "lag", "last_value", "lead", "length", "like", "ln"),
        *("log", "log10", "log2", "lower", "ltrim", "max", "median", "min", "mod", "nth_value", "ntile", "nullif"),
        *("octet_length", "percent_rank", "pi", "pow", "power", "printf", "quote", "radians", "rank", "replace"),
        *("round", "row_number", "rtrim", "sign", "sin", "sqrt", "strftime", "string_agg", "substr", "substring"),
        *("sum", "tan", "time", "timediff", "total", "trim", "trunc", "typeof", "unicode", "unixepoch", "unhex"),
        *("upper", "->", "->>"),
    }
)
_WORDS = re.compile(r"(?i)\b(DROP|DELETE|UPDATE|INSERT|ALTER|ATTACH|DETACH|PRAGMA|CREATE|VACUUM|REINDEX)\b")
_NOISE = re.compile(r"--[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\]", re.DOTALL)

_OK, _DENY = 0, 1
_READ, _SELECT, _FUNCTION = 20, 21, 31  # SQLite's numbers of the authorizer's actions


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


def _view(table: Table) -> str:
    """The view over a table: amounts as numbers, no blobs."""
    columns = []
    for column in table.columns:
        name = f'"{column.name}"'
        if isinstance(column.type, LargeBinary):
            continue
        if isinstance(column.type, Scaled):
            columns.append(f"{name} / 1e{column.type.places} AS {name}")
        elif isinstance(column.type, Exact):
            columns.append(f"CAST({name} AS REAL) AS {name}")
        else:
            columns.append(name)
    return f'CREATE TEMP VIEW "{table.name}" AS SELECT {", ".join(columns)} FROM main."{table.name}"'


class Sandbox:
    """The sandbox of one open database; statements run on threads of its own."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._clock = clock
        self._pool = ThreadPoolExecutor(2, "zorivest-sandbox")
        self._views = {table.name: _view(table) for table in visible_tables()}

    async def query(self, sql: str, binds: Mapping[str, Any] | None = None, limit: int = ROW_LIMIT) -> Rows:
        """The statement's rows, at most `limit`; a cancelled caller ends the statement too."""
        return await self._run(lambda stop: self._query(sql, dict(binds or {}), limit, stop))

    async def check(self, sql: str, binds: Mapping[str, Any] | None = None) -> str | None:
        """What is wrong with a statement, found by compiling it under the same rules; None if nothing."""
        if problem := forbidden_sql(sql):
            return problem
        try:
            await self._run(lambda stop: self._query(sql, dict(binds or {}), 0, stop, explain=True))
        except QueryRefused as exc:
            return str(exc)
        return None

    def close(self) -> None:
        """Blocks until running statements have ended, which they do within their limit."""
        self._pool.shutdown(wait=True)

    async def _run(self, job: Callable[[threading.Event], Rows]) -> Rows:
        stop = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, job, stop)
        finally:
            stop.set()

    def _query(
        self, sql: str, binds: dict[str, Any], limit: int, stop: threading.Event, *, explain: bool = False
    ) -> Rows:
        if problem := forbidden_sql(sql):
            raise QueryRefused(f"The statement {problem}.")
        conn = self._db.open_read_only()
        try:
            self._prepare(conn)
            ends = self._clock() + SECONDS
            late = _Late(lambda: stop.is_set() or self._clock() > ends)
            conn.set_progress_handler(late, _OPS_BETWEEN_LOOKS)
            conn.set_authorizer(self._authorize)
            return _fetch(conn, f"EXPLAIN {sql}" if explain else sql, binds, limit)
        except Exception as exc:
            raise _explained(exc, stop) from None
        finally:
            conn.set_progress_handler(None, 0)
            conn.set_authorizer(None)
            conn.close()

    def _prepare(self, conn: Any) -> None:
        """The views, and a bound on what SQLite may allocate in this process."""
        conn.execute("PRAGMA query_only=OFF")  # the file is opened read-only; the views live in memory
        conn.execute(f"PRAGMA hard_heap_limit={_HEAP}")
        present = conn.execute("SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view')").fetchall()
        for (name,) in present:
            if not name.startswith("sqlite_"):
                # A hidden name leads to a view too, one that the authorizer refuses: even its rows cannot be counted.
                quoted = name.replace('"', '""')
                conn.execute(self._views.get(name) or f'CREATE TEMP VIEW "{quoted}" AS SELECT * FROM main."{quoted}"')
        conn.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").fetchall()  # known before the rules apply
        conn.execute("PRAGMA query_only=ON")

    def _authorize(self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
        if action == _SELECT:
            return _OK
        if action == _FUNCTION:
            return _OK if (second or "").lower() in _FUNCTIONS else _DENY
        if action == _READ:
            if first in _VIRTUAL or not first:
                return _OK
            if first.lower().startswith(("sqlite_", "pragma_")):
                return _DENY
            if schema == "temp":
                return _OK if first in self._views else _DENY
            if not second:  # no column, as in count(*): of a visible table, or of a subquery's own name
                return _OK if first in self._views or schema is None else _DENY
            return _OK if by == first and first in self._views else _DENY
        return _DENY


class _Late:
    """A progress handler: true ends the statement."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self._over = over

    def __call__(self) -> int:
        return 1 if self._over() else 0


def _fetch(conn: Any, sql: str, binds: dict[str, Any], limit: int) -> Rows:
    cursor = conn.execute(sql, binds)
    columns = _unique([item[0] for item in cursor.description or ()])
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        if len(rows) >= limit:
            return Rows(columns, rows, True)
        values = [f"{len(value)} bytes" if isinstance(value, bytes) else value for value in row]
        size += sum(len(value) if isinstance(value, str) else 8 for value in values)
        if size > _MOST_BYTES:
            raise QueryRefused(f"The result is larger than {_MOST_BYTES} bytes; select fewer rows or columns.")
        rows.append(values)
    return Rows(columns, rows, False)


def _unique(names: list[str]) -> list[str]:
    """Column names as keys: a repeated name gets a number."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return unique


def _explained(exc: Exception, stop: threading.Event) -> Exception:
    """A database error as a refusal with a reason; anything else stays what it is."""
    if isinstance(exc, QueryRefused):
        return exc
    text = str(exc)
    if "interrupted" in text:
        reason = "was stopped" if stop.is_set() else f"took longer than {SECONDS:g} seconds"
        return QueryRefused(f"The statement {reason}.")
    if "prohibited" in text or "not authorized" in text:
        return QueryRefused(f"The statement is not allowed: {text}.")
    if isinstance(exc, MemoryError) or "too big" in text:
        return QueryRefused("The statement needs too much memory.")
    if isinstance(exc, sqlite3.Error) or type(exc).__module__.startswith(("sqlcipher3", "sqlite3")):
        return QueryRefused(f"The statement is wrong: {text}.")
    return exc
