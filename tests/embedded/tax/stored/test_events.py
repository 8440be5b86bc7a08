"""Splits and delivered options of the journal in the tax lots, and how little one more trade costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, select

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.books import tax_lots, tax_state
from zorivest_rpc.embedded.journal import trades
from zorivest_rpc.embedded.tax import book as book_module
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.stored import events as tax_events
from zorivest_rpc.embedded.tax.stored import profiles as tax_profiles
from zorivest_rpc.embedded.tax.stored import sync as tax_store
from zorivest_rpc.embedded.tax.stored import writing as tax_writing
from zorivest_rpc.embedded.values.symbols import parse_instrument

CALL, PUT = "SPY 350615 C 50", "SPY 350615 P 50"


async def lots(journal: Journal, status: str = "open", **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await journal.get("/tax/lots", params={"status": status, **query}))["lots"]
    return found


async def act(journal: Journal, kind: str, symbol: str, day: str, **more: Any) -> dict[str, Any]:
    body = {"kind": kind, "symbol": symbol, "effective": day, **more}
    answer: dict[str, Any] = await journal.expect(201, "POST", "/corporate-actions", body)
    return answer


async def test_a_split_changes_shares_and_their_basis_but_neither_money_nor_age(journal: Journal) -> None:
    # Reg. §1.307-1: the basis of the old shares is spread over the new ones; §1223(4): so is the holding period.
    await journal.buy(100, 60, "2024-01-08", commission=10)
    await lots(journal)
    split = await act(journal, "split", "SPY", "2024-06-10", numerator=3)
    (lot,) = await lots(journal)
    # 6010 for 100 shares is 6010 for 300: 20.033333 each
    assert (lot["quantity"], lot["total_basis"], lot["cost_basis"]) == (300, 6010, 20.033333)
    assert lot["open_date"] == "2024-01-08"
    await journal.sell(120, 25, "2025-01-09")
    (closed,) = await lots(journal, "closed")
    # 120 of 300 cost 2404 and bring 3000; bought 2024-01-08, so long-term from 2025-01-09
    assert (closed["realized_gain_loss"], closed["is_long_term"]) == (596, True)
    (rest,) = await lots(journal)
    assert (rest["quantity"], rest["total_basis"]) == (180, 3606)
    await journal.expect(204, "DELETE", f"/corporate-actions/{split['id']}")
    (closed,) = await lots(journal, "closed")
    assert closed["quantity"] == 100  # as if there had been no split: 100 sold, 20 short
    assert [lot["quantity"] for lot in await lots(journal)] == [20]


async def test_a_reverse_split_of_one_account_leaves_the_others_alone(journal: Journal) -> None:
    await journal.buy(100, 5, "2025-01-06")
    await journal.buy(100, 5, "2025-01-06", account_id="A2")
    await act(journal, "split", "SPY", "2025-02-03", numerator=1, denominator=3, account_id="A1")
    found = {lot["account_id"]: lot for lot in await lots(journal)}
    assert (found["A1"]["quantity"], found["A1"]["total_basis"]) == (33.33333333, 500)
    assert (found["A2"]["quantity"], found["A2"]["total_basis"]) == (100, 500)


@pytest.mark.parametrize(
    ("opened", "option", "kind", "shares", "expected"),
    [
        # Pub. 550, "Options": the premium of an option that is exercised goes into the shares.
        ("BOT", CALL, "exercise", None, ("basis", 5200)),  # 50 a share paid, and the 200 of the call
        ("SLD", CALL, "assignment", "BOT", ("gain", 1200)),  # sold at 5000 + 200, bought at 4000
    ],
)
async def test_the_premium_of_a_delivered_option_goes_into_the_shares(
    journal: Journal, opened: str, option: str, kind: str, shares: str | None, expected: tuple[str, int]
) -> None:
    if shares:
        await journal.trade(shares, 100, 40, "2025-03-03")
    await journal.trade(opened, 1, 2, "2025-03-10", instrument=option)
    action = await act(journal, kind, option, "2025-04-07", account_id="A1")
    what, amount = expected
    closed = {lot["ticker"]: lot for lot in await lots(journal, "closed")}
    assert closed[option]["realized_gain_loss"] == 0
    assert closed[option]["linked_trade_ids"][-1] == action["closing_trade_id"]
    if what == "basis":
        (lot,) = await lots(journal)
        assert (lot["ticker"], lot["quantity"], lot["total_basis"]) == ("SPY", 100, amount)
        assert (lot["open_date"], lot["acquisition_source"]) == ("2025-04-07", kind.upper())
        assert lot["linked_trade_ids"] == [action["related_trade_id"]]
    else:
        assert await lots(journal) == []
        assert closed["SPY"]["realized_gain_loss"] == amount
    year = await journal.get("/tax/ytd-summary", params={"tax_year": "2025"})
    assert year["total_realized"] == (amount if what == "gain" else 0)
    assert year["trades_count"] == (1 if what == "gain" else 0)  # a delivered option is no sale of its own
    await journal.expect(204, "DELETE", f"/corporate-actions/{action['id']}")
    assert option in {lot["ticker"] for lot in await lots(journal)}


async def test_a_washed_loss_goes_through_an_exercised_call_into_its_shares(journal: Journal) -> None:
    await journal.buy(100, 60, "2025-01-06")
    await journal.sell(100, 55, "2025-03-03")  # a loss of 500,
    await journal.buy(1, 2, "2025-03-10", instrument=CALL)  # which the call takes over: an option to acquire, §1091(a)
    await act(journal, "exercise", CALL, "2025-04-21", account_id="A1")
    (lot,) = await lots(journal)
    # 5000 for the shares, 200 for the call, 500 that the sale could not deduct (§1091(d))
    assert (lot["ticker"], lot["total_basis"], lot["wash_sale_adjustment"]) == ("SPY", 5700, 500)
    await journal.sell(100, 57, "2025-08-04")
    gains = [lot["realized_gain_loss"] for lot in await lots(journal, "closed") if lot["ticker"] == "SPY"]
    # the loss of 500 was disallowed, and counts now: 5700 for what cost 5700. Bought at 60, 50 and 2, sold at 55 and 57
    assert sorted(gains) == [0, 0]
    span = {"date_range_start": "2025-01-01", "date_range_end": "2025-12-31"}
    (row,) = (await journal.expect(200, "POST", "/tax/wash-sales", span))["wash_sales"]
    assert (row["status"], row["disallowed_loss"]) == ("RELEASED", 500)


async def test_an_option_that_expires_is_sold_or_bought_back_for_nothing(journal: Journal) -> None:
    # §1234(a)(2): an option that lapses is sold on its last day; (b)(1): the writer's gain is short-term.
    await journal.buy(1, 2, "2025-03-10", instrument=CALL, commission=1)
    await journal.sell(1, 3, "2025-03-10", instrument=PUT, commission=1)
    await act(journal, "expiry", CALL, "2025-06-20", account_id="A1")
    await act(journal, "expiry", PUT, "2025-06-20", account_id="A1")
    closed = {lot["ticker"]: lot for lot in await lots(journal, "closed")}
    assert (closed[CALL]["realized_gain_loss"], closed[PUT]["realized_gain_loss"]) == (-201, 299)
    assert not closed[PUT]["is_long_term"]
    assert closed[CALL]["close_date"] == "2025-06-20"


async def test_a_broker_file_may_have_brought_the_fills_of_a_delivery_at_different_times(journal: Journal) -> None:
    await journal.buy(1, 2, "2025-03-10", instrument=CALL)
    shares = (await journal.buy(100, 50, "2025-04-07", commission=5))["exec_id"]
    closing = (await journal.sell(1, 0, "2025-04-08", instrument=CALL))["exec_id"]
    before = {lot["ticker"]: lot["total_basis"] for lot in await lots(journal)}
    assert before == {"SPY": 5005}  # nobody said yet that they belong together
    given = {"account_id": "A1", "closing_trade_id": closing, "related_trade_id": shares}
    await act(journal, "exercise", CALL, "2025-04-08", **given)
    (lot,) = await lots(journal)
    assert (lot["total_basis"], lot["linked_trade_ids"]) == (5205, [shares])


class Work:
    """Counts the events that journal are led through, and the lots they are restored from."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events = self.restored = 0
        advance, restore = book_module.LotBook.advance, book_module.LotBook.restore

        def counted(book: Any, event: Any) -> Any:
            self.events += 1
            return advance(book, event)

        def counted_restore(book: Any, found: Any, *more: Any) -> None:
            known = list(found)
            self.restored += len(known)
            restore(book, known, *more)

        monkeypatch.setattr(book_module.LotBook, "advance", counted)
        monkeypatch.setattr(book_module.LotBook, "restore", counted_restore)

    def take(self) -> tuple[int, int]:
        done = (self.events, self.restored)
        self.events = self.restored = 0
        return done


async def test_one_more_trade_costs_what_is_open_and_recent_and_not_the_history(
    journal: Journal, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = datetime(2020, 1, 6, 15, tzinfo=UTC)

    def history(conn: Connection) -> None:
        drafts = [
            trades.Draft(
                exec_id=f"H{n:04d}",
                time=day + timedelta(days=2 * n),
                instrument=symbol,
                what=parse_instrument(symbol),
                action="BOT" if n % 2 == 0 else "SLD",
                quantity=Decimal(10),
                price=Decimal(50 + n % 7 - n % 5),
                account_id="A1",
            )
            for n in range(600)
            for symbol in (["SPY", "QQQ"][n // 2 % 2],)
        ]
        trades.insert_many(conn, drafts)

    await journal.buy(1, 10, "2019-12-02", instrument="IWM")  # brings the account into being
    await backend.database().write(history)
    work = Work(monkeypatch)
    await lots(journal)
    assert work.take() == (601, 0)
    await lots(journal)
    assert work.take() == (0, 0)  # nothing happened, nothing is done
    await journal.buy(10, 40, "2025-01-06")
    await lots(journal)
    events, restored = work.take()
    assert (events, restored < 20) == (1, True)
    await journal.buy(10, 40, "2020-01-07", instrument="IWM")  # late, but of something that has two trades
    await lots(journal)
    assert work.take()[0] <= 2
    await journal.sell(5, 40, "2020-01-07")  # from the past of something with three hundred: that one anew, no other
    await lots(journal)
    assert work.take()[0] == 302


async def test_lots_made_in_portions_are_those_made_at_once(
    journal: Journal, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(60):
        day = (datetime(2024, 1, 8, tzinfo=UTC) + timedelta(days=6 * n)).date().isoformat()
        action = ["BOT", "SLD", "BOT", "SLD", "SLD", "BOT"][n % 6]
        await journal.trade(action, 3 + n % 4, 50 - n % 7, day, account_id=f"A{n % 2}")
    await act(journal, "split", "SPY", "2024-05-06", numerator=2)

    def stored(conn: Connection) -> dict[str, Lot]:
        return {row.lot_id: msgspec.json.decode(row.lot, type=Lot) for row in conn.execute(select(tax_lots))}

    span = {"date_range_start": "2024-01-01", "date_range_end": "2025-12-31"}
    await lots(journal)
    at_once = await backend.database().read(stored)
    washed = await journal.expect(200, "POST", "/tax/wash-sales", span)
    monkeypatch.setattr(tax_writing, "_IN_MEMORY", 4)
    monkeypatch.setattr(tax_writing, "_ROWS", 3)
    monkeypatch.setattr(tax_events, "_AT_ONCE", 5)

    def anew(conn: Connection) -> None:
        conn.execute(tax_lots.delete())
        conn.execute(tax_state.delete())  # as after other rules: every lot is made from its whole history
        now = datetime.now(UTC)
        tax_store.sync(conn, tax_store.rules_of(conn, tax_profiles.load(conn, now)), now)

    await backend.database().write(anew)
    assert await backend.database().read(stored) == at_once
    assert await journal.expect(200, "POST", "/tax/wash-sales", span) == washed
    assert washed["wash_sales"]


async def test_a_trade_from_before_a_split_that_comes_late_is_split_too(journal: Journal) -> None:
    await journal.buy(10, 50, "2025-01-06")
    await act(journal, "split", "SPY", "2025-02-03", numerator=2)
    assert [lot["quantity"] for lot in await lots(journal)] == [20]
    await journal.buy(10, 50, "2025-01-20")  # after every known trade, but not after the split
    assert [lot["quantity"] for lot in await lots(journal)] == [20, 20]
    await journal.buy(10, 25, "2025-02-04")
    assert [lot["quantity"] for lot in await lots(journal)] == [20, 20, 10]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, []),
        ({"B": 500, "A": 1500, "C": 1, "D": 1999, "E": 5000, "F": 1}, [["A", "B"], ["C", "D"], ["E"], ["F"]]),
        ({"A": 1500, "B": 501}, [["A"], ["B"]]),
    ],
)
def test_underlyings_are_read_together_up_to_two_thousand_fills(
    counts: dict[str, int], expected: list[list[str]]
) -> None:
    assert list(tax_events.portions(counts)) == expected


@pytest.mark.parametrize(("count", "expected"), [(500, [500]), (501, [500, 1]), (1000, [500, 500])])
def test_no_more_than_five_hundred_underlyings_are_read_together(count: int, expected: list[int]) -> None:
    found = list(tax_events.portions({f"S{number:04d}": 1 for number in range(count)}))
    assert [len(portion) for portion in found] == expected


@pytest.mark.parametrize("at_once", [2, 2000])
async def test_ids_that_run_backwards_hide_no_fill(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    # the ids of imported fills are hashes, and tell nothing of their order
    monkeypatch.setattr(tax_events, "_AT_ONCE", at_once)
    for number, name in enumerate("zyxw", 1):
        await journal.buy(10, 100, f"2026-03-{number:02d}", exec_id=name)
    assert (await journal.get("/tax/lots", params={"status": "open"}))["total_count"] == 4
    for number, name in enumerate("dcba", 5):
        await journal.sell(10, 110, f"2026-03-{number:02d}", exec_id=name)
    assert (await journal.get("/tax/lots", params={"status": "open"}))["total_count"] == 0
    closed = (await journal.get("/tax/lots", params={"status": "closed"}))["lots"]
    assert sorted(lot["realized_gain_loss"] for lot in closed) == [100, 100, 100, 100]
