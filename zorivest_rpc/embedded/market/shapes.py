"""What is known of the market in one shape each, whichever provider said it: quote, news, search hit, filing, bar.

Providers send numbers as numbers, as text, as "NA" and as nothing; the readers here take all of that and give exact
decimals that fit the database, or None."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from ..database.columns import QUANTITY_PLACES
from ..database.schema.market import VOLUME_PLACES
from ..values.symbols import Instrument, parse_instrument

__all__ = [
    "INTERVALS",
    "Filing",
    "Fundamental",
    "Hit",
    "News",
    "ProviderBar",
    "ProviderQuote",
    "at",
    "day",
    "derived_change",
    "make_bar",
    "moment",
    "number",
    "occ",
    "plain",
    "read_list",
    "read_object",
    "ticker_of",
    "whole",
]

INTERVALS = ("1m", "5m", "15m", "30m", "1h", "1d", "1w", "1M")
"""Bars this backend knows, finest first."""

_LARGEST = Decimal(10) ** 10
_UNIT = Decimal(1).scaleb(-QUANTITY_PLACES)
_VOLUME = Decimal(1).scaleb(-VOLUME_PLACES)
_TICKER = re.compile(r"[A-Z0-9^][A-Z0-9.^=/-]{0,19}")


class ProviderQuote(msgspec.Struct, frozen=True, kw_only=True):
    """The last price; `timestamp` is when it was made, not when it was fetched."""

    ticker: str
    price: Decimal
    provider: str
    open: Decimal | None = None
    high: Decimal | None = None
    low: Decimal | None = None
    previous_close: Decimal | None = None
    change: Decimal | None = None
    change_pct: Decimal | None = None
    volume: int | None = None
    timestamp: datetime | None = None
    currency: str | None = None


class News(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    source: str
    provider: str
    url: str | None = None
    published_at: datetime | None = None
    tickers: list[str] = []
    summary: str | None = None


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A symbol that a search found."""

    symbol: str
    name: str
    provider: str
    exchange: str | None = None
    currency: str | None = None


class Filing(msgspec.Struct, frozen=True, kw_only=True):
    ticker: str
    company_name: str
    cik: str
    provider: str
    filing_type: str | None = None
    filing_date: str | None = None
    report_date: str | None = None
    accession_number: str | None = None
    url: str | None = None


class Fundamental(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a company's reports; `period` is the day it ends and what it covers."""

    ticker: str
    metric: str
    period: str
    value: Decimal
    provider: str


class ProviderBar(msgspec.Struct, frozen=True, kw_only=True):
    """One price bar; `timestamp` is its beginning."""

    timestamp: datetime
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal
    provider: str
    adj_close: Decimal | None = None
    vwap: Decimal | None = None
    trade_count: int | None = None


def ticker_of(text: str) -> Instrument:
    """The instrument a caller named; ValueError when no provider could have such a symbol."""
    instrument = parse_instrument(text)
    if instrument.asset_class != "OPTION" and not _TICKER.fullmatch(instrument.symbol.replace(" ", "-")):
        raise ValueError(f'"{text[:40]}" is not a ticker')
    return instrument


def occ(instrument: Instrument) -> str:
    """An option as exchanges write it, without padding: `AAPL260320C00200000`."""
    contract = instrument.contract
    assert contract is not None
    root = contract.underlying.replace(".", "").replace("/", "")
    return f"{root}{contract.expiry:%y%m%d}{contract.right}{int(contract.strike * 1000):08d}"


def number(value: Any, most: Decimal | None = _LARGEST) -> Decimal | None:
    """A finite number below `most` with the places the database holds; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    try:
        found = Decimal(str(value).strip().removesuffix("%").replace(",", ""))
        if not found.is_finite() or (most is not None and abs(found) >= most):
            return None
        return found.quantize(_UNIT).normalize() + 0
    except (InvalidOperation, ValueError):
        return None


def whole(value: Any) -> int | None:
    """A whole number, for volumes and counts; fractions of a share are cut off."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        return None
    try:
        found = Decimal(str(value).strip())
        return int(found) if found.is_finite() and abs(found) < 10**15 else None
    except (InvalidOperation, ValueError):
        return None


def moment(value: Any) -> datetime | None:
    """Unix seconds or milliseconds, ISO 8601, or a day; without a zone it is UTC."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, (int, float, Decimal)):
            seconds = float(value)
            return datetime.fromtimestamp(seconds / 1000 if abs(seconds) > 1e11 else seconds, UTC) if seconds else None
        parsed = datetime.fromisoformat(str(value).strip())
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def plain(value: Any, most: int = 500) -> str | None:
    """Text on one line without control characters; None when there is none."""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        return None
    text = " ".join("".join(char if char.isprintable() else " " for char in str(value)).split())
    return text[:most] or None


def day(value: Any) -> str | None:
    """The day of a date or moment, as text."""
    try:
        return date.fromisoformat(str(value)[:10]).isoformat()
    except ValueError:
        return None


def read_object(value: Any, *path: str | int) -> dict[str, Any]:
    """The object at a path, or {}."""
    found = at(value, *path)
    return found if isinstance(found, dict) else {}


def read_list(value: Any, *path: str | int) -> list[Any]:
    """The list at a path, or []."""
    found = at(value, *path)
    return found if isinstance(found, list) else []


def at(value: Any, *path: str | int) -> Any:
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and -len(value) <= step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def derived_change(price: Decimal, previous: Decimal | None) -> tuple[Decimal | None, Decimal | None]:
    """Change and percent against the previous close."""
    if not previous:
        return None, None
    change = price - previous
    return number(change), number((change / previous * 100).quantize(Decimal("0.0001")))


def make_bar(
    provider: str,
    begins: datetime | None,
    prices: Iterable[Any],
    volume: Any,
    *,
    adj_close: Any = None,
    vwap: Any = None,
    trade_count: Any = None,
) -> ProviderBar | None:
    """A bar from open, high, low and close as sent, or None where one of them is missing or they contradict."""
    first, high, low, last = map(number, prices)
    if begins is None or first is None or high is None or low is None or last is None or high < low:
        return None
    try:
        size = Decimal(str(volume)).quantize(_VOLUME)
    except (InvalidOperation, ValueError):
        size = Decimal(0)
    return ProviderBar(
        timestamp=begins,
        open=first,
        high=high,
        low=low,
        close=last,
        volume=size if size.is_finite() and 0 <= size < 10**14 else Decimal(0),
        adj_close=number(adj_close),
        vwap=number(vwap),
        trade_count=whole(trade_count),
        provider=provider,
    )
