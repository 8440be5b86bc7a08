"""`/corporate-actions`: share splits, and options exercised, assigned or expired."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import cast

from aiohttp import web

from ...journal import corporate_actions
from ...journal.corporate_actions import KINDS, OptionKind
from ...values.fields import Fields
from ...values.inputs import fill_aliases, identifier, instrument, page, row_number
from ...values.symbols import Instrument
from ..routing import READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]

_KIND = "corporate action"


async def create(ask: RestCall) -> web.StreamResponse:
    body = fill_aliases(await ask.json(), {"effective_date": "effective", "effective_at": "effective"})
    fields, actor = Fields(body), ask.session.actor
    kind = fields.choice("kind", KINDS)
    what = instrument(fields, "symbol")
    effective = _effective(fields, kind)
    if kind == "split":
        split = _split(fields, what, effective)
        fields.done()
        return reply(await ask.db.write(lambda conn: corporate_actions.record_split(conn, split, actor)), 201)
    option = _option(fields, cast(OptionKind, kind), what, effective)
    fields.done()
    return reply(await ask.db.write(lambda conn: corporate_actions.record_option(conn, option, actor)), 201)


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields)
    account_id = fields.text("account_id", None, most=128)
    kind = fields.choice("kind", KINDS, None)
    symbol = instrument(fields, "symbol").symbol if fields.has("symbol") else None
    fields.done()
    answer = await ask.db.read(
        lambda conn: corporate_actions.list_actions(
            conn, wanted, account_id=account_id or None, symbol=symbol, kind=kind
        )
    )
    return reply(answer)


async def show(ask: RestCall) -> web.StreamResponse:
    number = row_number(_KIND, ask.path["action_id"])
    return reply(await ask.db.read(lambda conn: corporate_actions.read_action(conn, number)))


async def delete(ask: RestCall) -> web.StreamResponse:
    number, actor = row_number(_KIND, ask.path["action_id"]), ask.session.actor
    await ask.db.write(lambda conn: corporate_actions.delete(conn, number, actor))
    return no_content()


def _split(fields: Fields, what: Instrument, effective: datetime) -> corporate_actions.Split:
    numerator = fields.decimal("numerator", above=0, most=10**6, places=8)
    denominator = fields.decimal("denominator", Decimal(1), above=0, most=10**6, places=8)
    if numerator == denominator and not fields.errors:
        fields.wrong("numerator", "equals the denominator, which changes nothing")
    if what.symbol and what.asset_class != "EQUITY":
        fields.wrong("symbol", "only shares are split; of options record what their contracts became as trades")
    return corporate_actions.Split(what, effective, numerator, denominator, identifier(fields, "account_id", None))


def _option(fields: Fields, kind: OptionKind, what: Instrument, effective: datetime) -> corporate_actions.OptionEnd:
    if what.symbol and what.contract is None:
        fields.wrong("symbol", "must be an option, such as AAPL 260320 C 200")
    return corporate_actions.OptionEnd(
        kind=kind,
        what=what,
        effective_at=effective,
        account_id=identifier(fields, "account_id"),
        quantity=fields.decimal("quantity", None, above=0, places=8),
        closing_trade_id=identifier(fields, "closing_trade_id", None),
        related_trade_id=identifier(fields, "related_trade_id", None),
        commission=fields.decimal("commission", Decimal(0)),
    )


def _effective(fields: Fields, kind: str) -> datetime:
    """A day or a moment, not in the future: what has not happened yet changes nothing."""
    text, now = fields.text("effective", least=1, most=40), datetime.now(UTC)
    if not text:
        return now
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        found = fields.moment("effective")
    else:
        found = corporate_actions.moment_of(day, kind)
        if day == now.date():
            return min(found, now)
    if found > now:
        fields.wrong("effective", "must not be in the future")
    return found


ROUTES = (
    Route("POST", "/corporate-actions", WRITE, create),
    Route("GET", "/corporate-actions", READ, list_all),
    Route("GET", "/corporate-actions/{action_id}", READ, show),
    Route("DELETE", "/corporate-actions/{action_id}", WRITE, delete),
)
