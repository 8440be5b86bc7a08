"""The journal of an underlying as tax lots see it: its fills, share splits and delivered options, in order.

A fill at zero that closes delivered contracts and the fill at the strike that moves the shares are one event, at the
place of the later of the two: the premium goes into the shares. An option that expires is an ordinary fill at zero.
Small underlyings are read many at a time, so that a journal costs what its fills cost, however many symbols it has."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from ...database.schema.books import tax_pending
from ...database.schema.journal import corporate_actions, trades
from ..book import Event, event_order
from ..model import OptionDelivery, StockSplit, TaxFill
from .reading import parts

__all__ = ["COLUMNS", "Actions", "Place", "histories", "not_before", "portions", "sizes"]

Place = tuple[datetime, str]
Reader = Callable[[Sequence[Any]], TaxFill | None]
"""A row as the lots see it; None for one that is kept apart."""

_AT_ONCE = 2_000  # fills
_GROUPS = 500  # underlyings
_DELIVERIES = ("exercise", "assignment")
_actions = corporate_actions.c
_trades = trades.c
COLUMNS = (
    "exec_id", "time", "account_id", "symbol", "action", "quantity", "price", "commission", "fees", "multiplier",
    "asset_class", "order_id", "currency", "underlying",
)  # fmt: skip
_FILLS = select(*(_trades[name] for name in COLUMNS))


def not_before(place: Place) -> ColumnElement[bool]:
    """A trade at a place of the history or after it."""
    time, exec_id = place
    return and_(_trades.time >= time, or_(_trades.time > time, _trades.exec_id >= exec_id))


class Actions:
    """The splits and deliveries of several underlyings, read at once."""

    def __init__(self, conn: Connection, groups: Sequence[str]) -> None:
        self._splits: dict[str, list[StockSplit]] = {}
        self._deliveries: dict[str, dict[str, Any]] = {}
        query = select(corporate_actions).where(_actions.underlying.in_(groups))
        for row in conn.execute(query.order_by(_actions.effective_at, _actions.id)):
            if row.kind == "split":
                self._splits.setdefault(row.underlying, []).append(_split(row))
            elif row.kind in _DELIVERIES and row.closing_trade_id is not None and row.related_trade_id is not None:
                known = self._deliveries.setdefault(row.underlying, {})
                known[row.closing_trade_id] = known[row.related_trade_id] = row

    def splits(self, group: str) -> list[StockSplit]:
        """The share splits of an underlying; each comes before the fills of its moment."""
        return self._splits.get(group, [])

    def deliveries(self, group: str) -> Mapping[str, Any]:
        """The exercises and assignments of an underlying by both of their fills."""
        return self._deliveries.get(group, {})


def portions(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Underlyings in order, together as long as all that is to be read of them can be read at once."""
    portion: list[str] = []
    total = 0
    for group in sorted(sizes):
        if portion and (total + sizes[group] > _AT_ONCE or len(portion) == _GROUPS):
            yield portion
            portion, total = [], 0
        portion.append(group)
        total += sizes[group]
    if portion:
        yield portion


def sizes(conn: Connection, groups: Iterable[str]) -> dict[str, int]:
    """How many fills each underlying has."""
    found = dict.fromkeys(groups, 0)
    for part in parts(list(found)):
        query = select(_trades.underlying, func.count()).where(_trades.underlying.in_(part))
        found.update((group, count) for group, count in conn.execute(query.group_by(_trades.underlying)))
    return found


def histories(
    conn: Connection,
    read: Reader,
    groups: Sequence[str],
    actions: Actions,
    since: Mapping[str, Place] | None = None,
) -> Iterator[tuple[str, Iterator[Event]]]:
    """Everything that happened to each underlying of a portion, from its place on; a large one is read in pieces.

    Each history must be read to its end before the next one is asked for."""
    fills = _together(conn, read, groups) if since is None else _later(conn, read, groups, since)
    for group in groups:
        start = None if since is None else since[group]
        later = [split for split in actions.splits(group) if start is None or event_order(split) >= start]
        own = _merge_events(fills(group), actions.deliveries(group))
        yield group, heapq.merge(own, later, key=event_order) if later else own


def _split(row: Any) -> StockSplit:
    return StockSplit(
        exec_id=f" split-{row.id:010d}",
        time=row.effective_at,
        symbol=row.symbol,
        to=row.numerator,
        of=row.denominator,
        account_id=row.account_id,
    )


def _together(conn: Connection, read: Reader, groups: Sequence[str]) -> Callable[[str], Iterator[TaxFill]]:
    if len(groups) == 1:
        return lambda group: _fills(conn, read, group)
    found: dict[str, list[TaxFill]] = {}
    query = _FILLS.where(_trades.underlying.in_(groups)).order_by(_trades.time, _trades.exec_id)
    for row in conn.execute(query):
        _add(found, row, read)
    return lambda group: iter(found.pop(group, ()))


def _add(found: dict[str, list[TaxFill]], row: Any, read: Reader) -> None:
    fill = read(row)
    if fill is not None:
        found.setdefault(row[-1], []).append(fill)


def _later(
    conn: Connection, read: Reader, groups: Sequence[str], since: Mapping[str, Place]
) -> Callable[[str], Iterator[TaxFill]]:
    """From its place on an underlying has only fills that wait to be seen, which is what is read here for all."""
    if len(groups) == 1:
        return lambda group: _fills(conn, read, group, since[group])
    found: dict[str, list[TaxFill]] = {}
    query = _FILLS.join(tax_pending, tax_pending.c.exec_id == _trades.exec_id).where(
        tax_pending.c.underlying.in_(groups)
    )
    for row in conn.execute(query.order_by(_trades.time, _trades.exec_id)):
        _add(found, row, read)
    return lambda group: iter(found.pop(group, ()))


def _fills(conn: Connection, read: Reader, group: str, since: Place | None = None) -> Iterator[TaxFill]:
    ordered = _FILLS.where(_trades.underlying == group).order_by(_trades.time, _trades.exec_id).limit(_AT_ONCE)
    query = ordered if since is None else ordered.where(not_before(since))
    while rows := conn.execute(query).all():
        yield from (fill for fill in map(read, rows) if fill is not None)
        if len(rows) < _AT_ONCE:
            return
        last = rows[-1]
        query = ordered.where(not_before((last.time, last.exec_id)), _trades.exec_id != last.exec_id)


def _merge_events(fills: Iterator[TaxFill], deliveries: Mapping[str, Any]) -> Iterator[Event]:
    waiting: dict[int, TaxFill] = {}
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
