"""Tax answers over REST on small journals, with the arithmetic beside them; the figures follow the trades."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.driver import Journal
from tests.embedded.tax.stored.asking import Satisfies, lots, today


async def test_an_empty_journal_answers_zeros_and_a_hint(journal: Journal, satisfies: Satisfies) -> None:
    answers = {
        "estimate_tax": await journal.expect(200, "POST", "/tax/estimate", {}),
        "find_wash_sales": await journal.expect(200, "POST", "/tax/wash-sales", {}),
        "get_tax_lots": await journal.get("/tax/lots"),
        "get_quarterly_estimate": await journal.get("/tax/quarterly", params={"quarter": "Q1"}),
        "harvest_losses": await journal.get("/tax/harvest"),
        "get_ytd_tax_summary": await journal.get("/tax/ytd-summary"),
    }
    for tool, answer in answers.items():
        satisfies(tool, answer)
        assert "not tax advice" in answer["disclaimer"]
        assert "create_trade" in answer["hint"]
    assert answers["estimate_tax"]["total_estimated_tax"] == 0
    assert answers["estimate_tax"]["effective_rate"] is None
    assert answers["get_tax_lots"]["lots"] == []
    assert answers["get_quarterly_estimate"]["required_payment"] == 0
    summary = answers["get_ytd_tax_summary"]
    assert (summary["total_realized"], summary["trades_count"], summary["profile_source"]) == (0, 0, "default")
    assert [row["quarter"] for row in summary["quarterly_payments"]] == ["Q1", "Q2", "Q3", "Q4"]


async def test_commissions_are_part_of_basis_and_proceeds(journal: Journal, satisfies: Satisfies) -> None:
    await journal.buy(100, 50, "2025-01-06", commission=1)
    await journal.sell(40, 60, "2025-02-03", commission=0.5, fees=0.3)
    answer = await journal.get("/tax/lots", params={"account_id": "A1", "status": "all"})
    satisfies("get_tax_lots", answer)
    closed, still = sorted(answer["lots"], key=lambda lot: lot["quantity"])
    # bought for 100*50 + 1 = 5001; 40 of them carry 2000.40 and were sold for 40*60 - 0.80 = 2399.20
    assert (closed["quantity"], closed["total_basis"], closed["realized_gain_loss"]) == (40, 2000.4, 398.8)
    assert (still["quantity"], still["total_basis"], still["cost_basis"]) == (60, 3000.6, 50.01)
    # the last trade was at 60: 60*60 - 3000.60
    assert (still["current_price"], still["unrealized_gain_loss"]) == (60, 599.4)
    assert still["price_source"] == "last_trade"
    assert answer["summary"]["total_lots"] == answer["total_count"] == 2
    assert "hint" not in answer


async def test_the_estimate_of_a_year_by_brackets(journal: Journal, satisfies: Satisfies) -> None:
    profile = {"filing_status": "married_filing_jointly", "agi_estimate": 1, "state_tax_rate": 0.05}
    await journal.expect(200, "PUT", "/tax/profiles/2025", profile)
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"filing_status": "single", "agi_estimate": 100_000})
    await journal.buy(10, 100, "2024-01-08", instrument="QQQ")
    await journal.sell(10, 300, "2025-03-10", instrument="QQQ")
    await journal.buy(100, 50, "2025-01-06")
    await journal.sell(100, 60, "2025-02-03")
    answer = await journal.expect(200, "POST", "/tax/estimate", {"tax_year": 2025})
    satisfies("estimate_tax", answer)
    # short-term (60-50)*100 = 1000, long-term (300-100)*10 = 2000
    gains = answer["realized_gains"]
    assert (gains["short_term"], gains["long_term"], gains["net"]) == (1000, 2000, 3000)
    # single 2025: 100000 - 15750 = 84250 of other taxable income, in the 22 % bracket (48475 to 103350)
    # and above 48350, from which long-term gains are taxed at 15 %: 220 + 300; state 5 % of 3000 = 150
    federal = answer["federal_estimate"]
    assert (federal["ordinary_increment"], federal["long_term"], federal["niit"]) == (220, 300, 0)
    assert (answer["state_estimate"], answer["total_estimated_tax"]) == (150, 670)
    assert answer["effective_rate"] == pytest.approx(670 / 3000, abs=1e-4)
    assert (answer["filing_status"], answer["profile_source"], answer["brackets_year"]) == ("SINGLE", "profile", 2025)
    # joint: 100000 - 31500 = 68500 is in the 12 % bracket (23850 to 96950) and long-term gains cost nothing below 96700
    joint = await journal.expect(
        200, "POST", "/tax/estimate", {"tax_year": 2025, "filing_status": "married_filing_jointly"}
    )
    assert (joint["federal_estimate"]["ordinary_increment"], joint["federal_estimate"]["long_term"]) == (120, 0)
    one = await journal.expect(200, "POST", "/tax/estimate", {"tax_year": 2025, "account_id": "nobody"})
    assert one["total_estimated_tax"] == 0
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2025", "group_by": "symbol"})
    satisfies("get_ytd_tax_summary", summary)
    assert (summary["realized_st_gain"], summary["realized_lt_gain"], summary["trades_count"]) == (1000, 2000, 2)
    assert (summary["estimated_federal_tax"], summary["estimated_state_tax"]) == (520, 150)
    assert [(row["ticker"], row["total_gains"]) for row in summary["by_symbol"]] == [("QQQ", 2000), ("SPY", 1000)]


async def test_a_replacement_within_thirty_days_moves_the_loss_into_its_basis(
    journal: Journal, satisfies: Satisfies
) -> None:
    await journal.buy(100, 50, "2025-03-03", exec_id="first")
    await journal.sell(100, 40, "2025-03-10", exec_id="loss")
    await journal.buy(60, 41, "2025-03-22", exec_id="again")
    wanted = {"date_range_start": "2025-01-01", "date_range_end": "2025-12-31"}
    answer = await journal.expect(200, "POST", "/tax/wash-sales", wanted)
    satisfies("find_wash_sales", answer)
    # 10 a share were lost; 60 of the 100 shares were bought again 12 days later: 600 disallowed, 400 allowed
    (row,) = answer["wash_sales"]
    assert (row["sell_trade"], row["buy_trade"], row["matched_quantity"]) == ("loss", "again", 60)
    assert (row["disallowed_loss"], answer["total_disallowed"], answer["affected_tickers"]) == (600, 600, ["SPY"])
    # 60*41 = 2460, and the 600
    assert (row["adjusted_basis"], row["status"]) == (3060, "ABSORBED")
    assert row["wash_window"] == {"start": "2025-02-08", "end": "2025-04-09"}
    (lot,) = await lots(journal)
    assert (lot["wash_sale_adjustment"], lot["total_basis"], lot["tacked_days"]) == (600, 3060, 7)
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2025"})
    assert (summary["total_realized"], summary["wash_sale_adjustments"]) == (-400, 600)
    for other in ({"ticker": "QQQ"}, {"account_id": "A2"}, {"date_range_end": "2025-03-09"}):
        assert (await journal.expect(200, "POST", "/tax/wash-sales", {**wanted, **other}))["wash_sales"] == []


async def test_a_purchase_in_an_ira_destroys_the_loss(journal: Journal) -> None:
    await journal.buy(10, 50, "2025-03-03")
    await journal.sell(10, 40, "2025-03-10")
    await journal.buy(10, 41, "2025-03-12", account_id="R1")
    span = {"date_range_start": "2025-01-01", "date_range_end": "2025-12-31"}
    (row,) = (await journal.expect(200, "POST", "/tax/wash-sales", span))["wash_sales"]
    assert row["is_ira_permanent"] is False
    change = {"account_type": "ira", "is_tax_advantaged": True}
    await journal.expect(200, "PUT", "/accounts/R1", change)
    (row,) = (await journal.expect(200, "POST", "/tax/wash-sales", span))["wash_sales"]
    assert (row["is_ira_permanent"], row["status"], row["disallowed_loss"]) == (True, "DESTROYED", 100)
    (lot,) = await lots(journal, account_id="R1")
    assert lot["wash_sale_adjustment"] == 0


async def test_lots_follow_edits_deletes_and_late_trades(journal: Journal) -> None:
    first = (await journal.buy(10, 100, "2025-01-06"))["exec_id"]
    assert [lot["total_basis"] for lot in await lots(journal)] == [1000]
    await journal.buy(10, 110, "2025-01-08")
    sale = (await journal.sell(10, 120, "2025-02-03"))["exec_id"]
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 200
    await journal.expect(200, "PUT", f"/trades/{first}", {"price": 90})
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 300
    earlier = (await journal.buy(10, 70, "2025-01-02"))["exec_id"]  # from before everything: now the first in
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 500
    await journal.expect(204, "DELETE", f"/trades/{earlier}")
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 300
    await journal.expect(204, "DELETE", f"/trades/{sale}")
    assert await lots(journal, "closed") == []
    assert [lot["total_basis"] for lot in await lots(journal)] == [900, 1100]
    await journal.expect(200, "PUT", f"/trades/{first}", {"instrument": "QQQ"})
    assert [(lot["ticker"], lot["total_basis"]) for lot in await lots(journal)] == [("QQQ", 900), ("SPY", 1100)]
    await journal.expect(200, "PUT", f"/trades/{first}", {"notes": "a thought", "account_id": "A2"})
    assert [lot["ticker"] for lot in await lots(journal, account_id="A2")] == ["QQQ"]


async def test_lots_kept_up_trade_by_trade_are_those_made_anew(journal: Journal) -> None:
    steps = [("BOT", 30, 50), ("SLD", 50, 45), ("BOT", 40, 44), ("SLD", 10, 43), ("BOT", 5, 42), ("SLD", 15, 40)]
    for number, (action, quantity, price) in enumerate(steps * 3):
        day = (datetime(2025, 1, 6, tzinfo=UTC) + timedelta(days=5 * number)).date().isoformat()
        await journal.trade(action, quantity, price + number % 4, day, account_id=f"A{number // 4 % 2}")
        if number % 5 == 0:
            option = "SPY 301220 C 50"  # one that has not expired: an expired one is no open lot
            await journal.trade("BOT", 1, 2, day, instrument=option, account_id="A0")
        await lots(journal, "all")  # so that every trade is one step
    span = {"date_range_start": "2025-01-01", "date_range_end": "2025-12-31"}
    kept = (await lots(journal, "all"), await journal.expect(200, "POST", "/tax/wash-sales", span))
    assert kept[1]["wash_sales"]
    await journal.expect(
        200, "PUT", "/settings", {"tax.include_drip_wash_detection": "false"}
    )  # other rules: all is made anew
    assert (await lots(journal, "all"), await journal.expect(200, "POST", "/tax/wash-sales", span)) == kept


async def test_a_question_over_trades_that_did_not_change_writes_nothing(journal: Journal, backend: Any) -> None:
    await journal.buy(10, 100, "2025-01-06")
    await lots(journal)
    commits = backend.database().commits
    await lots(journal)
    await journal.expect(200, "POST", "/tax/estimate", {"tax_year": 2025})
    assert backend.database().commits == commits


async def test_the_method_of_a_year_chooses_the_lots_of_its_sales(journal: Journal) -> None:
    await journal.buy(10, 100, "2024-11-04")
    await journal.buy(10, 150, "2024-12-02")
    await journal.sell(10, 160, "2025-02-03")
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 600
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"default_cost_basis": "lifo"})
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 100
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"default_cost_basis": "FIFO"})
    await journal.expect(200, "PUT", "/settings", {"tax.default_cost_basis": "HIFO"})
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 600  # the year's own profile says otherwise


async def test_payments_are_recorded_once_and_counted(journal: Journal, satisfies: Satisfies) -> None:
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"agi_estimate": 115_750, "prior_year_tax": 8000})
    asked = {"quarter": "Q2", "tax_year": "2025", "estimation_method": "prior_year_safe_harbor"}
    estimate = await journal.get("/tax/quarterly", params=asked)
    satisfies("get_quarterly_estimate", estimate)
    # a quarter of last year's 8000 each time, two quarters by June; 15 June 2025 is a Sunday
    assert (estimate["required_payment"], estimate["cumulative_required"]) == (2000, 4000)
    assert (estimate["due_date"], estimate["method"]) == ("2025-06-16", "prior_year")
    pay = {"quarter": "Q1", "tax_year": 2025, "payment_amount": 1500, "confirm": True}
    receipt = await journal.expect(200, "POST", "/tax/quarterly/payment", pay)
    satisfies("record_quarterly_tax_payment", receipt)
    assert (receipt["status"], receipt["recorded_payment"], receipt["cumulative_paid"]) == ("recorded", 1500, 1500)
    assert receipt["replaced"] is False
    again = await journal.expect(200, "POST", "/tax/quarterly/payment", pay)
    assert (again["cumulative_paid"], again["replaced"]) == (1500, True)
    more = await journal.expect(200, "POST", "/tax/quarterly/payment", {**pay, "payment_amount": 500.25})
    assert (more["cumulative_paid"], more["replaced"]) == (2000.25, False)
    estimate = await journal.get("/tax/quarterly", params=asked)
    assert (estimate["cumulative_paid"], estimate["underpayment"]) == (2000.25, 1999.75)
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2025"})
    assert [row["paid"] for row in summary["quarterly_payments"]] == [2000.25] * 4
    other = await journal.get("/tax/quarterly", params={"quarter": "Q1", "tax_year": "2024"})
    assert other["cumulative_paid"] == 0


async def test_a_payment_must_be_confirmed(journal: Journal) -> None:
    for confirm in ({}, {"confirm": False}, {"confirm": "true"}, {"confirm": 1}):
        pay = {"quarter": "Q1", "tax_year": 2025, "payment_amount": 1500, **confirm}
        assert (await journal.refused(400, "POST", "/tax/quarterly/payment", pay))["error"] == "confirmation_required"
    estimate = await journal.get("/tax/quarterly", params={"quarter": "Q1", "tax_year": "2025"})
    assert estimate["cumulative_paid"] == 0


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("POST", "/tax/estimate", {"tax_year": 1800}),
        ("POST", "/tax/estimate", {"filing_status": "complicated"}),
        ("POST", "/tax/wash-sales", {"date_range_start": "soon"}),
        ("POST", "/tax/wash-sales", {"date_range_start": "2025-02-01", "date_range_end": "2025-01-01"}),
        ("POST", "/tax/lots", {"status": "lost"}),
        ("POST", "/tax/lots", {"sort_by": "luck"}),
        ("POST", "/tax/quarterly/payment", {"quarter": "Q5", "payment_amount": 1, "confirm": True}),
        ("POST", "/tax/quarterly/payment", {"quarter": "Q1", "payment_amount": 0, "confirm": True}),
        ("PUT", "/tax/profiles/2025", {"state_tax_rate": 7}),
        ("PUT", "/tax/profiles/2025", {"state": "Texas"}),
        ("PUT", "/tax/profiles/soon", {"state": "TX"}),
        ("PUT", "/tax/profiles/2025", {"filing_status": "complicated"}),
    ],
)
async def test_a_wrong_question_is_told_what_is_wrong(
    journal: Journal, method: str, path: str, given: dict[str, Any]
) -> None:
    refused = await journal.refused(422, method, path, given)
    assert refused["detail"]["errors"]


async def test_lots_are_those_of_the_account_and_the_ticker_asked_for(journal: Journal) -> None:
    for account in ("A1", "A2"):
        for symbol in ("SPY", "QQQ"):
            await journal.buy(2, 10, instrument=symbol, account_id=account)
            await journal.sell(1, 11, instrument=symbol, account_id=account)
    asked: tuple[tuple[dict[str, str], list[tuple[str, str]]], ...] = (
        ({}, [("A1", "QQQ"), ("A1", "SPY"), ("A2", "QQQ"), ("A2", "SPY")]),
        ({"ticker": "spy"}, [("A1", "SPY"), ("A2", "SPY")]),
        ({"account_id": "A2"}, [("A2", "QQQ"), ("A2", "SPY")]),
        ({"account_id": "A2", "ticker": "QQQ"}, [("A2", "QQQ")]),
        ({"ticker": "IWM"}, []),
    )
    for query, expected in asked:
        for status in ("open", "closed"):
            found = [(lot["account_id"], lot["ticker"]) for lot in await lots(journal, status, **query)]
            assert sorted(found) == expected


async def test_both_verbs_and_both_spellings_list_the_same_lots(journal: Journal) -> None:
    await journal.buy(10, 100, "2025-01-06")
    await journal.buy(10, 90, "2025-01-07")
    by_query = await journal.get("/tax/lots", params={"account_id": "A1", "sort_by": "acquired_date"})
    by_body = await journal.expect(200, "POST", "/tax/lots", {"account_id": "A1", "sort_by": "date_acquired"})
    assert by_query == by_body
    dearest = await lots(journal, sort_by="cost_basis")
    assert [lot["total_basis"] for lot in dearest] == [1000, 900]


async def test_the_profile_of_the_current_year_is_what_was_said_last(journal: Journal) -> None:
    year = today().year
    assert (await journal.get(f"/tax/profiles/{year}"))["is_default"] is True
    await journal.refused(404, "GET", f"/tax/profiles/{year - 1}")
    await journal.expect(200, "PUT", "/settings", {"tax.agi_estimate": 50_000, "tax.filing_status": "MARRIED_JOINT"})
    profile = await journal.get(f"/tax/profiles/{year}")
    assert (profile["agi_estimate"], profile["filing_status"], profile["is_default"]) == (
        50_000,
        "MARRIED_JOINT",
        False,
    )
    saved = await journal.expect(200, "PUT", f"/tax/profiles/{year}", {"agi_estimate": 60_000, "state": "ca"})
    assert (saved["status"], saved["tax_year"]) == ("created", year)
    profile = await journal.get(f"/tax/profiles/{year}")
    assert (profile["agi_estimate"], profile["filing_status"], profile["state"]) == (60_000, "MARRIED_JOINT", "CA")
    await journal.expect(200, "PUT", "/settings", {"tax.agi_estimate": 70_000})
    assert (await journal.get(f"/tax/profiles/{year}"))["agi_estimate"] == 70_000
    await journal.expect(200, "PUT", f"/tax/profiles/{year - 1}", {"agi_estimate": 40_000})
    assert (await journal.get(f"/tax/profiles/{year - 1}"))["agi_estimate"] == 40_000


async def test_an_imported_history_is_taxed_like_a_recorded_one(journal: Journal) -> None:
    rows = b"Date,Time,Symbol,Side,Qty,Price,Amount,Commission,Fee\n"
    rows += b"01/06/2025,10:00:00,SPY,Buy,100,50,5000,1.00,0\n02/03/2025,10:00:00,SPY,Sell,40,60,2400,0.50,0.30\n"
    await journal.csv(rows)
    (closed,) = await lots(journal, "closed")
    assert closed["realized_gain_loss"] == 398.8


async def test_who_may_do_what(with_role: Callable[[str], Awaitable[Caller]], anybody: Caller) -> None:
    await anybody.expect(403, "GET", "/tax/lots")
    reader, writer = await with_role("read-only"), await with_role("read-write")
    await writer.expect(
        201,
        "POST",
        "/trades",
        {"exec_id": "X", "instrument": "SPY", "action": "BOT", "quantity": 1, "price": 5, "account_id": "A1"},
    )
    assert len((await reader.get("/tax/lots"))["lots"]) == 1  # the lots are made for whoever asks first
    await reader.expect(200, "POST", "/tax/estimate", {})
    pay = {"quarter": "Q1", "payment_amount": 1, "confirm": True}
    await reader.expect(403, "POST", "/tax/quarterly/payment", pay)
    await writer.expect(200, "POST", "/tax/quarterly/payment", pay)
    await writer.expect(403, "PUT", "/tax/profiles/2025", {"agi_estimate": 1})


@pytest.mark.parametrize(
    ("method", "words"), [("SPEC_ID", "the oldest were used"), ("AVG_COST", "fund shares"), ("HIFO", None)]
)
async def test_a_method_that_cannot_be_what_it_says_is_told(journal: Journal, method: str, words: str | None) -> None:
    await journal.buy(10, 100, "2025-01-06")
    await journal.buy(10, 120, "2025-01-07")
    await journal.sell(5, 130, "2025-06-02")
    await journal.expect(200, "PUT", "/settings", {"tax.default_cost_basis": method})
    answer = await journal.get("/tax/lots")
    if words is None:
        assert "warnings" not in answer
    else:
        (warning,) = answer["warnings"]
        assert words in warning


async def test_the_settings_say_everything_a_profile_can(journal: Journal) -> None:
    said = {"tax.withholding": "400", "tax.prior_year_agi": "200000", "tax.capital_loss_carryforward_lt": "700"}
    await journal.expect(200, "PUT", "/settings", {**said, "tax.prior_year_tax": "1000"})
    answer = await journal.get("/tax/quarterly", params={"quarter": "Q2", "estimation_method": "prior_year"})
    # §6654(d)(1)(C): 110 % after a year above 150,000; half of 1100 by June, half of what is withheld
    assert (answer["cumulative_required"], answer["basis"]["withholding_to_date"]) == (550, 200)
    estimate = await journal.expect(200, "POST", "/tax/estimate", {})
    assert estimate["realized_gains"]["deductible_loss"] == 700
