"""Accounts: every field of every answer, figures over its own trips alone, foreign ones at the rate of their day."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import audit_log

FIELDS: dict[str, Any] = {
    "institution": "First Bank",
    "currency": "EUR",
    "is_tax_advantaged": False,
    "notes": "mine",
    "broker_id": "schwab",
    "is_spousal": True,
}
KINDS = {"broker": False, "bank": False, "revolving": False, "installment": False, "ira": True, "401k": True}


async def open_account(journal: Journal, name: str, kind: str = "broker", **more: Any) -> dict[str, Any]:
    body = {"account_id": name, "name": f"{name} & co", "account_type": kind, **more}
    answer: dict[str, Any] = await journal.expect(201, "POST", "/accounts", body)
    return answer


async def test_an_account_is_answered_with_everything_it_was_given(journal: Journal) -> None:
    for kind, is_advantaged in KINDS.items():
        opened = await open_account(journal, f"of kind {kind}", kind)
        assert (opened["account_type"], opened["is_tax_advantaged"]) == (kind, is_advantaged)
    plain = await open_account(journal, "P", "ira")
    assert plain.pop("created_at")
    assert plain == {
        "account_id": "P",
        "name": "P & co",
        "account_type": "ira",
        "institution": "",
        "currency": "USD",
        "is_tax_advantaged": True,
        "notes": "",
        "sub_accounts": [],
        "balance_source": "manual",
        "is_archived": False,
        "is_system": False,
        "broker_id": None,
        "is_spousal": False,
        "source": plain["source"],
    }
    full = await open_account(journal, "Q", "401k", **FIELDS)
    assert {name: full[name] for name in FIELDS} == FIELDS
    changed = await journal.expect(200, "PUT", "/accounts/P", FIELDS)
    assert {name: changed[name] for name in FIELDS} == FIELDS
    listed = {row["account_id"]: row for row in await journal.get("/accounts")}
    none = {"latest_balance": None, "latest_balance_date": None}
    assert (listed["P"], listed["Q"]) == ({**changed, **none}, {**full, **none})
    shown = await journal.get("/accounts/Q")
    figures = {"trade_count": 0, "round_trip_count": 0, "win_rate": 0, "total_realized_pnl": 0}
    assert shown == {**full, **none, **figures}


async def test_figures_are_those_of_the_account_alone_and_a_trip_that_earned_nothing_is_not_won(
    journal: Journal,
) -> None:
    await open_account(journal, "A1")
    await open_account(journal, "A2")
    for account, results in (("A1", (50, 0, -20)), ("A2", (7, 8, 9, -1, -2))):
        for pnl in results:
            await journal.result(pnl, account_id=account)
    await journal.buy(1, 5, account_id="A1", instrument="QQQ")
    first, second = [await journal.get(f"/accounts/{name}") for name in ("A1", "A2")]
    names = ("trade_count", "round_trip_count", "win_rate", "total_realized_pnl")
    assert [first[name] for name in names] == [7, 4, 0.333333, 30]
    assert [second[name] for name in names] == [10, 5, 0.6, 21]


async def test_an_account_in_euros_counts_dollars_at_the_rate_of_the_day_they_were_earned(journal: Journal) -> None:
    await open_account(journal, "E1", currency="EUR")
    for day, rate in (("2026-03-03", 2), ("2026-03-04", 4)):
        body = {"day": day, "base": "EUR", "quote": "USD", "rate": rate}
        await journal.expect(201, "POST", "/exchange-rates", body)
    own: dict[str, Any] = {"account_id": "E1"}
    await journal.buy(1, 100, "2026-03-03", currency="USD", **own)
    await journal.sell(1, 150, "2026-03-04", currency="USD", **own)  # 50 dollars at a quarter of a euro: 12.50
    await journal.buy(2, 100, "2026-03-03", instrument="SAP", currency="EUR", **own)
    await journal.sell(2, 95, "2026-03-04", instrument="SAP", currency="EUR", **own)  # −10
    await journal.buy(1, 100, "2026-03-03", instrument="TM", currency="JPY", **own)
    await journal.sell(1, 108, "2026-03-04", instrument="TM", currency="JPY", **own)  # 8 yen, without a rate
    shown = await journal.get("/accounts/E1")
    assert (shown["currency"], shown["total_realized_pnl"]) == ("EUR", 2.5)
    assert (shown["trade_count"], shown["round_trip_count"], shown["win_rate"]) == (6, 3, 0.666667)
    assert shown["converted"] == [{"kind": "results", "currency": "USD", "count": 1}]
    assert shown["unconverted"] == [{"kind": "results", "currency": "JPY", "count": 1, "amount": 8}]


async def test_a_balance_is_answered_shown_and_paged(journal: Journal) -> None:
    await open_account(journal, "A1")
    await open_account(journal, "A2")
    path = "/accounts/A1/balances"
    taken = [
        await journal.expect(201, "POST", path, {"balance": balance, "snapshot_datetime": moment})
        for balance, moment in (
            (10, "2026-01-01T12:00:00Z"),
            (20, "2026-01-03T12:00:00Z"),
            (20, "2026-01-04T12:00:00Z"),
        )
    ]
    await journal.expect(201, "POST", "/accounts/A2/balances", {"balance": 99, "snapshot_datetime": "2026-01-09"})
    assert [(one["account_id"], one["balance"], one["changed"]) for one in taken] == [
        ("A1", 10, True),
        ("A1", 20, True),
        ("A1", 20, False),
    ]
    assert taken[2]["id"] == taken[1]["id"]
    early = await journal.expect(201, "POST", path, {"balance": 10, "snapshot_datetime": "2026-01-03T11:59:59Z"})
    assert (early["changed"], early["id"]) == (False, taken[0]["id"])  # as it was at that moment
    same = await journal.expect(
        201, "POST", path, {"balance": "-9.999999", "snapshot_datetime": "2026-01-03T12:00:00Z"}
    )
    assert same["changed"]
    page = await journal.get(path, params={"limit": "1", "offset": "1"})
    assert (page["total"], [row["balance"] for row in page["items"]]) == (3, [20])
    shown = await journal.get("/accounts/A1")
    assert (shown["latest_balance"], shown["latest_balance_date"]) == (-9.999999, "2026-01-03T12:00:00+00:00")
    listed = {row["account_id"]: row["latest_balance"] for row in await journal.get("/accounts")}
    assert listed == {"A1": -9.999999, "A2": 99}
    await journal.refused(422, "POST", path, {"balance": "much"})
    for method, body in (("POST", {"balance": 1}), ("GET", None)):
        await journal.refused(404, method, "/accounts/none/balances", body)


async def test_every_change_of_an_account_is_in_the_audit_log(journal: Journal, backend: Embedded) -> None:
    await open_account(journal, "A1")
    await journal.expect(200, "PUT", "/accounts/A1", {"notes": "x", "is_archived": False})
    await journal.expect(200, "PUT", "/accounts/A1", {})  # changes nothing
    for _ in range(2):  # the second is the same balance
        await journal.expect(201, "POST", "/accounts/A1/balances", {"balance": 1, "snapshot_datetime": "2026-01-01"})
    said = select(audit_log.c.action).where(audit_log.c.resource_id == "A1").order_by(audit_log.c.id)
    actions = await backend.database().read(lambda conn: conn.execute(said).scalars().all())
    assert actions == ["account.create", "account.update", "balance.record"]
