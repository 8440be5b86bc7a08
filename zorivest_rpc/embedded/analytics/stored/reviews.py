"""Single trades judged by what is stored around them: excursion, execution quality, and the facts of a review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from decimal import Decimal
from statistics import median
from typing import Any, NamedTuple, cast

import msgspec
from sqlalchemy import Connection, func, select

from ...database.engine import Database
from ...database.schema.journal import (
    balance_snapshots,
    excursion_metrics,
    mistake_entries,
    round_trip_legs,
    round_trips,
    trade_plans,
    trade_reports,
)
from ...database.schema.journal import trades as trade_table
from ...errors import NotFound, Unavailable
from ...journal import accounts, round_trip_views, trades
from ...journal.exchange import HOW_TO_GIVE, Conversion, own_rate
from ...journal.round_trips import episode_of, execution_of
from ...market import stored_bars as bars
from ...tax.dates import trade_date
from ...values.inputs import Page
from ...values.kinds import AssetClass
from ...values.money import divide
from ...values.period import Period
from ..excursion import Excursion, Resolution, best_resolution, excursion, held_window, wanted_resolution
from ..execution_quality import BidAsk, ExecutionQuality, score_execution
from ..positions import Episode
from ..review import week_before
from ..review_rules import PlanFacts, ReviewFacts
from .results import Scope, moments, planned_risk

__all__ = ["enrich", "facts_of_trade", "facts_of_week", "list_scores", "score"]

_trips = round_trips.c
_legs = round_trip_legs.c
_PAST = 50
_MOST_IN_A_WEEK = 200


async def enrich(db: Database, exec_id: str, wanted: Resolution | None, now: datetime) -> Excursion:
    """Compute the excursion of the round trip an execution belongs to, and keep it; 503 where no bar covers it.

    Bars are read beside the writer; if the round trip changed meanwhile, the figure is not of it and made again."""
    while True:
        found, episode = await db.read(lambda conn: _measure(conn, exec_id, wanted, now))
        if await db.write(lambda conn: _keep(conn, found, episode)):  # noqa: B023  awaited before the next turn
            return found


def _measure(conn: Connection, exec_id: str, wanted: Resolution | None, now: datetime) -> tuple[Excursion, Episode]:
    trades.require(conn, exec_id)
    episode = episode_of(_trip(conn, exec_id))
    start, end = held_window(episode, now)
    here = bars.available(conn, episode.symbol, start, end)
    resolution = best_resolution(wanted or wanted_resolution(end - start), here)
    found = None
    if resolution is not None:
        stored = bars.between(conn, episode.symbol, resolution, start, end)
        found = excursion(episode, stored.bars, resolution, exec_id=exec_id, data_source=stored.source, now=now)
    if found is None:
        raise Unavailable(
            "no_bar_data",
            f"No price bars of {episode.symbol} are stored for {start:%Y-%m-%d} to {end:%Y-%m-%d}, "
            "so how far the price went cannot be known. Nothing was stored.",
        )
    return found, episode


def _keep(conn: Connection, found: Excursion, episode: Episode) -> bool:
    """Store the figure if its round trip is still what it was measured on."""
    row = round_trip_views.trip_of(conn, found.trade_exec_id)
    if row is None or episode_of(row) != episode:
        return False
    kept = {name: getattr(found, name) for name in excursion_metrics.columns.keys()}  # noqa: SIM118
    conn.execute(excursion_metrics.delete().where(excursion_metrics.c.trade_exec_id == found.trade_exec_id))
    conn.execute(excursion_metrics.insert().values(**kept))
    return True


def score(conn: Connection, exec_id: str) -> ExecutionQuality:
    """The mark of a fill together with the other fills of its order."""
    return _score_row(conn, trades.require(conn, exec_id))


def list_scores(conn: Connection, account_id: str | None, page: Page) -> dict[str, Any]:
    """The marks of executions, latest first, as values that still want encoding."""
    wanted = [] if account_id is None else [trade_table.c.account_id == account_id]
    total = conn.execute(select(func.count()).select_from(trade_table).where(*wanted)).scalar_one()
    rows = (
        conn.execute(
            select(trade_table)
            .where(*wanted)
            .order_by(trade_table.c.time.desc(), trade_table.c.exec_id.desc())
            .limit(page.limit)
            .offset(page.offset)
        )
        .mappings()
        .all()
    )
    return page.envelope([_score_row(conn, row) for row in rows], total)


def _score_row(conn: Connection, row: Mapping[Any, Any]) -> ExecutionQuality:
    together = [row]
    if row["order_id"] is not None:
        same = ("order_id", "account_id", "symbol", "action")
        rows = conn.execute(select(trade_table).where(*(trade_table.c[name] == row[name] for name in same))).mappings()
        together = sorted(rows, key=lambda fill: (fill["time"], fill["exec_id"]))
    first = together[0]
    bid, ask = first["nbbo_bid"], first["nbbo_ask"]
    quote = None if bid is None or ask is None else BidAsk(bid, ask)
    bar = bars.covering(conn, row["symbol"], first["time"]) if quote is None or not quote.usable else None
    mark = score_execution(
        [execution_of(fill) for fill in together], cast(AssetClass, row["asset_class"]), quote=quote, bar=bar
    )
    return msgspec.structs.replace(mark, trade_exec_id=row["exec_id"])


def facts_of_trade(conn: Connection, exec_id: str, zone: tzinfo = UTC) -> ReviewFacts:
    """What is known of the round trip that an execution belongs to."""
    trades.require(conn, exec_id)
    return _facts(conn, _trip(conn, exec_id), exec_id, zone)


def facts_of_week(conn: Connection, exec_id: str, zone: tzinfo = UTC) -> list[ReviewFacts]:
    """The same for every round trip of the account that was last traded in the week up to an execution."""
    trade = trades.require(conn, exec_id)
    start, end = week_before(trade["time"])
    rows = (
        conn.execute(
            select(round_trips)
            .where(_trips.account_id == trade["account_id"], _trips.last_at > start, _trips.opened_at <= end)
            .order_by(_trips.opened_at, _trips.id)
            .limit(_MOST_IN_A_WEEK)
        )
        .mappings()
        .all()
    )
    return [_facts(conn, row, row["opened_by"], zone) for row in rows]


def _trip(conn: Connection, exec_id: str) -> Mapping[Any, Any]:
    row = round_trip_views.trip_of(conn, exec_id)
    if row is None:
        raise NotFound("round trip", exec_id)
    return row


def _facts(conn: Connection, trip: Mapping[Any, Any], exec_id: str, zone: tzinfo) -> ReviewFacts:
    legs = select(_legs.exec_id).where(_legs.round_trip_id == trip["id"])
    plan = _first(conn, select(trade_plans).where(trade_plans.c.linked_trade_id.in_(legs)).order_by(trade_plans.c.id))
    report = _first(conn, select(trade_reports).where(trade_reports.c.trade_id.in_(legs)).order_by(trade_reports.c.id))
    moved = _first(
        conn,
        select(excursion_metrics)
        .where(excursion_metrics.c.round_trip_id == trip["id"])
        .order_by(excursion_metrics.c.computed_at.desc()),
    )
    tagged = conn.execute(
        select(mistake_entries.c.category).where(mistake_entries.c.trade_id.in_(legs)).order_by(mistake_entries.c.id)
    ).scalars()
    episode = episode_of(trip)
    closed = trip["status"] == "closed"
    past = _past(conn, trip)
    balance = _in_trip_money(conn, trip, _balance(conn, trip["account_id"], trip["opened_at"]))
    one_r = _one_r(conn, trip, plan)
    return ReviewFacts(
        trade_exec_id=exec_id,
        round_trip_id=trip["id"],
        direction=episode.direction,
        entry_price=trip["entry_avg_price"],
        quantity=trip["total_quantity"],
        multiplier=trip["multiplier"],
        opened_at=trip["opened_at"],
        closed_at=trip["closed_at"],
        pnl=trip["realized_pnl"] if closed else None,
        account_balance=balance.amount,
        plan=None if plan is None else PlanFacts(plan.entry_price, plan.stop_loss, plan.target_price),
        one_r=one_r.amount,
        mae_dollars=None if moved is None else moved.mae_dollars,
        capture_ratio=None if moved is None else moved.capture_ratio,
        closes=bars.closes_before(conn, trip["instrument"], trip["opened_at"], 50),
        usual_holding_seconds=int(median(row.holding_period_seconds for row in past)) if past else None,
        mistakes=tuple(tagged),
        followed_plan=None if report is None else report.followed_plan,
        emotional_state=None if report is None else report.emotional_state,
        previous_results=tuple(row.realized_pnl for row in past),
        same_day_trades=_count_opened(conn, trip, zone),
        usual_day_trades=_usual_day(conn, trip, zone),
        unrated_balance=balance.lack,
        unrated_risk=one_r.lack,
    )


def _first(conn: Connection, query: Any) -> Any:
    return conn.execute(query.limit(1)).first()


def _past(conn: Connection, trip: Mapping[Any, Any]) -> Sequence[Any]:
    """The round trips of the account that had closed when this one was opened, oldest first."""
    rows = conn.execute(
        select(_trips.realized_pnl, _trips.holding_period_seconds)
        .where(
            _trips.account_id == trip["account_id"], _trips.status == "closed", _trips.closed_at <= trip["opened_at"]
        )
        .order_by(_trips.closed_at.desc(), _trips.id.desc())
        .limit(_PAST)
    ).all()
    return list(reversed(rows))


class _TripMoney(NamedTuple):
    """An amount in the currency of a round trip, or the rate that it lacks."""

    amount: Decimal | None
    lack: str | msgspec.UnsetType = msgspec.UNSET


def _one_r(conn: Connection, trip: Mapping[Any, Any], plan: Any) -> _TripMoney:
    """What the plan put at risk, else the average loss before this trade."""
    if plan is not None:
        risk = planned_risk(plan.entry_price, plan.stop_loss, trip["total_quantity"], trip["multiplier"])
        if risk is not None:
            return _TripMoney(risk)
    currency = accounts.require(conn, trip["account_id"])["currency"]
    before = moments(conn, Scope(trip["account_id"], Period("before", None, trip["opened_at"]), currency))
    return _in_trip_money(conn, trip, before.avg_loss or None)


def _in_trip_money(conn: Connection, trip: Mapping[Any, Any], amount: Decimal | None) -> _TripMoney:
    """An amount of the account's currency in that of a round trip, by the day it was opened."""
    currency = accounts.require(conn, trip["account_id"])["currency"]
    if amount is None or currency == trip["currency"]:
        return _TripMoney(amount)
    opener = conn.execute(select(trade_table).where(trade_table.c.exec_id == trip["opened_by"])).one()
    rate = Conversion(conn, currency).rate(trip["currency"], trip["opened_at"], own_rate(opener))
    if rate:
        return _TripMoney(divide(amount, rate))
    return _TripMoney(
        None,
        f"recorded in {currency}, but there is no rate of {trip['currency']} to {currency} on "
        f"{trade_date(trip['opened_at'])}; {HOW_TO_GIVE}",
    )


def _balance(conn: Connection, account_id: str, moment: datetime) -> Decimal | None:
    return conn.execute(
        select(balance_snapshots.c.balance)
        .where(balance_snapshots.c.account_id == account_id, balance_snapshots.c.datetime <= moment)
        .order_by(balance_snapshots.c.datetime.desc(), balance_snapshots.c.id.desc())
        .limit(1)
    ).scalar()


def _midnight(moment: datetime, zone: tzinfo) -> datetime:
    return datetime.combine(moment.astimezone(zone).date(), time(), zone)


def _count_opened(conn: Connection, trip: Mapping[Any, Any], zone: tzinfo) -> int:
    midnight = _midnight(trip["opened_at"], zone)
    return conn.execute(
        select(func.count())
        .select_from(round_trips)
        .where(
            _trips.account_id == trip["account_id"],
            _trips.opened_at >= midnight,
            _trips.opened_at < midnight + timedelta(days=1),
        )
    ).scalar_one()


def _usual_day(conn: Connection, trip: Mapping[Any, Any], zone: tzinfo) -> Decimal | None:
    """The median number of round trips opened on earlier days that had any, over the latest of them."""
    midnight = _midnight(trip["opened_at"], zone)
    rows = conn.execute(
        select(_trips.opened_at)
        .where(_trips.account_id == trip["account_id"], _trips.opened_at < midnight)
        .order_by(_trips.opened_at.desc())
        .limit(_PAST * 4)
    ).scalars()
    days = Counter(opened.astimezone(zone).date() for opened in rows)
    return Decimal(median(days.values())) if days else None
