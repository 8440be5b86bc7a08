"""`/accounts`: the accounts and their balances."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from ...journal import accounts
from ...values.fields import Fields
from ...values.inputs import currency, identifier, page
from ..routing import READ, WRITE, RestCall, Route, reply

__all__ = ["ROUTES"]

_LARGEST_BALANCE = 10**12


async def create(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    fields = Fields(await ask.json())
    values: dict[str, Any] = {
        "account_id": identifier(fields, "account_id", None),
        "name": fields.text("name", least=1, most=200),
        "account_type": fields.choice("account_type", accounts.ACCOUNT_TYPES),
        **_optional(fields),
    }
    fields.done()
    return reply(await ask.db.write(lambda conn: accounts.create(conn, values, actor)), 201)


async def list_all(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    archived, system = fields.flag("include_archived", False), fields.flag("include_system", False)
    fields.done()
    return reply(await ask.db.read(lambda conn: accounts.list_accounts(conn, archived=archived, system=system)))


async def show(ask: RestCall) -> web.StreamResponse:
    account_id = ask.path["account_id"]
    return reply(await ask.db.read(lambda conn: accounts.read_account(conn, account_id)))


async def change(ask: RestCall) -> web.StreamResponse:
    account_id, actor = ask.path["account_id"], ask.session.actor
    fields = Fields(await ask.json())
    wanted: dict[str, Any] = {
        "name": fields.text("name", None, least=1, most=200),
        "account_type": fields.choice("account_type", accounts.ACCOUNT_TYPES, None),
        "is_archived": fields.flag("is_archived", None),
        **_optional(fields),
    }
    fields.done()
    changes = {name: value for name, value in wanted.items() if value is not None}
    return reply(await ask.db.write(lambda conn: accounts.change(conn, account_id, changes, actor)))


async def record_balance(ask: RestCall) -> web.StreamResponse:
    account_id, actor = ask.path["account_id"], ask.session.actor
    fields = Fields(await ask.json())
    balance = fields.decimal("balance", most=_LARGEST_BALANCE)
    moment = fields.moment("snapshot_datetime", datetime.now(UTC))
    fields.done()
    snapshot, is_new = await ask.db.write(
        lambda conn: accounts.record_balance(conn, account_id, balance, moment, actor)
    )
    return reply({**snapshot, "changed": is_new}, 201)


async def balances(ask: RestCall) -> web.StreamResponse:
    account_id = ask.path["account_id"]
    fields = Fields(ask.query)
    wanted = page(fields, 100)
    fields.done()
    items, total = await ask.db.read(lambda conn: accounts.snapshots(conn, account_id, wanted.limit, wanted.offset))
    return reply(wanted.envelope(items, total))


def _optional(fields: Fields) -> dict[str, Any]:
    return {
        "institution": fields.text("institution", None, most=200),
        "currency": currency(fields),
        "is_tax_advantaged": fields.flag("is_tax_advantaged", None),
        "is_spousal": fields.flag("is_spousal", None),
        "notes": fields.text("notes", None),
        "broker_id": fields.text("broker_id", None, most=64),
    }


ROUTES = (
    Route("POST", "/accounts", WRITE, create),
    Route("GET", "/accounts", READ, list_all),
    Route("GET", "/accounts/{account_id}", READ, show),
    Route("PUT", "/accounts/{account_id}", WRITE, change),
    Route("POST", "/accounts/{account_id}/balances", WRITE, record_balance),
    Route("GET", "/accounts/{account_id}/balances", READ, balances),
)
