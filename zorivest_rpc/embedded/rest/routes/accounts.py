"""`/accounts`: the accounts and their balances."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from ...journal import accounts
from ...values.fields import Fields
from ...values.inputs import currency, identifier, page
from ...values.resource import Field, Resource, choice, flag, text
from ..routing import READ, WRITE, RestCall, Route, reply

__all__ = ["ROUTES"]

_LARGEST_BALANCE = 10**12


ACCOUNT = Resource(
    Field("name", text(least=1, most=200)),
    Field("account_type", choice(accounts.ACCOUNT_TYPES)),
    Field("institution", text(most=200), None),
    Field("currency", currency, None),
    Field("is_tax_advantaged", flag, None),
    Field("is_spousal", flag, None),
    Field("notes", text(), None),
    Field("broker_id", text(most=64), None),
)


async def create(ask: RestCall) -> web.StreamResponse:
    actor = ask.session.actor
    fields = Fields(await ask.json())
    values = {"account_id": identifier(fields, "account_id", None), **ACCOUNT.read(fields)}
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
    changes = ACCOUNT.read_changes(fields)
    if fields.has("is_archived"):
        changes["is_archived"] = fields.flag("is_archived")
    fields.done()
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


ROUTES = (
    Route("POST", "/accounts", WRITE, create),
    Route("GET", "/accounts", READ, list_all),
    Route("GET", "/accounts/{account_id}", READ, show),
    Route("PUT", "/accounts/{account_id}", WRITE, change),
    Route("POST", "/accounts/{account_id}/balances", WRITE, record_balance),
    Route("GET", "/accounts/{account_id}/balances", READ, balances),
)
