"""Nasdaq Data Link: tables of fundamentals, of which only the connection is tested here."""

from __future__ import annotations

from ..provider import Link, Provider
from ..shapes import at

__all__ = ["PROVIDER"]


async def _test(link: Link) -> bool:
    answer = await link.get("/datatables/ZACKS/FC", {"ticker": "AAPL", "qopts.per_page": "1"})
    return isinstance(at(answer, "datatable", "data"), list)


PROVIDER = Provider(
    name="Nasdaq Data Link",
    slug="nasdaq_data_link",
    base="https://data.nasdaq.com/api/v3",
    signup_url="https://data.nasdaq.com/sign-up",
    rate_limit=50,
    data_types=("fundamentals",),
    params=lambda key: {"api_key": key},
    aliases=("nasdaq", "quandl"),
    test=_test,
)
