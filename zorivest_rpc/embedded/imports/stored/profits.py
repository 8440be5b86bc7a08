"""Tells profits that a file states for its closing fills and that the journal's own matching does not give.

Both are first in, first out; the file's may be before or after fees, so a difference within the fees of the round trip
is none. A fill that closes nothing here, or for which the file says zero, is not judged."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlalchemy import Connection, select

from ...database.schema.journal import round_trip_legs, round_trips
from ...values.money import cents
from ..drafts import Note, TradeDraft

__all__ = ["compare_profits"]

_AT_ONCE = 2000
_CENT = Decimal("0.01")
_JUDGED_BY_ROW = frozenset({"ninjatrader", "tradovate"})  # their rows hold both fills and were compared when read


def compare_profits(conn: Connection, drafts: Sequence[TradeDraft]) -> list[Note]:
    """A note on the first stated profit that differs, and how many do; the fills are in the journal by now."""
    stated = {draft.exec_id: draft for draft in drafts if draft.realized_pnl and draft.broker not in _JUDGED_BY_ROW}
    earned = _read_profits(conn, list(stated))
    wrong = [
        (draft, earned[name][0])
        for name, draft in stated.items()
        if name in earned and abs((draft.realized_pnl or 0) - earned[name][0]) > _CENT + earned[name][1]
    ]
    if not wrong:
        return []
    draft, own = wrong[0]
    more = f" {len(wrong)} rows differ so." if len(wrong) > 1 else ""
    text = (
        f"The file states a profit of {draft.realized_pnl:f} for {draft.symbol}, but first in, first out the journal's "
        f"fills give {cents(own):f}; check the multiplier, the prices, and whether earlier fills are missing.{more}"
    )
    return [Note(code="profit_contradicts", message=text, row_number=draft.row_number)]


def _read_profits(conn: Connection, exec_ids: list[str]) -> dict[str, tuple[Decimal, Decimal]]:
    """By closing fill: what it realised, and all fees of the round trip that it closed."""
    legs, trips = round_trip_legs.c, round_trips.c
    found: dict[str, tuple[Decimal, Decimal]] = {}
    for at in range(0, len(exec_ids), _AT_ONCE):
        query = (
            select(legs.exec_id, legs.realized, trips.total_commission)
            .join(round_trips, trips.id == legs.round_trip_id)
            .where(legs.exec_id.in_(exec_ids[at : at + _AT_ONCE]), legs.role == "exit")
        )
        found.update((name, (realized, abs(fees))) for name, realized, fees in conn.execute(query))
    return found
