"""Which trades of a file the journal already holds.

An equal id or an equal fingerprint tells. Some files give a day without a time. Their rows are stored as noon, so a
fill of such a file and the same fill with its time do not look the same; they are recognised by the day, each held
trade for one row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Select, select

from ...database.schema.journal import trades
from ..dedup import HeldTrade, SortedTrades, sort_out_trades
from ..drafts import TradeDraft

__all__ = ["NEAR", "Held", "find_held", "sort_out"]

_AT_ONCE = 500
NEAR = timedelta(days=1)
_FROM_FILES = frozenset({"import", "sync"})
_held = trades.c
_COLUMNS = (
    "exec_id", "account_id", "dedup_hash", "symbol", "action", "time", "quantity", "price", "commission", "fees",
    "source",
)  # fmt: skip


class Held(NamedTuple):
    """A trade of the journal that a file may bring again."""

    trade: HeldTrade
    account_id: str
    action: str
    is_imported: bool


def find_held(
    conn: Connection, account_id: str, drafts: Sequence[TradeDraft]
) -> tuple[dict[str, Held], dict[str, int]]:
    """The trades a file can meet: those of its account and time, and those that have one of its ids.

    The second value counts, by account, ids that are taken in other accounts."""
    if not drafts:
        return {}, {}
    times = [draft.exec_time for draft in drafts]
    span = (
        select(*(_held[name] for name in _COLUMNS))
        .where(_held.account_id == account_id)
        .where(_held.time >= min(times) - NEAR, _held.time <= max(times) + NEAR)
    )
    found: dict[str, Held] = {}
    elsewhere: dict[str, int] = {}
    for row in _rows(conn, span, [draft.exec_id for draft in drafts], found):
        if row["account_id"] != account_id:
            elsewhere[row["account_id"]] = elsewhere.get(row["account_id"], 0) + 1
        trade = HeldTrade(
            exec_id=row["exec_id"],
            dedup_hash=row["dedup_hash"],
            symbol=row["symbol"],
            exec_time=row["time"],
            quantity=row["quantity"],
            price=row["price"],
            commission=row["commission"],
            fees=row["fees"],
        )
        found[row["exec_id"]] = Held(trade, row["account_id"], row["action"], row["source"] in _FROM_FILES)
    return found, elsewhere


def _rows(
    conn: Connection, span: Select[Any], ids: Sequence[str], found: Mapping[str, Held]
) -> Iterator[Mapping[Any, Any]]:
    """The rows of a span, then those with an id that was not among them; `found` grows while they are taken."""
    yield from conn.execute(span).mappings()
    columns = [_held[name] for name in _COLUMNS]
    rest = list(dict.fromkeys(name for name in ids if name not in found))
    for at in range(0, len(rest), _AT_ONCE):
        yield from conn.execute(select(*columns).where(_held.exec_id.in_(rest[at : at + _AT_ONCE]))).mappings()


def sort_out(drafts: Sequence[TradeDraft], held: Mapping[str, Held], zone: ZoneInfo) -> SortedTrades:
    """Which drafts are new, and which of them a held trade answers for."""
    return _by_day(sort_out_trades(drafts, [one.trade for one in held.values()]), held, zone)


def _by_day(found: SortedTrades, held: Mapping[str, Held], zone: ZoneInfo) -> SortedTrades:
    """What seems new once more: the same fill of the same day, where one side has no time of its own."""
    if not found.new:
        return found
    claimed = {draft.exec_id for draft in found.duplicates}
    equal = Counter(draft.dedup_hash for draft in found.duplicates if draft.exec_id not in held)
    free: defaultdict[tuple[Any, ...], list[Held]] = defaultdict(list)
    for name, one in held.items():
        trade = one.trade
        if name in claimed or one.account_id != found.new[0].account_id:
            continue
        if equal[trade.dedup_hash]:
            equal[trade.dedup_hash] -= 1
            continue
        day = trade.exec_time.astimezone(zone).date()
        free[day, trade.symbol, one.action, trade.quantity, trade.price].append(one)
    new: list[TradeDraft] = []
    again: list[TradeDraft] = []
    for draft in found.new:
        local = draft.exec_time.astimezone(zone)
        twins = free[local.date(), draft.symbol, draft.side.value, draft.quantity, draft.price]
        match = next((one for one in twins if not draft.time_known or _has_day_only(one, zone)), None)
        if match is None:
            new.append(draft)
        else:
            twins.remove(match)
            again.append(draft)
    if not again:
        return found
    rows = {draft.row_number for draft in again} - {None}
    return SortedTrades(
        new=tuple(new),
        duplicates=(*found.duplicates, *again),
        fee_updates=found.fee_updates,
        warnings=tuple(note for note in found.warnings if note.row_number not in rows),
    )


def _has_day_only(held: Held, zone: ZoneInfo) -> bool:
    """Whether a held trade may have come from a file without times."""
    local = held.trade.exec_time.astimezone(zone)  # the microseconds are its place among the fills of the day
    return held.is_imported and local.replace(microsecond=0).time() == time(12)
