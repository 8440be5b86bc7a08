"""The results of closed round trips, summed by the database: what every figure about the edge is made of.

A hundred thousand round trips come back as one row of sums. Only those that a person wrote something about (a report,
a linked plan) are read one by one, because their tags and planned risks are not for SQL to take apart; and those in
another currency than the answer's, because each has the rate of its own day. Those without a rate are in no sum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Float,
    Select,
    Table,
    and_,
    case,
    cast,
    func,
    select,
)

from ...database.columns import MONEY_PLACES
from ...database.exact_sums import SCALE, as_integer, exact_sum, join_sum
from ...database.schema.journal import round_trip_legs, round_trips, trade_plans, trade_reports, trades
from ...journal.exchange import DOLLAR, Conversion, differs
from ...journal.foreign_trips import ForeignTrip, read_foreign
from ...values.money import divide
from ...values.period import Period
from ..moments import Moments, Streaks, moments_of, streaks_of
from ..r_multiples import RUnit, TripResult, r_moments
from ..strategies import UNTAGGED, TaggedResult, group, strategies_of

__all__ = [
    "Scope",
    "average_slippage",
    "by_strategy",
    "foreign_trips",
    "gross_pnl",
    "moments",
    "of_strategy",
    "planned_risk",
    "plans",
    "quote_is_usable",
    "results",
    "risk_moments",
    "slippage_column",
    "streaks",
    "tell_currencies",
]

_trips = round_trips.c


class Scope(NamedTuple):
    """Which round trips: of one account or all, closed within a period; and the currency that sums are in."""

    account_id: str | None
    period: Period
    currency: str = DOLLAR

    def closed(self) -> list[ColumnElement[bool]]:
        """Those in the scope's own currency."""
        return [_trips.currency == self.currency, *self._closing_conditions()]

    def foreign(self) -> list[ColumnElement[bool]]:
        """Those in any other currency."""
        return [differs(_trips.currency, self.currency), *self._closing_conditions()]

    def _closing_conditions(self) -> list[ColumnElement[bool]]:
        wanted: list[ColumnElement[bool]] = [_trips.status == "closed"]
        if self.account_id is not None:
            wanted.append(_trips.account_id == self.account_id)
        if self.period.start is not None:
            wanted.append(_trips.closed_at >= self.period.start)
        if self.period.end is not None:
            wanted.append(_trips.closed_at < self.period.end)
        return wanted

    def executed(self, table: Table = trades) -> list[ColumnElement[bool]]:
        """The same scope over the time of executions, or of what has an execution's account and time."""
        wanted: list[ColumnElement[bool]] = []
        if self.account_id is not None:
            wanted.append(table.c.account_id == self.account_id)
        if self.period.start is not None:
            wanted.append(table.c.time >= self.period.start)
        if self.period.end is not None:
            wanted.append(table.c.time < self.period.end)
        return wanted


def foreign_trips(conn: Connection, scope: Scope) -> list[ForeignTrip]:
    """The scope's round trips in other currencies that can be converted, in the order of closing."""
    known = read_foreign(conn, scope.foreign(), Conversion(conn, scope.currency))
    return [trip for trip in known if trip.rate is not None]


def tell_currencies(conn: Connection, scope: Scope) -> dict[str, Any]:
    """What an answer over the scope's results says about currencies."""
    conversion = Conversion(conn, scope.currency)
    read_foreign(conn, scope.foreign(), conversion)
    return conversion.answer()


def moments(conn: Connection, scope: Scope) -> Moments:
    """Counts and sums of the scope's results: those in its currency in one query, and the converted ones."""
    own = _moments(conn, scope.closed())
    return own.plus(moments_of(trip.converted for trip in foreign_trips(conn, scope)))


def _moments(conn: Connection, wanted: Sequence[ColumnElement[bool]]) -> Moments:
    pnl = _trips.realized_pnl
    won, lost = as_integer(pnl) > 0, as_integer(pnl) < 0
    dollars = cast(as_integer(pnl), Float) / SCALE
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
    return Moments(
        count, wins, losses, join_sum(row[3], row[4]), -join_sum(row[5], row[6]), Decimal(repr(float(row[7])))
    )


def streaks(conn: Connection, scope: Scope) -> Streaks:
    """The longest runs: SQL puts the results in order and hands over one letter for each, in one text.

    Numbering the runs by window functions and counting them takes three times as long."""
    pnl = as_integer(_trips.realized_pnl)
    converted = foreign_trips(conn, scope)
    if converted:
        signs = select(_trips.closed_at, _trips.id, pnl).where(*scope.closed())
        own = [(moment, trip, Decimal(value)) for moment, trip, value in conn.execute(signs)]
        own += [(trip.closed_at, trip.id, trip.pnl) for trip in converted]
        return streaks_of(value for *_, value in sorted(own))
    letters = (
        select(case((pnl > 0, "w"), (pnl < 0, "l"), else_="-").label("letter"))
        .where(*scope.closed())
        .order_by(_trips.closed_at, _trips.id)
        .subquery()
    )
    text = conn.execute(select(func.aggregate_strings(letters.c.letter, ""))).scalar() or ""
    longest = {letter: max(map(len, re.findall(f"{letter}+", text)), default=0) for letter in "wl"}
    return Streaks(longest["w"], longest["l"])


def gross_pnl(conn: Connection, scope: Scope) -> Decimal:
    """What the scope's round trips earned before fees."""
    row = conn.execute(
        select(*exact_sum(_trips.realized_pnl), *exact_sum(_trips.matched_fees)).where(*scope.closed())
    ).one()
    own = join_sum(row[0], row[1]) + join_sum(row[2], row[3])
    return own + sum((trip.at_rate(trip.pnl + trip.fees) for trip in foreign_trips(conn, scope)), Decimal(0))


def plans() -> Select[Any]:
    """Round trips with the plan that is linked to one of their executions."""
    return (
        select(
            _trips.id,
            _trips.currency,
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


def _read_planned_risks(conn: Connection, scope: Scope) -> dict[str, tuple[Decimal, Decimal]]:
    """Of round trips with a planned risk: the result and that risk."""
    found: dict[str, tuple[Decimal, Decimal]] = {}
    converted = {trip.id: trip for trip in foreign_trips(conn, scope)}
    queries = [plans().where(*scope.closed())]
    if converted:
        queries.append(plans().where(*scope.foreign()))
    for query in queries:
        for row in conn.execute(query):
            risk = planned_risk(row.entry_price, row.stop_loss, row.total_quantity, row.multiplier)
            if risk is None or (row.currency != scope.currency and row.id not in converted):
                continue
            foreign = converted.get(row.id)
            if foreign is None:
                found.setdefault(row.id, (row.realized_pnl, risk))
            else:
                found.setdefault(row.id, (foreign.converted, foreign.at_rate(risk)))
    return found


def risk_moments(conn: Connection, scope: Scope) -> tuple[Moments, RUnit]:
    """The sums of the results in units of risk."""
    everything = moments(conn, scope)
    planned = _read_planned_risks(conn, scope)
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


def results(conn: Connection, scope: Scope) -> list[TripResult]:
    """Every result in the order of closing, with its planned risk; a simulation draws from them."""
    planned = _read_planned_risks(conn, scope)
    columns = (_trips.closed_at, _trips.id, as_integer(_trips.realized_pnl))
    rows = conn.execute(select(*columns).where(*scope.closed()).order_by(_trips.closed_at, _trips.id))
    known = [(moment, trip, Decimal(pnl).scaleb(-MONEY_PLACES)) for moment, trip, pnl in rows]
    converted = [(trip.closed_at, trip.id, trip.converted) for trip in foreign_trips(conn, scope)]
    if converted:
        known = sorted([*known, *converted])
    return [TripResult(pnl, planned[trip][1] if trip in planned else None) for _, trip, pnl in known]


def _read_annotated(conn: Connection, scope: Scope) -> dict[str, TaggedResult]:
    """The round trips that have a report or a linked plan, by id and in the order of closing.

    Each query starts from the few rows that a user wrote, and none leaves the order to the planner."""
    legs = round_trip_legs.c
    tags = {row.trade_id: row.tags for row in conn.execute(select(trade_reports.c.trade_id, trade_reports.c.tags))}
    linked = select(trade_plans.c.linked_trade_id, trade_plans.c.strategy_name).order_by(trade_plans.c.id.desc())
    strategies = {row.linked_trade_id: row.strategy_name for row in conn.execute(linked)}  # the first plan wins
    notes: dict[str, tuple[tuple[str, ...], str | None]] = {}
    fills = select(legs.round_trip_id, legs.exec_id).where(legs.exec_id.in_(_noted_executions()))
    for trip, exec_id in conn.execute(fills.order_by(legs.time, legs.exec_id)):
        known, strategy = notes.get(trip, ((), None))
        notes[trip] = (*known, *(tags.get(exec_id) or ())), strategy or strategies.get(exec_id)
    rows = conn.execute(
        select(_trips.id, _trips.realized_pnl)
        .where(*scope.closed(), _trips.id.in_(_noted_ids()))
        .order_by(_trips.closed_at, _trips.id)
    )
    found = {trip: TaggedResult(pnl, *notes[trip]) for trip, pnl in rows}
    for foreign in foreign_trips(conn, scope):
        if foreign.id in notes:
            found[foreign.id] = TaggedResult(foreign.converted, *notes[foreign.id])
    return found


def by_strategy(conn: Connection, scope: Scope) -> tuple[dict[str, Moments], Moments]:
    """The sums per strategy, and over everything once."""
    noted = _read_annotated(conn, scope)
    groups, _ = group(noted.values())
    everything = moments(conn, scope)
    if everything.count > len(noted):
        bare = _moments(conn, [*scope.closed(), _trips.id.not_in(_noted_ids())]).plus(
            moments_of(trip.converted for trip in foreign_trips(conn, scope) if trip.id not in noted)
        )
        groups[UNTAGGED] = groups[UNTAGGED].plus(bare) if UNTAGGED in groups else bare
    return groups, everything


def _noted_executions() -> CompoundSelect[Any]:
    linked = trade_plans.c.linked_trade_id
    return select(trade_reports.c.trade_id).union(select(linked).where(linked.is_not(None)))


def _noted_ids() -> Select[Any]:
    legs = round_trip_legs.c
    return select(legs.round_trip_id).where(legs.exec_id.in_(_noted_executions()))


def of_strategy(conn: Connection, scope: Scope, strategy: str) -> tuple[Moments, Streaks, Decimal | None]:
    """The sums, streaks and average slippage of one strategy, whatever its case; of the untagged too."""
    wanted = strategy.strip().lower()
    noted = _read_annotated(conn, scope)
    query = select(_trips.closed_at, _trips.id, _trips.realized_pnl, _trips.slippage).where(*scope.closed())
    if wanted != UNTAGGED:
        query = query.where(_trips.id.in_(_noted_ids()))
    rows = [tuple(row) for row in conn.execute(query.order_by(_trips.closed_at, _trips.id))]
    for foreign in foreign_trips(conn, scope):
        lost_on_it = None if foreign.slippage is None else foreign.at_rate(foreign.slippage)
        rows.append((foreign.closed_at, foreign.id, foreign.converted, lost_on_it))
    chosen = [
        (pnl, slippage)
        for _, trip, pnl, slippage in sorted(rows, key=lambda row: (row[0], row[1]))
        if wanted in (name.lower() for name in strategies_of(noted.get(trip, TaggedResult(pnl))))
    ]
    results = [pnl for pnl, _ in chosen]
    lost = [slippage for _, slippage in chosen if slippage is not None]
    return moments_of(results), streaks_of(results), divide(sum(lost, Decimal(0)), len(lost))


def quote_is_usable() -> ColumnElement[bool]:
    """A trade with a bid and an offer at its moment that are neither empty nor crossed."""
    bid, ask = as_integer(trades.c.nbbo_bid), as_integer(trades.c.nbbo_ask)
    return and_(bid.is_not(None), ask.is_not(None), bid > 0, ask >= bid, as_integer(trades.c.price) > 0)


def slippage_column() -> ColumnElement[Any]:
    """By how much a quoted fill was worse than the quote, per unit, as the scaled number of a price."""
    buys = trades.c.action == "BOT"
    price = as_integer(trades.c.price)
    return case((buys, price - as_integer(trades.c.nbbo_ask)), else_=as_integer(trades.c.nbbo_bid) - price)


def average_slippage(conn: Connection, scope: Scope) -> Decimal | None:
    """Money lost against the quotes per round trip that has any, or None where no fill has one."""
    count, whole, part = conn.execute(
        select(func.count(), *exact_sum(_trips.slippage)).where(*scope.closed(), _trips.slippage.is_not(None))
    ).one()
    lost = [trip.at_rate(trip.slippage) for trip in foreign_trips(conn, scope) if trip.slippage is not None]
    return divide(join_sum(whole, part) + sum(lost, Decimal(0)), count + len(lost))
