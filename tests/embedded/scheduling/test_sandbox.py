"""The SQL sandbox: what reads works, every way out is refused, and nothing runs or grows without end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.database.schema.journal import settings, trades
from zorivest_rpc.embedded.database.schema.scheduling import email_provider
from zorivest_rpc.embedded.scheduling import sandbox as module
from zorivest_rpc.embedded.scheduling.sandbox import QueryRefused, Sandbox, Statement, visible_tables

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SECRET = "hidden-value-4711"


def fill(conn: Connection) -> None:
    conn.execute(settings.insert().values(key="ui.theme", value=SECRET, value_type="str", updated_at=NOW))
    server = {"host": "h", "port": 25, "security": "none", "from_email": "a@b.c", "encrypted_password": SECRET}
    conn.execute(email_provider.insert().values(id=1, updated_at=NOW, **server))
    conn.execute(
        trades.insert().values(
            exec_id="E-1",
            time=NOW,
            instrument="AAPL",
            symbol="AAPL",
            underlying="AAPL",
            asset_class="EQUITY",
            action="BOT",
            quantity=Decimal("2.5"),
            price=Decimal("101.25"),
            multiplier=Decimal(1),
            notional=Decimal("253.125"),
            account_id="SYSTEM_DEFAULT",
            dedup_hash="x",
            created_at=NOW,
        )
    )
    conn.exec_driver_sql("CREATE VIEW leak AS SELECT * FROM settings")
    conn.exec_driver_sql("CREATE VIEW harmless AS SELECT name FROM accounts")


@pytest.fixture(params=["encrypted", "plain"])
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    db = Database(tmp_path / "x.db", b"k" * 32 if request.param == "encrypted" else None, cipher_driver())
    await db.write(fill)
    yield Sandbox(db)
    await db.close()


READS: list[tuple[str, list[list[object]]]] = [
    ("SELECT exec_id, quantity, price, quantity * price AS value FROM trades", [["E-1", 2.5, 101.25, 253.125]]),
    ("WITH t AS (SELECT symbol FROM trades) SELECT count(*) FROM t", [[1]]),
    ("SELECT name FROM accounts WHERE name LIKE 'system%'", [["System default"]]),
    ("SELECT strftime('%Y', time), round(sum(notional), 2) FROM trades GROUP BY 1", [["2026", 253.13]]),
    ("SELECT value FROM json_each('[1, 2]')", [[1], [2]]),
    ("SELECT json_extract('{\"a\": 7}', '$.a') AS a", [[7]]),
    ("SELECT sum(price) OVER (ORDER BY time) FROM trades", [[101.25]]),
    ("SELECT 'DROP TABLE trades; --' AS text, 1 AS \"delete\"", [["DROP TABLE trades; --", 1]]),
    ("WITH settings AS (SELECT 1 AS a) SELECT * FROM settings", [[1]]),
    ("SELECT count(*) FROM accounts -- a comment; with a semicolon", [[1]]),
]


async def test_reading_the_journal_works_and_amounts_are_plain_numbers(sandbox: Sandbox) -> None:
    statements = [Statement(sql, {}) for sql, _ in READS]
    answers = await sandbox._answers(statements, 10, check=False)
    assert [answer.get("rows", answer) for answer in answers] == [rows for _, rows in READS]
    assert await sandbox.check(statements) == [None] * len(READS)


@pytest.mark.parametrize(("given", "place"), [(NOW, 0), (NOW, 1), (NOW, 4321), (NOW.replace(microsecond=250_000), 7)])
async def test_statements_see_the_time_of_a_trade_as_it_was_given(tmp_path: Path, given: datetime, place: int) -> None:
    db = Database(tmp_path / "x.db", None, cipher_driver())
    await db.write(fill)
    stored = given + timedelta(microseconds=place)
    await db.write(lambda conn: conn.execute(trades.update().values(time=stored, sequence=place)) and None)
    (answer,) = await Sandbox(db)._answers([Statement("SELECT time, sequence FROM trades", {})], 10, check=False)
    assert answer["rows"] == [[f"{given:%Y-%m-%d %H:%M:%S.%f}", place]]
    await db.close()


ESCAPES = [
    # other files, other databases
    "ATTACH DATABASE '/tmp/other.db' AS other",
    "SELECT 1; ATTACH DATABASE ':memory:' AS other",
    "DETACH DATABASE main",
    "VACUUM INTO '/tmp/copy.db'",
    # pragmas, as statements and as functions
    "PRAGMA query_only=OFF",
    "SELECT * FROM pragma_table_info('settings')",
    "SELECT * FROM pragma_database_list",
    "SELECT count(*) FROM pragma_table_list",
    "EXPLAIN SELECT 1",
    # writing, also from within a common table expression or behind a comment
    "DELETE FROM trades",
    "WITH gone AS (SELECT 1) DELETE FROM trades",
    "WITH new AS (SELECT 1) INSERT INTO trades SELECT * FROM new",
    "WITH x AS (SELECT 1) UPDATE trades SET notes = 'x' RETURNING *",
    "REPLACE INTO settings VALUES ('a', 'b', 'c', 'd')",
    "/* SELECT */ DELETE FROM trades",
    "CREATE TEMP TABLE t AS SELECT 1",
    "BEGIN IMMEDIATE",
    # recursion
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "WITH c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c",
    # hidden tables: named, qualified, quoted, counted, joined, in subqueries, in views
    "SELECT * FROM settings",
    "SELECT * FROM main.settings",
    'SELECT * FROM "SETTINGS"',
    "SELECT * FROM temp.settings",
    "SELECT count(*) FROM settings",
    "SELECT count(*) FROM main.settings",
    "SELECT 1 FROM main.settings",
    "SELECT rowid FROM settings",
    "SELECT (SELECT value FROM settings LIMIT 1)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM settings)",
    "SELECT name FROM accounts UNION SELECT value FROM settings",
    "SELECT a.name FROM accounts a, settings s WHERE s.value LIKE 'h%'",
    "SELECT name FROM accounts ORDER BY (SELECT value FROM settings)",
    "WITH accounts AS (SELECT * FROM main.settings) SELECT * FROM accounts",
    "SELECT * FROM leak",
    "SELECT count(*) FROM leak",
    "SELECT * FROM harmless",
    "SELECT * FROM email_provider",
    "SELECT host FROM email_provider",
    "SELECT * FROM mcp_guard",
    "SELECT * FROM sqlite_master",
    "SELECT count(*) FROM sqlite_master",
    "SELECT sql FROM sqlite_schema",
    "SELECT * FROM sqlite_temp_master",
    "SELECT * FROM sqlite_dbpage",
    # the tables behind the views
    "SELECT price FROM main.trades",
    # functions that load, read, write or tell
    "SELECT load_extension('evil')",
    "SELECT writefile('/tmp/x', 'y')",
    "SELECT readfile('/etc/passwd')",
    "SELECT edit('x', 'vi')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT sqlcipher_export('main')",
    "SELECT randomblob(1000000000)",
    "SELECT zeroblob(1000000000)",
    "SELECT sqlite_compileoption_get(1)",
    "SELECT json_set('{}', '$.a', 1)",
    "SELECT json_patch('{}', '{}')",
    "SELECT json_insert('[]', '$[0]', 1)",
    "SELECT json_replace('{}', '$.a', 1)",
    "SELECT json_remove('{}', '$.a')",
    "SELECT jsonb('{}')",
    "SELECT random()",
    "SELECT sqlite_version()",
    "SELECT sqlite_source_id()",
    "SELECT changes()",
    "SELECT last_insert_rowid()",
    "SELECT likelihood(1, 0.5)",
    "SELECT soundex('x')",
    "SELECT snippet(trades) FROM trades",
    "SELECT * FROM generate_series(1, 1000000000)",
    "SELECT * FROM fts3tokenize('simple', 'a b')",
    "SELECT * FROM bytecode('SELECT 1')",
    "SELECT * FROM tables_used('SELECT 1')",
    "SELECT * FROM sqlite_stmt",
    "SELECT * FROM dbstat",
    "SELECT * FROM temp.sqlite_temp_schema",
    "SELECT * FROM pragma_function_list",
    "SELECT * FROM main.trades",
    "SELECT * FROM market_providers",
    "SELECT details_json FROM audit_log",
    "SELECT * FROM broker_configs",
    "SELECT * FROM schema_migrations",
    # writing in disguise
    "WITH x AS (DELETE FROM trades RETURNING *) SELECT * FROM x",
    "WITH x AS (VALUES (1)) INSERT INTO trades SELECT * FROM x",
    "SELECT * FROM trades; /* */ DELETE FROM trades",
    "SELECT 1 INTO trades",
    "SAVEPOINT x",
    "ANALYZE",
    "REINDEX",
    "\ufeffPRAGMA query_only=OFF",
    "SELECT 1 /* '*/ ; DELETE FROM trades --'",
    "SELECT 1; \x00 DELETE FROM trades",
    # no statement at all
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "SELECT " + "1 + " * 5000 + "1",
]


async def test_every_way_out_is_refused_while_it_is_compiled(sandbox: Sandbox) -> None:
    problems = await sandbox.check([Statement(sql, {}) for sql in ESCAPES])
    assert [sql for sql, problem in zip(ESCAPES, problems, strict=True) if problem is None] == []


async def test_every_way_out_is_refused_when_it_is_run(sandbox: Sandbox) -> None:
    answers = await sandbox._answers([Statement(sql, {}) for sql in ESCAPES], 10, check=False)
    assert [sql for sql, answer in zip(ESCAPES, answers, strict=True) if set(answer) != {"error"}] == []
    assert SECRET not in str(answers)


async def test_an_endless_join_ends_after_the_limit(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)
    ten = "(VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10))"
    with pytest.raises(QueryRefused, match="took longer"):
        await sandbox.query(f"SELECT count(*) FROM {', '.join([ten] * 12)}")
    assert (await sandbox.query("SELECT 1")).rows == [[1]]


async def test_a_cancelled_caller_ends_the_statement(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 600.0)
    ten = "(VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10))"
    children: list[asyncio.subprocess.Process] = []
    started = asyncio.Event()
    start = asyncio.create_subprocess_exec

    async def watched(*command: str, **options: Any) -> asyncio.subprocess.Process:
        children.append(await start(*command, **options))
        started.set()
        return children[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    endless = asyncio.create_task(sandbox.query(f"SELECT count(*) FROM {', '.join([ten] * 12)}"))
    await started.wait()
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    assert children[0].returncode == -signal.SIGKILL


def grown(times: int) -> str:
    """A statement that gives a text of 8000 characters, made eight times as long again and again."""
    sql = "SELECT '" + "a" * 8000 + "' AS a"
    for _ in range(times):
        sql = f"SELECT a || a || a || a || a || a || a || a AS a FROM ({sql})"
    return sql


async def test_a_function_that_does_not_listen_is_killed(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call that compares two million characters two million times, in which SQLite sees no clock."""
    monkeypatch.setattr(module, "SECONDS", 0.2)
    monkeypatch.setattr(module, "_PATIENCE", 0.3)
    with pytest.raises(QueryRefused, match="took longer"):
        await sandbox.query(f"SELECT instr(a, substr(a, 1, 2000000) || 'b') FROM ({grown(3)})")
    assert (await sandbox.query("SELECT 1")).rows == [[1]]


async def test_every_statement_of_many_is_checked(sandbox: Sandbox) -> None:
    texts = ["SELECT 1", "DELETE FROM trades", "SELECT * FROM settings", "SELECT :a", "SELECT name FROM accounts"]
    found = await sandbox.check([Statement(text, {}) for text in texts])
    assert [problem is None for problem in found] == [True, False, False, False, True]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT printf('%1000000000d', 1)",
        f"SELECT length(a) FROM ({grown(6)})",
        "SELECT replace(printf('%.99999c', 'x'), 'x', printf('%.99999c', 'y'))",
    ],
)
async def test_a_value_that_fills_the_memory_is_refused(sandbox: Sandbox, sql: str) -> None:
    with pytest.raises(QueryRefused):
        await sandbox.query(sql)


async def test_rows_and_bytes_are_limited(sandbox: Sandbox) -> None:
    found = await sandbox.query("VALUES (1), (2), (3)", limit=2)
    assert (found.rows, found.truncated) == ([[1], [2]], True)
    with pytest.raises(QueryRefused, match="larger than"):
        await sandbox.query("SELECT printf('%.3000000c', 'x') FROM (VALUES (1), (2))")


async def test_bound_values_are_values_and_never_sql(sandbox: Sandbox) -> None:
    hostile = "x' UNION SELECT value FROM settings --"
    assert (await sandbox.query("SELECT :a AS a", {"a": hostile})).rows == [[hostile]]
    with pytest.raises(QueryRefused):
        await sandbox.query("SELECT :missing")


async def test_two_columns_of_one_name_stay_apart(sandbox: Sandbox) -> None:
    assert (await sandbox.query("SELECT 1 AS a, 2 AS a")).records() == [{"a": 1, "a_2": 2}]


def test_no_visible_table_holds_a_secret() -> None:
    names = {table.name for table in visible_tables()}
    assert {"trades", "accounts", "round_trips"} <= names
    assert not names & {"settings", "email_provider", "mcp_guard", "app_defaults", "schema_migrations"}


def bomb(function: str) -> str:
    return f"SELECT length({function})"


@pytest.mark.parametrize(
    "sql",
    [
        bomb("format('%.*c', 1000000000, 'x')"),
        bomb("replace(hex(printf('%400000000d', 1)), '3', hex(printf('%400000000d', 1)))"),
        "SELECT group_concat(a.value || b.value) FROM json_each('["
        + "1," * 2000
        + "1]') a, json_each('["
        + "1," * 2000
        + "1]') b, json_each('["
        + "1," * 400
        + "1]') c",
        "SELECT printf('%100000000d', 1) AS a, printf('%100000000d', 2) AS b",
        "SELECT json_group_array(printf('%50000000d', value)) FROM json_each('[" + "1," * 50 + "1]')",
    ],
)
async def test_memory_bombs_end_in_a_refusal(sandbox: Sandbox, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.5)
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    with pytest.raises(QueryRefused, match=r"too much memory|larger than|longer than"):
        await sandbox.query(sql)


async def test_a_long_pattern_does_not_backtrack_for_ever(sandbox: Sandbox) -> None:
    text, pattern = "'" + "a" * 4000 + "'", "'" + "%a" * 1500 + "%b'"
    found = await sandbox.query(f"SELECT {text} LIKE {pattern} AS a")
    assert found.rows == [[0]]
    glob = pattern.replace("%", "*")
    assert (await sandbox.query(f"SELECT {text} GLOB {glob} AS a")).rows == [[0]]


async def test_a_result_that_is_huge_row_by_row_is_refused(sandbox: Sandbox) -> None:
    many = "json_each('[" + "1," * 2000 + "1]')"
    with pytest.raises(QueryRefused, match="larger than"):
        await sandbox.query(f"SELECT printf('%2000d', 1) AS x FROM {many}, {many} LIMIT 5000")
    found = await sandbox.query(f"SELECT 1 AS x FROM {many}, {many}", limit=10)
    assert (len(found.rows), found.truncated) == (10, True)
