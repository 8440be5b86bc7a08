"""Exchange rates: where they are kept, which one a day has, and amounts converted by them or kept apart.

Rule 1: nothing is added across currencies. An amount without a rate is counted and summed by its own currency.
Rule 2: the rate of a trade is the one its file gave; of a currency pair its own price; else the stored one of its day.
Rule 3: a day is a trade date, the exchange's calendar day by which taxes count too. A day without a published rate has
the last one before it, at most `LATEST` days old; the European Central Bank publishes on working days alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select

from ..database import audit
from ..database.schema.books import tax_stale
from ..database.schema.journal import trades
from ..database.schema.rates import exchange_rates
from ..tax.dates import trade_date
from ..tax.model import DOLLAR
from ..values.currencies import is_currency
from ..values.inputs import Page
from ..values.money import cents

__all__ = [
    "DOLLAR",
    "HOW_TO_GIVE",
    "LATEST",
    "Conversion",
    "OwnRate",
    "Rate",
    "RateBook",
    "add_rates",
    "differs",
    "list_rates",
    "own_rate",
]

LATEST = 7
"""So many days old may a stored rate be: Easter leaves four days without one, a week is generous."""
HOW_TO_GIVE = (
    "import_broker_csv takes a file of rates in the layout of the European Central Bank (eurofxref-hist.csv), and "
    "PUT /trades/{exec_id} takes fx_rate, the rate of one trade"
)
_MOST_NAMED = 20
_AT_ONCE = 2000
_PIVOTS = ("EUR", "USD")  # tried before other currencies, so that a cross rate has one value
_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_rates = exchange_rates.c


class Rate(NamedTuple):
    """One unit of `base` cost `rate` units of `quote` on a day."""

    day: date
    base: str
    quote: str
    rate: Decimal


class OwnRate(NamedTuple):
    """What one unit of a trade's currency was worth in `base` by the trade itself."""

    base: str
    rate: Decimal


def differs(column: ColumnElement[str], currency: str) -> ColumnElement[bool]:
    """Another currency; two ranges, because an index serves them and does not serve `<>`."""
    return or_(column < currency, column > currency)


def own_rate(row: Any) -> OwnRate | None:
    """The rate that a trade brings with it: from its file, or as a currency pair its own price."""
    if row.fx_rate is not None and row.fx_base:
        return OwnRate(row.fx_base, row.fx_rate)
    if row.asset_class == "FOREX" and row.price > 0:
        base, _, quote = row.symbol.partition("/")
        if quote == row.currency and is_currency(base):
            return OwnRate(base, _EXACT.divide(Decimal(1), row.price))
    return None


def add_rates(conn: Connection, rates: Iterable[Rate], source: str, actor: str) -> dict[str, int]:
    """Keep rates; one that is there already is replaced when it differs. Counts of new, changed and equal ones."""
    counts = {"added": 0, "changed": 0, "unchanged": 0}
    given = list({(one.day, one.base, one.quote): one for one in rates}.values())
    now = datetime.now(UTC)
    for at in range(0, len(given), _AT_ONCE):
        portion = given[at : at + _AT_ONCE]
        held = _read_stored_rates(conn, portion)
        rows, stale = [], []
        for one in portion:
            before = held.get((one.day, one.base, one.quote))
            if before == one.rate:
                counts["unchanged"] += 1
                continue
            if before is not None:
                stale.append(one)
            counts["added" if before is None else "changed"] += 1
            rows.append({**one._asdict(), "source": source[:64], "updated_at": now})
        for one in stale:
            conn.execute(
                exchange_rates.delete().where(_rates.day == one.day, _rates.base == one.base, _rates.quote == one.quote)
            )
        if rows:
            conn.execute(exchange_rates.insert(), rows)
    if counts["added"] or counts["changed"]:
        _unsettle(conn)
        audit.record(conn, actor, "rates.add", "exchange_rate", None, source=source[:64], **counts)
    return counts


def _read_stored_rates(conn: Connection, portion: list[Rate]) -> dict[tuple[date, str, str], Decimal]:
    days = [one.day for one in portion]
    query = select(_rates.day, _rates.base, _rates.quote, _rates.rate)
    rows = conn.execute(query.where(_rates.day >= min(days), _rates.day <= max(days)))
    return {(row.day, row.base, row.quote): row.rate for row in rows}


def _unsettle(conn: Connection) -> None:
    """Have the tax lots of everything that was traded for foreign money made anew: a rate decides what they cost."""
    known = set(conn.execute(select(tax_stale.c.underlying)).scalars())
    foreign = conn.execute(select(trades.c.underlying).where(differs(trades.c.currency, DOLLAR)).distinct()).scalars()
    new = [{"underlying": name} for name in foreign if name not in known]
    if new:
        conn.execute(tax_stale.insert(), new)


def list_rates(conn: Connection, page: Page, *, currency: str | None, day: date | None) -> dict[str, Any]:
    """Stored rates, latest first."""
    wanted: list[ColumnElement[bool]] = []
    if currency is not None:
        wanted.append(or_(_rates.base == currency, _rates.quote == currency))
    if day is not None:
        wanted.append(_rates.day == day)
    total = conn.execute(select(func.count()).select_from(exchange_rates).where(*wanted)).scalar_one()
    rows = conn.execute(
        select(exchange_rates)
        .where(*wanted)
        .order_by(_rates.day.desc(), _rates.base, _rates.quote)
        .limit(page.limit)
        .offset(page.offset)
    ).mappings()
    return page.envelope([dict(row) for row in rows], total)


class RateBook:
    """The rates of one database; what was looked up once is kept."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._found: dict[tuple[str, str, date], Decimal | None] = {}

    def rate(self, source: str, target: str, day: date, own: OwnRate | None = None) -> Decimal | None:
        """How many of `target` one of `source` was worth; None where that is not known."""
        if source == target:
            return Decimal(1)
        if own is not None:
            rest = self._find_stored_rate(own.base, target, day)
            if rest is not None:
                return _EXACT.multiply(own.rate, rest)
        return self._find_stored_rate(source, target, day)

    def _find_stored_rate(self, source: str, target: str, day: date) -> Decimal | None:
        if source == target:
            return Decimal(1)
        key = (source, target, day)
        if key not in self._found:
            self._found[key] = self._look_up(source, target, day)
        return self._found[key]

    def _look_up(self, source: str, target: str, day: date) -> Decimal | None:
        pair = (source, target)
        rows = self._conn.execute(
            select(_rates.day, _rates.base, _rates.quote, _rates.rate)
            .where(_rates.day <= day, _rates.day >= day - timedelta(days=LATEST))
            .where(or_(_rates.base.in_(pair), _rates.quote.in_(pair)))
        )
        by_day: dict[date, dict[tuple[str, str], Decimal]] = {}
        for row in rows:
            known = by_day.setdefault(row.day, {})
            known[row.base, row.quote] = row.rate
        for published in sorted(by_day, reverse=True):
            found = _across(by_day[published], source, target)
            if found is not None:
                return found
        return None


def _across(known: Mapping[tuple[str, str], Decimal], source: str, target: str) -> Decimal | None:
    """The rate of one day: as published, turned round, or through one currency that both were published in."""
    direct = _either_way(known, source, target)
    if direct is not None:
        return direct
    others = sorted({code for pair in known for code in pair} - {source, target, *_PIVOTS})
    for pivot in (*_PIVOTS, *others):
        first, second = _either_way(known, source, pivot), _either_way(known, pivot, target)
        if first is not None and second is not None:
            return _EXACT.multiply(first, second)
    return None


def _either_way(known: Mapping[tuple[str, str], Decimal], source: str, target: str) -> Decimal | None:
    if (source, target) in known:
        return known[source, target]
    if (target, source) in known:
        return _EXACT.divide(Decimal(1), known[target, source])
    return None


class _Apart:
    """What was kept apart of one kind and currency."""

    def __init__(self) -> None:
        self.count = 0
        self.amount = Decimal(0)


class Conversion:
    """Amounts on their way into one currency; remembers what was converted and what had to be kept apart."""

    def __init__(self, conn: Connection, target: str) -> None:
        self.target = target
        self._exchange = RateBook(conn)
        self._converted: dict[tuple[str, str], int] = {}
        self._apart: dict[tuple[str, str], _Apart] = {}
        self._missing: set[tuple[date, str]] = set()

    def rate(self, currency: str, moment: datetime | date, own: OwnRate | None = None) -> Decimal | None:
        day = trade_date(moment) if isinstance(moment, datetime) else moment
        return self._exchange.rate(currency, self.target, day, own)

    def note(
        self, kind: str, currency: str, moment: datetime | date, rate: Decimal | None, amount: Decimal, count: int = 1
    ) -> None:
        """Remember one amount of a kind (`results`, `fees`): converted, or kept apart for want of a rate."""
        if currency == self.target:
            return
        if rate is not None:
            self._converted[kind, currency] = self._converted.get((kind, currency), 0) + count
            return
        apart = self._apart.setdefault((kind, currency), _Apart())
        apart.count += count
        apart.amount = _EXACT.add(apart.amount, amount)
        self._missing.add((trade_date(moment) if isinstance(moment, datetime) else moment, currency))

    def take(
        self, kind: str, amount: Decimal, currency: str, moment: datetime | date, own: OwnRate | None = None
    ) -> Decimal | None:
        """The amount in the target currency, or None after keeping it apart."""
        rate = self.rate(currency, moment, own)
        self.note(kind, currency, moment, rate, amount)
        return None if rate is None else _EXACT.multiply(amount, rate)

    def answer(self) -> dict[str, Any]:
        """What an answer says about currencies: its own, and where there was foreign money what became of it."""
        told: dict[str, Any] = {"currency": self.target}
        if self._converted:
            told["converted"] = [
                {"kind": kind, "currency": currency, "count": count}
                for (kind, currency), count in sorted(self._converted.items())
            ]
        if self._apart:
            told["unconverted"] = [
                {"kind": kind, "currency": currency, "count": apart.count, "amount": float(cents(apart.amount))}
                for (kind, currency), apart in sorted(self._apart.items())
            ]
            missing = sorted(self._missing)
            told["missing_rates"] = [
                {"from": currency, "to": self.target, "day": day.isoformat()} for day, currency in missing[:_MOST_NAMED]
            ]
            told["missing_rate_count"] = len(missing)
            told["currency_note"] = self._explain(missing)
        return told

    def _explain(self, missing: list[tuple[date, str]]) -> str:
        names = sorted({currency for _, currency in missing})
        first, last = missing[0][0], missing[-1][0]
        days = f"on {first}" if first == last else f"between {first} and {last}"
        return (
            f"What is listed as unconverted is in none of these {self.target} figures: there is no rate of "
            f"{', '.join(names)} {days}. To have it counted: {HOW_TO_GIVE}."
        )
