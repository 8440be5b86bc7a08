"""Polygon.io, now Massive: the previous day as a quote, and bars in pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.parse import quote as escaped

from ...values.symbols import Instrument
from ..failures import Kind
from ..provider import BarsAsk, Link, Provider
from ..shapes import ProviderBar, ProviderQuote, make_bar, moment, number, occ, read_list, read_object, whole

__all__ = ["PROVIDER"]

_SPANS = {
    "1m": "1/minute",
    "5m": "5/minute",
    "15m": "15/minute",
    "30m": "30/minute",
    "1h": "1/hour",
    "1d": "1/day",
    "1w": "1/week",
    "1M": "1/month",
}
_MOST_PAGES = 20


def _symbol(link: Link, instrument: Instrument) -> str:
    match instrument.asset_class:
        case "OPTION":
            return "O:" + occ(instrument)
        case "FOREX":
            return "C:" + instrument.symbol.replace("/", "")
        case "CRYPTO":
            return "X:" + instrument.symbol.replace("-", "")
        case "FUTURE":
            raise link.failure(Kind.UNSUPPORTED, "it has no futures here")
        case _:
            return instrument.symbol


async def quote(link: Link, instrument: Instrument) -> ProviderQuote:
    symbol = _symbol(link, instrument)
    answer = await link.get(f"/v2/aggs/ticker/{escaped(symbol, safe=':')}/prev", {"adjusted": "true"})
    if not isinstance(answer, dict) or "status" not in answer:
        raise link.odd()
    found = read_object(answer, "results", 0)
    price = number(found.get("c"))
    if price is None:
        raise link.unknown(symbol)
    return ProviderQuote(
        ticker=instrument.symbol,
        price=price,
        provider=link.name,
        open=number(found.get("o")),
        high=number(found.get("h")),
        low=number(found.get("l")),
        volume=whole(found.get("v")),
        timestamp=moment(found.get("t")),
    )


async def bars(link: Link, ask: BarsAsk) -> list[ProviderBar]:
    span = f"{int(ask.start.timestamp() * 1000)}/{int(ask.end.timestamp() * 1000) - 1}"
    symbol = escaped(_symbol(link, ask.instrument), safe=":")
    path = f"/v2/aggs/ticker/{symbol}/range/{_SPANS[ask.interval]}/{span}"
    params = {"adjusted": "true", "sort": "asc", "limit": "50000"}
    found: list[ProviderBar] = []
    for _ in range(_MOST_PAGES):
        answer = await link.get(path, params)
        if not isinstance(answer, dict) or "status" not in answer:
            raise link.odd()
        found += [
            bar for item in read_list(answer, "results") if (bar := _bar(read_object(item), link.name)) is not None
        ]
        following = answer.get("next_url")
        if not isinstance(following, str):
            return found
        parts = urlsplit(following)  # of the next address only the page is taken: the host stays ours
        cursor = parse_qs(parts.query).get("cursor")
        if not cursor or not parts.path.startswith("/v2/aggs/"):
            raise link.odd()
        path, params = parts.path, {"cursor": cursor[0]}
    return found


def _bar(row: dict[str, Any], provider: str) -> ProviderBar | None:
    prices = (row.get(name) for name in "ohlc")
    begins = moment(row.get("t"))
    return make_bar(provider, begins, prices, row.get("v"), vwap=row.get("vw"), trade_count=row.get("n"))


async def _test(link: Link) -> bool:
    answer = await link.get("/v2/aggs/ticker/AAPL/prev")
    return isinstance(answer, dict) and ("results" in answer or "status" in answer)


PROVIDER = Provider(
    name="Polygon.io",
    slug="polygon",
    base="https://api.polygon.io",
    signup_url="https://polygon.io/dashboard/signup",
    rate_limit=5,
    data_types=("quote", "ohlcv"),
    headers=lambda key, secret: {"Authorization": f"Bearer {key}"},
    aliases=("polygon_io", "Massive"),
    test=_test,
    quote=quote,
    bars=bars,
)
