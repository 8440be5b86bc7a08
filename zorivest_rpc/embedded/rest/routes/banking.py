"""`/banking`: statements, and the ledger they fill."""

from __future__ import annotations

from datetime import date
from typing import Any

from aiohttp import web

from ...imports.bank import import_bank_file
from ...imports.drafts import BankHints
from ...imports.stored import bank as bank_store
from ...values.fields import Fields
from ...values.inputs import identifier, page
from ..routing import READ, WRITE, RestCall, Route, reply
from ..uploads import BODY, Progress, form_with_file, preview, read_file
from .selection import currency_for

__all__ = ["ROUTES"]

_FORMATS = ("auto", "csv", "ofx", "qfx", "qif", "camt")


async def import_statement(ask: RestCall) -> web.StreamResponse:
    return reply(await _import(ask, rehearse=False))


async def preview_statement(ask: RestCall) -> web.StreamResponse:
    return reply(preview(await _import(ask, rehearse=True)))


async def _import(ask: RestCall, *, rehearse: bool) -> dict[str, Any]:
    actor = ask.session.actor
    form, upload = await form_with_file(ask)
    fields = Fields(form.fields)
    account_id = identifier(fields, "account_id")
    wanted = fields.choice("format_hint", _FORMATS, "auto")
    fields.done()
    auto_create = await ask.backend.settings().value("accounts.auto_create")
    hints = BankHints(
        account_id=account_id,
        format=wanted,
        file_name=upload.filename,
        currency=await currency_for(ask, account_id),
    )
    with Progress(ask) as progress:
        found = await read_file(ask, import_bank_file, upload, hints, progress)
        run = ask.db.rehearse if rehearse else ask.db.write
        return await run(
            lambda conn: bank_store.store(conn, found, file_name=upload.filename, actor=actor, auto_create=auto_create)
        )


async def list_accounts(ask: RestCall) -> web.StreamResponse:
    return reply(await ask.db.read(bank_store.list_bank_accounts))


async def show_ledger(ask: RestCall) -> web.StreamResponse:
    account_id = ask.path["account_id"]
    fields = Fields(ask.query)
    wanted = page(fields, 100)
    first: date | None = fields.day("start", None)
    last: date | None = fields.day("end", None)
    fields.done()
    return reply(await ask.db.read(lambda conn: bank_store.ledger(conn, account_id, wanted, first=first, last=last)))


ROUTES = (
    Route("POST", "/banking/import", WRITE, import_statement, BODY),
    Route("POST", "/banking/import/preview", WRITE, preview_statement, BODY),
    Route("GET", "/banking/accounts", READ, list_accounts),
    Route("GET", "/banking/accounts/{account_id}/transactions", READ, show_ledger),
)
