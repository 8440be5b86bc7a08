"""Lots that take longer to make than somebody waits: the work goes on, is done once, and the next one is answered."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, event, func, select

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.books import tax_lots
from zorivest_rpc.embedded.tax.stored import sync as tax_store


class Gate:
    """Holds every sync until it is opened, and counts those that were done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.done = 0
        sync = tax_store.sync

        def held(*given: Any) -> None:
            self.entered.set()
            assert self.opened.wait(60)
            sync(*given)
            self.done += 1

        monkeypatch.setattr(tax_store, "sync", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.opened.set()


async def leave(asking: asyncio.Task[Any]) -> None:
    """What a client does when its time is over: it closes the connection."""
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    assert asking.cancelled()


def stored(conn: Connection) -> int:
    return conn.execute(select(func.count()).select_from(tax_lots)).scalar_one()


QUESTIONS = [("GET", "/tax/lots", None), ("GET", "/tax/harvest", None), ("POST", "/tax/estimate", {"tax_year": 2025})]


@pytest.mark.parametrize(("method", "path", "body"), QUESTIONS)
async def test_lots_are_made_to_the_end_and_once_though_nobody_waits(
    journal: Journal, backend: Embedded, gate: Gate, method: str, path: str, body: Any
) -> None:
    await journal.buy(10, 50, "2025-01-06")
    await journal.sell(4, 60, "2025-03-03")
    for _ in range(2):
        asking = asyncio.create_task(journal.expect(200, method, path, body))
        assert await asyncio.to_thread(gate.entered.wait, 60)
        await leave(asking)
    again = asyncio.create_task(journal.expect(200, method, path, body))
    gate.opened.set()
    assert await again
    assert (gate.done, await backend.database().read(stored)) == (1, 2)


async def test_the_work_of_a_caller_who_left_is_there_before_anybody_asks_again(
    journal: Journal, backend: Embedded, gate: Gate
) -> None:
    await journal.buy(10, 50, "2025-01-06")
    asking = asyncio.create_task(journal.get("/tax/lots"))
    assert await asyncio.to_thread(gate.entered.wait, 60)
    await leave(asking)
    gate.opened.set()
    assert await backend.database().write(stored) == 1  # writers take turns, so this one comes after


async def test_the_number_of_statements_follows_the_trades_not_the_symbols(journal: Journal, backend: Embedded) -> None:
    database = backend.database()
    said: list[str] = []
    event.listen(database._write_engine, "before_cursor_execute", lambda *given: said.append(given[2]))

    async def cost(symbols: range, day: str) -> int:
        rows = [f"{day} 10:00:00,BUY,T{n:04},1,10.00,0.00" for n in symbols]
        await journal.csv(("Date,Action,Symbol,Quantity,Price,Commission\n" + "\n".join(rows) + "\n").encode())
        before = len(said)
        await journal.get("/tax/lots", params={"ticker": "T0001"})
        return len(said) - before

    first = await cost(range(300), "2025-01-06")
    new_ones = await cost(range(300, 600), "2025-01-07")
    same_ones = await cost(range(300), "2025-01-08")
    assert await database.read(stored) == 900
    assert max(first, new_ones, same_ones) < 60
