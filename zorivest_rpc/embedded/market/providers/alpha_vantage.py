"""Alpha Vantage: quotes and search. It answers 200 to everything; what went wrong is in the body."""

from __future__ import annotations

from typing import Any

from ...values.symbols import Instrument
from ..failures import Kind
from ..provider import Link, Provider
from ..shapes import Hit, ProviderQuote, moment, number, plain, read_list, read_object, whole

__all__ = ["PROVIDER"]


async def _ask(link: Link, **params: str) -> dict[str, Any]:
    answer = await link.get("/query", params)
    if not isinstance(answer, dict):
        raise link.odd()
    if said := answer.get("Note") or answer.get("Information"):
        if "rate limit" in str(said).lower() or "requests per day" in str(said).lower() or "Note" in answer:
            raise link.failure(Kind.RATE_LIMITED, "its rate limit is reached", said)
        raise link.failure(Kind.FORBIDDEN, "it refuses this request", said)
    if said := answer.get("Error Message"):
        if "apikey" in str(said).lower():
            raise link.failure(Kind.BAD_KEY, "it does not accept the API key", said)
        raise link.failure(Kind.UNKNOWN, "it does not know this", said)
    return answer


async def quote(link: Link, instrument: Instrument) -> ProviderQuote:
    if instrument.asset_class != "EQUITY":
        raise link.failure(Kind.UNSUPPORTED, "it has quotes of shares only")
    answer = await _ask(link, function="GLOBAL_QUOTE", symbol=instrument.symbol)
    if "Global Quote" not in answer:
        raise link.odd()
    found = read_object(answer, "Global Quote")
    price = number(found.get("05. price"))
    if price is None:
        raise link.unknown(instrument.symbol)
    return ProviderQuote(
        ticker=instrument.symbol,
        price=price,
        provider=link.name,
        open=number(found.get("02. open")),
        high=number(found.get("03. high")),
        low=number(found.get("04. low")),
        previous_close=number(found.get("08. previous close")),
        change=number(found.get("09. change")),
        change_pct=number(found.get("10. change percent")),
        volume=whole(found.get("06. volume")),
        timestamp=moment(found.get("07. latest trading day")),
    )


async def search(link: Link, query: str) -> list[Hit]:
    answer = await _ask(link, function="SYMBOL_SEARCH", keywords=query)
    if "bestMatches" not in answer:
        raise link.odd()
    return [
        Hit(
            symbol=symbol,
            name=plain(item.get("2. name"), 200) or symbol,
            exchange=plain(item.get("4. region"), 64),
            currency=plain(item.get("8. currency"), 8),
            provider=link.name,
        )
        for item in map(read_object, read_list(answer, "bestMatches"))
        if (symbol := plain(item.get("1. symbol"), 32)) and item.get("3. type") != "Mutual Fund"
    ]


async def _test(link: Link) -> bool:
    return "Global Quote" in await _ask(link, function="GLOBAL_QUOTE", symbol="IBM")


PROVIDER = Provider(
    name="Alpha Vantage",
    slug="alpha_vantage",
    base="https://www.alphavantage.co",
    signup_url="https://www.alphavantage.co/support/#api-key",
    rate_limit=5,
    data_types=("quote", "search"),
    params=lambda key: {"apikey": key},
    test=_test,
    quote=quote,
    search=search,
)
