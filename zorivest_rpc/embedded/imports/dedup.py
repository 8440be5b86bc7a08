"""Keys that make a second import of the same rows a no-op, and the sorting of drafts against what is already held.

Keys depend on the trade, not on the file: UTC to the second, plain decimals, the account the user named. The
fingerprint leaves the broker out, so the same trade from another layout meets the same key.
"""

from __future__ import annotations

import bisect
import datetime as dt
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.drafts import BankDraft, Note, TradeDraft
from zorivest_rpc.embedded.imports.symbols import plain
from zorivest_rpc.embedded.values.kinds import Side

__all__ = [
    "HeldTrade",
    "SortedBank",
    "SortedTrades",
    "bank_hash",
    "exec_id",
    "fingerprint",
    "sort_out_bank",
    "sort_out_trades",
]

SYNTHESISED = "imp_"
LOOKALIKE_SECONDS = 5
LOOKALIKE_QUANTITY = Decimal("0.01")
LOOKALIKE_PRICE = Decimal("0.005")


def _second(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def fingerprint(
    *, account_id: str, symbol: str, exec_time: dt.datetime, side: Side | str, quantity: Decimal, price: Decimal
) -> str:
    """SHA-256 of a trade's core: who, what, when, which way, how much, at what price."""
    parts = (symbol, str(side), plain(quantity), plain(price), account_id, _second(exec_time))
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def exec_id(
    *,
    broker: str,
    account_id: str,
    symbol: str,
    exec_time: dt.datetime,
    side: Side | str,
    quantity: Decimal,
    price: Decimal,
    occurrence: int,
) -> str:
    """An id for a fill whose file gave none; `occurrence` numbers equal fills of one file, so that twins survive."""
    parts = (broker, account_id, symbol, _second(exec_time), str(side), plain(quantity), plain(price), str(occurrence))
    return SYNTHESISED + hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def bank_hash(date: dt.date, description: str, amount: Decimal, occurrence: int) -> str:
    """MD5 (a key, not a protection) of a statement line; case and spacing of the description do not count."""
    parts = (date.isoformat(), " ".join(description.split()).casefold(), plain(amount), str(occurrence))
    return hashlib.md5("|".join(parts).encode(), usedforsecurity=False).hexdigest()


class HeldTrade(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer must know of a trade it already holds, to recognise it in a file."""

    exec_id: str
    dedup_hash: str
    symbol: str
    exec_time: dt.datetime
    quantity: Decimal
    price: Decimal
    commission: Decimal = Decimal(0)
    fees: Decimal = Decimal(0)


class SortedTrades(msgspec.Struct, frozen=True, kw_only=True):
    """Drafts to write, drafts already held, held ids with the draft whose fees replace theirs, and lookalikes."""

    new: tuple[TradeDraft, ...]
    duplicates: tuple[TradeDraft, ...]
    fee_updates: tuple[tuple[str, TradeDraft], ...]
    warnings: tuple[Note, ...]


def sort_out_trades(drafts: Iterable[TradeDraft], held: Iterable[HeldTrade]) -> SortedTrades:
    """Which drafts are new.

    An equal exec_id is a duplicate. So is an equal fingerprint when either side's id was synthesised; two ids
    of brokers stay two trades, because partial fills may be equal. Each held trade answers for one draft."""
    drafts = list(drafts)
    by_id = {trade.exec_id: trade for trade in held}
    near: defaultdict[str, list[tuple[dt.datetime, str]]] = defaultdict(list)
    for trade in by_id.values():
        near[trade.symbol].append((trade.exec_time, trade.exec_id))
    for times in near.values():
        times.sort()
    named = {draft.exec_id for draft in drafts if draft.exec_id in by_id}
    free: defaultdict[str, list[HeldTrade]] = defaultdict(list)
    for trade in by_id.values():
        if trade.exec_id not in named:
            free[trade.dedup_hash].append(trade)
    new: list[TradeDraft] = []
    duplicates: list[TradeDraft] = []
    updates: list[tuple[str, TradeDraft]] = []
    warnings: list[Note] = []
    for draft in drafts:
        match = by_id.get(draft.exec_id) or _equal(draft, free)
        if match is None:
            new.append(draft)
            if like := _lookalike(draft, near[draft.symbol], by_id):
                message = f"{draft.symbol} at {draft.exec_time.isoformat()} looks like {like} but was imported."
                warnings.append(Note(code="possible_duplicate", message=message, row_number=draft.row_number))
            continue
        duplicates.append(draft)
        if (match.commission, match.fees) != (draft.commission, draft.fees) and match.dedup_hash == draft.dedup_hash:
            updates.append((match.exec_id, draft))
    return SortedTrades(
        new=tuple(new), duplicates=tuple(duplicates), fee_updates=tuple(updates), warnings=tuple(warnings)
    )


def _equal(draft: TradeDraft, free: defaultdict[str, list[HeldTrade]]) -> HeldTrade | None:
    twins = free.get(draft.dedup_hash, [])
    for place, trade in enumerate(twins):
        if draft.is_synthesised or trade.exec_id.startswith(SYNTHESISED):
            return twins.pop(place)
    return None


def _lookalike(draft: TradeDraft, times: list[tuple[dt.datetime, str]], by_id: dict[str, HeldTrade]) -> str | None:
    span = dt.timedelta(seconds=LOOKALIKE_SECONDS)
    start = bisect.bisect_left(times, (draft.exec_time - span, ""))
    for place in range(start, len(times)):  # a slice would copy the rest for every draft
        moment, key = times[place]
        if moment > draft.exec_time + span:
            return None
        other = by_id[key]
        close = abs(other.quantity - draft.quantity) <= LOOKALIKE_QUANTITY
        if close and abs(other.price - draft.price) <= LOOKALIKE_PRICE:
            return key
    return None


class SortedBank(msgspec.Struct, frozen=True, kw_only=True):
    """Statement lines to write, lines already held, and lines that equal a held one outside every imported range."""

    new: tuple[BankDraft, ...]
    duplicates: tuple[BankDraft, ...]
    flagged: tuple[BankDraft, ...]


def sort_out_bank(
    drafts: Iterable[BankDraft],
    *,
    references: Iterable[str],
    hashes: Iterable[str],
    imported: Sequence[tuple[dt.date, dt.date]],
) -> SortedBank:
    """Which statement lines are new, given the account's bank references, hashes and imported date ranges."""
    known, seen = set(references), Counter(hashes)
    new: list[BankDraft] = []
    duplicates: list[BankDraft] = []
    flagged: list[BankDraft] = []
    for draft in drafts:
        unique = draft.reference_id if draft.reference_is_unique else None
        if unique is not None and unique in known:
            duplicates.append(draft)
        elif draft.dedup_hash in seen:
            inside = any(start <= draft.date <= end for start, end in imported)
            (duplicates if inside else flagged).append(draft)
        else:
            new.append(draft)
            if unique is not None:
                known.add(unique)
    return SortedBank(new=tuple(new), duplicates=tuple(duplicates), flagged=tuple(flagged))
