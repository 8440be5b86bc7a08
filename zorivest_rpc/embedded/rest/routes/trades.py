"""`/trades`: recording, finding, changing and deleting executions."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from aiohttp import web

from ...analytics.stored.costs import FEE_TYPES
from ...errors import Invalid
from ...journal import trades
from ...values.fields import Fields
from ...values.futures import SETTING as FUTURE_MULTIPLIERS
from ...values.futures import parse_multipliers, unknown_root
from ...values.inputs import currency, identifier, instrument, page
from ...values.resource import Field, Resource, choice, decimal, moment, text
from ...values.symbols import Instrument
from ..routing import READ, WRITE, RestCall, Route, no_content, reply
from .selection import period_of, tell_period

__all__ = ["ROUTES"]

_MOST_CHARGES = 50
_LARGEST_MULTIPLIER = 10**8  # a yen future counts 12 500 000


TRADE = Resource(  # what can be changed of one; `fx_rate` turns its currency into the account's
    Field("time", moment, lambda: datetime.now(UTC)),
    Field("action", choice(("BOT", "SLD"))),
    Field("quantity", decimal(above=0, places=8)),
    Field("price", decimal(places=8)),
    Field("account_id", identifier),
    Field("commission", decimal(), Decimal(0)),
    Field("fees", decimal(), Decimal(0)),
    Field("realized_pnl", decimal(), Decimal(0)),
    Field("notes", text(), ""),
    Field("currency", currency, None),
    Field("fx_rate", decimal(above=0, places=12), None),
)


async def create(ask: RestCall) -> web.StreamResponse:
    body = await ask.json()
    draft = _draft(body, await _multipliers(ask))
    actor = ask.session.actor
    auto_create = await ask.backend.settings().value("accounts.auto_create")
    shown, twin = await ask.db.write(lambda conn: trades.insert(conn, draft, actor=actor, auto_create=auto_create))
    answer = {"status": "created", "exec_id": draft.exec_id, "trade": shown}
    if twin is not None:
        answer["possible_duplicate_of"] = twin
    return reply(answer, 201)


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields)
    account_id = fields.text("account_id", None, most=128)
    search = fields.text("search", None, most=200)
    sort = fields.choice("sort", [sign + name for name in trades.SORTS for sign in ("", "-")], "-time")
    fields.done()
    span = await period_of(ask, "all")
    answer = await ask.db.read(
        lambda conn: trades.list_trades(conn, wanted, account_id=account_id, search=search, sort=sort, period=span)
    )
    if span.start is not None or span.end is not None:
        answer |= tell_period(span)
    if not answer["total"]:
        answer["hint"] = "No trades here; record fills with create_trade or load a statement with import_broker_csv."
    return reply(answer)


async def show(ask: RestCall) -> web.StreamResponse:
    exec_id = ask.path["exec_id"]
    return reply(await ask.db.read(lambda conn: trades.read_trade(conn, exec_id)))


async def change(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    fields = Fields(await ask.json())
    changes = TRADE.read_changes(fields)
    what = instrument(fields, "instrument", _day(changes.get("time"))) if fields.has("instrument") else None
    if what is not None:
        changes["instrument"] = str(fields.raw("instrument")).strip()
        what = what._replace(multiplier=_multiplier(fields, what, await _multipliers(ask)))
    fields.done()
    auto_create = await ask.backend.settings().value("accounts.auto_create")
    return reply(
        await ask.db.write(
            lambda conn: trades.change(conn, exec_id, changes, what, actor=actor, auto_create=auto_create)
        )
    )


async def delete(ask: RestCall) -> web.StreamResponse:
    exec_id, actor = ask.path["exec_id"], ask.session.actor
    await ask.db.write(lambda conn: trades.delete(conn, exec_id, actor))
    return no_content()


async def _multipliers(ask: RestCall) -> dict[str, Decimal]:
    """The multipliers of futures that the user gave."""
    return parse_multipliers(await ask.backend.settings().value(FUTURE_MULTIPLIERS))


def _multiplier(fields: Fields, what: Instrument, given: dict[str, Decimal]) -> Decimal:
    """The instrument's multiplier, or a problem told: a future of an unknown root has none."""
    if what.asset_class != "FUTURE":
        return what.multiplier
    if what.underlying not in given and not what.is_multiplier_known:
        fields.wrong("instrument", unknown_root(what.underlying))
    return given.get(what.underlying, what.multiplier)


def _day(moment: datetime | None) -> date:
    return (moment or datetime.now(UTC)).date()


def _draft(body: dict[str, Any], given: dict[str, Decimal]) -> trades.Draft:
    fields = Fields(body)
    values = TRADE.read(fields)
    what = instrument(fields, "instrument", _day(values["time"]))
    multiplier = fields.decimal("multiplier", None, above=0, most=_LARGEST_MULTIPLIER, places=8)
    draft = trades.Draft(
        exec_id=identifier(fields, "exec_id"),
        instrument=str(body.get("instrument")).strip(),
        what=what,
        multiplier=_multiplier(fields, what, given) if multiplier is None else multiplier,
        order_id=fields.text("order_id", None, least=1, most=128),
        broker=fields.text("broker", None, least=1, most=64),
        nbbo_bid=fields.decimal("nbbo_bid", None, least=0, places=8),
        nbbo_ask=fields.decimal("nbbo_ask", None, least=0, places=8),
        charges=_charges(fields, body.get("ledger")),
        **values,
    )
    if draft.charges and sum(charge.amount for charge in draft.charges) != draft.commission + draft.fees:
        fields.wrong("ledger", "must add up to commission plus fees")
    fields.done()
    return draft


def _charges(fields: Fields, ledger: Any) -> tuple[trades.TradeFee, ...]:
    """The fees line by line, where a caller knows them."""
    if ledger is None:
        return ()
    if not isinstance(ledger, list) or len(ledger) > _MOST_CHARGES:
        fields.wrong("ledger", f"must be a list of at most {_MOST_CHARGES} fees")
        return ()
    charges = []
    for line in ledger:
        part = Fields(line if isinstance(line, dict) else {})
        charges.append(
            trades.TradeFee(
                part.choice("fee_type", FEE_TYPES),
                part.decimal("amount"),
                part.text("description", "", most=500),
                part.flag("is_estimated", False),
            )
        )
        if part.errors:
            fields.wrong("ledger", str(Invalid(part.errors).detail["errors"]))
    return tuple(charges)


ROUTES = (
    Route("POST", "/trades", WRITE, create),
    Route("GET", "/trades", READ, list_all),
    Route("GET", "/trades/{exec_id}", READ, show),
    Route("PUT", "/trades/{exec_id}", WRITE, change),
    Route("DELETE", "/trades/{exec_id}", WRITE, delete),
)
