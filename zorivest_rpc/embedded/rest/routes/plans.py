"""`/trade-plans` and the calculator that sizes them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from aiohttp import web

from ...analytics.position_size import position_size, problems_of
from ...errors import Invalid
from ...journal import plans
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import fill_aliases, identifier, instrument, page, row_number
from ..routing import OPEN, READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]

_DIRECTIONS = {"bot": "BOT", "long": "BOT", "buy": "BOT", "sld": "SLD", "short": "SLD", "sell": "SLD"}
_LEVELS = {"entry": "entry_price", "stop": "stop_loss", "target": "target_price"}
_SMALL = 64 * 1024


async def create(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    body = fill_aliases(await ask.json(), {**_LEVELS, "conditions": "entry_conditions"})
    fields = Fields(body)
    values: dict[str, Any] = {
        "ticker": instrument(fields, "ticker").symbol,
        "direction": _DIRECTIONS.get(fields.choice("direction", _DIRECTIONS), "BOT"),
        "conviction": fields.choice("conviction", plans.CONVICTIONS, "medium"),
        "strategy_name": fields.text("strategy_name", least=1, most=200).strip(),
        "strategy_description": fields.text("strategy_description", ""),
        **{name: fields.decimal(name, above=0, places=8) for name in _LEVELS.values()},
        "entry_conditions": _conditions(fields, body, "entry_conditions") or "",
        "exit_conditions": _conditions(fields, body, "exit_conditions") or "",
        "timeframe": fields.text("timeframe", "intraday", least=1, most=64),
        "account_id": identifier(fields, "account_id", None),
        "shares_planned": fields.decimal("shares_planned", None, above=0, places=8),
        "position_size": fields.decimal("position_size", None, least=0),
    }
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
    body = fill_aliases(await ask.json(), {**_LEVELS, "conditions": "entry_conditions"})
    fields = Fields(body)
    direction = fields.choice("direction", _DIRECTIONS, None)
    wanted: dict[str, Any] = {
        "ticker": instrument(fields, "ticker").symbol if fields.has("ticker") else None,
        "direction": None if direction is None else _DIRECTIONS[direction],
        "conviction": fields.choice("conviction", plans.CONVICTIONS, None),
        "strategy_name": fields.text("strategy_name", None, least=1, most=200),
        "strategy_description": fields.text("strategy_description", None),
        **{name: fields.decimal(name, None, above=0, places=8) for name in _LEVELS.values()},
        "entry_conditions": _conditions(fields, body, "entry_conditions"),
        "exit_conditions": _conditions(fields, body, "exit_conditions"),
        "timeframe": fields.text("timeframe", None, least=1, most=64),
        "account_id": identifier(fields, "account_id", None),
        "shares_planned": fields.decimal("shares_planned", None, above=0, places=8),
        "position_size": fields.decimal("position_size", None, least=0),
        "status": fields.choice("status", plans.STATUSES, None),
        "linked_trade_id": fields.text("linked_trade_id", None, least=1, most=128),
    }
    fields.done()
    plan_id, actor = _id(ask), ask.session.actor
    changes = {name: value for name, value in wanted.items() if value is not None}
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


def _conditions(fields: Fields, body: Mapping[str, Any], name: str) -> str | None:
    """A text, or a list of them that becomes its lines."""
    if isinstance(body.get(name), list):
        return "\n".join(fields.texts(name, length=1000))
    return fields.text(name, None)


ROUTES = (
    Route("POST", "/trade-plans", WRITE, create),
    Route("GET", "/trade-plans", READ, list_all),
    Route("GET", "/trade-plans/{plan_id}", READ, show),
    Route("PUT", "/trade-plans/{plan_id}", WRITE, change),
    Route("DELETE", "/trade-plans/{plan_id}", WRITE, delete),
    Route("POST", "/calculator/position-size", OPEN, size, _SMALL),
)
