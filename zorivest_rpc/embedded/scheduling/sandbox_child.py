"""The process in which statements of others run: it opens the journal's file for reading, and can be killed.

Run as a script by `sandbox.py`, which says what the rules are; it imports nothing of this project. SQLite calls its
own functions without looking at the clock, and a single one can run for hours or fill the memory; only the end of a
process ends that. Input is one JSON object; output is an empty line when it is ready and one JSON line per
statement."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

MEMORY = 512 * 1024 * 1024
MOST_BYTES = 4_000_000
OPS_BETWEEN_LOOKS = 2000

VIRTUAL = frozenset({"json_each", "json_tree"})
FUNCTIONS = frozenset(
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

OK, DENY = 0, 1
READ, SELECT, FUNCTION = 20, 21, 31  # SQLite's numbers of the authorizer's actions


class SqlRefused(Exception):
    """Why a statement gives no rows."""


def restrict() -> None:
    """No more memory than a report needs; where the system cannot limit it, time is the only limit."""
    try:
        import resource
    except ImportError:
        return
    for what, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (limit, limit))
        except (ValueError, OSError):
            continue


def connect(path: str, key: str | None, views: dict[str, str]) -> Any:
    """The file, read-only, with the views that statements see."""
    driver: Any = import_module("sqlcipher3.dbapi2" if key is not None else "sqlite3")
    conn = driver.connect(f"{Path(path).as_uri()}?mode=ro", uri=True, timeout=5.0, isolation_level=None)
    if key is not None:
        conn.execute(f"PRAGMA key = \"x'{key}'\"")
    for setting in ("trusted_schema=OFF", "temp_store=MEMORY"):
        conn.execute(f"PRAGMA {setting}")
    present = conn.execute("SELECT name FROM main.sqlite_master WHERE type IN ('table', 'view')").fetchall()
    for (name,) in present:
        if not name.startswith("sqlite_"):
            # A hidden name leads to a view too, one that the authorizer refuses: even its rows cannot be counted.
            quoted = name.replace('"', '""')
            conn.execute(views.get(name) or f'CREATE TEMP VIEW "{quoted}" AS SELECT * FROM main."{quoted}"')
    conn.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").fetchall()  # known before the rules apply
    conn.execute("PRAGMA query_only=ON")
    conn.set_authorizer(SqlRules(frozenset(views)))
    return conn


class SqlRules:
    """SQLite's authorizer: asked about everything that a statement would do, while it is compiled."""

    def __init__(self, views: frozenset[str]) -> None:
        self._views = views

    def __call__(self, action: int, first: str | None, second: str | None, schema: str | None, by: str | None) -> int:
        if action == SELECT:
            return OK
        if action == FUNCTION:
            return OK if (second or "").lower() in FUNCTIONS else DENY
        if action == READ:
            return OK if self._readable(first or "", second, schema, by) else DENY
        return DENY

    def _readable(self, table: str, column: str | None, schema: str | None, by: str | None) -> bool:
        if table in VIRTUAL or not table:
            return True
        if table.lower().startswith(("sqlite_", "pragma_")):
            return False
        if schema == "temp":
            return table in self._views
        if not column:  # as in count(*): of a visible table, or of a subquery's own name
            return table in self._views or schema is None
        return by == table and table in self._views


def fetch(conn: Any, sql: str, binds: dict[str, Any], limit: int) -> dict[str, Any]:
    cursor = conn.execute(sql, binds)
    columns = unique([item[0] for item in cursor.description or ()])
    rows: list[list[Any]] = []
    size = 0
    for row in cursor:
        if len(rows) >= limit:
            return {"columns": columns, "rows": rows, "truncated": True}
        values = [f"{len(value)} bytes" if isinstance(value, bytes) else value for value in row]
        size += sum(len(value) if isinstance(value, str) else 8 for value in values)
        if size > MOST_BYTES:
            raise SqlRefused(f"The result is larger than {MOST_BYTES} bytes; select fewer rows or columns.")
        rows.append(values)
    return {"columns": columns, "rows": rows, "truncated": False}


def unique(names: list[str]) -> list[str]:
    """Column names as keys: a repeated name gets a number."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def explain(exc: Exception, seconds: float) -> str:
    text = str(exc)
    if isinstance(exc, SqlRefused):
        return text
    if isinstance(exc, MemoryError) or "too big" in text or "out of memory" in text:
        return "The statement needs too much memory."
    if "interrupted" in text:
        return f"The statement took longer than {seconds:g} seconds."
    if "prohibited" in text or "not authorized" in text:
        return f"The statement is not allowed: {text}."
    return f"The statement is wrong: {text.rstrip('.')}."


def answer(conn: Any, statement: dict[str, Any], seconds: float) -> str:
    """One line; a statement that is only checked is compiled and not run."""
    ends = time.monotonic() + seconds
    conn.set_progress_handler(lambda: int(time.monotonic() > ends), OPS_BETWEEN_LOOKS)
    sql = f"EXPLAIN {statement['sql']}" if statement["check"] else statement["sql"]
    try:
        found = fetch(conn, sql, statement["binds"], statement["limit"])
        return json.dumps({} if statement["check"] else found)
    except Exception as exc:  # noqa: BLE001 - whatever a statement causes is the statement's mistake
        return json.dumps({"error": explain(exc, seconds)})


def main() -> int:
    restrict()
    request = json.load(sys.stdin)
    conn = connect(request["path"], request["key"], request["views"])
    sys.stdout.write("\n")
    sys.stdout.flush()
    for statement in request["statements"]:
        sys.stdout.write(answer(conn, statement, request["seconds"]) + "\n")
        sys.stdout.flush()
    conn.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
