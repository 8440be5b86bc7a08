"""Symbols that are known without a network: those of the journal, and a directory that comes with the program.

The directory is `data/symbols.json`, made by `build_symbols.py`, which says where it is from and when it was made."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib import resources

import msgspec
from sqlalchemy import Connection, select, union

from ..database.schema.journal import trade_plans, trades, watchlist_items
from ..values.identifiers import isin_to_cusip
from .shapes import Hit

__all__ = ["Entry", "by_identifier", "directory", "search_local"]

LOCAL = "local"


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One listed security of the directory."""

    symbol: str
    name: str
    exchange: str | None = None
    currency: str | None = None
    isin: str | None = None


class _Data(msgspec.Struct, frozen=True):
    source: str
    version: str
    licence: str
    generated: str
    symbols: tuple[Entry, ...]


@functools.cache
def directory() -> _Data:
    """The directory that comes with the program, read once."""
    data = resources.files(__package__).joinpath("data/symbols.json").read_bytes()
    return msgspec.json.decode(data, type=_Data)


@functools.cache
def _identifiers() -> dict[tuple[str, str], Entry]:
    found: dict[tuple[str, str], Entry] = {}
    for entry in directory().symbols:
        if entry.isin:
            found[("isin", entry.isin)] = entry
            if cusip := isin_to_cusip(entry.isin):
                found[("cusip", cusip)] = entry
    return found


def by_identifier(id_type: str, value: str) -> Entry | None:
    """The security of an ISIN or CUSIP, if the directory has it."""
    return _identifiers().get((id_type, value))


def search_local(conn: Connection, query: str, limit: int) -> list[Hit]:
    """Symbols and names that match, best first: the symbol itself, its beginning, a word of the name, any part."""
    word = " ".join(query.casefold().split())
    ranked = [
        (rank, len(entry.symbol), entry.symbol, entry)
        for entry in _entries(conn)
        if (rank := _rank(entry, word)) is not None
    ]
    ranked.sort(key=lambda item: item[:3])
    return [
        Hit(symbol=entry.symbol, name=entry.name, exchange=entry.exchange, currency=entry.currency, provider=LOCAL)
        for *_, entry in ranked[:limit]
    ]


def _entries(conn: Connection) -> Iterator[Entry]:
    known = {entry.symbol for entry in directory().symbols}
    yield from directory().symbols
    journal = union(
        select(trades.c.underlying.label("symbol")),
        select(trade_plans.c.ticker.label("symbol")),
        select(watchlist_items.c.ticker.label("symbol")),
    )
    for symbol in conn.execute(journal).scalars():
        if symbol not in known:
            yield Entry(symbol, symbol)


def _rank(entry: Entry, word: str) -> int | None:
    symbol, name = entry.symbol.casefold(), entry.name.casefold()
    if not word:
        return None
    if symbol == word:
        return 0
    if name == word or name.startswith(word + " "):
        return 1
    if symbol.startswith(word):
        return 2
    if any(part.startswith(word) for part in name.split()) or name.startswith(word):
        return 3
    return 4 if word in name and len(word) > 2 else None
