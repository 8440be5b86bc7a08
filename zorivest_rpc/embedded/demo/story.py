"""A made-up trader's twenty months: accounts, about sixty executions, and the synthetic price bars they happened in.

Everything follows from one day, the day before which the story ends: the same day gives the same rows. The symbols are
real, the prices are not; every bar says so in its source. The story holds what the tools are asked about: long and
short holdings, partial exits, a short sale, a flip, two equal fills, a wash pair, a loss washed by the retirement
account, an open losing lot, an iron condor that expired and a vertical that has not."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import NamedTuple

from ..analytics.excursion import Bar
from ..journal.trades import Draft, TradeFee
from ..values.symbols import Contract, parse_instrument

__all__ = ["ACCOUNTS", "SOURCE", "SYNTHETIC", "Story", "tell"]

SOURCE = "demo"
SYNTHETIC = "synthetic (demo)"
DAYS = 435

BROKER, ZERO_FEE, RETIREMENT, BANK = "DEMO-BROKER", "DEMO-ZERO", "DEMO-IRA", "DEMO-BANK"
ACCOUNTS = (
    {"account_id": BROKER, "name": "Demo broker", "account_type": "broker", "broker_id": "ibkr_pro"},
    {"account_id": ZERO_FEE, "name": "Demo zero commission", "account_type": "broker", "broker_id": "webull"},
    {"account_id": RETIREMENT, "name": "Demo retirement", "account_type": "ira", "broker_id": "ibkr_pro"},
    {"account_id": BANK, "name": "Demo bank", "account_type": "bank", "institution": "Demo Bank"},
)
BALANCES = {
    BROKER: (100_000, 108_250),
    ZERO_FEE: (30_000, 31_100),
    RETIREMENT: (60_000, 61_400),
    BANK: (12_000, 14_350),
}

# Where the price of a symbol is on which day; between two points it goes straight, with a little noise.
_PATHS: dict[str, tuple[tuple[int, int], ...]] = {
    "SPY": ((0, 480), (80, 500), (120, 470), (180, 520), (260, 560), (300, 530), (360, 590), (434, 620)),
    "QQQ": ((0, 420), (100, 450), (150, 410), (220, 480), (300, 500), (380, 540), (434, 530)),
    "AAPL": ((0, 190), (60, 210), (110, 195), (170, 230), (230, 215), (300, 245), (360, 225), (434, 255)),
    "NVDA": ((0, 100), (90, 130), (140, 110), (210, 150), (270, 180), (330, 160), (390, 190), (434, 175)),
    "XLE": ((0, 95), (120, 90), (250, 92), (340, 88), (434, 78)),
}

Row = tuple[int, str, str, str, str, int, int]
"""Day, time (UTC), account, symbol, side, quantity, and where in the day's range it was filled (percent)."""

_B, _S = "BOT", "SLD"
_FILLS: tuple[Row, ...] = (
    (2, "15:05:00", BROKER, "AAPL", _B, 50, 40),
    (5, "15:20:00", BROKER, "SPY", _B, 20, 50),
    (10, "15:10:00", BROKER, "NVDA", _B, 100, 45),
    (25, "18:45:00", BROKER, "SPY", _S, 20, 60),
    (30, "16:00:00", BROKER, "NVDA", _S, 40, 70),
    (50, "17:15:00", BROKER, "NVDA", _S, 30, 55),
    (60, "15:30:00", ZERO_FEE, "SPY", _B, 15, 30),
    (75, "19:00:00", ZERO_FEE, "SPY", _S, 25, 80),
    (85, "16:40:00", BROKER, "NVDA", _S, 30, 50),
    (92, "15:02:00", ZERO_FEE, "NVDA", _B, 40, 90),
    (100, "15:45:00", BROKER, "QQQ", _S, 30, 75),
    (102, "16:10:00", RETIREMENT, "QQQ", _B, 20, 60),
    (112, "15:10:05", ZERO_FEE, "AAPL", _B, 25, 35),
    (112, "15:10:05", ZERO_FEE, "AAPL", _B, 25, 35),
    (118, "18:20:00", ZERO_FEE, "SPY", _B, 10, 25),
    (138, "15:50:00", ZERO_FEE, "NVDA", _S, 40, 20),
    (140, "17:05:00", BROKER, "QQQ", _B, 30, 30),
    (145, "16:30:00", RETIREMENT, "QQQ", _S, 20, 40),
    (150, "15:15:00", BROKER, "SPY", _B, 20, 40),
    (165, "18:00:00", ZERO_FEE, "AAPL", _S, 50, 65),
    (178, "16:50:00", BROKER, "SPY", _S, 20, 60),
    (185, "15:25:00", BROKER, "SPY", _B, 25, 50),
    (200, "15:40:00", BROKER, "XLE", _B, 60, 50),
    (205, "17:30:00", BROKER, "SPY", _S, 25, 45),
    (215, "15:12:00", BROKER, "NVDA", _B, 60, 40),
    (225, "16:15:00", ZERO_FEE, "QQQ", _B, 12, 50),
    (255, "18:10:00", ZERO_FEE, "QQQ", _S, 12, 60),
    (262, "15:35:00", BROKER, "SPY", _B, 30, 80),
    (265, "16:20:00", BROKER, "NVDA", _S, 60, 65),
    (275, "15:08:00", BROKER, "NVDA", _B, 50, 70),
    (298, "19:10:00", BROKER, "SPY", _S, 30, 20),
    (300, "17:45:00", BROKER, "AAPL", _S, 50, 60),
    (302, "15:18:00", BROKER, "AAPL", _B, 40, 75),
    (305, "15:30:00", BROKER, "SPY", _B, 20, 35),
    (310, "16:05:00", ZERO_FEE, "QQQ", _B, 10, 55),
    (325, "18:30:00", BROKER, "SPY", _S, 20, 70),
    (328, "15:55:00", BROKER, "NVDA", _S, 50, 30),
    (335, "15:22:00", BROKER, "NVDA", _B, 45, 40),
    (335, "17:20:00", ZERO_FEE, "QQQ", _S, 10, 65),
    (365, "15:14:00", BROKER, "SPY", _B, 15, 45),
    (385, "16:25:00", ZERO_FEE, "QQQ", _B, 14, 85),
    (388, "18:05:00", BROKER, "NVDA", _S, 45, 60),
    (390, "15:28:00", BROKER, "XLE", _B, 80, 50),
    (395, "15:33:00", BROKER, "NVDA", _B, 40, 75),
    (400, "17:40:00", BROKER, "SPY", _S, 15, 60),
    (410, "16:45:00", ZERO_FEE, "QQQ", _S, 14, 30),
    (420, "18:15:00", BROKER, "AAPL", _S, 40, 65),
    (425, "15:05:00", ZERO_FEE, "SPY", _B, 10, 30),
    (425, "17:30:00", ZERO_FEE, "SPY", _S, 10, 75),
    (430, "15:20:00", ZERO_FEE, "SPY", _B, 10, 80),
    (430, "15:58:00", ZERO_FEE, "SPY", _S, 10, 15),
    (430, "16:04:00", ZERO_FEE, "SPY", _B, 25, 60),
    (430, "16:30:00", BROKER, "NVDA", _S, 40, 35),
    (430, "16:41:00", ZERO_FEE, "SPY", _S, 25, 25),
)


class Fact(NamedTuple):
    """A trade that something was written about, found by account, symbol, side and day."""

    account_id: str
    symbol: str
    action: str
    day: int


BREAKOUT = Fact(BROKER, "NVDA", _S, 85)
FLIP = Fact(ZERO_FEE, "SPY", _S, 75)
STOPPED = Fact(BROKER, "SPY", _S, 298)
PLANNED = Fact(BROKER, "SPY", _B, 305)
REVENGE = Fact(ZERO_FEE, "SPY", _B, 430)
OVERSIZED = Fact(BROKER, "SPY", _B, 262)
EARLY = Fact(BROKER, "NVDA", _S, 30)


class Story(NamedTuple):
    """The rows, ready to be written."""

    drafts: tuple[Draft, ...]
    bars: dict[str, tuple[Bar, ...]]
    days: tuple[date, ...]
    condor: tuple[str, ...]
    vertical: tuple[str, ...]

    def exec_id(self, fact: Fact) -> str:
        """The last trade that a fact is about."""
        found = [
            draft.exec_id
            for draft in self.drafts
            if (draft.account_id, draft.what.symbol, draft.action) == fact[:3]
            and draft.time.date() == self.days[fact.day]
        ]
        return found[-1]


def tell(today: date) -> Story:
    """The story that ends on the last weekday before `today`."""
    days = _weekdays(today)
    bars = {symbol: _bars(symbol, days) for symbol in _PATHS}
    fills = [*_FILLS, *_wash_pair(days), *_washed_by_retirement(days)]
    drafts = [_share_fill(days[row[0]], row, bars[row[3]][row[0]]) for row in fills]
    condor, vertical = _condor(days, bars["SPY"]), _vertical(days, bars["QQQ"])
    drafts = sorted([*drafts, *condor, *vertical], key=lambda draft: draft.time)
    named = [draft._replace(exec_id=f"DEMO-{number:03d}") for number, draft in enumerate(drafts, 1)]
    return Story(
        tuple(named),
        bars,
        days,
        tuple(draft.exec_id for draft in named if draft.order_id == "DEMO-CONDOR"),
        tuple(draft.exec_id for draft in named if draft.order_id == "DEMO-VERTICAL"),
    )


def _weekdays(today: date) -> tuple[date, ...]:
    found: list[date] = []
    day = today
    while len(found) < DAYS:
        day -= timedelta(days=1)
        if day.weekday() < 5:
            found.append(day)
    return tuple(reversed(found))


def _bars(symbol: str, days: tuple[date, ...]) -> tuple[Bar, ...]:
    chance = Random(f"demo {symbol}")  # the same story every time is the point
    path = _PATHS[symbol]
    close = float(path[0][1])
    bars = []
    for number, day in enumerate(days):
        opened = close
        close = _level(path, number) * (1 + 0.012 * (chance.random() - 0.5))
        high = max(opened, close) * (1 + 0.008 * chance.random())
        low = min(opened, close) * (1 - 0.008 * chance.random())
        volume = Decimal(int(1_000_000 + 4_000_000 * chance.random()))
        moment = datetime.combine(day, time(), UTC)
        bars.append(Bar(moment, _cents(opened), _cents(high), _cents(low), _cents(close), volume))
    return tuple(bars)


def _level(path: tuple[tuple[int, int], ...], day: int) -> float:
    for (start, begin), (end, finish) in pairwise(path):
        if start <= day <= end:
            return begin + (finish - begin) * (day - start) / (end - start)
    return float(path[-1][1])


def _cents(value: float) -> Decimal:
    return Decimal(f"{value:.2f}")


def _wash_pair(days: tuple[date, ...]) -> tuple[Row, Row]:
    """A sale at a loss and the same shares bought again twelve days later."""
    sold = next(number for number in range(340, 350) if days[number].weekday() == 2)
    again = days.index(days[sold] + timedelta(days=12))
    return (sold, "16:35:00", BROKER, "AAPL", _S, 40, 25), (again, "15:48:00", BROKER, "AAPL", _B, 40, 45)


def _washed_by_retirement(days: tuple[date, ...]) -> tuple[Row, Row]:
    """A sale at a loss, and the retirement account buying the same a week later."""
    again = days.index(days[345] + timedelta(days=7))
    return (345, "17:10:00", BROKER, "XLE", _S, 60, 30), (again, "16:12:00", RETIREMENT, "XLE", _B, 60, 55)


def _share_fill(day: date, row: Row, bar: Bar) -> Draft:
    _, clock, account, symbol, action, quantity, place = row
    price = (bar.low + (bar.high - bar.low) * place / 100).quantize(Decimal("0.01"))
    commission = Decimal(0) if account == ZERO_FEE else Decimal("1.00")
    regulatory = Decimal("0.02") if action == _S else Decimal(0)
    exchange = Decimal(0) if account == ZERO_FEE else Decimal("0.03")
    quoted = account == BROKER
    charges = [TradeFee("commission", commission), TradeFee("exchange", exchange), TradeFee("regulatory", regulatory)]
    return Draft(
        exec_id="",
        time=datetime.combine(day, time.fromisoformat(clock), UTC),
        instrument=symbol,
        what=parse_instrument(symbol),
        action=action,
        quantity=Decimal(quantity),
        price=price,
        account_id=account,
        commission=commission,
        fees=exchange + regulatory,
        nbbo_bid=price - Decimal("0.02") if quoted else None,
        nbbo_ask=price + Decimal("0.01") if quoted else None,
        source=SOURCE,
        charges=tuple(charge for charge in charges if charge.amount),
    )


def _option(
    when: datetime, underlying: str, expiry: date, right: str, strike: Decimal, action: str, price: str, order: str
) -> Draft:
    contract = Contract(underlying, expiry, "C" if right == "C" else "P", strike)
    return Draft(
        exec_id="",
        time=when,
        instrument=contract.symbol,
        what=parse_instrument(contract.symbol),
        action=action,
        quantity=Decimal(1),
        price=Decimal(price),
        account_id=BROKER,
        commission=Decimal("0.65"),
        order_id=order,
        source=SOURCE,
    )


def _condor(days: tuple[date, ...], spy: tuple[Bar, ...]) -> list[Draft]:
    """Sold around a price that stays within the short strikes until the last day."""
    opened = 308
    last = next(number for number in range(opened + 12, opened + 20) if days[number].weekday() == 4)
    held = spy[opened : last + 1]
    low, high = min(bar.low for bar in held), max(bar.high for bar in held)
    short_put, short_call = _strike(low * Decimal("0.97")), _strike(high * Decimal("1.03"))
    legs = (
        ("P", short_put - 10, _B, "1.20"),
        ("P", short_put, _S, "2.10"),
        ("C", short_call, _S, "1.90"),
        ("C", short_call + 10, _B, "0.95"),
    )
    start = datetime.combine(days[opened], time(15, 36), UTC)
    return [
        _option(start + timedelta(seconds=number), "SPY", days[last], right, strike, action, price, "DEMO-CONDOR")
        for number, (right, strike, action, price) in enumerate(legs)
    ]


def _vertical(days: tuple[date, ...], qqq: tuple[Bar, ...]) -> list[Draft]:
    """A bull call spread that is still open."""
    strike = _strike(qqq[424].close)
    expiry = days[-1] + timedelta(days=45)
    while expiry.weekday() != 4:
        expiry += timedelta(days=1)
    start = datetime.combine(days[424], time(16, 2), UTC)
    return [
        _option(start, "QQQ", expiry, "C", strike, _B, "6.40", "DEMO-VERTICAL"),
        _option(start + timedelta(seconds=1), "QQQ", expiry, "C", strike + 10, _S, "3.10", "DEMO-VERTICAL"),
    ]


def _strike(price: Decimal) -> Decimal:
    return (price / 5).quantize(Decimal(1)) * 5
