"""Foreign money: every sum against a ledger kept naively, share by share, in exact fractions and by currency.

The ledger knows nothing of the code it judges: it has one queue of single shares per account, symbol and currency, and
looks a rate up by walking back day by day through a table."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

import pytest

from tests.embedded.driver import Journal
from tests.embedded.journal.foreign import apart, load, near

FIRST = date(2025, 1, 6)
DAYS = 200
CURRENCY = {"AAA": "USD", "BBB": "USD", "SAP": "EUR", "AIR": "EUR", "SNY": "JPY", "TYT": "JPY"}
ACCOUNTS = {"US": "USD", "DE": "EUR"}


class Fill(NamedTuple):
    number: int
    account: str
    symbol: str
    day: date
    side: int
    quantity: int
    price: Fraction
    fee: Fraction


class Trip(NamedTuple):
    account: str
    currency: str
    closed: date
    order: int
    pnl: Fraction
    is_closed: bool


def make_rates(dice: random.Random) -> dict[date, dict[str, Fraction]]:
    """How many of each currency one euro cost: on working days, with holes that are longer than a week."""
    table: dict[date, dict[str, Fraction]] = {}
    holes = {code: FIRST + timedelta(days=dice.randrange(20, 120)) for code in ("USD", "JPY")}
    for number in range(-10, DAYS + 10):
        day = FIRST + timedelta(days=number)
        if day.weekday() > 4:
            continue
        known = {
            "USD": Fraction(dice.randrange(10400, 11800), 10000),
            "JPY": Fraction(dice.randrange(15500, 17000), 100),
        }
        for code, hole in holes.items():
            if hole <= day < hole + timedelta(days=25 if code == "JPY" else 14):
                del known[code]
        table[day] = known
    return table


def rate_of(table: dict[date, dict[str, Fraction]], source: str, target: str, day: date) -> Fraction | None:
    if source == target:
        return Fraction(1)
    for back in range(8):
        known = {"EUR": Fraction(1), **table.get(day - timedelta(days=back), {})}
        if day - timedelta(days=back) in table and source in known and target in known:
            return known[target] / known[source]
    return None


def make_fills(dice: random.Random, count: int) -> list[Fill]:
    fills = []
    for number in range(count):
        symbol = dice.choice(sorted(CURRENCY))
        scale = 100 if CURRENCY[symbol] == "JPY" else 1
        fills.append(
            Fill(
                number,
                dice.choice(sorted(ACCOUNTS)),
                symbol,
                FIRST + timedelta(days=number * DAYS // count),
                dice.choice((1, -1)),
                dice.randrange(1, 6),
                Fraction(dice.randrange(5000, 9000), 100) * scale,
                Fraction(dice.randrange(0, 300), 100),
            )
        )
    return fills


def round_trips(fills: list[Fill]) -> list[Trip]:
    """Flat to flat, one share at a time."""
    queues: dict[tuple[str, str], list[tuple[int, Fraction, Fraction]]] = defaultdict(list)
    running: dict[tuple[str, str], tuple[Fraction, date, int]] = {}
    done = []
    for fill in fills:
        key = (fill.account, fill.symbol)
        fee = fill.fee / fill.quantity
        for _ in range(fill.quantity):
            queue = queues[key]
            if not queue or queue[0][0] == fill.side:
                queue.append((fill.side, fill.price, fee))
                if key in running:  # a result that is not final has the rate of the last execution so far
                    running[key] = (running[key][0], fill.day, fill.number)
                continue
            side, price, paid = queue.pop(0)
            before = running.get(key, (Fraction(0), fill.day, 0))[0]
            running[key] = (before + side * (fill.price - price) - paid - fee, fill.day, fill.number)
            if not queue:
                pnl, day, order = running.pop(key)
                done.append(Trip(fill.account, CURRENCY[fill.symbol], day, order, pnl, True))
    done += [Trip(a, CURRENCY[s], day, order, pnl, False) for (a, s), (pnl, day, order) in running.items()]
    return sorted(done, key=lambda trip: trip.order)


def as_csv(fills: list[Fill]) -> str:
    lines = ["Date,Symbol,Side,Quantity,Price,Commission,Currency"]
    for fill in fills:
        side = "Buy" if fill.side == 1 else "Sell"
        moment = datetime(fill.day.year, fill.day.month, fill.day.day, 10, 0, fill.number % 60)
        lines.append(
            f"{moment:%Y-%m-%d %H:%M:%S},{fill.symbol},{side},{fill.quantity},{float(fill.price):.2f},"
            f"{float(fill.fee):.2f},{CURRENCY[fill.symbol]}"
        )
    return "\n".join(lines) + "\n"


def as_ecb(table: dict[date, dict[str, Fraction]]) -> str:
    """Newest first, an empty column at the end, `N/A` for what was not published: as the bank's own file has it."""
    lines = ["Date,USD,JPY,BGN,"]
    for day in sorted(table, reverse=True):
        cells = [f"{float(table[day][code]):.4f}" if code in table[day] else "N/A" for code in ("USD", "JPY")]
        lines.append(f"{day},{cells[0]},{cells[1]},N/A,")
    return "\n".join(lines) + "\n"


class Ledger:
    """What the sums must be in one currency, over one account or all."""

    def __init__(self, fills: list[Fill], table: dict[date, dict[str, Fraction]], target: str, account: str | None):
        self.table, self.target = table, target
        self.fills = [fill for fill in fills if account in (None, fill.account)]
        self.trips = [trip for trip in round_trips(fills) if account in (None, trip.account)]

    def converted(self, trips: list[Trip]) -> list[Fraction]:
        rated = [(trip.pnl, rate_of(self.table, trip.currency, self.target, trip.closed)) for trip in trips]
        return [pnl * rate for pnl, rate in rated if rate is not None]

    def unconverted(self, trips: list[Trip]) -> dict[str, tuple[int, Fraction]]:
        left: dict[str, list[Fraction]] = defaultdict(list)
        for trip in trips:
            if rate_of(self.table, trip.currency, self.target, trip.closed) is None:
                left[trip.currency].append(trip.pnl)
        return {code: (len(values), sum(values, Fraction(0))) for code, values in left.items()}

    @property
    def closed(self) -> list[Trip]:
        return [trip for trip in self.trips if trip.is_closed]


def longest(values: list[Fraction], sign: int) -> int:
    best = run = 0
    for value in values:
        run = run + 1 if value * sign > 0 else 0
        best = max(best, run)
    return best


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_sum_agrees_with_a_ledger_by_currency(journal: Journal, seed: int) -> None:
    dice = random.Random(seed)
    table, fills = make_rates(dice), make_fills(dice, 180)
    for name, code in ACCOUNTS.items():
        body = {"account_id": name, "name": name, "account_type": "broker", "currency": code}
        await journal.expect(201, "POST", "/accounts", body)
        own = [fill for fill in fills if fill.account == name]
        assert (await load(journal, as_csv(own), name))["imported"] == len(own)
    rates = await load(journal, as_ecb(table), name="eurofxref-hist.csv")
    assert (rates["status"], rates["kind"], rates["imported"]) == (
        "SUCCESS", "exchange_rates", sum(len(known) for known in table.values()),
    )  # fmt: skip
    seen_apart = 0
    scopes: tuple[tuple[str, str | None], ...] = (("USD", None), ("USD", "US"), ("EUR", "DE"))
    for target, account in scopes:
        ledger = Ledger(fills, table, target, account)
        query = {"period": "all"} | ({} if account is None else {"account_id": account})
        await check_results(journal, ledger, query)
        await check_costs(journal, ledger, query)
        seen_apart += len(ledger.unconverted(ledger.closed))
    assert seen_apart  # the holes were hit
    for name, code in ACCOUNTS.items():
        ledger = Ledger(fills, table, code, name)
        shown = await journal.get(f"/accounts/{name}")
        assert shown["currency"] == code
        assert near(shown["total_realized_pnl"], sum(ledger.converted(ledger.trips), Fraction(0)))
    await check_taxes(journal, fills, table)


async def check_results(journal: Journal, ledger: Ledger, query: dict[str, str]) -> None:
    values = ledger.converted(ledger.closed)
    wins, losses = [v for v in values if v > 0], [v for v in values if v < 0]
    total = sum(values, Fraction(0))
    found = await journal.get("/analytics/expectancy", params=query)
    assert (found["currency"], found["trade_count"]) == (ledger.target, len(values))
    assert (found["wins"], found["losses"]) == (len(wins), len(losses))
    assert near(found["total_pnl"], total)
    assert near(found["avg_win"], sum(wins, Fraction(0)) / max(1, len(wins)))
    assert near(found["avg_loss"], -sum(losses, Fraction(0)) / max(1, len(losses)))
    assert (found["longest_win_streak"], found["longest_loss_streak"]) == (longest(values, 1), longest(values, -1))
    left = ledger.unconverted(ledger.closed)
    told = apart(found, "results")
    assert told.keys() == left.keys()
    for code, (count, amount) in left.items():
        assert told[code][0] == count
        assert near(told[code][1], amount)
    if left:
        assert all(code in found["currency_note"] for code in left)
        assert found["missing_rate_count"] == len(
            {(t.closed, t.currency) for t in ledger.closed
             if rate_of(ledger.table, t.currency, ledger.target, t.closed) is None}
        )  # fmt: skip
    trips = await journal.get("/round-trips", params=query)
    assert trips["total"] >= len(ledger.trips)  # and those without an exit
    assert near(trips["summary"]["realized_pnl"], sum(ledger.converted(ledger.trips), Fraction(0)))
    for code, (count, amount) in ledger.unconverted(ledger.trips).items():
        assert apart(trips["summary"], "results")[code][0] == count
        assert near(apart(trips["summary"], "results")[code][1], amount)
    groups = await journal.get("/analytics/strategy-breakdown", params=query)
    assert near(groups["overall"]["total_pnl"], total)
    assert near(sum(Fraction(str(line["total_pnl"])) for line in groups["strategies"]), total)
    assert (await journal.get("/analytics/sqn", params=query))["trade_count"] == len(values)
    odds = await journal.get("/analytics/drawdown", params={**query, "simulations": "100"})
    assert (odds["trade_count"], odds["currency"]) == (len(values), ledger.target)
    mistakes = await journal.get("/mistakes/summary", params=query)
    if values:
        assert near(mistakes["baseline_win_rate"], Fraction(len(wins), len(values)))


async def check_costs(journal: Journal, ledger: Ledger, query: dict[str, str]) -> None:
    fees = volume = Fraction(0)
    count = 0
    left: dict[str, list[Fraction]] = defaultdict(list)
    for fill in ledger.fills:
        rate = rate_of(ledger.table, CURRENCY[fill.symbol], ledger.target, fill.day)
        if rate is None:
            if fill.fee:
                left[CURRENCY[fill.symbol]].append(fill.fee)
            continue
        fees += fill.fee * rate
        volume += fill.price * fill.quantity * rate
        count += 1
    found = await journal.get("/fees/summary", params=query)
    assert (found["trade_count"], found["currency"]) == (count, ledger.target)
    assert near(found["total_fees"], fees)
    told = apart(found, "fees")
    assert told.keys() == left.keys()
    for code, amounts in left.items():
        assert (told[code][0], near(told[code][1], sum(amounts, Fraction(0)))) == (len(amounts), True)
    cost = await journal.get("/analytics/cost-of-free", params=query)
    assert near(cost["fee_component"], fees)
    assert near(cost["pfof_component"], volume * Fraction(18, 10) / 10_000)  # hybrid 2.0 less direct 0.2 points
    if "account_id" in query:
        routed = await journal.get("/analytics/pfof-report", params=query)
        assert near(sum(Fraction(str(line["notional"])) for line in routed["by_routing"]), volume)
        assert routed["trades_analyzed"] == count


async def check_taxes(journal: Journal, fills: list[Fill], table: dict[date, dict[str, Fraction]]) -> None:
    """Each leg in dollars at its own day's rate; a position with a fill without one is not there at all."""
    without = {
        (fill.account, fill.symbol) for fill in fills if rate_of(table, CURRENCY[fill.symbol], "USD", fill.day) is None
    }
    gains: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    queues: dict[tuple[str, str], list[tuple[int, Fraction]]] = defaultdict(list)
    for fill in fills:
        key = (fill.account, fill.symbol)
        rate = rate_of(table, CURRENCY[fill.symbol], "USD", fill.day)
        if key in without or rate is None:
            continue
        for _ in range(fill.quantity):
            value = (fill.price + fill.side * fill.fee / fill.quantity) * rate
            queue = queues[key]
            if not queue or queue[0][0] == fill.side:
                queue.append((fill.side, value))
            else:
                side, before = queue.pop(0)
                gains[key] += side * (value - before)
    answer = await journal.get("/tax/lots", params={"status": "closed"})
    found: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for lot in answer["lots"]:
        paid, got, held = (Fraction(str(lot[name])) for name in ("cost_basis", "proceeds", "quantity"))
        sign = 1 if lot["direction"] == "long" else -1
        found[lot["account_id"], lot["ticker"]] += sign * (got - paid) * held
    assert found.keys() == gains.keys()
    for key, gain in gains.items():
        assert abs(found[key] - gain) < Fraction(2, 100), key
    assert {(line["account_id"], line["ticker"]) for line in answer["unconverted"]} == without
    assert answer["currency"] == "USD"
    summary = await journal.get("/tax/ytd-summary", params={"tax_year": "2025"})
    assert {(line["account_id"], line["ticker"]) for line in summary["unconverted"]} == without
    assert "import_broker_csv" in summary["currency_note"]
