"""The database layer: exact values, one writer, readers beside it, transactions whole or not at all."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import IntegrityError, StatementError

from zorivest_rpc.embedded.database.columns import Exact, Scaled, money, quantity
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.database.schema.journal import accounts, balance_snapshots, settings
from zorivest_rpc.embedded.errors import Busy, Forbidden

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
DIALECT = sqlite.dialect()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    db = Database(tmp_path / "x.db", b"k" * 32, cipher_driver())
    await db.write(
        lambda conn: conn.execute(
            accounts.insert().values(account_id="A", name="A", account_type="broker", created_at=NOW)
        )
    )
    yield db
    await db.close()


def put(key: str, value: str = "v") -> object:
    return settings.insert().values(key=key, value=value, value_type="str", updated_at=NOW)


async def count(db: Database) -> int:
    found = await db.read(lambda conn: conn.execute(select(func.count()).select_from(settings)).scalar())
    return int(found or 0)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12))
@hypothesis_settings(deadline=None, max_examples=200)
def test_an_amount_comes_back_as_it_went_in(value: Decimal) -> None:
    column = Scaled(6)
    stored = column.process_bind_param(value, DIALECT)
    assert type(stored) is int
    assert column.process_result_value(stored, DIALECT) == value


@pytest.mark.parametrize(
    "value", [Decimal("0.0000001"), Decimal("1" + "0" * 13), Decimal("1.00000000000000000000000001")]
)
def test_an_amount_that_does_not_fit_is_refused_not_rounded(value: Decimal) -> None:
    with pytest.raises(ValueError, match=r"decimal places|too large"):
        Scaled(6).process_bind_param(value, DIALECT)


def test_a_float_is_not_an_amount() -> None:
    with pytest.raises(TypeError):
        Scaled(6).process_bind_param(0.1, DIALECT)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15))
@hypothesis_settings(deadline=None, max_examples=100)
def test_a_running_total_keeps_every_digit(value: Decimal) -> None:
    assert Exact().process_result_value(Exact().process_bind_param(value, DIALECT), DIALECT) == value


def test_computed_values_are_rounded_to_what_a_column_holds() -> None:
    assert money(Decimal(1) / 3) == Decimal("0.333333")
    assert quantity(Decimal(2) / 3) == Decimal("0.66666667")


async def test_sums_and_comparisons_of_amounts_are_exact_in_sql(db: Database) -> None:
    rows = [{"account_id": "A", "datetime": NOW, "balance": Decimal(text)} for text in ("0.1", "0.2", "-0.3", "9.99")]
    await db.write(lambda conn: conn.execute(balance_snapshots.insert(), rows))
    balance = balance_snapshots.c.balance
    total = await db.read(lambda conn: conn.execute(select(func.sum(balance))).scalar())
    assert total == Decimal("9.99")
    above = await db.read(lambda conn: conn.execute(select(balance).where(balance > Decimal("0.1"))).scalars().all())
    assert sorted(above) == [Decimal("0.2"), Decimal("9.99")]


async def test_moments_are_kept_in_utc_to_the_microsecond_and_never_naive(db: Database) -> None:
    local = NOW.astimezone(timezone(timedelta(hours=-5)))
    row = {"account_id": "A", "datetime": local, "balance": Decimal(1)}
    await db.write(lambda conn: conn.execute(balance_snapshots.insert().values(**row)))
    found = await db.read(lambda conn: conn.execute(select(balance_snapshots.c.datetime)).scalar())
    assert found == NOW
    assert found is not None
    assert found.utcoffset() == timedelta(0)
    naive = {**row, "datetime": NOW.replace(tzinfo=None)}
    with pytest.raises(StatementError, match="without a zone"):
        await db.write(lambda conn: conn.execute(balance_snapshots.insert().values(**naive)))


async def test_a_job_that_fails_leaves_nothing(db: Database) -> None:
    def job(conn: Connection) -> None:
        conn.execute(put("a"))  # type: ignore[call-overload]
        conn.execute(put("a"))  # type: ignore[call-overload]

    before = db.commits
    with pytest.raises(IntegrityError):
        await db.write(job)
    assert (await count(db), db.commits) == (0, before)


async def test_error_texts_hold_no_values(db: Database) -> None:
    await db.write(lambda conn: conn.execute(put("private-key-name", "private-value")))  # type: ignore[call-overload]
    with pytest.raises(IntegrityError) as refused:
        await db.write(lambda conn: conn.execute(put("private-key-name", "private-value")))  # type: ignore[call-overload]
    assert "private" not in str(refused.value)


async def test_concurrent_writers_lose_no_update(db: Database) -> None:
    await db.write(lambda conn: conn.execute(put("n", "0")))  # type: ignore[call-overload]

    def increment(conn: Connection) -> None:
        value = int(conn.execute(select(settings.c.value)).scalar() or 0)
        conn.execute(settings.update().values(value=str(value + 1)))

    await asyncio.gather(*(db.write(increment) for _ in range(200)))
    assert await db.read(lambda conn: conn.execute(select(settings.c.value)).scalar()) == "200"


async def test_readers_go_on_beside_a_writer_and_see_the_last_committed_state(db: Database) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def job(conn: Connection) -> None:
        conn.execute(put("a"))  # type: ignore[call-overload]
        inside.set()
        assert go_on.wait(10)

    writing = asyncio.create_task(db.write(job))
    await asyncio.to_thread(inside.wait, 10)
    assert [await count(db) for _ in range(3)] == [0, 0, 0]
    go_on.set()
    await writing
    assert await count(db) == 1


async def test_the_loop_is_free_while_the_database_works(db: Database) -> None:
    blocked = threading.Event()
    writing = asyncio.create_task(db.write(lambda conn: blocked.wait(10)))
    await asyncio.sleep(0)
    assert not writing.done()  # we are here although the writer is still waiting
    blocked.set()
    assert await writing is True


async def test_closing_waits_for_running_jobs_and_refuses_new_ones(db: Database) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def job(conn: Connection) -> None:
        inside.set()
        assert go_on.wait(10)
        conn.execute(put("a"))  # type: ignore[call-overload]

    writing = asyncio.create_task(db.write(job))
    await asyncio.to_thread(inside.wait, 10)
    closing = asyncio.create_task(db.close())
    await asyncio.sleep(0)
    with pytest.raises(Forbidden):
        await db.read(lambda conn: None)
    go_on.set()
    await asyncio.gather(writing, closing)
    again = Database(db.path, b"k" * 32, cipher_driver())
    assert await count(again) == 1
    await again.close()


async def test_a_write_counts_only_if_it_changed_something(db: Database) -> None:
    before = db.commits
    await db.write(lambda conn: conn.execute(settings.delete()))
    assert db.commits == before
    await db.write(lambda conn: conn.execute(put("a")))  # type: ignore[call-overload]
    assert db.commits == before + 1


def test_a_file_that_another_program_holds_exclusively_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zorivest_rpc.embedded.database.engine.BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    holder.execute("CREATE TABLE t (a)")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Busy):
        Database(tmp_path / "x.db", None)
    holder.close()
