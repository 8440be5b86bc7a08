"""Splits and the ends of options: what they do to round trips, what is refused, and how they are undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from tests.embedded.conftest import Caller
from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.books import tax_stale

from .test_round_trips import assert_in_step

CALL, PUT = "AAPL 260320 C 200", "AAPL 260320 P 200"


async def split(journal: Journal, to: Any, of: Any = 1, day: str = "2026-04-01", **more: Any) -> dict[str, Any]:
    body = {"kind": "split", "symbol": "SPY", "effective": day, "numerator": to, "denominator": of, **more}
    answer: dict[str, Any] = await journal.expect(201, "POST", "/corporate-actions", body)
    return answer


async def end(journal: Journal, kind: str, symbol: str, **more: Any) -> dict[str, Any]:
    body = {"kind": kind, "symbol": symbol, "effective": "2026-03-20", "account_id": "A1", **more}
    answer: dict[str, Any] = await journal.expect(201, "POST", "/corporate-actions", body)
    return answer


async def test_a_split_turns_open_shares_into_new_ones(journal: Journal, backend: Embedded) -> None:
    # 10 at 400, four for one: 40 at 100, sold at 110
    await journal.buy(10, 400)
    answer = await split(journal, 4)
    assert (answer["accounts_adjusted"], answer["effective_at"]) == (["A1"], "2026-04-01T05:00:00+00:00")
    (trip,) = await journal.trips()
    assert (trip["open_quantity"], trip["entry_avg_price"], trip["status"]) == (40, 100, "open")
    await journal.sell(40, 110, time="2026-04-02T15:00:00Z")
    (trip,) = await journal.trips()
    assert (trip["status"], trip["realized_pnl"], trip["exit_avg_price"]) == ("closed", 400, 110)
    whole = await journal.get(f"/round-trips/{trip['id']}")
    assert [(leg["quantity"], leg["price"]) for leg in whole["executions"]] == [(10, 400), (40, 110)]
    await backend.database().read(assert_in_step)


async def test_a_split_told_late_sets_right_what_looked_like_a_flip(journal: Journal) -> None:
    await journal.buy(10, 400)
    await journal.sell(40, 110, time="2026-04-02T15:00:00Z")
    assert len(await journal.trips()) == 2
    number = (await split(journal, 4))["id"]
    (trip,) = await journal.trips()
    assert (trip["status"], trip["realized_pnl"]) == ("closed", 400)
    await journal.expect(204, "DELETE", f"/corporate-actions/{number}")
    assert len(await journal.trips()) == 2
    await journal.refused(404, "DELETE", f"/corporate-actions/{number}")


async def test_a_trade_from_before_a_known_split_is_counted_in_new_shares(journal: Journal, backend: Embedded) -> None:
    await split(journal, 2)
    await journal.buy(10, 50)
    await journal.buy(5, 30, time="2026-04-02T15:00:00Z")
    await journal.buy(10, 70)
    (trip,) = await journal.trips()
    # 20 at 25, 20 at 35 and 5 at 30: 500 + 700 + 150 = 1350 for 45
    assert (trip["open_quantity"], trip["entry_avg_price"]) == (45, 30)
    await backend.database().read(assert_in_step)


async def test_a_split_of_one_account_leaves_the_others(journal: Journal) -> None:
    await journal.buy(10, 400)
    await journal.buy(10, 400, account_id="A2")
    await split(journal, 4, account_id="A2")
    assert {trip["account_id"]: trip["open_quantity"] for trip in await journal.trips()} == {"A1": 10, "A2": 40}


async def test_a_split_is_recorded_once(journal: Journal) -> None:
    await journal.buy(1, 10)
    first = await split(journal, 4)
    for account in (None, "A1"):
        body = {"kind": "split", "symbol": "spy stk", "effective": "2026-04-01", "numerator": 4, "account_id": account}
        answer = await journal.refused(409, "POST", "/corporate-actions", body)
        assert (answer["error"], str(first["id"]) in answer["detail"]) == ("duplicate_corporate_action", True)


@pytest.mark.parametrize(
    ("symbol", "side", "kind", "shares", "result"),
    [
        (CALL, "BOT", "exercise", ("BOT", 200), -300),
        (PUT, "BOT", "exercise", ("SLD", 200), -300),
        (CALL, "SLD", "assignment", ("SLD", 200), 300),
        (PUT, "SLD", "assignment", ("BOT", 200), 300),
    ],
)
async def test_delivery_closes_the_contracts_and_moves_the_shares(
    journal: Journal, symbol: str, side: str, kind: str, shares: tuple[str, int], result: int
) -> None:
    await journal.trade(side, 2, 1.5, instrument=symbol)
    action = await end(journal, kind, symbol)
    assert (action["quantity"], action["underlying"]) == (2, "AAPL")
    trips = {trip["instrument"]: trip for trip in await journal.trips()}
    assert (trips[symbol]["status"], trips[symbol]["realized_pnl"]) == ("closed", result)
    assert (trips["AAPL"]["direction"], trips["AAPL"]["open_quantity"]) == shares
    assert trips["AAPL"]["entry_avg_price"] == 200
    delivered = await journal.get(f"/trades/{action['related_trade_id']}")
    assert (delivered["price"], delivered["source"], delivered["time"]) == (200, kind, "2026-03-20T21:00:00+00:00")


async def test_contracts_may_end_in_parts(journal: Journal, backend: Embedded) -> None:
    await journal.sell(3, 1.5, instrument=PUT)
    await end(journal, "assignment", PUT, quantity=1)
    last = await end(journal, "expiry", PUT, effective="2026-03-20T21:30:00Z")
    assert (last["quantity"], last["related_trade_id"]) == (2, None)
    trips = {trip["instrument"]: trip for trip in await journal.trips()}
    assert (trips[PUT]["status"], trips[PUT]["realized_pnl"], trips["AAPL"]["open_quantity"]) == ("closed", 450, 100)
    await backend.database().read(assert_in_step)


async def test_fills_that_a_broker_reported_are_used_and_stay(journal: Journal) -> None:
    await journal.sell(1, 1.5, instrument=PUT)
    at = "2026-03-20T21:00:00Z"
    closing = await journal.buy(1, 0, instrument=PUT, exec_id="X-close", time=at)
    bought = await journal.buy(100, 200, instrument="AAPL", exec_id="X-shares", time=at)
    both = {"closing_trade_id": closing["exec_id"], "related_trade_id": bought["exec_id"]}
    action = await end(journal, "assignment", PUT, **both)
    assert both.items() <= action.items()
    assert (await journal.get("/trades"))["total"] == 3
    for path in both.values():
        answer = await journal.refused(409, "DELETE", f"/trades/{path}")
        assert answer["error"] == "trade_of_corporate_action"
    await journal.refused(409, "PUT", "/trades/X-shares", {"price": 1})
    await journal.expect(200, "PUT", "/trades/X-shares", {"notes": "assigned early"})
    again = {"kind": "assignment", "symbol": PUT, "account_id": "A1", "effective": at, **both}
    await journal.refused(409, "POST", "/corporate-actions", again)
    await journal.expect(204, "DELETE", f"/corporate-actions/{action['id']}")
    assert (await journal.get("/trades"))["total"] == 3


async def test_deleting_an_action_takes_back_the_fills_it_made(journal: Journal, backend: Embedded) -> None:
    await journal.sell(1, 1.5, instrument=PUT)
    action = await end(journal, "assignment", PUT)
    assert (await journal.get("/trades"))["total"] == 3
    await journal.expect(204, "DELETE", f"/corporate-actions/{action['id']}")
    (trip,) = await journal.trips()
    assert (trip["status"], trip["flags"]) == ("open", ["expired_unresolved"])
    await backend.database().read(assert_in_step)


async def test_cash_and_shares_add_up_over_a_delivery(journal: Journal) -> None:
    # put sold for 150, 100 shares taken at 200, sold at 190: 150 - 20000 + 19000 = -850
    await journal.sell(1, 1.5, instrument=PUT)
    await end(journal, "assignment", PUT)
    await journal.sell(100, 190, instrument="AAPL", time="2026-03-23T15:00:00Z")
    assert sum(trip["realized_pnl"] for trip in await journal.trips()) == -850


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "merger"}, "kind"),
        ({"kind": None}, "kind"),
        ({"symbol": "AAPL 269999 C 200"}, "symbol"),
        ({"symbol": CALL}, "symbol"),
        ({"symbol": None}, "symbol"),
        ({"effective": "2999-01-01"}, "effective"),
        ({"effective": "soon"}, "effective"),
        ({"effective": None}, "effective"),
        ({"numerator": 0}, "numerator"),
        ({"numerator": 1}, "numerator"),
        ({"numerator": None}, "numerator"),
        ({"denominator": -1}, "denominator"),
        ({"kind": "exercise"}, "symbol"),
        ({"kind": "exercise", "symbol": PUT}, "account_id"),
    ],
)
async def test_what_cannot_be_is_refused_by_field(journal: Journal, change: dict[str, Any], field: str) -> None:
    body = {"kind": "split", "symbol": "SPY", "effective": "2026-04-01", "numerator": 4, **change}
    answer = await journal.refused(422, "POST", "/corporate-actions", body)
    assert field in answer["detail"]["errors"]


async def test_contracts_end_only_as_they_were_held(journal: Journal) -> None:
    body = {"symbol": CALL, "account_id": "A1", "effective": "2026-03-20"}
    await journal.refused(404, "POST", "/corporate-actions", {**body, "kind": "expiry"})
    await journal.buy(2, 1.5, instrument=CALL)
    for change, field in (
        ({"kind": "assignment"}, "kind"),
        ({"kind": "exercise", "quantity": 3}, "quantity"),
        ({"kind": "exercise", "effective": "2026-03-01"}, "effective"),
        ({"kind": "expiry", "related_trade_id": "E0001"}, "related_trade_id"),
        ({"kind": "exercise", "related_trade_id": "E0001"}, "related_trade_id"),
        ({"kind": "exercise", "closing_trade_id": "E0001"}, "closing_trade_id"),
    ):
        answer = await journal.refused(422, "POST", "/corporate-actions", {**body, **change})
        assert list(answer["detail"]["errors"]) == [field], change
    await journal.refused(404, "POST", "/corporate-actions", {**body, "kind": "exercise", "closing_trade_id": "none"})
    answer = await journal.refused(409, "POST", "/corporate-actions", {**body, "kind": "expiry", "symbol": PUT})
    assert answer["error"] == "no_open_position"
    assert (await journal.get("/corporate-actions"))["total"] == 0
    assert (await journal.get("/trades"))["total"] == 1


async def test_the_list_knows_account_symbol_and_kind(journal: Journal) -> None:
    await journal.buy(2, 1.5, instrument=CALL)
    await end(journal, "exercise", CALL)
    await split(journal, 4)
    assert [item["kind"] for item in (await journal.get("/corporate-actions"))["items"]] == ["split", "exercise"]
    for query, kinds in (
        ({"symbol": "aapl"}, ["exercise"]),
        ({"kind": "split"}, ["split"]),
        ({"account_id": "A1"}, ["split", "exercise"]),
        ({"account_id": "A2"}, ["split"]),
        ({"limit": "1"}, ["split"]),
    ):
        assert [item["kind"] for item in (await journal.get("/corporate-actions", params=query))["items"]] == kinds
    shown = await journal.get("/corporate-actions/1")
    assert (shown["kind"], shown["numerator"]) == ("exercise", None)
    await journal.refused(404, "GET", "/corporate-actions/x")
    await journal.refused(422, "GET", "/corporate-actions", params={"kind": "merger"})


async def test_the_tax_lots_of_the_underlying_are_made_anew(journal: Journal, backend: Embedded) -> None:
    async def stale() -> list[str]:
        return list(await backend.database().read(lambda conn: conn.execute(select(tax_stale)).scalars().all()))

    await journal.buy(2, 1.5, instrument=CALL)
    assert await stale() == []
    await split(journal, 4)
    await split(journal, 3, day="2026-05-01")
    assert await stale() == ["SPY"]
    await end(journal, "exercise", CALL)
    assert sorted(await stale()) == ["AAPL", "SPY"]


async def test_a_reader_may_look_and_not_write(with_role: Callable[[str], Awaitable[Caller]]) -> None:
    reader = await with_role("read-only")
    await reader.expect(200, "GET", "/corporate-actions")
    body = {"kind": "split", "symbol": "SPY", "effective": "2026-04-01", "numerator": 4}
    await reader.expect(403, "POST", "/corporate-actions", body)
    await reader.expect(403, "DELETE", "/corporate-actions/1")


async def test_the_demo_goes_with_the_actions_on_it(journal: Journal) -> None:
    await journal.expect(201, "POST", "/demo")
    options = [trip for trip in await journal.trips(status="open") if trip["instrument"].startswith("QQQ ")]
    held = next(trip for trip in options if trip["direction"] == "BOT")
    now = {"effective": datetime.now(UTC).isoformat(), "account_id": held["account_id"]}
    action = await end(journal, "exercise", held["instrument"], **now)
    assert action["source"] == "demo"
    await journal.expect(200, "DELETE", "/demo")
    assert (await journal.get("/trades"))["total"] == (await journal.get("/corporate-actions"))["total"] == 0
