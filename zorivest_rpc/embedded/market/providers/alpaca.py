"""Alpaca: bars of shares, in pages; its trading side is a broker."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote as escaped

from ...vault.credentials import Credential
from ..failures import Failure, Kind
from ..provider import BarsAsk, Link, Provider
from ..shapes import ProviderBar, make_bar, moment, read_list, read_object

__all__ = ["PROVIDER"]

_FRAMES = {
    "1m": "1Min",
    "5m": "5Min",
    "15m": "15Min",
    "30m": "30Min",
    "1h": "1Hour",
    "1d": "1Day",
    "1w": "1Week",
    "1M": "1Month",
}
_MOST_PAGES = 20


async def bars(link: Link, ask: BarsAsk) -> list[ProviderBar]:
    if ask.instrument.asset_class != "EQUITY":
        raise link.failure(Kind.UNSUPPORTED, "it has bars of shares only")
    params = {
        "timeframe": _FRAMES[ask.interval],
        "start": ask.start.isoformat(),
        "end": ask.end.isoformat(),
        "limit": "10000",
        "adjustment": "split",
        "feed": "iex",
    }
    path = f"/v2/stocks/{escaped(ask.instrument.symbol, safe='')}/bars"
    found: list[ProviderBar] = []
    for _ in range(_MOST_PAGES):
        answer = await link.get(path, params, host="data")
        if not isinstance(answer, dict) or "bars" not in answer:
            raise link.odd()
        found += [bar for item in read_list(answer, "bars") if (bar := _bar(read_object(item), link.name)) is not None]
        token = answer.get("next_page_token")
        if not isinstance(token, str) or not token:
            return found
        params["page_token"] = token
    return found


def _bar(row: dict[str, Any], provider: str) -> ProviderBar | None:
    prices = (row.get(name) for name in "ohlc")
    begins = moment(row.get("t"))
    return make_bar(provider, begins, prices, row.get("v"), vwap=row.get("vw"), trade_count=row.get("n"))


async def _test(link: Link) -> bool:
    """The account of a live key, else of a paper key: a key belongs to one of them."""
    try:
        return "id" in read_object(await link.get("/v2/account"))
    except Failure as failure:
        if failure.kind not in (Kind.BAD_KEY, Kind.FORBIDDEN):
            raise
    return "id" in read_object(await link.get("/v2/account", host="paper"))


PROVIDER = Provider(
    name="Alpaca",
    slug="alpaca",
    base="https://api.alpaca.markets",
    hosts={"data": "https://data.alpaca.markets", "paper": "https://paper-api.alpaca.markets"},
    signup_url="https://app.alpaca.markets/signup",
    rate_limit=200,
    data_types=("ohlcv",),
    credentials=(Credential("api_key", "API key ID"), Credential("api_secret", "API secret key")),
    headers=lambda key, secret: {"APCA-API-KEY-ID": key, "APCA-API-SECRET-KEY": secret},
    test=_test,
    bars=bars,
)
