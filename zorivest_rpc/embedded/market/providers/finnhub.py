"""Finnhub: quotes, company and general news, and a search that also knows CUSIPs and ISINs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ...values.symbols import Instrument
from ..failures import Kind
from ..provider import Link, Provider
from ..shapes import News, ProviderQuote, moment, number, plain, read_list, read_object

__all__ = ["PROVIDER", "lookup"]

_NEWS_DAYS = 14


async def quote(link: Link, instrument: Instrument) -> ProviderQuote:
    if instrument.asset_class != "EQUITY":
        raise link.failure(Kind.UNSUPPORTED, "it has quotes of shares only")
    answer = await link.get("/quote", {"symbol": instrument.symbol})
    if not isinstance(answer, dict) or "c" not in answer:
        raise link.odd()
    price = number(answer["c"])
    if not price:
        raise link.unknown(instrument.symbol)  # an unknown symbol is answered with zeros
    return ProviderQuote(
        ticker=instrument.symbol,
        price=price,
        provider=link.name,
        open=number(answer.get("o")),
        high=number(answer.get("h")),
        low=number(answer.get("l")),
        previous_close=number(answer.get("pc")),
        change=number(answer.get("d")),
        change_pct=number(answer.get("dp")),
        timestamp=moment(answer.get("t")),
    )


async def news(link: Link, instrument: Instrument | None, count: int) -> list[News]:
    if instrument is None:
        answer = await link.get("/news", {"category": "general"})
    else:
        today = link.outbound.now().date()
        span = {"from": (today - timedelta(days=_NEWS_DAYS)).isoformat(), "to": today.isoformat()}
        answer = await link.get("/company-news", {"symbol": instrument.underlying, **span})
    if not isinstance(answer, list):
        raise link.odd()
    return [
        News(
            title=title,
            source=plain(item.get("source"), 200) or link.name,
            url=plain(item.get("url"), 2000),
            published_at=moment(item.get("datetime")),
            tickers=[part for part in str(item.get("related") or "").split(",") if part],
            summary=plain(item.get("summary"), 2000),
            provider=link.name,
        )
        for item in map(read_object, answer)
        if (title := plain(item.get("headline")))
    ][:count]


async def lookup(link: Link, value: str) -> dict[str, Any]:
    """The first security that an identifier means, or {}."""
    answer = await link.get("/search", {"q": value})
    if not isinstance(answer, dict) or "result" not in answer:
        raise link.odd()
    return next((item for item in map(read_object, read_list(answer, "result")) if item.get("symbol")), {})


async def _test(link: Link) -> bool:
    answer = await link.get("/quote", {"symbol": "AAPL"})
    return isinstance(answer, dict) and "c" in answer and "error" not in answer


PROVIDER = Provider(
    name="Finnhub",
    slug="finnhub",
    base="https://finnhub.io/api/v1",
    signup_url="https://finnhub.io/register",
    rate_limit=60,
    data_types=("quote", "news", "identifiers"),
    headers=lambda key, secret: {"X-Finnhub-Token": key},
    test=_test,
    quote=quote,
    news=news,
)
