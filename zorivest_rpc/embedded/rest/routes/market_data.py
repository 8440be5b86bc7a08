"""`/market-data`: quotes, news, search, filings and bars, and the providers they come from."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

from aiohttp import web

from ...errors import Invalid
from ...market.market import Market
from ...market.shapes import INTERVALS
from ...values.fields import Fields
from ..routing import ADMIN, READ, WRITE, RestCall, Route, reply

__all__ = ["ROUTES", "day_or_moment", "market_of", "secret"]

_LONGEST_TICKER = 64
_MOST_NEWS, _MOST_FILINGS, _MOST_BARS = 50, 200, 1000
_SMALL = 64 * 1024


def market_of(ask: RestCall) -> Market:
    backend = ask.backend
    return Market(ask.db, backend.settings(), backend.fields(), backend.outbound)


async def quote(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    ticker = fields.text("ticker", least=1, most=_LONGEST_TICKER)
    fields.done()
    return reply(await market_of(ask).quote(ticker))


async def news(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    ticker = fields.text("ticker", None, most=_LONGEST_TICKER)
    count = fields.integer("count", 5, least=1)
    fields.done()
    return reply(await market_of(ask).news((ticker or "").strip() or None, min(count, _MOST_NEWS)))


async def search(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    query = fields.text("query", least=1, most=200)
    fields.done()
    return reply(await market_of(ask).search(query.strip()))


async def filings(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    ticker = fields.text("ticker", least=1, most=_LONGEST_TICKER)
    forms = fields.text("forms", "", most=200)
    limit = fields.integer("limit", 20, least=1, most=_MOST_FILINGS)
    fields.done()
    wanted = frozenset(form.strip().upper() for form in forms.split(",") if form.strip())
    return reply(await market_of(ask).filings(ticker, wanted, limit))


async def bars(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    ticker = fields.text("ticker", least=1, most=_LONGEST_TICKER)
    word = fields.text("interval", "1d", most=4)
    interval = word if word in INTERVALS else {known.lower(): known for known in INTERVALS[:-1]}.get(word.lower(), "")
    if not interval:
        fields.wrong("interval", f"must be one of {', '.join(INTERVALS)}")
    start, end = day_or_moment(fields, "start_date"), day_or_moment(fields, "end_date", last=True)
    limit = fields.integer("limit", _MOST_BARS, least=1, most=_MOST_BARS)
    fields.done()
    return reply(await market_of(ask).bars(ticker, interval, start, end, limit))


def day_or_moment(fields: Fields, name: str, *, last: bool = False) -> datetime | None:
    """A day or a moment; a day as the end is included whole."""
    text = (fields.text(name, None, most=40) or "").strip()
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
        if last and len(text) == 10:
            parsed = datetime.combine(parsed.date() + timedelta(days=1), time())
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        fields.wrong(name, "must be an ISO 8601 date or date and time")
        return None


async def providers(ask: RestCall) -> web.StreamResponse:
    return reply(await market_of(ask).providers())


async def configure(ask: RestCall) -> web.StreamResponse:
    """Set what was sent and leave the rest; an empty key is refused, DELETE …/key removes one."""
    body = await ask.json()
    fields = Fields(body)
    found: dict[str, Any] = {
        "api_key": secret(fields, "api_key"),
        "api_secret": secret(fields, "api_secret"),
        "rate_limit": fields.integer("rate_limit", None, least=1, most=100_000),
        "timeout": fields.integer("timeout", None, least=1, most=300),
        "is_enabled": fields.flag("is_enabled", None),
    }
    fields.done()
    values = {name: value for name, value in found.items() if value is not None}
    if not values:
        raise Invalid({"body": [f"must hold at least one of {', '.join(found)}"]})
    await market_of(ask).configure(ask.path["name"], values, ask.session.actor)
    return reply({"status": "configured"})


def secret(fields: Fields, name: str) -> str | None:
    """A key as it can be sent in a header: visible ASCII. The value itself is never repeated in a complaint."""
    value = fields.text(name, None, most=512)
    if value is None:
        return None
    text = value.strip()
    if not text or not text.isascii() or not all(33 <= ord(char) < 127 for char in text) or text.startswith("ENC:"):
        fields.wrong(name, "must be a key of visible ASCII characters")
        return None
    return text


async def test(ask: RestCall) -> web.StreamResponse:
    return reply(await market_of(ask).test(ask.path["name"]))


async def disconnect(ask: RestCall) -> web.StreamResponse:
    return reply(await market_of(ask).disconnect(ask.path["name"], ask.session.actor))


ROUTES = (
    Route("GET", "/market-data/quote", READ, quote),
    Route("GET", "/market-data/news", READ, news),
    Route("GET", "/market-data/search", READ, search),
    Route("GET", "/market-data/sec-filings", READ, filings),
    Route("GET", "/market-data/ohlcv", READ, bars),
    Route("GET", "/market-data/providers", READ, providers),
    Route("PUT", "/market-data/providers/{name}", ADMIN, configure, _SMALL),
    Route("POST", "/market-data/providers/{name}/test", READ, test, _SMALL),
    Route("DELETE", "/market-data/providers/{name}/key", WRITE, disconnect),
)
