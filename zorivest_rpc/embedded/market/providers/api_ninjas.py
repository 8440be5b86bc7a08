"""API Ninjas: the last price of a share."""

from __future__ import annotations

from ...values.symbols import Instrument
from ..failures import Kind
from ..provider import Link, Provider
from ..shapes import ProviderQuote, moment, number, plain, read_object, whole

__all__ = ["PROVIDER"]


async def quote(link: Link, instrument: Instrument) -> ProviderQuote:
    if instrument.asset_class != "EQUITY":
        raise link.failure(Kind.UNSUPPORTED, "it has quotes of shares only")
    answer = await link.get("/stockprice", {"ticker": instrument.symbol})
    if isinstance(answer, list) or answer == {}:
        raise link.unknown(instrument.symbol)
    price = number(read_object(answer).get("price"))
    if price is None:
        raise link.odd()
    return ProviderQuote(
        ticker=instrument.symbol,
        price=price,
        provider=link.name,
        timestamp=moment(answer.get("updated")),
        volume=whole(answer.get("volume")),
        currency=plain(answer.get("currency"), 8),
    )


async def _test(link: Link) -> bool:
    answer = await link.get("/stockprice", {"ticker": "AAPL"})
    return isinstance(answer, dict) and "price" in answer and "name" in answer


PROVIDER = Provider(
    name="API Ninjas",
    slug="api_ninjas",
    base="https://api.api-ninjas.com/v1",
    signup_url="https://api-ninjas.com/register",
    rate_limit=60,
    data_types=("quote",),
    headers=lambda key, secret: {"X-Api-Key": key},
    test=_test,
    quote=quote,
)
