"""Over REST: what a year leaves to the next, and quarters whose requirement falls when the gain is lost again."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from typing import Any

import pytest
from sqlalchemy import text

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.rest.routes import tax as routes
from zorivest_rpc.embedded.tax.stored import reading


@pytest.fixture
def on_18_november_2026(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Clock:
            return cls(2026, 11, 18, 15, tzinfo=UTC).astimezone(tz)

    monkeypatch.setattr(routes, "datetime", Clock)


async def lose(journal: Journal, amount: int, year: int, *, months: int = 1) -> None:
    """A loss of an amount in a year, short-term, with nothing bought back."""
    name = f"L{year}{amount}"
    await journal.buy(amount, 2, f"{year}-03-02", instrument=name)
    await journal.sell(amount, 1, f"{year}-{3 + months:02}-02", instrument=name)


async def estimate(journal: Journal, year: int) -> dict[str, Any]:
    answer: dict[str, Any] = await journal.expect(200, "POST", "/tax/estimate", {"tax_year": year})
    return answer


@pytest.mark.usefixtures("on_18_november_2026")
async def test_a_gain_lost_again_requires_nothing_in_the_fourth_quarter(journal: Journal) -> None:
    await journal.buy(1000, 100, "2026-01-12", instrument="UP")
    await journal.sell(1000, 200, "2026-02-10", instrument="UP")
    asked = {"quarter": "Q4", "tax_year": "2026"}
    before = await journal.get("/tax/quarterly", params=asked)
    assert before["cumulative_required"] > 0
    await journal.buy(1000, 200, "2026-05-12", instrument="DOWN")
    await journal.sell(1000, 100, "2026-06-10", instrument="DOWN")
    for quarter in ("Q1", "Q2", "Q3", "Q4"):
        answer = await journal.get("/tax/quarterly", params={**asked, "quarter": quarter})
        figures = [answer[name] for name in ("required_payment", "cumulative_required", "underpayment", "penalty")]
        assert figures == [0, 0, 0, 0]
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2026"})
    assert [(row["required"], row["due"]) for row in summary["quarterly_payments"]] == [(0, 0)] * 4


async def test_a_loss_without_income_is_carried_whole_and_one_with_income_less_the_deduction(journal: Journal) -> None:
    # §1212(b)(2): single, no other income, −5,755 long-term: 5,755 are left
    await journal.buy(5755, 2, "2023-01-09", instrument="OLD")
    await journal.sell(5755, 1, "2024-06-03", instrument="OLD")
    gains = (await estimate(journal, 2024))["realized_gains"]
    assert (gains["long_term"], gains["deductible_loss"], gains["absorbed_loss"]) == (-5755, 3000, 0)
    assert (gains["carryforward_st"], gains["carryforward_lt"]) == (0, 5755)
    await journal.expect(200, "PUT", "/tax/profiles/2024", {"agi_estimate": 60_000})
    gains = (await estimate(journal, 2024))["realized_gains"]
    assert (gains["absorbed_loss"], gains["carryforward_lt"]) == (3000, 2755)


async def test_what_a_year_leaves_flows_into_the_next_ones_by_itself(journal: Journal) -> None:
    for year in (2023, 2024, 2025):
        await journal.expect(200, "PUT", f"/tax/profiles/{year}", {"agi_estimate": 60_000})
    await lose(journal, 11_000, 2023)
    first = (await estimate(journal, 2023))["realized_gains"]
    assert (first["carried_in_st"], first["carryforward_st"]) == (0, 8000)
    second = (await estimate(journal, 2024))["realized_gains"]
    assert (second["carried_in_st"], second["deductible_loss"], second["carryforward_st"]) == (8000, 3000, 5000)
    await journal.buy(1000, 1, "2025-03-03", instrument="GAIN")
    await journal.sell(1000, 5, "2025-04-01", instrument="GAIN")
    third = (await estimate(journal, 2025))["realized_gains"]
    # 4000 gained against 5000 brought in: 1000 deducted, nothing left, no tax on the gain
    assert (third["short_term"], third["carried_in_st"], third["deductible_loss"]) == (4000, 5000, 1000)
    assert third["carryforward_st"] == 0
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2024"})
    assert summary["capital_loss_carryforward"] == 5000
    quarter = await journal.get("/tax/quarterly", params={"quarter": "Q4", "tax_year": "2025"})
    # 60000 − 1000 − 15750 = 43250 for a single filer in 2025: 1192.50 + 12 % of 31325 = 4951.50; 90 % of it
    assert quarter["cumulative_required"] == 4456.35


async def test_a_year_runs_from_its_first_day_to_its_last(journal: Journal) -> None:
    # coins trade on holidays; 04:30 UTC on 1 January 2025 is still 31 December 2024 in New York
    coin = {"instrument": "BTC-USD", "asset_class": "CRYPTO"}
    await journal.buy(4, 9000, "2023-06-05", **coin)
    await journal.sell(1, 8000, "2023-12-31", **coin)
    await journal.sell(1, 7000, "2024-01-01", **coin)
    await journal.sell(1, 5000, "2025-01-01", time="2025-01-01T04:30:00+00:00", **coin)
    await journal.sell(1, 1000, "2025-01-01", time="2025-01-01T05:00:00+00:00", **coin)
    figures = [(await estimate(journal, year))["realized_gains"] for year in (2023, 2024, 2025, 2026)]
    assert [row["net"] for row in figures] == [-1000, -6000, -8000, 0]
    carried = [(row["carried_in_st"], row["carried_in_lt"]) for row in figures]
    assert carried == [(0, 0), (1000, 0), (3000, 4000), (3000, 12000)]


async def test_sums_of_past_years_are_kept_until_the_journal_is_locked(
    journal: Journal, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    closed_lots = reading.closed_lots

    def note(*given: Any, start: date, **more: Any) -> Any:
        read.append(start.year)
        return closed_lots(*given, start=start, **more)

    monkeypatch.setattr(reading, "closed_lots", note)
    await lose(journal, 9000, 2024)
    for times in (1, 1, 2):
        assert (await estimate(journal, 2025))["realized_gains"]["carried_in_st"] == 9000
        assert read.count(2024) == times
        if read.count(2025) == 2:
            backend.tax_years.clear()  # as locking does


async def test_a_late_trade_of_an_earlier_year_changes_what_flows(journal: Journal) -> None:
    await lose(journal, 9000, 2024)
    assert (await estimate(journal, 2025))["realized_gains"]["carried_in_st"] == 9000
    await lose(journal, 500, 2024)
    assert (await estimate(journal, 2025))["realized_gains"]["carried_in_st"] == 9500
    await journal.expect(200, "PUT", "/accounts/A1", {"is_tax_advantaged": True})
    assert (await estimate(journal, 2025))["realized_gains"]["carried_in_st"] == 0


async def test_a_profile_that_states_a_figure_has_the_last_word_even_with_a_zero(journal: Journal) -> None:
    await lose(journal, 9000, 2024)
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"agi_estimate": 1})
    assert (await estimate(journal, 2025))["realized_gains"]["carried_in_st"] == 9000
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"capital_loss_carryforward_lt": 700})
    gains = (await estimate(journal, 2025))["realized_gains"]
    assert (gains["carried_in_st"], gains["carried_in_lt"]) == (0, 700)
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"capital_loss_carryforward_lt": 0})
    gains = (await estimate(journal, 2025))["realized_gains"]
    assert (gains["carried_in_st"], gains["carried_in_lt"]) == (0, 0)


async def test_a_profile_of_the_release_before_states_no_zero(journal: Journal, backend: Embedded) -> None:
    await lose(journal, 9000, 2024)
    await journal.expect(200, "PUT", "/tax/profiles/2025", {"agi_estimate": 40_000})
    former = (
        '{"tax_year":2025,"filing_status":"SINGLE","federal_bracket":"0","state_tax_rate":"0","state":"",'
        '"prior_year_tax":null,"prior_year_agi":null,"agi_estimate":"40000","withholding":"0",'
        '"capital_loss_carryforward":"0","capital_loss_carryforward_lt":"0","wash_sale_method":"CONSERVATIVE",'
        '"default_cost_basis":"FIFO","include_drip_wash_detection":true,"include_spousal_accounts":false,'
        '"section_475_elected":false,"section_1256_eligible":false,"is_default":false}'
    )
    await backend.database().write(
        lambda conn: conn.execute(text("UPDATE tax_profiles SET profile = :p"), {"p": former})
    )
    gains = (await estimate(journal, 2025))["realized_gains"]
    assert (gains["carried_in_st"], gains["carryforward_st"]) == (9000, 6000)


async def test_a_figure_set_in_one_year_is_not_the_figure_of_the_next(journal: Journal, backend: Embedded) -> None:
    this_year = datetime.now(UTC).year
    await journal.expect(200, "PUT", "/settings", {"tax.capital_loss_carryforward": 4000})
    assert (await estimate(journal, this_year))["realized_gains"]["carried_in_st"] == 4000
    await backend.database().write(
        lambda conn: conn.execute(
            text("UPDATE settings SET updated_at = :moment"), {"moment": f"{this_year - 1}-06-01T12:00:00.000000Z"}
        )
    )
    gains = (await estimate(journal, this_year - 1))["realized_gains"]
    assert (gains["carried_in_st"], gains["carryforward_st"]) == (4000, 4000)  # no income: none is used up
    assert (await estimate(journal, this_year))["realized_gains"]["carried_in_st"] == 4000  # by way of the year before
