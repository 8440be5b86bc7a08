"""EODHD: delayed quotes, daily bars and intraday bars of shares."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote as escaped

from ...values.symbols import Instrument
from ..failures import Kind
from ..provider import BarsAsk, Link, Provider
from ..shapes import ProviderBar, ProviderQuote, make_bar, moment, number, plain, read_object, whole

__all__ = ["PROVIDER"]

_DAILY = {"1d": "d", "1w": "w", "1M": "m"}
_INTRADAY = {"1m": "1m", "5m": "5m", "1h": "1h"}


def _code(link: Link, instrument: Instrument) -> str:
    match instrument.asset_class:
        case "EQUITY":
            return escaped(instrument.symbol.replace(".", "-"), safe="") + ".US"
        case "FOREX":
            return instrument.symbol.replace("/", "") + ".FOREX"
        case "CRYPTO":
            return instrument.symbol + ".CC"
        case _:
            raise link.failure(Kind.UNSUPPORTED, "it has no such instruments")


async def quote(link: Link, instrument: Instrument) -> ProviderQuote:
    answer = await link.get(f"/real-time/{_code(link, instrument)}", {"fmt": "json"})
    if not isinstance(answer, dict) or "close" not in answer:
        raise link.odd()
    price = number(answer["close"])
    if price is None:
        raise link.unknown(instrument.symbol)  # "NA" everywhere
    return ProviderQuote(
        ticker=instrument.symbol,
        price=price,
        provider=link.name,
        open=number(answer.get("open")),
        high=number(answer.get("high")),
        low=number(answer.get("low")),
        previous_close=number(answer.get("previousClose")),
        change=number(answer.get("change")),
        change_pct=number(answer.get("change_p")),
        volume=whole(answer.get("volume")),
        timestamp=moment(answer.get("timestamp")),
    )


async def bars(link: Link, ask: BarsAsk) -> list[ProviderBar]:
    code = _code(link, ask.instrument)
    if period := _DAILY.get(ask.interval):
        span = {"from": ask.start.date().isoformat(), "to": ask.end.date().isoformat()}
        answer = await link.get(f"/eod/{code}", {**span, "period": period, "fmt": "json", "order": "a"})
    elif interval := _INTRADAY.get(ask.interval):
        span = {"from": str(int(ask.start.timestamp())), "to": str(int(ask.end.timestamp()))}
        answer = await link.get(f"/intraday/{code}", {**span, "interval": interval, "fmt": "json"})
    else:
        raise link.failure(Kind.UNSUPPORTED, f"it has no bars of {ask.interval}")
    if not isinstance(answer, list):
        raise link.odd()
    return [bar for item in answer if (bar := _bar(read_object(item), link.name)) is not None]


def _bar(row: dict[str, Any], provider: str) -> ProviderBar | None:
    begins = moment(row.get("timestamp") or plain(row.get("date"), 32))
    prices = (row.get(name) for name in ("open", "high", "low", "close"))
    return make_bar(provider, begins, prices, row.get("volume"), adj_close=row.get("adjusted_close"))


async def _test(link: Link) -> bool:
    answer = await link.get("/real-time/AAPL.US", {"fmt": "json"})
    return isinstance(answer, dict) and ("code" in answer or "close" in answer)


PROVIDER = Provider(
    name="EODHD",
    slug="eodhd",
    base="https://eodhd.com/api",
    signup_url="https://eodhd.com/register",
    rate_limit=20,
    data_types=("quote", "ohlcv"),
    params=lambda key: {"api_token": key},
    aliases=("eod_historical_data",),
    test=_test,
    quote=quote,
    bars=bars,
)
