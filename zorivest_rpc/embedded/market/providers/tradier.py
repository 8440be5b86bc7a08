"""Tradier: bars of shares and options; its trading side is a broker."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from ..failures import Kind
from ..provider import BarsAsk, Link, Provider
from ..shapes import ProviderBar, at, make_bar, moment, occ, plain, read_object

__all__ = ["PROVIDER", "rows_of"]

_DAILY = {"1d": "daily", "1w": "weekly", "1M": "monthly"}
_INTRADAY = {"1m": "1min", "5m": "5min", "15m": "15min"}
_ZONE = ZoneInfo("America/New_York")


def rows_of(value: Any) -> list[dict[str, Any]]:
    """Tradier sends several rows as a list, one as an object and none as null or the word null."""
    if isinstance(value, dict):
        return [value]
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


async def bars(link: Link, ask: BarsAsk) -> list[ProviderBar]:
    match ask.instrument.asset_class:
        case "EQUITY":
            symbol = ask.instrument.symbol.replace(".", "/")
        case "OPTION":
            symbol = occ(ask.instrument)
        case _:
            raise link.failure(Kind.UNSUPPORTED, "it has bars of shares and options only")
    if interval := _DAILY.get(ask.interval):
        span = {"start": ask.start.date().isoformat(), "end": ask.end.date().isoformat()}
        answer = await link.get("/v1/markets/history", {"symbol": symbol, "interval": interval, **span})
        outer, inner = "history", "day"
    elif interval := _INTRADAY.get(ask.interval):
        span = {"start": _local(ask.start), "end": _local(ask.end)}
        params = {"symbol": symbol, "interval": interval, "session_filter": "all", **span}
        answer = await link.get("/v1/markets/timesales", params)
        outer, inner = "series", "data"
    else:
        raise link.failure(Kind.UNSUPPORTED, f"it has no bars of {ask.interval}")
    if not isinstance(answer, dict) or outer not in answer:
        raise link.odd()
    return [bar for row in rows_of(at(answer, outer, inner)) if (bar := _bar(row, link.name)) is not None]


def _local(value: datetime) -> str:
    return value.astimezone(_ZONE).strftime("%Y-%m-%d %H:%M")


def _bar(row: dict[str, Any], provider: str) -> ProviderBar | None:
    begins = moment(row.get("timestamp")) or moment(plain(row.get("date"), 32))
    prices = (row.get(name) for name in ("open", "high", "low", "close"))
    return make_bar(provider, begins, prices, row.get("volume"), vwap=row.get("vwap"))


async def _test(link: Link) -> bool:
    return "profile" in read_object(await link.get("/v1/user/profile"))


PROVIDER = Provider(
    name="Tradier",
    slug="tradier",
    base="https://api.tradier.com",
    hosts={"sandbox": "https://sandbox.tradier.com"},
    signup_url="https://brokerage.tradier.com/signup",
    rate_limit=120,
    data_types=("ohlcv",),
    headers=lambda key, secret: {"Authorization": f"Bearer {key}"},
    test=_test,
    bars=bars,
)
