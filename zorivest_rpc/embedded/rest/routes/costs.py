"""`/fees` and the two estimates of what free trading costs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from sqlalchemy import Connection

from ...analytics.pfof import cost_of_free
from ...analytics.stored import costs
from ...journal import accounts
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import currency, identifier, page
from ..routing import READ, WRITE, RestCall, Route, reply
from .selection import scope_of, tell_period

__all__ = ["ROUTES"]

_MONTH = re.compile(r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])")


async def summary(ask: RestCall) -> web.StreamResponse:
    scope = await scope_of(ask, "ytd")
    fields = Fields(ask.query)
    estimate = fields.flag("estimate_regulatory", False)
    fields.done()

    def job(conn: Connection) -> dict[str, Any]:
        fees, _ = costs.breakdown(conn, scope, estimate=estimate)
        return {**to_json(fees), **costs.tell_currencies(conn, scope), **tell_period(scope.period)}

    return reply(await ask.db.read(job))


async def pfof_report(ask: RestCall) -> web.StreamResponse:
    """Of one account; 404 if there is no such."""
    fields = Fields(ask.query)
    account_id = fields.text("account_id", least=1, most=128)
    fields.done()
    scope = await scope_of(ask, "ytd")
    now = datetime.now(UTC)

    def job(conn: Connection) -> dict[str, Any]:
        accounts.require(conn, account_id)
        told = costs.tell_currencies(conn, scope, volumes=True, results=False)
        return {**to_json(costs.routing(conn, scope, now)), **told, **tell_period(scope.period)}

    return reply(await ask.db.read(job))


async def show_cost_of_free(ask: RestCall) -> web.StreamResponse:
    scope = await scope_of(ask, "ytd")
    now = datetime.now(UTC)

    def job(conn: Connection) -> dict[str, Any]:
        fees, gross = costs.breakdown(conn, scope)
        found = cost_of_free(fees, costs.routing(conn, scope, now), gross)
        return {**to_json(found), **costs.tell_currencies(conn, scope, volumes=True), **tell_period(scope.period)}

    return reply(await ask.db.read(job))


async def ledger(ask: RestCall) -> web.StreamResponse:
    """What one trade cost, line by line."""
    exec_id = ask.path["exec_id"]
    lines = await ask.db.read(lambda conn: costs.ledger_of(conn, exec_id))
    return reply(
        {
            "items": lines,
            "total_fees": sum(line["amount"] for line in lines),
            "currency": lines[0]["currency"] if lines else None,
        }
    )


async def record_periodic(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    fields = Fields(await ask.json())
    account_id = identifier(fields, "account_id", None)
    fee_type = fields.choice("fee_type", costs.FEE_TYPES, "platform")
    amount = fields.decimal("amount")
    month = fields.text("period_month", f"{datetime.now(UTC):%Y-%m}", most=7)
    description = fields.text("description", "", most=500)
    wanted = currency(fields)
    if not _MONTH.fullmatch(month):
        fields.wrong("period_month", "must be a month, YYYY-MM")
    fields.done()
    return reply(
        await ask.db.write(
            lambda conn: costs.add_periodic(
                conn,
                account_id=account_id,
                fee_type=fee_type,
                amount=amount,
                month=month,
                description=description,
                actor=actor,
                currency=wanted,
            )
        ),
        201,
    )


async def list_periodic(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields, 100)
    fields.done()
    return reply(await ask.db.read(lambda conn: costs.list_periodic(conn, wanted)))


ROUTES = (
    Route("GET", "/fees/summary", READ, summary),
    Route("GET", "/trades/{exec_id}/fees", READ, ledger),
    Route("POST", "/fees/periodic", WRITE, record_periodic),
    Route("GET", "/fees/periodic", READ, list_periodic),
    Route("GET", "/analytics/pfof-report", READ, pfof_report),
    Route("GET", "/analytics/cost-of-free", READ, show_cost_of_free),
)
