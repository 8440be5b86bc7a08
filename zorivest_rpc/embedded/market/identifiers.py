"""What securities identifiers stand for: checked first, then known, derived, asked for, or looked up offline.

A wrong check digit is `invalid` and never leaves this machine. What OpenFIGI or Finnhub say is kept; a US ISIN and the
CUSIP inside it answer for each other; the bundled directory comes last, because tickers change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, or_, select

from ..database.engine import Database
from ..database.schema.market import identifier_cache
from ..values.identifiers import IdentifierType, classify, cusip_to_isin, isin_to_cusip, normalise, problem
from .directory import by_identifier
from .failures import Failure
from .market import Market
from .providers import finnhub, openfigi
from .shapes import plain

__all__ = ["Asked", "IdentifierMatch", "known_here", "resolve"]

KEPT = timedelta(days=90)
MOST_FINNHUB = 20
_STEP = 200
_CONFIDENCE = {"openfigi": 0.95, "finnhub": 0.8, "directory": 0.7}


class Asked(msgspec.Struct, frozen=True):
    """One identifier of a request; `kind` None means that its shape decides."""

    kind: IdentifierType | None
    value: str


class IdentifierMatch(msgspec.Struct, frozen=True):
    """What an identifier stands for and how sure that is."""

    ticker: str
    source: str
    confidence: float
    name: str | None = None
    exchange: str | None = None
    security_type: str | None = None


Key = tuple[str, str]


async def resolve(db: Database, market: Market, asked: Sequence[Asked], now: datetime) -> dict[str, Any]:
    """Results in the order asked; identifiers that could not be resolved say why."""
    keys = [_check_item(item) for item in asked]
    wanted = list(dict.fromkeys(key for key, wrong in keys if key is not None and wrong is None))
    found = await db.read(lambda conn: _find_cached(conn, wanted, now))
    missing = [key for key in wanted if key not in found]
    reasons: list[str] = []
    if missing:
        fresh = await _ask(market, missing, reasons)
        if fresh:
            await db.write(lambda conn: _keep(conn, fresh, now))
            found.update(fresh)
    _from_directory(missing, found)
    why = "; ".join(reasons) or "no source knows it"
    results = [
        _result(item, key, wrong, found.get(key) if key else None, why)
        for item, (key, wrong) in zip(asked, keys, strict=True)
    ]
    resolved = sum(result["status"] == "resolved" for result in results)
    return {"results": results, "resolved": resolved, "unresolved": len(results) - resolved}


def known_here(conn: Connection, keys: Sequence[Key], now: datetime) -> dict[Key, IdentifierMatch]:
    """What identifiers stand for without a request: those asked for before, and those of the directory."""
    found = _find_cached(conn, keys, now)
    _from_directory(keys, found)
    return found


def _from_directory(keys: Sequence[Key], found: dict[Key, IdentifierMatch]) -> None:
    for key in keys:
        entry = by_identifier(*key)
        if key not in found and entry is not None:
            found[key] = IdentifierMatch(
                entry.symbol, "directory", _CONFIDENCE["directory"], entry.name, entry.exchange
            )


def _check_item(item: Asked) -> tuple[Key | None, str | None]:
    """The identifier in normal form, or what is wrong with it."""
    kind = item.kind or classify(item.value)
    if kind is None:
        return None, "it is no valid CUSIP, ISIN, SEDOL or FIGI"
    return (kind.value, normalise(item.value)), problem(kind, item.value)


def _twin(key: Key) -> Key | None:
    """The ISIN of a CUSIP or the CUSIP of an ISIN."""
    kind, value = key
    if kind == "isin" and (cusip := isin_to_cusip(value)):
        return "cusip", cusip
    if kind == "cusip" and (isin := cusip_to_isin(value)):
        return "isin", isin
    return None


def _find_cached(conn: Connection, keys: Sequence[Key], now: datetime) -> dict[Key, IdentifierMatch]:
    """From the cache, directly or through the twin identifier."""
    twins = {key: twin for key in keys if (twin := _twin(key)) is not None}
    held = _read_cached(conn, {*keys, *twins.values()}, now)
    found = {key: held[key] for key in keys if key in held}
    for key, twin in twins.items():
        if key not in found and twin in held:
            found[key] = msgspec.structs.replace(held[twin], source="derived")
    return found


def _read_cached(conn: Connection, keys: Iterable[Key], now: datetime) -> dict[Key, IdentifierMatch]:
    table, wanted = identifier_cache, sorted(keys)
    found: dict[Key, IdentifierMatch] = {}
    for start in range(0, len(wanted), _STEP):
        places = [
            and_(table.c.id_type == kind, table.c.id_value == value) for kind, value in wanted[start : start + _STEP]
        ]
        alive = or_(table.c.expires_at.is_(None), table.c.expires_at > now)
        for row in conn.execute(select(table).where(or_(*places), alive)):
            found[(row.id_type, row.id_value)] = IdentifierMatch(
                row.ticker, row.source, row.confidence, row.name, row.exchange, row.security_type
            )
    return found


def _keep(conn: Connection, found: dict[Key, IdentifierMatch], now: datetime) -> None:
    table = identifier_cache
    for (kind, value), match in found.items():
        conn.execute(table.delete().where(table.c.id_type == kind, table.c.id_value == value))
        conn.execute(
            table.insert().values(
                id_type=kind, id_value=value, resolved_at=now, expires_at=now + KEPT, **msgspec.structs.asdict(match)
            )
        )


async def _ask(market: Market, keys: Sequence[Key], reasons: list[str]) -> dict[Key, IdentifierMatch]:
    """OpenFIGI for all, then Finnhub for what is left; failures become reasons."""
    found: dict[Key, IdentifierMatch] = {}
    try:
        link = await market.link(openfigi.PROVIDER)
        for key, row in zip(keys, await openfigi.lookup(link, keys), strict=True):
            if ticker := plain(row.get("ticker"), 64):
                found[key] = IdentifierMatch(
                    ticker.replace("/", "."),
                    "openfigi",
                    _CONFIDENCE["openfigi"],
                    plain(row.get("name"), 200),
                    plain(row.get("exchCode"), 32),
                    plain(row.get("securityType"), 64),
                )
    except Failure as failure:
        reasons.append(str(failure))
    rest = [key for key in keys if key not in found and key[0] in ("cusip", "isin")][:MOST_FINNHUB]
    if not rest:
        return found
    try:
        link = await market.link(finnhub.PROVIDER)
        for key in rest:
            row = await finnhub.lookup(link, key[1])
            if ticker := plain(row.get("symbol"), 64):
                name, kind = plain(row.get("description"), 200), plain(row.get("type"), 64)
                found[key] = IdentifierMatch(ticker, "finnhub", _CONFIDENCE["finnhub"], name, None, kind)
    except Failure as failure:
        reasons.append(str(failure))
    return found


def _result(item: Asked, key: Key | None, wrong: str | None, match: IdentifierMatch | None, why: str) -> dict[str, Any]:
    kind, value = key if key is not None else (item.kind.value if item.kind else None, item.value[:32])
    result: dict[str, Any] = {"id_type": kind, "id_value": value}
    if wrong is not None:
        return {**result, "status": "invalid", "confidence": 0.0, "error": wrong}
    twin = _twin(key) if key is not None else None
    if twin is not None:
        result[twin[0]] = twin[1]
    if match is None:
        return {**result, "status": "unresolved", "confidence": 0.0, "error": why}
    return {**result, "status": "resolved", **msgspec.structs.asdict(match)}
