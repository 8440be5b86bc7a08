"""The order of the fills that a file brings for one instant: a day without times, or a second with several fills.

Rule 1: a row that says what it did (Sell Short, Buy to Cover, Sell to Open, Buy to Close …) comes when the position can
have that done to it. Rule 2: otherwise the rows keep the order of the file, oldest first. Rule 3: fills that the
journal holds already come before those of a later file. The order is stored as each fill's `sequence`."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

import msgspec
from sqlalchemy import BigInteger, Connection, case, func, select, type_coerce

from ...database.columns import QUANTITY_PLACES
from ...database.schema.journal import trades as table
from ...journal import trades
from ...values.kinds import Side
from ..drafts import Effect, TradeDraft
from .held import NEAR, Held

__all__ = ["in_order", "order_instant"]

_AT_ONCE = 500
_Line = dict[tuple[Side, Effect | None], deque[tuple[int, TradeDraft]]]


def in_order(
    conn: Connection, account_id: str, drafts: Sequence[TradeDraft], held: Sequence[Held]
) -> tuple[TradeDraft, ...]:
    """New drafts, oldest first, each with its place among the fills of its instant."""
    if not drafts:
        return ()
    own = sorted((one for one in held if one.account_id == account_id), key=lambda one: one.trade.exec_time)
    positions = _positions_before(conn, account_id, drafts)
    instants: defaultdict[datetime, list[TradeDraft]] = defaultdict(list)
    for draft in drafts:
        instants[draft.exec_time].append(draft)
    placed: list[TradeDraft] = []
    seen = 0
    for instant in sorted(instants):
        _, end = trades.instant_of(instant)
        while seen < len(own) and own[seen].trade.exec_time < end:
            one = own[seen]
            _move(positions, one.trade.symbol, one.action == "BOT", one.trade.quantity)
            seen += 1
        latest = own[seen - 1].trade.exec_time if seen else None
        first = trades.place_after(latest, instant)
        ordered = order_instant(instants[instant], positions)
        placed += [
            draft if not first + at else msgspec.structs.replace(draft, sequence=first + at)
            for at, draft in enumerate(ordered)
        ]
    return tuple(placed)


def order_instant(drafts: Iterable[TradeDraft], positions: dict[str, Decimal]) -> list[TradeDraft]:
    """The fills of one instant in the order they can have happened; `positions` are moved by them."""
    waiting = list(drafts)
    if all(draft.effect is None for draft in waiting):
        for draft in waiting:
            _move(positions, draft.symbol, draft.side is Side.BOT, draft.quantity)
        return waiting
    ordered: list[TradeDraft] = []
    lines: dict[str, _Line] = {}
    for place, draft in enumerate(waiting):
        line = lines.setdefault(draft.symbol, {})
        line.setdefault((draft.side, draft.effect), deque()).append((place, draft))
        _release(line, positions, ordered)
    rest = sorted(
        (entry for line in lines.values() for kind in line.values() for entry in kind), key=lambda one: one[0]
    )
    for _, draft in rest:  # what no order explains keeps the file's
        _move(positions, draft.symbol, draft.side is Side.BOT, draft.quantity)
        ordered.append(draft)
    return ordered


def _release(line: _Line, positions: dict[str, Decimal], ordered: list[TradeDraft]) -> None:
    """Let every fill of a symbol go that the position allows by now, the first of the file first.

    Fills that say the same of the same side wait together, so each step looks at a handful of them."""
    while True:
        ready = [kind for kind in line.values() if kind and _can_follow(kind[0][1], positions)]
        if not ready:
            return
        _, draft = min(ready, key=lambda kind: kind[0][0]).popleft()
        _move(positions, draft.symbol, draft.side is Side.BOT, draft.quantity)
        ordered.append(draft)


def _can_follow(draft: TradeDraft, positions: dict[str, Decimal]) -> bool:
    """Whether a fill can do what its row says to its position as it stands."""
    if draft.effect is None:
        return True
    position = positions.get(draft.symbol, Decimal(0))
    held = position if draft.side is Side.BOT else -position  # how much lies on the side that the fill moves to
    return held >= 0 if draft.effect is Effect.OPEN else held < 0


def _move(positions: dict[str, Decimal], symbol: str, buys: bool, quantity: Decimal) -> None:
    positions[symbol] = positions.get(symbol, Decimal(0)) + (quantity if buys else -quantity)


def _positions_before(conn: Connection, account_id: str, drafts: Sequence[TradeDraft]) -> dict[str, Decimal]:
    """What was held of the file's symbols before the earliest trade that `held` can have."""
    if all(draft.effect is None for draft in drafts):
        return {}  # rule 2 alone: no position is asked for
    start = min(draft.exec_time for draft in drafts) - NEAR
    units = type_coerce(table.c.quantity, BigInteger)
    signed = func.sum(case((table.c.action == "BOT", units), else_=-units))
    symbols = sorted({draft.symbol for draft in drafts})
    found: dict[str, Decimal] = {}
    for at in range(0, len(symbols), _AT_ONCE):
        query = (
            select(table.c.symbol, signed)
            .where(table.c.account_id == account_id, table.c.symbol.in_(symbols[at : at + _AT_ONCE]))
            .where(table.c.time < start)
            .group_by(table.c.symbol)
        )
        found.update((symbol, Decimal(int(sum_)).scaleb(-QUANTITY_PLACES)) for symbol, sum_ in conn.execute(query))
    return found
