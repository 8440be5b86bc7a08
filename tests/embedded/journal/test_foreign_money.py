"""Foreign money, one rule at a time: rates, currencies of symbols and accounts, and what waits for a rate."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from aiohttp import FormData

from tests.embedded.driver import Journal
from tests.embedded.imports import writers
from tests.embedded.imports.writers import Line
from tests.embedded.journal.foreign import apart, load


async def test_a_pair_earns_its_second_currency_and_its_price_is_its_rate(journal: Journal) -> None:
    # 10000 dollars bought for 150 yen and sold for 151: 10000 yen, at 151 a dollar 66.23
    await journal.buy(10_000, 150, instrument="USD/JPY")
    trade = await journal.sell(10_000, 151, instrument="USD/JPY")
    assert (trade["currency"], trade["computed_pnl"]) == ("JPY", 10_000)
    found = await journal.get("/analytics/expectancy")
    assert (found["total_pnl"], found["currency"]) == (66.23, "USD")
    assert found["converted"] == [{"kind": "results", "currency": "JPY", "count": 1}]
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert (trip["realized_pnl"], trip["currency"]) == (10_000, "JPY")
    refused = await journal.refused(
        422, "POST", "/trades",
        {"exec_id": "x", "instrument": "USD/JPY", "action": "BOT", "quantity": 1, "price": 150, "account_id": "A1",
         "currency": "USD"},
    )  # fmt: skip
    assert "JPY" in str(refused["detail"])


async def test_a_pair_of_other_currencies_waits_for_a_rate(journal: Journal) -> None:
    # 1000 euros bought for 160 yen and sold for 158: 2000 yen lost, of which no dollar is known
    await journal.buy(1000, 160, instrument="EUR/JPY", commission=3)
    await journal.sell(1000, 158, instrument="EUR/JPY")
    found = await journal.get("/analytics/expectancy")
    assert (found["total_pnl"], found["trade_count"]) == (0, 0)
    assert apart(found, "results") == {"JPY": (1, -2003)}
    assert found["missing_rates"] == [{"from": "JPY", "to": "USD", "day": "2026-03-02"}]
    assert "eurofxref-hist.csv" in found["currency_note"]
    # one euro is 158 yen by the pair itself, and 1.10 dollars by the stored rate: 2003 / 158 * 1.10
    rate = {"day": "2026-03-02", "base": "EUR", "quote": "USD", "rate": 1.1}
    assert (await journal.expect(201, "POST", "/exchange-rates", rate))["added"] == 1
    found = await journal.get("/analytics/expectancy")
    assert (found["total_pnl"], "unconverted" in found) == (-13.94, False)


async def test_a_trade_may_bring_its_currency_and_its_rate(journal: Journal) -> None:
    await journal.buy(10, 100, instrument="SAP", currency="eur", fx_rate=1.1, commission=1)
    sold = await journal.sell(10, 110, instrument="SAP", currency="EUR", fx_rate=1.2, commission=1)
    assert (sold["currency"], sold["fx_rate"], sold["fx_base"]) == ("EUR", 1.2, "USD")
    assert (await journal.get("/analytics/expectancy"))["total_pnl"] == 117.6  # 98 euros at 1.2
    lot = (await journal.get("/tax/lots", params={"status": "closed"}))["lots"][0]
    # 1001 euros at 1.1 against 1099 at 1.2: each leg at its own rate
    assert (lot["cost_basis"], lot["proceeds"], lot["realized_gain_loss"]) == (110.11, 131.88, 217.7)
    assert (await journal.get("/fees/summary", params={"period": "all"}))["total_fees"] == 2.3
    await journal.expect(200, "PUT", f"/trades/{sold['exec_id']}", {"fx_rate": 1.3})
    assert (await journal.get("/analytics/expectancy"))["total_pnl"] == 127.4
    lot = (await journal.get("/tax/lots", params={"status": "closed"}))["lots"][0]
    assert lot["proceeds"] == 142.87  # the books follow a changed rate
    await journal.refused(422, "POST", "/trades", {"currency": "12"})


async def test_the_same_symbol_in_two_currencies_is_two_positions(journal: Journal) -> None:
    await journal.buy(10, 100, instrument="VOD")
    await journal.sell(10, 90, instrument="VOD", currency="GBP")
    trips = (await journal.get("/round-trips"))["items"]
    assert sorted((trip["currency"], trip["direction"], trip["status"]) for trip in trips) == [
        ("GBP", "SLD", "open"),
        ("USD", "BOT", "open"),
    ]
    moved = await journal.expect(200, "PUT", "/trades/E0002", {"currency": "USD"})
    assert moved["currency"] == "USD"
    (trip,) = (await journal.get("/round-trips"))["items"]
    assert (trip["status"], trip["realized_pnl"], trip["currency"]) == ("closed", -100, "USD")


async def test_the_currency_behind_a_symbol_counts(journal: Journal) -> None:
    assert (await journal.buy(1, 100, instrument="SAP STK (EUR)"))["currency"] == "EUR"


async def test_an_account_of_another_currency_has_its_sums_in_it(journal: Journal) -> None:
    body = {"account_id": "DE", "name": "x", "account_type": "broker", "currency": "EUR"}
    await journal.expect(201, "POST", "/accounts", body)
    await journal.buy(10, 100, instrument="SAP", account_id="DE")
    await journal.sell(10, 110, instrument="SAP", account_id="DE", commission=2)
    own = await journal.get("/analytics/expectancy", params={"account_id": "DE"})
    assert (own["total_pnl"], own["currency"], "unconverted" in own) == (98, "EUR", False)
    everything = await journal.get("/analytics/expectancy")
    assert (everything["total_pnl"], apart(everything, "results")) == (0, {"EUR": (1, 98)})
    await journal.expect(200, "PUT", "/settings", {"journal.currency": "EUR"})
    assert (await journal.get("/analytics/expectancy"))["total_pnl"] == 98
    fees = await journal.expect(201, "POST", "/fees/periodic", {"account_id": "DE", "amount": 5})
    assert fees["currency"] == "EUR"


async def test_a_mistake_costs_what_its_trade_was_paid_in(journal: Journal) -> None:
    await journal.buy(10, 100, instrument="SAP", currency="EUR", exec_id="in")
    await journal.sell(10, 90, instrument="SAP", currency="EUR", exec_id="out")
    tagged = await journal.expect(201, "POST", "/mistakes", {"trade_exec_id": "out", "category": "chasing"})
    assert (tagged["estimated_cost"], tagged["currency"]) == (100, "EUR")
    body = {"trade_exec_id": "in", "category": "oversized", "estimated_cost": 30}
    await journal.expect(201, "POST", "/mistakes", body)
    found = await journal.get("/mistakes/summary", params={"period": "all"})
    assert (found["total_mistakes"], found["total_cost"], apart(found, "mistakes")) == (2, 0, {"EUR": (2, 130)})
    await journal.expect(
        201, "POST", "/exchange-rates", {"day": "2026-03-02", "base": "EUR", "quote": "USD", "rate": 2}
    )
    found = await journal.get("/mistakes/summary", params={"period": "all"})
    assert (found["total_cost"], found["most_costly"]) == (260, "chasing")


async def test_rates_are_kept_once_and_a_wrong_file_says_why(journal: Journal) -> None:
    daily = "Date, USD, JPY, \n17 November 2025, 1.1600, 180.05, \n"
    first = await load(journal, daily, name="eurofxref.csv")
    assert (first["imported"], first["detected_format"], first["currencies"]) == (2, "ecb_rates", ["EUR", "JPY", "USD"])
    again = await load(journal, daily, name="eurofxref.csv")
    assert (again["imported"], again["duplicates_skipped"]) == (0, 2)
    other = "date,base,quote,rate\n2025-11-17,EUR,USD,1.17\n2025-11-18,EUR,XX,1\n2025-11-19,GBP,USD,0\n"
    mixed = await load(journal, other)
    assert (mixed["status"], mixed["rates"], mixed["error_rows"]) == (
        "PARTIAL", {"added": 0, "changed": 1, "unchanged": 0}, 2,
    )  # fmt: skip
    listed = await journal.get("/exchange-rates", params={"currency": "USD"})
    assert [(row["day"], row["rate"]) for row in listed["items"]] == [("2025-11-17", 1.17)]
    assert (await journal.get("/accounts")) == []  # rates bring no account into being


def flex(trades: str) -> str:
    """As a Flex query of an account in euros writes it; the attributes follow the public samples of ibflex."""
    return (
        '<FlexQueryResponse queryName="t" type="AF"><FlexStatements count="1"><FlexStatement accountId="U1">'
        '<AccountInformation accountId="U1" currency="EUR"/>'
        f"<Trades>{trades}</Trades>"
        '<ConversionRates><ConversionRate reportDate="20260303" fromCurrency="GBP" toCurrency="EUR" rate="1.15"/>'
        "</ConversionRates></FlexStatement></FlexStatements></FlexQueryResponse>"
    )


def flex_trade(number: int, side: str, price: str, rate: str, commission: str, paid_in: str, day: str) -> str:
    sign = "" if side == "BUY" else "-"
    return (
        f'<Trade accountId="U1" assetCategory="STK" symbol="IBM" dateTime="{day};100000" buySell="{side}" '
        f'quantity="{sign}10" tradePrice="{price}" ibCommission="-{commission}" ibCommissionCurrency="{paid_in}" '
        f'currency="USD" fxRateToBase="{rate}" multiplier="1" ibExecID="e{number}"/>'
    )


async def test_a_flex_file_brings_rates_a_base_currency_and_commissions_of_another_one(journal: Journal) -> None:
    # bought for 1000 dollars at 0.90 euros, sold for 1100 at 0.95; the second commission is 1.90 euros: 2 dollars
    buy = flex_trade(1, "BUY", "100", "0.9", "1", "USD", "20260302")
    sell = flex_trade(2, "SELL", "110", "0.95", "1.9", "EUR", "20260303")
    answer = await load(journal, flex(buy + sell), "U1", "flex.xml")
    assert (answer["imported"], answer["error_rows"]) == (2, 0)
    assert (await journal.get("/accounts/U1"))["currency"] == "EUR"
    found = await journal.get("/analytics/expectancy", params={"account_id": "U1"})
    assert (found["currency"], found["total_pnl"]) == ("EUR", 92.15)  # 100 - 1 - 2 dollars at 0.95
    dollars = await journal.get("/analytics/expectancy")
    assert (dollars["currency"], dollars["total_pnl"]) == ("USD", 97)
    assert (await journal.get("/exchange-rates"))["total"] == 1
    # a commission of which no rate is known is asked for, and taken once it is given
    odd = flex_trade(3, "BUY", "100", "0.9", "5", "CHF", "20260304")
    refused = await load(journal, flex(odd), "U1", "flex.xml")
    assert (refused["imported"], refused["error_rows"]) == (0, 1)
    assert "is in CHF and the trade in USD, and there is no rate for 2026-03-04" in refused["errors"][0]["message"]
    rate = {"day": "2026-03-04", "base": "CHF", "quote": "USD", "rate": 1.2}
    await journal.expect(201, "POST", "/exchange-rates", rate)
    assert (await load(journal, flex(odd), "U1", "flex.xml"))["imported"] == 1
    (trade,) = (await journal.get("/trades", params={"search": "e3"}))["items"]
    assert (trade["commission"], trade["fx_rate"], trade["fx_base"]) == (6, 0.9, "EUR")


HEAD = "Trades,Header,DataDiscriminator,Asset Category,Currency,Symbol,Date/Time,Quantity,T. Price"
ACTIVITY = f"""Statement,Header,Field Name,Field Value
Statement,Data,Period,"March 2, 2026 - March 31, 2026"
Account Information,Header,Field Name,Field Value
Account Information,Data,Account,U2
Account Information,Data,Base Currency,USD
{HEAD},C. Price,Proceeds,Comm/Fee,Basis,Realized P/L,MTM P/L,Code
Trades,Data,Order,Stocks,EUR,SAP,"2026-03-31, 05:00:00",10,100,101,-1000,-1.5,1001.5,0,10,O
Trades,Data,Order,Stocks,EUR,SAP,"2026-03-31, 06:00:00",-10,120,101,1200,-1.5,-1001.5,197,10,C
{HEAD},,Proceeds,Comm in USD,,,MTM in USD,Code
Trades,Data,Order,Forex,JPY,USD.JPY,"2026-03-31, 07:00:00",10000,150,,-1500000,-2,,,0,
Base Currency Exchange Rate,Header,Currency,Exchange Rate
Base Currency Exchange Rate,Data,EUR,1.08
"""


async def test_an_activity_statement_brings_the_rates_of_its_last_day(journal: Journal) -> None:
    answer = await load(journal, ACTIVITY, "U2")
    assert (answer["imported"], answer["error_rows"]) == (3, 0)
    found = await journal.get("/analytics/expectancy", params={"account_id": "U2"})
    assert (found["currency"], found["total_pnl"]) == ("USD", 212.76)  # 197 euros at 1.08
    (pair,) = (await journal.get("/trades", params={"search": "JPY"}))["items"]
    assert (pair["currency"], pair["commission"]) == ("JPY", 300)  # two dollars at 150


async def test_a_statement_in_foreign_money_leaves_the_balance_alone(journal: Journal) -> None:
    body = {"account_id": "B", "name": "x", "account_type": "bank"}
    await journal.expect(201, "POST", "/accounts", body)
    await journal.expect(201, "POST", "/accounts/B/balances", {"balance": 100})
    for amount, paid_in in ((10, b"USD"), (7, b"EUR")):
        statement = writers.ofx([Line(date(2026, 3, 2), "in", Decimal(amount))], balance=Decimal(amount))
        form = FormData({"account_id": "B"})
        form.add_field("file", statement.replace(b"USD", paid_in).replace(b"F0", b"F" + paid_in), filename="a.ofx")
        await journal.expect(200, "POST", "/banking/import", data=form)
    assert (await journal.get("/banking/accounts"))[0]["balance"] == 100  # the newest; both statements are older
    ledger = await journal.get("/banking/accounts/B/transactions")
    assert (ledger["total"], ledger["net_change"], ledger["currency"]) == (2, 10, "USD")
    assert ledger["unconverted"] == [{"kind": "lines", "currency": "EUR", "count": 1, "amount": 7}]


async def test_a_future_is_paid_in_the_currency_of_its_contract(journal: Journal) -> None:
    # one DAX future is 25 euros a point: 10 points are 250 euros, whatever the account is kept in
    await journal.buy(1, 18_000, instrument="FDAX 03-26")
    sold = await journal.sell(1, 18_010, instrument="FDAX 03-26")
    assert (sold["currency"], sold["computed_pnl"]) == ("EUR", 250)
    found = await journal.get("/analytics/expectancy")
    assert (found["total_pnl"], apart(found, "results")) == (0, {"EUR": (1, 250)})
    taxes = await journal.get("/tax/ytd-summary", params={"tax_year": "2026"})
    assert (taxes["total_realized"], taxes["unconverted"][0]["reason"]) == (0, "not_translated")
    assert "take their gain from the broker" in taxes["currency_note"]


async def test_tax_books_forget_a_position_as_soon_as_a_fill_has_no_rate(journal: Journal) -> None:
    await journal.expect(
        201, "POST", "/exchange-rates", {"day": "2026-03-02", "base": "EUR", "quote": "USD", "rate": 1}
    )
    await journal.buy(10, 100, instrument="SAP", currency="EUR")
    assert (await journal.get("/tax/lots"))["total_count"] == 1
    late = "2026-05-04T15:00:00Z"
    sold = await journal.sell(10, 110, instrument="SAP", currency="EUR", time=late)
    lots = await journal.get("/tax/lots", params={"status": "all"})
    assert (lots["total_count"], lots["unconverted"][0]["reason"]) == (0, "no_rate")
    assert lots["missing_rates"] == [{"from": "EUR", "to": "USD", "day": "2026-05-04"}]
    await journal.expect(200, "PUT", f"/trades/{sold['exec_id']}", {"fx_rate": 2})
    (lot,) = (await journal.get("/tax/lots", params={"status": "all"}))["lots"]
    assert lot["realized_gain_loss"] == 1200  # 2200 - 1000


async def test_an_open_foreign_lot_is_worth_dollars(journal: Journal) -> None:
    await journal.expect(
        201, "POST", "/exchange-rates", {"day": "2026-03-02", "base": "EUR", "quote": "USD", "rate": 2}
    )
    await journal.buy(10, 100, instrument="SAP", currency="EUR")
    (lot,) = (await journal.get("/tax/lots"))["lots"]
    assert (lot["cost_basis"], lot["current_price"], lot["unrealized_gain_loss"]) == (200, 200, 0)


async def test_a_review_names_the_rate_that_a_recorded_balance_lacks(journal: Journal) -> None:
    await journal.buy(1, 100, exec_id="first")
    await journal.sell(1, 90, exec_id="loss")
    body = {"balance": 10_000, "snapshot_datetime": "2026-03-01T00:00:00Z"}
    await journal.expect(201, "POST", "/accounts/A1/balances", body)
    await journal.buy(10, 1000, instrument="SNY", currency="JPY", exec_id="yen")
    await journal.sell(10, 900, instrument="SNY", currency="JPY")
    review = await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": "yen"})
    gaps = {gap.partition(":")[0]: gap for gap in review["data_gaps"]}
    for name in ("account balance", "risk unit"):
        assert "there is no rate of JPY to USD on 2026-03-02" in gaps[name]
        assert "import_broker_csv takes a file of rates" in gaps[name]
    rate = {"day": "2026-03-02", "base": "USD", "quote": "JPY", "rate": 100}
    await journal.expect(201, "POST", "/exchange-rates", rate)
    review = await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": "yen"})
    assert not {"account balance", "risk unit"} & {gap.partition(":")[0] for gap in review["data_gaps"]}
    found = {one["code"]: one["evidence"] for one in review["personas"][0]["findings"]}
    assert found["position_size"] == "the position was 1.00 % of the account"  # 10 000 of 1 000 000 yen
    assert found["loss_in_r"] == "result -1.00R"  # 1000 yen against 10 dollars


async def test_a_review_without_a_balance_still_says_that_none_is_recorded(journal: Journal) -> None:
    await journal.buy(1, 100, instrument="SNY", currency="JPY", exec_id="yen")
    review = await journal.expect(200, "POST", "/analytics/ai-review", {"trade_exec_id": "yen"})
    assert "account balance: none is recorded" in review["data_gaps"]


async def test_legs_of_different_currencies_are_not_added(journal: Journal) -> None:
    legs = {
        "dollars": ("SAP 260619 C 100", "USD"),
        "euros": ("SAP 260619 C 110", "EUR"),
        "more": ("SAP 260619 C 120", "EUR"),
    }
    for name, (option, currency) in legs.items():
        await journal.trade(
            "BOT" if name != "more" else "SLD", 1, 5, instrument=option, currency=currency, exec_id=name
        )
    asked = {"leg_exec_ids": ["dollars", "euros"]}
    refusal = await journal.refused(422, "POST", "/analytics/options-strategy", asked)
    assert "dollars: USD, euros: EUR" in str(refusal)
    assert "one currency at a time" in str(refusal)
    asked = {"leg_exec_ids": ["euros", "more"]}
    answer = await journal.expect(200, "POST", "/analytics/options-strategy", asked)
    assert (answer["currency"], len(answer["legs"])) == ("EUR", 2)


async def test_a_list_of_trades_by_period_names_its_zone(journal: Journal) -> None:
    await journal.buy(1, 100)
    assert "period_timezone" not in await journal.get("/trades")
    told = await journal.get("/trades", params={"period": "2026-03-02..2026-03-02"})
    for outside in ("2026-03-01..2026-03-01", "2026-03-03..2026-03-03"):
        assert (await journal.get("/trades", params={"period": outside}))["total"] == 0
    assert (told["total"], told["period_timezone"], "period_note" in told) == (1, "America/New_York", False)
    await journal.expect(200, "PUT", "/settings", {"journal.timezone": "Asia/Tokyo"})
    told = await journal.get("/trades", params={"period": "2026-03-03..2026-03-03"})
    assert (told["total"], told["period_timezone"]) == (1, "Asia/Tokyo")
    assert "America/New_York trade dates" in told["period_note"]


async def test_an_account_that_a_trade_creates_has_the_currency_of_the_journal(journal: Journal) -> None:
    await journal.buy(1, 100, account_id="before")
    await journal.expect(200, "PUT", "/settings", {"journal.currency": "EUR"})
    assert (await journal.buy(1, 100, account_id="after"))["currency"] == "EUR"
    assert (await journal.buy(1, 100, account_id="dollars", currency="USD"))["currency"] == "USD"
    accounts = {one["account_id"]: one["currency"] for one in (await journal.get("/accounts"))}
    assert (accounts["before"], accounts["after"], accounts["dollars"]) == ("USD", "EUR", "EUR")
    await load(journal, "Date,Symbol,Side,Quantity,Price\n2026-03-02,SAP,BUY,1,100\n", "file")
    assert (await journal.get("/accounts/file"))["currency"] == "EUR"


async def both_currencies(journal: Journal) -> None:
    """Ten shares bought for dollars, five for euros, which are two dollars each."""
    rate = {"day": "2026-03-02", "base": "EUR", "quote": "USD", "rate": 2}
    await journal.expect(201, "POST", "/exchange-rates", rate)
    await journal.buy(10, 100, instrument="VOD", exec_id="dollars")
    await journal.buy(5, 80, instrument="VOD", currency="EUR", exec_id="euros")


async def test_tax_lots_of_two_currencies_are_not_matched_together(journal: Journal) -> None:
    await both_currencies(journal)
    await journal.sell(5, 90, instrument="VOD", currency="EUR")  # first in would have been the dollars
    lots = (await journal.get("/tax/lots", params={"status": "all"}))["lots"]
    found = {
        lot["paid_in"]: (lot["close_date"] is not None, lot["quantity"], lot["realized_gain_loss"]) for lot in lots
    }
    assert found == {"EUR": (True, 5, 100), "USD": (False, 10, None)}  # 5 x (90 - 80) euros
    await journal.sell(3, 70, instrument="VOD", currency="EUR", exec_id="short")  # nothing is left in euros
    lots = (await journal.get("/tax/lots"))["lots"]
    assert sorted((lot["paid_in"], lot["direction"], lot["quantity"]) for lot in lots) == [
        ("EUR", "short", 3),
        ("USD", "long", 10),
    ]
    before = await journal.get("/tax/lots", params={"status": "all"})
    await journal.expect(
        200, "PUT", "/settings", {"tax.include_drip_wash_detection": "false"}
    )  # other rules: all is made anew
    assert await journal.get("/tax/lots", params={"status": "all"}) == before


async def test_a_loss_is_washed_by_a_purchase_in_another_currency(journal: Journal) -> None:
    await both_currencies(journal)
    await journal.sell(10, 90, instrument="VOD")  # 10 dollars lost on each of 10 shares, of which 5 are replaced
    lots = (await journal.get("/tax/lots", params={"status": "closed"}))["lots"]
    assert sum(lot["disallowed_loss"] for lot in lots) == 50
    (held,) = (await journal.get("/tax/lots"))["lots"]
    assert (held["paid_in"], held["wash_sale_adjustment"]) == ("EUR", 50)


async def test_a_fill_without_a_rate_leaves_the_dollars_of_its_symbol_in_the_figures(journal: Journal) -> None:
    await journal.buy(10, 100, instrument="VOD")
    await journal.buy(5, 80, instrument="VOD", currency="EUR")
    await journal.sell(10, 110, instrument="VOD")
    answer = await journal.get("/tax/lots", params={"status": "all"})
    assert [(lot["paid_in"], lot["realized_gain_loss"]) for lot in answer["lots"]] == [("USD", 100)]
    assert [(row["ticker"], row["currency"], row["count"]) for row in answer["unconverted"]] == [("VOD", "EUR", 1)]
