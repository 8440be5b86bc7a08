"""`/fees` and the two estimates of what free trading costs."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from aiohttp import web
from sqlalchemy import Connection

from .. import accounts, costs
from ..analytics.answers import to_json
from ..analytics.pfof import CostOfFree, PfofReport, cost_of_free
from ..fields import Fields
from ..inputs import identifier, page
from ..results import Scope
from ..routing import READ, WRITE, Ask, Route, reply
from .selection import period_of, scope_of

__all__ = ["ROUTES"]

_MONTH = re.compile(r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])")


async def summary(ask: Ask) -> web.StreamResponse:
    scope = await scope_of(ask, "ytd")
    fees, _ = await ask.db.read(lambda conn: costs.breakdown(conn, scope))
    return reply(to_json(fees))


async def pfof_report(ask: Ask) -> web.StreamResponse:
    """Of one account; 404 if there is no such."""
    fields = Fields(ask.query)
    account_id = fields.text("account_id", least=1, most=128)
    fields.done()
    scope = Scope(account_id, await period_of(ask, "ytd"))
    now = datetime.now(UTC)

    def job(conn: Connection) -> PfofReport:
        accounts.require(conn, account_id)
        return costs.routing(conn, scope, now)

    return reply(to_json(await ask.db.read(job)))


async def show_cost_of_free(ask: Ask) -> web.StreamResponse:
    scope = await scope_of(ask, "ytd")
    now = datetime.now(UTC)

    def job(conn: Connection) -> CostOfFree:
        fees, gross = costs.breakdown(conn, scope)
        return cost_of_free(fees, costs.routing(conn, scope, now), gross)

    return reply(to_json(await ask.db.read(job)))


async def ledger(ask: Ask) -> web.StreamResponse:
    """What one trade cost, line by line."""
    exec_id = ask.path["exec_id"]
    lines = await ask.db.read(lambda conn: costs.ledger_of(conn, exec_id))
    return reply({"items": lines, "total_fees": sum(line["amount"] for line in lines)})


async def record_periodic(ask: Ask) -> web.StreamResponse:
    actor = ask.session.actor
    fields = Fields(await ask.json())
    account_id = identifier(fields, "account_id", None)
    fee_type = fields.choice("fee_type", costs.FEE_TYPES, "platform")
    amount = fields.decimal("amount")
    month = fields.text("period_month", f"{datetime.now(UTC):%Y-%m}", most=7)
    description = fields.text("description", "", most=500)
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
            )
        ),
        201,
    )


async def list_periodic(ask: Ask) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields, 100)
    fields.done()
    return reply(await ask.db.read(lambda conn: costs.listed_periodic(conn, wanted)))


ROUTES = (
    Route("GET", "/fees/summary", READ, summary),
    Route("GET", "/trades/{exec_id}/fees", READ, ledger),
    Route("POST", "/fees/periodic", WRITE, record_periodic),
    Route("GET", "/fees/periodic", READ, list_periodic),
    Route("GET", "/analytics/pfof-report", READ, pfof_report),
    Route("GET", "/analytics/cost-of-free", READ, show_cost_of_free),
)
