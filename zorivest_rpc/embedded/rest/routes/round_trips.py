"""`/round-trips`: what was opened and closed, and what it earned."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from aiohttp import web
from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select

from ...database.exact_sums import exact_sum, join_sum
from ...database.schema.journal import round_trip_legs, round_trips
from ...errors import NotFound
from ...journal import round_trip_views, trades
from ...journal.exchange import Conversion, differs
from ...journal.expiry import settle_due
from ...journal.foreign_trips import read_foreign
from ...journal.given_times import GivenTimes
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import Page, instrument, page
from ...values.money import cents
from ...values.period import Period
from ..routing import READ, RestCall, Route, reply
from .selection import currency_for, period_of, tell_period

__all__ = ["ROUTES"]

_trips = round_trips.c


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields)
    account_id = fields.text("account_id", None, most=128)
    status = fields.choice("status", ("open", "closed", "all"), "all")
    symbol = instrument(fields, "ticker").symbol if fields.has("ticker") else None
    fields.done()
    span = await period_of(ask, "all")
    await settle_due(ask.db)
    money = await currency_for(ask, account_id)
    conditions = _conditions(account_id, status, symbol, span)
    answer = await ask.db.read(lambda conn: _page(conn, wanted, conditions, money))
    return reply({**answer, **tell_period(span)})


async def show(ask: RestCall) -> web.StreamResponse:
    trip_id = ask.path["trip_id"]
    await settle_due(ask.db)
    return reply(await ask.db.read(lambda conn: _one(conn, trip_id)))


def _conditions(account_id: str | None, status: str, symbol: str | None, span: Period) -> list[ColumnElement[bool]]:
    """A period holds what was closed in it; what is open counts by when it was opened."""
    wanted: list[ColumnElement[bool]] = []
    if account_id is not None:
        wanted.append(_trips.account_id == account_id)
    if status != "all":
        wanted.append(_trips.status == "closed" if status == "closed" else _trips.status != "closed")
    if symbol is not None:
        wanted.append(_trips.instrument == symbol)
    for bound, sign in ((span.start, 1), (span.end, -1)):
        if bound is not None:
            closed, opened = (
                (column >= bound if sign == 1 else column < bound) for column in (_trips.closed_at, _trips.opened_at)
            )
            wanted.append(or_(and_(_trips.status == "closed", closed), and_(_trips.status != "closed", opened)))
    return wanted


def _page(conn: Connection, wanted: Page, conditions: list[ColumnElement[bool]], money: str) -> dict[str, Any]:
    closed = _trips.status == "closed"
    own = exact_sum(_trips.realized_pnl, _trips.currency == money)
    total, done, whole, part = conn.execute(
        select(func.count(), func.coalesce(func.sum(case((closed, 1), else_=0)), 0), *own)
        .select_from(round_trips)
        .where(*conditions)
    ).one()
    rows = (
        conn.execute(
            select(round_trips)
            .where(*conditions)
            .order_by(_trips.opened_at.desc(), _trips.id.desc())
            .limit(wanted.limit)
            .offset(wanted.offset)
        )
        .mappings()
        .all()
    )
    items = [to_json(trip) for trip in round_trip_views.render_trips(conn, rows, datetime.now(UTC))]
    answer = wanted.envelope(items, total)
    conversion = Conversion(conn, money)
    foreign = read_foreign(conn, [*conditions, differs(_trips.currency, money)], conversion)
    earned = join_sum(whole, part) + sum((trip.converted for trip in foreign if trip.rate is not None), Decimal(0))
    answer["summary"] = {"closed": done, "open": total - done, "realized_pnl": cents(earned), **conversion.answer()}
    if not total:
        answer["hint"] = "No round trips here; record fills with create_trade or load one with import_broker_csv."
    return answer


def _one(conn: Connection, trip_id: str) -> dict[str, Any]:
    row = conn.execute(select(round_trips).where(_trips.id == trip_id)).mappings().first()
    if row is None:
        raise NotFound("round trip", trip_id, "get_round_trips lists them.")
    query = (
        select(
            round_trip_legs.c.exec_id,
            round_trip_legs.c.role,
            round_trip_legs.c.time,
            round_trip_legs.c.quantity,
            round_trip_legs.c.price,
            round_trip_legs.c.fee,
            round_trip_legs.c.realized,
            round_trip_legs.c.open_quantity,
        )
        .where(round_trip_legs.c.round_trip_id == trip_id)
        .order_by(round_trip_legs.c.time, round_trip_legs.c.exec_id)
    )
    legs = conn.execute(query).mappings().all()
    given = GivenTimes(conn, (leg["exec_id"] for leg in legs))
    shown = to_json(round_trip_views.render_trips(conn, [row], datetime.now(UTC))[0])
    executions = [
        {**leg, "time": given.of(leg["exec_id"], leg["time"]), "realized": cents(leg["realized"])} for leg in legs
    ]
    return {**shown, "executions": executions}


async def of_trade(ask: RestCall) -> web.StreamResponse:
    """The round trip that an execution belongs to."""
    exec_id = ask.path["exec_id"]

    def job(conn: Connection) -> dict[str, Any]:
        trades.require(conn, exec_id)
        row = round_trip_views.trip_of(conn, exec_id)
        assert row is not None  # every trade is a leg of one
        return _one(conn, row["id"])

    return reply(await ask.db.read(job))


ROUTES = (
    Route("GET", "/round-trips", READ, list_all),
    Route("GET", "/round-trips/{trip_id}", READ, show),
    Route("GET", "/trades/{exec_id}/round-trip", READ, of_trade),
)
