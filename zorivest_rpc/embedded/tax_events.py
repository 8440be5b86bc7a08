"""The journal of one underlying as tax lots see it: its fills, share splits and delivered options, in order.

A fill at zero that closes delivered contracts and the fill at the strike that moves the shares are one event, at the
place of the later of the two: the premium goes into the shares. An option that expires is an ordinary fill at zero."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from .tables import corporate_actions, trades
from .tax.book import Event, event_order
from .tax.model import Execution, OptionDelivery, StockSplit

__all__ = ["Place", "events", "not_before", "splits"]

Place = tuple[datetime, str]
Reader = Callable[[Mapping[Any, Any]], Execution]

_AT_ONCE = 2_000
_actions = corporate_actions.c
_trades = trades.c
_EXECUTION = (
    "exec_id", "time", "account_id", "symbol", "action", "quantity", "price", "commission", "fees", "multiplier",
    "asset_class", "order_id",
)  # fmt: skip


def not_before(place: Place) -> ColumnElement[bool]:
    """A trade at a place of the history or after it."""
    time, exec_id = place
    return and_(_trades.time >= time, or_(_trades.time > time, _trades.exec_id >= exec_id))


def splits(conn: Connection, group: str) -> list[StockSplit]:
    """The share splits of an underlying; each comes before the fills of its moment."""
    query = select(corporate_actions).where(_actions.underlying == group, _actions.kind == "split")
    return [
        StockSplit(
            exec_id=f" split-{row.id:010d}",
            time=row.effective_at,
            symbol=row.symbol,
            to=row.numerator,
            of=row.denominator,
            account_id=row.account_id,
        )
        for row in conn.execute(query.order_by(_actions.effective_at, _actions.id))
    ]


def events(conn: Connection, read: Reader, group: str, since: Place | None = None) -> Iterator[Event]:
    """Everything that happened to an underlying, from a place on; fills are read in portions."""
    fills = _joined(_fills(conn, read, group, since), _deliveries(conn, group))
    later = [split for split in splits(conn, group) if since is None or event_order(split) >= since]
    return heapq.merge(fills, later, key=event_order)


def _fills(conn: Connection, read: Reader, group: str, since: Place | None) -> Iterator[Execution]:
    ordered = (
        select(*(_trades[name] for name in _EXECUTION))
        .where(_trades.underlying == group)
        .order_by(_trades.time, _trades.exec_id)
        .limit(_AT_ONCE)
    )
    query = ordered if since is None else ordered.where(not_before(since))
    while rows := conn.execute(query).mappings().all():
        yield from map(read, rows)
        last = rows[-1]
        query = ordered.where(not_before((last["time"], last["exec_id"])), _trades.exec_id != last["exec_id"])


def _deliveries(conn: Connection, group: str) -> dict[str, Any]:
    """The exercises and assignments of an underlying by both of their fills."""
    query = select(corporate_actions).where(
        _actions.underlying == group,
        _actions.kind.in_(("exercise", "assignment")),
        _actions.closing_trade_id.is_not(None),
        _actions.related_trade_id.is_not(None),
    )
    rows = conn.execute(query).all()
    return {exec_id: row for row in rows for exec_id in (row.closing_trade_id, row.related_trade_id)}


def _joined(fills: Iterator[Execution], deliveries: Mapping[str, Any]) -> Iterator[Event]:
    waiting: dict[int, Execution] = {}
    for fill in fills:
        action = deliveries.get(fill.exec_id)
        if action is None:
            yield fill
        elif action.id not in waiting:
            waiting[action.id] = fill
        else:
            pair = {one.exec_id: one for one in (waiting.pop(action.id), fill)}
            yield OptionDelivery(
                exec_id=fill.exec_id,
                time=fill.time,
                account_id=action.account_id,
                symbol=action.symbol,
                contracts=action.quantity,
                closing=pair[action.closing_trade_id],
                shares=pair[action.related_trade_id],
            )
