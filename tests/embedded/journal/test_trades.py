"""Trades: recorded once, found again, changed, deleted with what hangs on them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from sqlalchemy import select
from yarl import URL

from tests.embedded.conftest import Caller
from tests.embedded.driver import START, Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import audit_log
from zorivest_rpc.embedded.imports import dedup
from zorivest_rpc.embedded.journal import trades

TRADE = {"exec_id": "X1", "instrument": "SPY", "action": "BOT", "quantity": 10, "price": 500.25, "account_id": "A1"}


async def test_a_recorded_trade_is_shown_with_everything(
    journal: Journal, satisfies: Callable[[str, Any], None]
) -> None:
    answer = await journal.expect(
        201,
        "POST",
        "/trades",
        {**TRADE, "instrument": "spy stk (usd)", "commission": 1.05, "fees": "0.02", "notes": "opening range"},
    )
    satisfies("create_trade", answer)
    assert (answer["status"], answer["exec_id"]) == ("created", "X1")
    assert "possible_duplicate_of" not in answer
    trade = await journal.get("/trades/X1")
    assert trade == answer["trade"]
    assert (trade["instrument"], trade["symbol"], trade["asset_class"]) == ("spy stk (usd)", "SPY", "EQUITY")
    assert (trade["quantity"], trade["price"], trade["commission"], trade["fees"]) == (10, 500.25, 1.05, 0.02)
    assert (trade["source"], trade["image_count"], trade["has_report"], trade["multiplier"]) == ("manual", 0, False, 1)
    assert trade["time"].endswith("+00:00")


async def test_an_option_in_any_spelling_is_one_instrument(journal: Journal) -> None:
    for number, text in enumerate(["AAPL  260320C00200000", ".AAPL260320C200", "aapl 260320 c 200"]):
        trade = await journal.buy(1, 2.5, exec_id=f"O{number}", instrument=text)
        assert (trade["symbol"], trade["asset_class"], trade["multiplier"]) == ("AAPL 260320 C 200", "OPTION", 100)
    (trip,) = await journal.trips()
    assert trip["entry_exec_ids"] == ["O0", "O1", "O2"]


async def test_the_same_exec_id_is_refused_and_shows_what_is_there(journal: Journal) -> None:
    await journal.expect(201, "POST", "/trades", TRADE)
    refused = await journal.refused(409, "POST", "/trades", {**TRADE, "price": 1})
    assert (refused["error"], refused["exec_id"], refused["match"]) == ("duplicate_trade", "X1", "exec_id")
    assert refused["existing"]["price"] == 500.25
    assert (await journal.get("/trades"))["total"] == 1


async def test_a_fill_that_looks_the_same_is_taken_and_told(journal: Journal) -> None:
    when = {"time": "2026-03-02T15:00:00Z"}
    await journal.expect(201, "POST", "/trades", {**TRADE, **when})
    answer = await journal.expect(201, "POST", "/trades", {**TRADE, **when, "exec_id": "X2", "instrument": "SPY STK"})
    assert answer["possible_duplicate_of"] == "X1"
    later = await journal.expect(201, "POST", "/trades", {**TRADE, "time": "2026-03-02T15:00:01Z", "exec_id": "X3"})
    assert "possible_duplicate_of" not in later


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"exec_id": ""}, "exec_id"),
    ({"exec_id": ".."}, "exec_id"),
    ({"exec_id": "a\nb"}, "exec_id"),
    ({"exec_id": "x" * 129}, "exec_id"),
    ({"instrument": "  "}, "instrument"),
    ({"instrument": "AAPL 261320 C 200"}, "instrument"),
    ({"instrument": "X" * 100}, "instrument"),
    ({"action": "HOLD"}, "action"),
    ({"quantity": 0}, "quantity"),
    ({"quantity": -5}, "quantity"),
    ({"quantity": True}, "quantity"),
    ({"quantity": "1e400"}, "quantity"),
    ({"quantity": 0.123456789}, "quantity"),
    ({"price": -0.01}, "price"),
    ({"price": "NaN"}, "price"),
    ({"quantity": 9_999_999_999, "price": 9_999_999_999}, "quantity"),
    ({"account_id": ""}, "account_id"),
    ({"time": "yesterday"}, "time"),
    ({"ledger": [{"fee_type": "bribe", "amount": 1}]}, "ledger"),
    ({"commission": 1, "ledger": [{"fee_type": "exchange", "amount": 0.5}]}, "ledger"),
)


async def test_a_wrong_field_is_named_and_nothing_is_written(journal: Journal) -> None:
    for change, field in WRONG:
        refused = await journal.refused(422, "POST", "/trades", {**TRADE, **change})
        assert field in refused["detail"]["errors"], change
    assert (await journal.get("/trades"))["total"] == 0
    assert await journal.get("/accounts") == []


async def test_an_unknown_account_is_created_unless_that_is_switched_off(journal: Journal) -> None:
    await journal.expect(201, "POST", "/trades", TRADE)
    (account,) = await journal.get("/accounts")
    assert (account["account_id"], account["account_type"]) == ("A1", "broker")
    await journal.expect(200, "PUT", "/settings", {"accounts.auto_create": "false"})
    refused = await journal.refused(422, "POST", "/trades", {**TRADE, "exec_id": "X2", "account_id": "A2"})
    assert "account_id" in refused["detail"]["errors"]
    await journal.expect(201, "POST", "/trades", {**TRADE, "exec_id": "X2"})


async def test_the_system_account_takes_no_trades(journal: Journal) -> None:
    await journal.refused(403, "POST", "/trades", {**TRADE, "account_id": "SYSTEM_DEFAULT"})


async def test_a_list_is_paged_sorted_searched_and_cut_to_a_period(journal: Journal) -> None:
    for number, (symbol, price, day) in enumerate(
        [("SPY", 500, "2025-12-30"), ("QQQ", 400, "2026-01-05"), ("AAPL", 200, "2026-02-01")]
    ):
        await journal.buy(1, price, exec_id=f"T{number}", instrument=symbol, time=f"{day}T15:00:00Z")

    async def ids(**query: str) -> list[str]:
        return [item["exec_id"] for item in (await journal.get("/trades", params=query))["items"]]

    assert await ids() == ["T2", "T1", "T0"]
    assert await ids(sort="time") == ["T0", "T1", "T2"]
    assert await ids(sort="price") == ["T2", "T1", "T0"]
    assert await ids(sort="-instrument") == ["T0", "T1", "T2"]
    assert await ids(search="qq") == ["T1"]
    assert await ids(search="t0") == ["T0"]
    assert await ids(search="%") == []
    assert await ids(period="2026") == ["T2", "T1"]
    assert await ids(account_id="A2") == []
    page = await journal.get("/trades", params={"limit": "1", "offset": "1"})
    assert ([item["exec_id"] for item in page["items"]], page["total"], page["limit"], page["offset"]) == (
        *(["T1"], 3),
        *(1, 1),
    )


async def test_a_list_refuses_what_it_cannot_do(journal: Journal) -> None:
    for query in (
        *({"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"offset": "-1"}, {"offset": "9" * 30}),
        *({"sort": "notes"}, {"sort": "price; DROP TABLE trades"}, {"period": "ever"}),
    ):
        await journal.refused(422, "GET", "/trades", params=query)


async def test_an_empty_list_says_how_to_fill_it(journal: Journal) -> None:
    empty = await journal.get("/trades")
    assert (empty["items"], empty["total"]) == ([], 0)
    assert "create_trade" in empty["hint"]


async def test_a_change_rewrites_only_what_it_names(journal: Journal) -> None:
    before = await journal.buy(10, 5, notes="first", commission=1)
    after = await journal.expect(200, "PUT", "/trades/E0001", {"notes": "second", "price": 6, "trade_id": "E0001"})
    assert after == {**before, "notes": "second", "price": 6}
    assert await journal.expect(200, "PUT", "/trades/E0001", {}) == after
    await journal.refused(404, "PUT", "/trades/none", {"notes": "x"})
    await journal.refused(422, "PUT", "/trades/E0001", {"quantity": 0})


async def test_a_deleted_trade_takes_everything_that_hangs_on_it(journal: Journal) -> None:
    await journal.buy(10, 5)
    report = await journal.expect(
        201, "POST", "/trades/E0001/report", {"setup_quality": "A", "execution_quality": "B", "followed_plan": True}
    )
    await journal.expect(201, "POST", "/mistakes", {"trade_exec_id": "E0001", "category": "chasing"})
    await journal.expect(204, "DELETE", "/trades/E0001")
    for path in ("/trades/E0001", "/trades/E0001/report", f"/journal/{report['journal_entry_id']}"):
        await journal.refused(404, "GET", path)
    summary = await journal.get("/mcp/state-summary")
    assert {summary["counters"][name] for name in ("trades", "mistakes", "reports", "images")} == {0}
    assert await journal.trips() == []
    await journal.refused(404, "DELETE", "/trades/E0001")


async def test_ids_with_every_kind_of_sign_find_their_trade(journal: Journal) -> None:
    for name in ("a/b", "a b", "ü{x}", "1%2F2", "'; DROP TABLE trades;--", "../../etc/passwd", "?#&"):
        await journal.buy(1, 1, exec_id=name)
        path = "/trades/" + quote(name, safe="")
        response = await journal.caller.client.request(
            "GET", URL("/api/v1" + path, encoded=True), headers={"Authorization": f"Bearer {journal.caller.token}"}
        )
        assert (response.status, (await response.json()).get("exec_id")) == (200, name)


async def test_a_reader_reads_and_does_not_write(
    journal: Journal, with_role: Callable[[str], Awaitable[Caller]]
) -> None:
    await journal.buy(1, 1)
    reader = Journal(await with_role("read-only"))
    assert (await reader.get("/trades"))["total"] == 1
    await reader.get("/analytics/expectancy")
    for method, path, body in (
        ("POST", "/trades", TRADE),
        ("PUT", "/trades/E0001", {"notes": "x"}),
        ("DELETE", "/trades/E0001", None),
        ("POST", "/trades/E0001/images", None),
        ("POST", "/trades/E0001/report", {}),
        ("POST", "/trades/E0001/journal-link", {}),
        ("POST", "/journal", {}),
        ("POST", "/trade-plans", {}),
        ("POST", "/accounts", {}),
        ("POST", "/mistakes", {}),
        ("POST", "/fees/periodic", {}),
        ("POST", "/market-data/bars", {}),
        ("POST", "/analytics/excursion/E0001", {}),
    ):
        assert (await reader.refused(403, method, path, body))["error"] == "role_too_low"
    writer = Journal(await with_role("read-write"))
    await writer.expect(201, "POST", "/trades", TRADE)


def test_an_import_knows_a_trade_by_the_same_fingerprint() -> None:
    """Both sides make the key by themselves; the same fill must come to the same one."""
    quantity, price = Decimal("10.50"), Decimal("99.9900")
    imported = dedup.fingerprint(
        account_id="A1", symbol="SPY", exec_time=START, side="BOT", quantity=quantity, price=price
    )
    assert trades.fingerprint("SPY", "BOT", Decimal("10.5"), Decimal("99.99"), "A1", START) == imported


async def test_a_caller_without_a_session_learns_nothing(journal: Journal, anybody: Caller) -> None:
    await journal.buy(1, 1)
    for path in ("/trades", "/trades/E0001", "/accounts", "/round-trips", "/images/1", "/fees/summary"):
        assert (await anybody.ask("GET", path)).status == 403


async def test_every_change_of_a_trade_is_in_the_audit_log(journal: Journal, backend: Embedded) -> None:
    await journal.buy(1, 5, exec_id="E1")
    await journal.expect(200, "PUT", "/trades/E1", {"notes": "second", "price": 6})
    await journal.expect(200, "PUT", "/trades/E1", {})  # changes nothing
    said = select(audit_log.c.action).where(audit_log.c.resource_id == "E1").order_by(audit_log.c.id)
    actions = await backend.database().read(lambda conn: conn.execute(said).scalars().all())
    assert actions == ["trade.create", "trade.update"]
