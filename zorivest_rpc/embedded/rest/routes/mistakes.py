"""`/mistakes`: tagging them, adding them up, and looking for more."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from sqlalchemy import Connection

from ...analytics.mistakes import CATEGORIES, mistake_summary, parse_category
from ...analytics.stored import mistake_scan as suspicions
from ...analytics.stored import mistakes as mistake_log
from ...analytics.stored import results
from ...journal.exchange import Conversion
from ...journal.expiry import settle_due
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import fill_aliases, page
from ..routing import READ, WRITE, RestCall, Route, reply
from .selection import scope_of, tell_period

__all__ = ["ROUTES"]


async def track(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    fields = Fields(fill_aliases(await ask.json(), {"trade_id": "trade_exec_id"}))
    exec_id = fields.text("trade_exec_id", least=1, most=128)
    text = fields.text("category", least=1, most=64)
    category = parse_category(text)
    if text.strip() and category is None:
        fields.wrong("category", f'"{text}" is none of {", ".join(CATEGORIES)}')
    values = {
        "category": category,
        "estimated_cost": fields.decimal("estimated_cost", None, least=0),
        "notes": fields.text("notes", ""),
    }
    fields.done()
    return reply(await ask.db.write(lambda conn: mistake_log.add(conn, exec_id, values, actor)), 201)


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    exec_id = fields.text("trade_id", None, least=1, most=128)
    wanted = page(fields)
    fields.done()
    answer = await ask.db.read(lambda conn: mistake_log.list_mistakes(conn, exec_id, wanted))
    if not answer["total"]:
        answer["hint"] = "No tagged mistakes here; tag one with track_mistake."
    return reply(answer)


async def summary(ask: RestCall) -> web.StreamResponse:
    scope = await scope_of(ask, "ytd")

    def job(conn: Connection) -> dict[str, Any]:
        conversion = Conversion(conn, scope.currency)
        found = mistake_summary(
            mistake_log.sums(conn, scope, conversion),
            baseline=results.moments(conn, scope),
            period=scope.period.text,
            account_id=scope.account_id,
        )
        return {**to_json(found), **conversion.answer(), **tell_period(scope.period)}

    await settle_due(ask.db)
    return reply(await ask.db.read(job))


async def list_suspected(ask: RestCall) -> web.StreamResponse:
    """Proposals of the rules; nothing is tagged."""
    scope = await scope_of(ask, "ytd")
    await settle_due(ask.db)
    answer = await ask.db.read(lambda conn: suspicions.propose_mistakes(conn, scope))
    return reply({**answer, **tell_period(scope.period)})


ROUTES = (
    Route("POST", "/mistakes", WRITE, track),
    Route("GET", "/mistakes", READ, list_all),
    Route("GET", "/mistakes/summary", READ, summary),
    Route("GET", "/mistakes/suspected", READ, list_suspected),
)
