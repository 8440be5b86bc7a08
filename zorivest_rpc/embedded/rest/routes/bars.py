"""`/market-data/bars`: price bars that a caller supplies, for everything that has to know past prices."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, cast

from aiohttp import web

from ...analytics.excursion import SPANS, Bar, Resolution
from ...database import audit
from ...errors import Invalid
from ...market import stored_bars as bars
from ...values.fields import Fields
from ...values.symbols import parse_instrument
from ..routing import WRITE, RestCall, Route, reply

__all__ = ["ROUTES"]

_MOST_BARS = 20_000
_BODY = 8 * 1024 * 1024


async def store(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    body = await ask.json()
    fields = Fields(body)
    symbol = _symbol(fields)
    resolution = cast(Resolution, fields.choice("resolution", SPANS, "1d"))
    source = fields.text("source", "manual", least=1, most=64)
    given = body.get("bars")
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_BARS:
        fields.wrong("bars", f"must be a list of 1 to {_MOST_BARS} bars")
    fields.done()
    read = [_bar(number, item) for number, item in enumerate(cast(list[Any], given))]

    def job(conn: Any) -> int:
        count = bars.store(conn, symbol, resolution, read, source)
        audit.record(conn, actor, "bars.store", "symbol", symbol, resolution=resolution, count=count)
        return count

    return reply({"symbol": symbol, "resolution": resolution, "stored": await ask.db.write(job)}, 201)


def _symbol(fields: Fields) -> str:
    text = fields.text("symbol", least=1, most=64)
    try:
        return parse_instrument(text).symbol if text.strip() else ""
    except ValueError as exc:
        fields.wrong("symbol", str(exc))
        return ""


def _bar(number: int, item: Any) -> Bar:
    fields = Fields(item if isinstance(item, dict) else {})
    moment: datetime = fields.moment("time")
    opened, high, low, close = (fields.decimal(name, least=0, places=8) for name in ("open", "high", "low", "close"))
    volume = fields.decimal("volume", Decimal(0), least=0, places=8)
    vwap = fields.decimal("vwap", None, least=0, places=8)
    if not fields.errors and not low <= min(opened, close) <= max(opened, close) <= high:
        fields.wrong("high", "must be the highest and low the lowest of the four prices")
    if fields.errors:
        raise Invalid({f"bars[{number}].{name}": problems for name, problems in fields.errors.items()})
    return Bar(moment, opened, high, low, close, volume, vwap)


ROUTES = (Route("POST", "/market-data/bars", WRITE, store, _BODY),)
