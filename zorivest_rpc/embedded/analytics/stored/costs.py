"""What trading cost, summed by the database: charges by kind and broker, volume by routing.

Charges in another currency than the answer's are read one by one and converted at the rate of their trade; those
without a rate are in no sum, and `tell_currencies` says what they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Float, and_, case, func, literal_column, select
from sqlalchemy import cast as sql_cast

from ...brokers.registry import find_broker
from ...database import audit
from ...database.exact_sums import as_integer, exact_sum, join_sum
from ...database.schema.journal import accounts, periodic_fees, trades, transaction_ledger
from ...journal import accounts as account_store
from ...journal import trades as trade_store
from ...journal.exchange import DOLLAR, Conversion, differs, own_rate
from ...journal.foreign_trips import read_foreign
from ...values.inputs import Page
from ..fees import Charge, FeeBreakdown, FeeType, TradeCharges, charges_of, estimate_regulatory, fee_breakdown
from ..pfof import PfofReport, RoutingVolume, pfof_report, routing_of
from .results import Scope, gross_pnl, quote_is_usable, slippage_column

__all__ = ["FEE_TYPES", "add_periodic", "breakdown", "ledger_of", "list_periodic", "routing", "tell_currencies"]

_NEW_YORK = ZoneInfo("America/New_York")
FEE_TYPES = ("commission", "exchange", "regulatory", "ecn", "clearing", "platform", "other")

_IS_FUTURE = trades.c.asset_class == literal_column("'FUTURE'")  # in the words of its index


def breakdown(conn: Connection, scope: Scope, *, estimate: bool = False) -> tuple[FeeBreakdown, Decimal]:
    """The fees of a scope and what its round trips earned before them.

    With `estimate`, sales of shares for which the broker told no fees have their regulatory fees estimated."""
    gross = gross_pnl(conn, scope)
    foreign = Conversion(conn, scope.currency)
    charges = [*_read_charges(conn, scope), *_totals(conn, scope), *_periodic(conn, scope, foreign)]
    charges += _convert_charges(conn, scope, foreign)
    if estimate:
        charges += _regulatory(conn, scope, foreign)
    own = select(func.count()).select_from(trades).where(trades.c.currency == scope.currency, *scope.executed())
    count = conn.execute(own).scalar_one() + len(_rated_trades(conn, scope, foreign))
    period, account_id = scope.period.text, scope.account_id
    return fee_breakdown(charges, trade_count=count, gross_pnl=gross, period=period, account_id=account_id), gross


def _brokers(conn: Connection) -> dict[str, str | None]:
    """The broker of each account, for what names none itself."""
    return {row.account_id: row.broker_id for row in conn.execute(select(accounts.c.account_id, accounts.c.broker_id))}


def _read_charges(conn: Connection, scope: Scope) -> list[Charge]:
    ledger, brokers = transaction_ledger.c, _brokers(conn)
    groups = (ledger.account_id, ledger.fee_type, ledger.broker, ledger.is_estimated)
    rows = conn.execute(
        select(*groups, *exact_sum(ledger.amount))
        .where(ledger.currency == scope.currency, *scope.executed(transaction_ledger))
        .group_by(*groups)
    )
    return [
        Charge(kind, join_sum(whole, part), broker or brokers[account], estimated)
        for account, kind, broker, estimated, whole, part in rows
    ]


def _totals(conn: Connection, scope: Scope) -> list[Charge]:
    """Of trades without a ledger: the commission, and the fees as `other`."""
    brokers, groups = _brokers(conn), (trades.c.account_id, trades.c.broker)
    rows = conn.execute(
        select(*groups, *exact_sum(trades.c.commission), *exact_sum(trades.c.fees))
        .where(trades.c.currency == scope.currency, *scope.executed(), trades.c.is_itemised.is_(False))
        .group_by(*groups)
    )
    found = []
    for account, broker, *sums in rows:
        kinds: tuple[tuple[FeeType, Decimal], ...] = (
            ("commission", join_sum(*sums[:2])),
            ("other", join_sum(*sums[2:])),
        )
        found += [Charge(kind, amount, broker or brokers[account]) for kind, amount in kinds if amount]
    return found


_OF_TRADE = ("account_id", "broker", "time", "currency", "fx_rate", "fx_base", "asset_class", "symbol", "price")


def _foreign_trades(conn: Connection, scope: Scope, *more: Any) -> Sequence[Any]:
    """Executions in another currency than the scope's."""
    columns = (*(trades.c[name] for name in _OF_TRADE), trades.c.commission, trades.c.fees, trades.c.notional)
    wanted = (differs(trades.c.currency, scope.currency), *scope.executed(), *more)
    return conn.execute(select(*columns, trades.c.is_itemised).where(*wanted)).all()


def _rated_trades(conn: Connection, scope: Scope, conversion: Conversion) -> list[tuple[Any, Decimal]]:
    """Those of them that can be converted, with their rates."""
    rated = [(row, conversion.rate(row.currency, row.time, own_rate(row))) for row in _foreign_trades(conn, scope)]
    return [(row, rate) for row, rate in rated if rate is not None]


def _convert_charges(conn: Connection, scope: Scope, conversion: Conversion) -> list[Charge]:
    """What executions in other currencies cost, line by line where they have lines."""
    brokers = _brokers(conn)
    found = []
    for row in _foreign_trades(conn, scope, trades.c.is_itemised.is_(False)):
        kinds: tuple[tuple[FeeType, Decimal], ...] = (("commission", row.commission), ("other", row.fees))
        for kind, amount in kinds:
            value = conversion.take("fees", amount, row.currency, row.time, own_rate(row)) if amount else None
            if value is not None:
                found.append(Charge(kind, value, row.broker or brokers[row.account_id]))
    ledger = transaction_ledger.c
    lines = conn.execute(
        select(ledger.fee_type, ledger.amount, ledger.is_estimated, *(trades.c[name] for name in _OF_TRADE))
        .join(trades, trades.c.exec_id == ledger.trade_exec_id)
        .where(differs(ledger.currency, scope.currency), *scope.executed(transaction_ledger))
    )
    for line in lines:
        value = conversion.take("fees", line.amount, line.currency, line.time, own_rate(line))
        if value is not None:
            broker = line.broker or brokers[line.account_id]
            found.append(Charge(line.fee_type, value, broker, line.is_estimated))
    return found


def tell_currencies(conn: Connection, scope: Scope, *, volumes: bool = False, results: bool = True) -> dict[str, Any]:
    """What an answer about costs says about currencies; `volumes` where it counts what was traded as well."""
    conversion = Conversion(conn, scope.currency)
    if results:
        read_foreign(conn, scope.foreign(), conversion)
        _convert_charges(conn, scope, conversion)
        _periodic(conn, scope, conversion)
    if volumes:
        for row in _foreign_trades(conn, scope, trades.c.asset_class != "FUTURE"):
            conversion.take("volume", row.notional, row.currency, row.time, own_rate(row))
    return conversion.answer()


def _regulatory(conn: Connection, scope: Scope, conversion: Conversion) -> list[Charge]:
    """What United States regulators took of each sale; their rates are by day, and each fee is rounded by itself.

    They take dollars, and nothing of sales for other money."""
    brokers = _brokers(conn)
    rows = conn.execute(
        select(trades.c.account_id, trades.c.broker, trades.c.time, trades.c.quantity, trades.c.price)
        .where(*scope.executed(), trades.c.action == "SLD", trades.c.asset_class == "EQUITY")
        .where(trades.c.currency == DOLLAR)
        .where(trades.c.is_itemised.is_(False), trades.c.fees == Decimal(0))
    )
    sums: dict[str | None, Decimal] = {}
    for account, broker, moment, quantity, price in rows:
        day = moment.astimezone(_NEW_YORK).date()
        name = broker or brokers[account]
        value = conversion.take("fees", estimate_regulatory(-1, quantity, price, day).total, DOLLAR, moment)
        if value is not None:
            sums[name] = sums.get(name, Decimal(0)) + value
    return [Charge("regulatory", amount, broker, True) for broker, amount in sums.items() if amount]


def _periodic(conn: Connection, scope: Scope, conversion: Conversion) -> list[Charge]:
    """Fees of whole months count with the month's first day, and at its rate."""
    fees = periodic_fees.c
    query = select(fees.fee_type, accounts.c.broker_id, fees.amount, fees.currency, fees.period_month).outerjoin(
        accounts, accounts.c.account_id == fees.account_id
    )
    if scope.account_id is not None:
        query = query.where(fees.account_id == scope.account_id)
    if scope.period.start is not None:
        query = query.where(fees.period_month + "-01" >= f"{scope.period.start:%Y-%m-%d}")
    if scope.period.end is not None:
        query = query.where(fees.period_month + "-01" < f"{scope.period.end:%Y-%m-%d}")
    found = []
    for kind, broker, amount, currency, month in conn.execute(query):
        value = conversion.take("fees", amount, currency, date.fromisoformat(f"{month}-01"))
        if value is not None:
            found.append(Charge(kind, value, broker))
    return found


def routing(conn: Connection, scope: Scope, now: datetime) -> PfofReport:
    """The estimate of what routing cost. Futures go to their one exchange: no wholesaler pays for their order flow."""
    brokers = _brokers(conn)
    slipped_by, futures = _read_slippage(conn, scope), _volumes(conn, scope, only_futures=True)
    volumes = []
    for (account, broker), (every, value) in _volumes(conn, scope).items():
        some, some_value = futures.get((account, broker), (0, Decimal(0)))
        count, notional = every - some, value - some_value
        if not count:
            continue
        name = broker or brokers[account]
        registered = find_broker(name or "")
        kind, known = routing_of(name, None if registered is None else registered.routing_type)
        scored, bps = slipped_by.get((account, broker), (0, Decimal(0)))
        volumes.append(RoutingVolume(kind, count, notional, scored, bps, known))
    days = scope.period.days or _count_days(conn, scope, now)
    return pfof_report(volumes, account_id=scope.account_id, period=scope.period.text, days=days)


def _volumes(
    conn: Connection, scope: Scope, *, only_futures: bool = False
) -> dict[tuple[str, str | None], tuple[int, Decimal]]:
    """By account and broker: how many fills, and their value. All of them and the futures have an index each, which a
    question for all but the futures would not have."""
    groups = (trades.c.account_id, trades.c.broker)
    wanted = (trades.c.currency == scope.currency, *scope.executed(), *([_IS_FUTURE] if only_futures else []))
    query = select(*groups, func.count(), *exact_sum(trades.c.notional)).where(*wanted)
    sums = {
        (account, broker): (count, join_sum(whole, part))
        for account, broker, count, whole, part in conn.execute(query.group_by(*groups))
    }
    for row, rate in _rated_trades(conn, scope, Conversion(conn, scope.currency)):
        if only_futures and row.asset_class != "FUTURE":  # here, because SQLite would walk the futures for it
            continue
        count, value = sums.get((row.account_id, row.broker), (0, Decimal(0)))
        sums[row.account_id, row.broker] = (count + 1, value + row.notional * rate)
    return sums


def _read_slippage(conn: Connection, scope: Scope) -> dict[tuple[str, str | None], tuple[int, Decimal]]:
    """Of fills with a usable quote, by account and broker: how many, and the basis points they slipped in all.

    Fills without a rate are taken out again: asked for one currency, SQLite would leave the index of the quotes."""
    bps = sql_cast(slippage_column(), Float) / sql_cast(as_integer(trades.c.price), Float) * 10_000.0
    is_scored = and_(quote_is_usable(), trades.c.asset_class != "FUTURE")
    groups = (trades.c.account_id, trades.c.broker)
    rows = conn.execute(
        select(*groups, func.count(), func.sum(bps))
        .where(*scope.executed(), trades.c.nbbo_bid.is_not(None), is_scored)
        .group_by(*groups)
    )
    sums = {(account, broker): (count, float(total)) for account, broker, count, total in rows}
    conversion = Conversion(conn, scope.currency)
    # whether a fill is scored is in the column, and no condition, which would lead SQLite through all quotes
    columns = (*(trades.c[name] for name in _OF_TRADE), case((is_scored, bps)).label("bps"))
    foreign = select(*columns).where(differs(trades.c.currency, scope.currency), *scope.executed())
    for row in conn.execute(foreign):
        if row.bps is not None and conversion.rate(row.currency, row.time, own_rate(row)) is None:
            count, total = sums[row.account_id, row.broker]
            sums[row.account_id, row.broker] = (count - 1, total - row.bps)
    return {group: (count, Decimal(repr(round(total, 6)))) for group, (count, total) in sums.items()}


def _count_days(conn: Connection, scope: Scope, now: datetime) -> int | None:
    """An unbounded period has as many days as passed since its first execution."""
    first = conn.execute(select(func.min(trades.c.time)).where(*scope.executed())).scalar()
    return None if first is None else max(1, (now - cast(datetime, first)).days + 1)


def ledger_of(conn: Connection, exec_id: str) -> list[dict[str, Any]]:
    """What one trade cost, line by line; without a ledger its commission, and its fees as `other`."""
    trade = trade_store.require(conn, exec_id)
    ledger = transaction_ledger.c
    lines = conn.execute(
        select(ledger.fee_type, ledger.amount, ledger.currency, ledger.description, ledger.is_estimated)
        .where(ledger.trade_exec_id == exec_id)
        .order_by(ledger.id)
    ).mappings()
    found = [dict(line) for line in lines]
    if found:
        return found
    currency = trade["currency"]
    totals = charges_of(TradeCharges(trade["commission"], trade["fees"]))
    return [
        {
            "fee_type": charge.fee_type,
            "amount": charge.amount,
            "currency": currency,
            "description": "",
            "is_estimated": charge.is_estimated,
        }
        for charge in totals
    ]


def add_periodic(
    conn: Connection,
    *,
    account_id: str | None,
    fee_type: str,
    amount: Decimal,
    month: str,
    description: str,
    actor: str,
    source: str = "manual",
    currency: str | None = None,
) -> dict[str, Any]:
    """A fee of a whole month: a data feed, a platform, margin interest. Without a currency it is in the account's."""
    usual = DOLLAR if account_id is None else account_store.require(conn, account_id)["currency"]
    row = {
        "account_id": account_id,
        "fee_type": fee_type,
        "amount": amount,
        "period_month": month,
        "description": description,
        "source": source,
        "currency": currency or usual,
    }
    added = conn.execute(periodic_fees.insert().values(**row).returning(periodic_fees.c.id)).scalar_one()
    audit.record(conn, actor, "fee.record", "periodic_fee", str(added))
    return {"id": added, **row}


def list_periodic(conn: Connection, page: Page) -> dict[str, Any]:
    total = conn.execute(select(func.count()).select_from(periodic_fees)).scalar_one()
    rows = conn.execute(
        select(periodic_fees)
        .order_by(periodic_fees.c.period_month.desc(), periodic_fees.c.id.desc())
        .limit(page.limit)
        .offset(page.offset)
    ).mappings()
    return page.envelope([dict(row) for row in rows], total)
