"""Financial Modeling Prep: search by name or symbol.

Keys made before September 2025 use the old addresses; newer ones are refused there and use the ones called stable."""

from __future__ import annotations

from ..failures import Failure, Kind
from ..provider import Link, Provider
from ..shapes import Hit, plain, read_object

__all__ = ["PROVIDER"]


async def search(link: Link, query: str) -> list[Hit]:
    params = {"query": query, "limit": "20"}
    try:
        answer = await link.get("/search", params)
    except Failure as failure:
        if not _is_legacy(failure):
            raise
        answer = await link.get("/search-symbol", params, host="stable")
        if answer == []:
            answer = await link.get("/search-name", params, host="stable")
    if not isinstance(answer, list):
        if said := read_object(answer).get("Error Message"):
            raise link.failure(Kind.BAD_KEY, "it refuses this request", said)
        raise link.odd()
    return [
        Hit(
            symbol=symbol,
            name=plain(item.get("name"), 200) or symbol,
            exchange=plain(item.get("exchangeShortName") or item.get("exchange") or item.get("stockExchange"), 64),
            currency=plain(item.get("currency"), 8),
            provider=link.name,
        )
        for item in map(read_object, answer)
        if (symbol := plain(item.get("symbol"), 32))
    ]


def _is_legacy(failure: Failure) -> bool:
    return failure.kind is Kind.FORBIDDEN and "legacy" in failure.detail.lower()


async def _test(link: Link) -> bool:
    """A profile; a 403 that speaks of a legacy endpoint comes from a valid key of a newer plan."""
    try:
        answer = await link.get("/profile/AAPL")
    except Failure as failure:
        if _is_legacy(failure):
            return True
        raise
    if said := read_object(answer).get("Error Message"):
        raise link.failure(Kind.BAD_KEY, "it does not accept the API key", said)
    return isinstance(answer, list) and bool(answer)


PROVIDER = Provider(
    name="Financial Modeling Prep",
    slug="fmp",
    base="https://financialmodelingprep.com/api/v3",
    hosts={"stable": "https://financialmodelingprep.com/stable"},
    signup_url="https://site.financialmodelingprep.com/register",
    rate_limit=250,
    data_types=("search",),
    params=lambda key: {"apikey": key},
    aliases=("financial_modeling_prep",),
    test=_test,
    search=search,
)
