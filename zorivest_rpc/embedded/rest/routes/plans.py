"""`/trade-plans` and the calculator that sizes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from aiohttp import web

from ...analytics.position_size import position_size, problems_of
from ...errors import Invalid
from ...journal import plans
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import fill_aliases, identifier, instrument, page, row_number
from ...values.resource import Field, Resource, choice, decimal, text
from ..routing import OPEN, READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]

_DIRECTIONS = {"bot": "BOT", "long": "BOT", "buy": "BOT", "sld": "SLD", "short": "SLD", "sell": "SLD"}
_LEVELS = {"entry": "entry_price", "stop": "stop_loss", "target": "target_price"}
_ALIASES = {**_LEVELS, "conditions": "entry_conditions"}
_SMALL = 64 * 1024


def _ticker(fields: Fields, name: str, default: Any) -> str:
    return instrument(fields, name).symbol


def _direction(fields: Fields, name: str, default: Any) -> str:
    return _DIRECTIONS.get(fields.choice(name, _DIRECTIONS, default), "BOT")


def _strategy(fields: Fields, name: str, default: Any) -> str:
    return str(fields.text(name, default, least=1, most=200)).strip()


def _conditions(fields: Fields, name: str, default: Any) -> Any:
    """A text, or a list of them that becomes its lines."""
    if isinstance(fields.raw(name), list):
        return "\n".join(fields.texts(name, length=1000))
    return fields.text(name, default)


PLAN = Resource(
    Field("ticker", _ticker),
    Field("direction", _direction),
    Field("conviction", choice(plans.CONVICTIONS), "medium"),
    Field("strategy_name", _strategy),
    Field("strategy_description", text(), ""),
    *(Field(name, decimal(above=0, places=8)) for name in _LEVELS.values()),
    Field("entry_conditions", _conditions, ""),
    Field("exit_conditions", _conditions, ""),
    Field("timeframe", text(least=1, most=64), "intraday"),
    Field("account_id", identifier, None),
    Field("shares_planned", decimal(above=0, places=8), None),
    Field("position_size", decimal(least=0), None),
)
PROGRESS = Resource(  # what a plan gets once it exists
    Field("status", choice(plans.STATUSES)),
    Field("linked_trade_id", text(least=1, most=128)),
)


async def create(ask: RestCall) -> web.StreamResponse:
    actor, fields = ask.session.actor, Fields(fill_aliases(await ask.json(), _ALIASES))
    values = PLAN.read(fields)
    fields.done()
    return reply(await ask.db.write(lambda conn: plans.add(conn, values, actor)), 201)


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields, 100)
    fields.done()
    answer = await ask.db.read(lambda conn: plans.list_plans(conn, wanted))
    if not answer["total"]:
        answer["hint"] = "No trade plans yet; write one with create_trade_plan."
    return reply(answer)


async def show(ask: RestCall) -> web.StreamResponse:
    plan_id = _id(ask)
    return reply(await ask.db.read(lambda conn: plans.read_plan(conn, plan_id)))


async def change(ask: RestCall) -> web.StreamResponse:
    fields = Fields(fill_aliases(await ask.json(), _ALIASES))
    changes = PLAN.read_changes(fields) | PROGRESS.read_changes(fields)
    fields.done()
    plan_id, actor = _id(ask), ask.session.actor
    return reply(await ask.db.write(lambda conn: plans.change(conn, plan_id, changes, actor)))


async def delete(ask: RestCall) -> web.StreamResponse:
    plan_id, actor = _id(ask), ask.session.actor
    await ask.db.write(lambda conn: plans.delete(conn, plan_id, actor))
    return no_content()


async def size(ask: RestCall) -> web.StreamResponse:
    """Open without a session: it computes and reads nothing."""
    fields = Fields(fill_aliases(await ask.json(), {other: name for name, other in _LEVELS.items()}))
    balance = fields.decimal("balance")
    risk_pct = fields.decimal("risk_pct", Decimal(1), places=12)
    entry, stop, target = (fields.decimal(name, places=8) for name in _LEVELS)
    fields.done()
    problems = problems_of(balance, risk_pct, entry, stop, target)
    if problems:
        raise Invalid(problems)
    return reply(to_json(position_size(balance, entry, stop, target, risk_pct)))


def _id(ask: RestCall) -> int:
    return row_number("trade plan", ask.path["plan_id"])


ROUTES = (
    Route("POST", "/trade-plans", WRITE, create),
    Route("GET", "/trade-plans", READ, list_all),
    Route("GET", "/trade-plans/{plan_id}", READ, show),
    Route("PUT", "/trade-plans/{plan_id}", WRITE, change),
    Route("DELETE", "/trade-plans/{plan_id}", WRITE, delete),
    Route("POST", "/calculator/position-size", OPEN, size, _SMALL),
)
