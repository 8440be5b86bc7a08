"""`/exchange-rates`: stored rates, and single ones given by hand."""

from __future__ import annotations

from datetime import date

from aiohttp import web

from ...journal import exchange
from ...values.fields import Fields
from ...values.inputs import currency, page
from ..routing import READ, WRITE, RestCall, Route, reply

__all__ = ["ROUTES"]


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted, code = page(fields, 100), currency(fields)
    day: date | None = fields.day("day", None)
    fields.done()
    answer = await ask.db.read(lambda conn: exchange.list_rates(conn, wanted, currency=code, day=day))
    if not answer["total"]:
        answer["hint"] = "No exchange rates here; import_broker_csv takes eurofxref-hist.csv of the ECB."
    return reply(answer)


async def give(ask: RestCall) -> web.StreamResponse:
    """One rate: on `day` one unit of `base` cost `rate` units of `quote`."""
    actor = ask.session.actor
    fields = Fields(await ask.json())
    base, quote = currency(fields, "base"), currency(fields, "quote")
    for name, code in (("base", base), ("quote", quote)):
        if code is None:
            fields.wrong(name, "is required")
    if base is not None and base == quote:
        fields.wrong("quote", "must be another currency than the base")
    rate = exchange.Rate(fields.day("day"), base or "", quote or "", fields.decimal("rate", above=0, places=12))
    fields.done()
    counts = await ask.db.write(lambda conn: exchange.add_rates(conn, [rate], "manual", actor))
    return reply({"day": rate.day, "base": rate.base, "quote": rate.quote, "rate": rate.rate, **counts}, 201)


ROUTES = (
    Route("GET", "/exchange-rates", READ, list_all),
    Route("POST", "/exchange-rates", WRITE, give),
)
