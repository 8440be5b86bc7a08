"""The results of closed round trips, summed by the database: what every figure about the edge is made of.

A hundred thousand round trips come back as one row of sums. Only those that a person wrote something about (a report,
a linked plan) are read one by one, because their tags and planned risks are not for SQL to take apart."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Float,
    Select,
    and_,
    case,
    cast,
    func,
    or_,
    select,
    type_coerce,
)

from .analytics.moments import Moments, Streaks, moments_of, streaks_of
from .analytics.r_multiples import Result, RUnit, r_moments
from .analytics.strategies import UNTAGGED, TaggedResult, group, strategies_of
from .columns import MONEY_PLACES, QUANTITY_PLACES
from .period import Period
from .tables import round_trip_legs, round_trips, trade_plans, trade_reports, trades

__all__ = [
    "Scope",
    "average_slippage",
    "by_strategy",
    "exact_sum",
    "gross_pnl",
    "joined",
    "moments",
    "of_strategy",
    "planned_risk",
    "plans",
    "quote_is_usable",
    "results",
    "risk_moments",
    "scaled",
    "slipped",
    "streaks",
]

_UNIT = 10**MONEY_PLACES
_trips = round_trips.c


class Scope(NamedTuple):
    """Which round trips: of one account or all, closed within a period."""

    account_id: str | None
    period: Period

    def closed(self) -> list[ColumnElement[bool]]:
        wanted: list[ColumnElement[bool]] = [_trips.status == "closed"]
        if self.account_id is not None:
            wanted.append(_trips.account_id == self.account_id)
        if self.period.start is not None:
            wanted.append(_trips.closed_at >= self.period.start)
        if self.period.end is not None:
            wanted.append(_trips.closed_at < self.period.end)
        return wanted

    def executed(self) -> list[ColumnElement[bool]]:
        """The same scope over the time of executions."""
        wanted: list[ColumnElement[bool]] = []
        if self.account_id is not None:
            wanted.append(trades.c.account_id == self.account_id)
        if self.period.start is not None:
            wanted.append(trades.c.time >= self.period.start)
        if self.period.end is not None:
            wanted.append(trades.c.time < self.period.end)
        return wanted


def scaled(column: ColumnElement[Any]) -> ColumnElement[int]:
    """The integer that a decimal column really holds."""
    return type_coerce(column, BigInteger)


def exact_sum(column: ColumnElement[Any], when: ColumnElement[bool] | None = None) -> list[ColumnElement[Any]]:
    """Two expressions whose values `joined` makes into one sum; apart, neither can leave 64 bits."""
    number = scaled(column)
    parts: list[ColumnElement[Any]] = [number // _UNIT, number % _UNIT]
    if when is not None:
        parts = [case((when, part), else_=0) for part in parts]
    return [func.coalesce(func.sum(part), 0) for part in parts]


def joined(whole: Any, part: Any, places: int = MONEY_PLACES) -> Decimal:
    """The sum that `exact_sum` took apart, as a decimal."""
    with localcontext(prec=60):
        return Decimal(int(whole) * _UNIT + int(part)).scaleb(-places)


def moments(conn: Connection, scope: Scope, *more: ColumnElement[bool]) -> Moments:
    """Counts and sums of the scope's results in one query."""
    return _moments(conn, [*scope.closed(), *more])


def _moments(conn: Connection, wanted: Sequence[ColumnElement[bool]]) -> Moments:
    pnl = _trips.realized_pnl
    won, lost = scaled(pnl) > 0, scaled(pnl) < 0
    dollars = cast(scaled(pnl), Float) / _UNIT
    row = conn.execute(
        select(
            func.count(),
            func.coalesce(func.sum(case((won, 1), else_=0)), 0),
            func.coalesce(func.sum(case((lost, 1), else_=0)), 0),
            *exact_sum(pnl, won),
            *exact_sum(pnl, lost),
            func.coalesce(func.sum(dollars * dollars), 0.0),
        )
        .select_from(round_trips)
        .where(*wanted)
    ).one()
    count, wins, losses = row[0], row[1], row[2]
    return Moments(count, wins, losses, joined(row[3], row[4]), -joined(row[5], row[6]), Decimal(repr(float(row[7]))))


def streaks(conn: Connection, scope: Scope) -> Streaks:
    """The longest runs: results of one sign whose places in the whole and among their like differ by the same."""
    pnl = scaled(_trips.realized_pnl)
    sign = case((pnl > 0, 1), (pnl < 0, -1), else_=0)
    order = (_trips.closed_at, _trips.id)
    marked = (
        select(
            sign.label("sign"),
            (func.row_number().over(order_by=order) - func.row_number().over(partition_by=sign, order_by=order)).label(
                "run"
            ),
        )
        .where(*scope.closed())
        .subquery()
    )
    runs = (
        select(marked.c.sign, func.count().label("length"))
        .where(marked.c.sign != 0)
        .group_by(marked.c.sign, marked.c.run)
        .subquery()
    )
    found = conn.execute(select(runs.c.sign, func.max(runs.c.length)).group_by(runs.c.sign))
    longest = {row.sign: row[1] for row in found}
    return Streaks(longest.get(1, 0), longest.get(-1, 0))


def gross_pnl(conn: Connection, scope: Scope) -> Decimal:
    """What the scope's round trips earned before fees."""
    row = conn.execute(
        select(*exact_sum(_trips.realized_pnl), *exact_sum(_trips.matched_fees)).where(*scope.closed())
    ).one()
    return joined(row[0], row[1]) + joined(row[2], row[3])


def plans() -> Select[Any]:
    """Round trips with the plan that is linked to one of their executions."""
    return (
        select(
            _trips.id,
            _trips.realized_pnl,
            _trips.total_quantity,
            _trips.multiplier,
            trade_plans.c.entry_price,
            trade_plans.c.stop_loss,
            trade_plans.c.strategy_name,
        )
        .join(round_trip_legs, round_trip_legs.c.round_trip_id == _trips.id)
        .join(trade_plans, trade_plans.c.linked_trade_id == round_trip_legs.c.exec_id)
        .order_by(_trips.id, trade_plans.c.id)
    )


def planned_risk(entry: Decimal, stop: Decimal, quantity: Decimal, multiplier: Decimal) -> Decimal | None:
    """The money between a plan's entry and its stop for a quantity; None where the plan risks nothing."""
    with localcontext(prec=60):
        risk = abs(entry - stop) * quantity * multiplier
    return risk if stop and risk else None


def _planned(conn: Connection, scope: Scope) -> dict[str, tuple[Decimal, Decimal]]:
    """Of round trips with a planned risk: the result and that risk."""
    found: dict[str, tuple[Decimal, Decimal]] = {}
    for row in conn.execute(plans().where(*scope.closed())):
        risk = planned_risk(row.entry_price, row.stop_loss, row.total_quantity, row.multiplier)
        if risk is not None:
            found.setdefault(row.id, (row.realized_pnl, risk))
    return found


def risk_moments(conn: Connection, scope: Scope) -> tuple[Moments, RUnit]:
    """The sums of the results in units of risk."""
    everything = moments(conn, scope)
    planned = _planned(conn, scope)
    with localcontext(prec=60):
        in_r = moments_of(pnl / risk for pnl, risk in planned.values())
        done = moments_of(pnl for pnl, _ in planned.values())
        rest = Moments(
            everything.count - done.count,
            everything.wins - done.wins,
            everything.losses - done.losses,
            everything.gross_win - done.gross_win,
            everything.gross_loss - done.gross_loss,
            max(Decimal(0), everything.sum_squares - done.sum_squares),
        )
    return r_moments(everything, in_r, rest)


def results(conn: Connection, scope: Scope) -> list[Result]:
    """Every result in the order of closing, with its planned risk; a simulation draws from them."""
    planned = _planned(conn, scope)
    rows = conn.execute(
        select(_trips.id, scaled(_trips.realized_pnl)).where(*scope.closed()).order_by(_trips.closed_at, _trips.id)
    )
    return [
        Result(Decimal(pnl).scaleb(-MONEY_PLACES), planned[trip][1] if trip in planned else None) for trip, pnl in rows
    ]


def _noted(conn: Connection, scope: Scope) -> dict[str, TaggedResult]:
    """The round trips that have a report or a linked plan, by id and in the order of closing."""
    legs = round_trip_legs.c
    query = (
        select(_trips.id, _trips.realized_pnl, trade_reports.c.tags, trade_plans.c.strategy_name)
        .join(round_trip_legs, legs.round_trip_id == _trips.id)
        .outerjoin(trade_reports, trade_reports.c.trade_id == legs.exec_id)
        .outerjoin(trade_plans, trade_plans.c.linked_trade_id == legs.exec_id)
        .where(*scope.closed(), or_(trade_reports.c.id.is_not(None), trade_plans.c.id.is_not(None)))
        .order_by(_trips.closed_at, _trips.id, legs.time, legs.exec_id)
    )
    found: dict[str, TaggedResult] = {}
    for trip, pnl, tags, strategy in conn.execute(query):
        known = found.get(trip, TaggedResult(pnl))
        found[trip] = TaggedResult(pnl, (*known.tags, *(tags or ())), known.plan_strategy or strategy)
    return found


def by_strategy(conn: Connection, scope: Scope) -> tuple[dict[str, Moments], Moments]:
    """The sums per strategy, and over everything once."""
    noted = _noted(conn, scope)
    groups, _ = group(noted.values())
    everything = moments(conn, scope)
    if everything.count > len(noted):
        bare = _moments(conn, [*scope.closed(), _trips.id.not_in(_noted_ids())])
        groups[UNTAGGED] = groups[UNTAGGED].plus(bare) if UNTAGGED in groups else bare
    return groups, everything


def _noted_ids() -> Select[Any]:
    legs = round_trip_legs.c
    reported = select(legs.round_trip_id).join(trade_reports, trade_reports.c.trade_id == legs.exec_id)
    planned = select(legs.round_trip_id).join(trade_plans, trade_plans.c.linked_trade_id == legs.exec_id)
    both = reported.union(planned).subquery()
    return select(both.c.round_trip_id)


def of_strategy(conn: Connection, scope: Scope, strategy: str) -> tuple[Moments, Streaks]:
    """The sums and streaks of one strategy, whatever its case; of the untagged too."""
    wanted = strategy.strip().lower()
    noted = _noted(conn, scope)
    rows = conn.execute(
        select(_trips.id, _trips.realized_pnl).where(*scope.closed()).order_by(_trips.closed_at, _trips.id)
        if wanted == UNTAGGED
        else select(_trips.id, _trips.realized_pnl)
        .where(*scope.closed(), _trips.id.in_(_noted_ids()))
        .order_by(_trips.closed_at, _trips.id)
    )
    chosen = [
        pnl
        for trip, pnl in rows
        if wanted in (name.lower() for name in strategies_of(noted.get(trip, TaggedResult(pnl))))
    ]
    return moments_of(chosen), streaks_of(chosen)


def quote_is_usable() -> ColumnElement[bool]:
    """A trade with a bid and an offer at its moment that are neither empty nor crossed."""
    bid, ask = scaled(trades.c.nbbo_bid), scaled(trades.c.nbbo_ask)
    return and_(bid.is_not(None), ask.is_not(None), bid > 0, ask >= bid, scaled(trades.c.price) > 0)


def slipped() -> ColumnElement[Any]:
    """By how much a quoted fill was worse than the quote, per unit, as the scaled number of a price."""
    buys = trades.c.action == "BOT"
    price = scaled(trades.c.price)
    return case((buys, price - scaled(trades.c.nbbo_ask)), else_=scaled(trades.c.nbbo_bid) - price)


def average_slippage(conn: Connection, scope: Scope) -> Decimal | None:
    """Money lost against the quotes per round trip that has any, or None where no fill has one."""
    legs = round_trip_legs.c
    unit = float(10**QUANTITY_PLACES)
    lost = cast(slipped(), Float) / unit * cast(scaled(legs.quantity), Float) / unit
    row = conn.execute(
        select(
            func.count(func.distinct(_trips.id)),
            func.sum(lost * cast(scaled(legs.multiplier), Float) / unit),
        )
        .select_from(round_trips)
        .join(round_trip_legs, legs.round_trip_id == _trips.id)
        .join(trades, trades.c.exec_id == legs.exec_id)
        .where(*scope.closed(), quote_is_usable())
    ).one()
    return Decimal(repr(round(float(row[1]) / row[0], 6))) if row[0] else None
