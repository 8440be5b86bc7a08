"""`/brokers`: broker connections, their syncs and positions."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ...brokers.sync import Brokers, require_broker
from ...errors import Invalid
from ...values.fields import Fields
from ..routing import ADMIN, READ, WRITE, RestCall, Route, reply
from .market_data import day_or_moment, secret

__all__ = ["ROUTES"]

_SMALL = 64 * 1024


def _brokers(ask: RestCall) -> Brokers:
    backend = ask.backend
    return Brokers(ask.db, backend.settings(), backend.fields(), backend.outbound, backend.directory.imports)


async def list_all(ask: RestCall) -> web.StreamResponse:
    return reply(await _brokers(ask).list_configs())


async def sync(ask: RestCall) -> web.StreamResponse:
    fields = Fields(await ask.json())
    start, end = day_or_moment(fields, "start"), day_or_moment(fields, "end", last=True)
    if start is not None and end is not None and start >= end:
        fields.wrong("start", "must be before end")
    fields.done()
    return reply(await _brokers(ask).sync(ask.path["broker_id"], start, end, ask.session.actor))


async def positions(ask: RestCall) -> web.StreamResponse:
    return reply({"items": await _brokers(ask).positions(ask.path["broker_id"])})


async def configure(ask: RestCall) -> web.StreamResponse:
    """Set what was sent and leave the rest."""
    broker = require_broker(ask.path["broker_id"])
    fields = Fields(await ask.json())
    environment = fields.choice("environment", ("live", "paper", "local"), None)
    if environment is not None and environment != broker.environment:
        fields.wrong(
            "environment", f"is {broker.environment} for {broker.broker_id}; another broker_id is the other one"
        )
    account_id = fields.text("account_id", None, least=1, most=128)
    query_id = fields.text("query_id", None, most=32)
    if query_id is not None and not query_id.strip().isdigit():
        fields.wrong("query_id", "must be the number of a Flex query")
    found: dict[str, Any] = {
        "api_key": secret(fields, "api_key"),
        "api_secret": secret(fields, "api_secret"),
        "account_id": account_id.strip() if account_id else None,
        "query_id": query_id.strip() if query_id else None,
        "is_enabled": fields.flag("is_enabled", None),
    }
    if broker.adapter is None:
        fields.wrong("broker_id", f"{broker.name} has no connection to set up; its trades are imported from files")
    fields.done()
    values = {name: value for name, value in found.items() if value is not None}
    if not values:
        raise Invalid({"body": [f"must hold at least one of {', '.join(found)}"]})
    await _brokers(ask).configure(broker.broker_id, values, ask.session.actor)
    return reply({"status": "configured"})


async def disconnect(ask: RestCall) -> web.StreamResponse:
    return reply(await _brokers(ask).disconnect(ask.path["broker_id"], ask.session.actor))


ROUTES = (
    Route("GET", "/brokers", READ, list_all),
    Route("POST", "/brokers/{broker_id}/sync", WRITE, sync, _SMALL),
    Route("GET", "/brokers/{broker_id}/positions", READ, positions),
    Route("PUT", "/brokers/{broker_id}", ADMIN, configure, _SMALL),
    Route("DELETE", "/brokers/{broker_id}/key", ADMIN, disconnect),
)
