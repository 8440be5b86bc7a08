"""Yahoo Finance: quotes, bars, news and search without a key, through the addresses its own pages use."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote as escaped

from ...values.symbols import Instrument
from ..failures import Kind
from ..provider import BarsAsk, Link, Provider
from ..shapes import (
    Hit,
    News,
    ProviderBar,
    ProviderQuote,
    derived_change,
    make_bar,
    moment,
    number,
    occ,
    plain,
    read_list,
    read_object,
    whole,
)

__all__ = ["PROVIDER"]

_INTERVALS = {"1m": "1m", "5m": "5m", "15m": "15m", "30m": "30m", "1h": "60m", "1d": "1d", "1w": "1wk", "1M": "1mo"}
_NOT_SHARES = frozenset({"FUTURE", "CURRENCY", "CRYPTOCURRENCY", "INDEX", "MUTUALFUND"})
_GENERAL = "stock market"
_MOST_NEWS = 50


def _symbol(link: Link, instrument: Instrument) -> str:
    """Yahoo writes share classes with a dash, pairs with a suffix and options as the exchanges do."""
    match instrument.asset_class:
        case "OPTION":
            return occ(instrument)
        case "FOREX":
            return instrument.symbol.replace("/", "") + "=X"
        case "FUTURE":
            raise link.failure(Kind.UNSUPPORTED, "it names futures contracts in its own way")
        case _:
            return instrument.symbol.replace(".", "-").replace("/", "-")


async def _chart(link: Link, symbol: str, params: dict[str, str]) -> dict[str, Any]:
    answer = await link.get(f"/v8/finance/chart/{escaped(symbol, safe='')}", params)
    if error := read_object(answer, "chart", "error"):
        if error.get("code") == "Not Found":
            raise link.unknown(symbol)
        raise link.failure(Kind.BAD_ANSWER, "it reports an error", error.get("description") or error.get("code"))
    result = read_object(answer, "chart", "result", 0)
    if not result:
        raise link.odd()
    return result


async def quote(link: Link, instrument: Instrument) -> ProviderQuote:
    result = await _chart(link, _symbol(link, instrument), {"interval": "1d", "range": "1d"})
    meta, today = read_object(result, "meta"), read_object(result, "indicators", "quote", 0)
    price = number(meta.get("regularMarketPrice"))
    if price is None:
        raise link.odd()
    previous = number(meta.get("chartPreviousClose") or meta.get("previousClose"))
    change, percent = derived_change(price, previous)
    opens = read_list(today, "open")
    return ProviderQuote(
        ticker=instrument.symbol,
        price=price,
        provider=link.name,
        open=number(opens[-1]) if opens else None,
        high=number(meta.get("regularMarketDayHigh")),
        low=number(meta.get("regularMarketDayLow")),
        previous_close=previous,
        change=change,
        change_pct=percent,
        volume=whole(meta.get("regularMarketVolume")),
        timestamp=moment(meta.get("regularMarketTime")),
        currency=plain(meta.get("currency"), 8),
    )


async def bars(link: Link, ask: BarsAsk) -> list[ProviderBar]:
    params = {
        "interval": _INTERVALS[ask.interval],
        "period1": str(int(ask.start.timestamp())),
        "period2": str(int((ask.end + timedelta(seconds=1)).timestamp())),
        "includeAdjustedClose": "true",
    }
    result = await _chart(link, _symbol(link, ask.instrument), params)
    prices, adjusted = (
        read_object(result, "indicators", "quote", 0),
        read_list(result, "indicators", "adjclose", 0, "adjclose"),
    )
    columns = [read_list(prices, name) for name in ("open", "high", "low", "close")]
    volumes = read_list(prices, "volume")
    found = [
        make_bar(
            link.name,
            moment(stamp),
            (_nth(column, place) for column in columns),
            _nth(volumes, place),
            adj_close=_nth(adjusted, place),
        )
        for place, stamp in enumerate(read_list(result, "timestamp"))
    ]
    return [bar for bar in found if bar is not None]  # Yahoo leaves holes for minutes without a trade


def _nth(column: list[Any], place: int) -> Any:
    return column[place] if place < len(column) else None


async def search(link: Link, query: str) -> list[Hit]:
    answer = await link.get("/v1/finance/search", {"q": query, "quotesCount": "20", "newsCount": "0"})
    if not isinstance(answer, dict) or not isinstance(answer.get("quotes"), list):
        raise link.odd()
    found = []
    for item in answer["quotes"]:
        symbol = plain(read_object(item).get("symbol"), 32)
        if symbol and str(item.get("quoteType")) not in _NOT_SHARES:
            name = plain(item.get("longname") or item.get("shortname"), 200) or symbol
            exchange = plain(item.get("exchDisp") or item.get("exchange"), 64)
            found.append(Hit(symbol=symbol, name=name, exchange=exchange, provider=link.name))
    return found


async def news(link: Link, instrument: Instrument | None, count: int) -> list[News]:
    words = _GENERAL if instrument is None else _symbol(link, instrument)
    params = {"q": words, "quotesCount": "0", "newsCount": str(min(count, _MOST_NEWS))}
    answer = await link.get("/v1/finance/search", params)
    if not isinstance(answer, dict) or not isinstance(answer.get("news"), list):
        raise link.odd()
    return [
        News(
            title=title,
            source=plain(item.get("publisher"), 200) or link.name,
            url=plain(item.get("link"), 2000),
            published_at=moment(item.get("providerPublishTime")),
            tickers=[ticker for ticker in read_list(item, "relatedTickers") if isinstance(ticker, str)],
            provider=link.name,
        )
        for item in answer["news"]
        if (title := plain(read_object(item).get("title")))
    ]


async def _test(link: Link) -> bool:
    answer = await link.get("/v1/finance/search", {"q": "AAPL", "quotesCount": "1", "newsCount": "0"})
    return isinstance(answer, dict) and isinstance(answer.get("quotes"), list)


PROVIDER = Provider(
    name="Yahoo Finance",
    slug="yahoo",
    base="https://query1.finance.yahoo.com",
    signup_url="https://finance.yahoo.com",
    rate_limit=100,
    data_types=("quote", "ohlcv", "news", "search"),
    requires_key=False,
    credentials=(),
    # without a browser's name Yahoo answers 429 to everybody
    headers=lambda key, secret: {"User-Agent": "Mozilla/5.0 (compatible; zorivest-rpc)"},
    aliases=("yahoo_finance",),
    test=_test,
    quote=quote,
    bars=bars,
    search=search,
    news=news,
)
