"""`/banking`: statements, the ledger they fill, and balances."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from aiohttp import web

from ...errors import Invalid
from ...imports.bank import import_bank_file
from ...imports.drafts import BankCategory, BankDraft, BankHints
from ...imports.statement import category_of
from ...imports.stored import bank as bank_store
from ...values.fields import Fields
from ...values.inputs import currency, identifier, page
from ..routing import READ, WRITE, Ask, Route, reply
from ..uploads import BODY, Progress, form_with_file, preview, read_file
from .selection import currency_for

__all__ = ["ROUTES"]

_FORMATS = ("auto", "csv", "ofx", "qfx", "qif", "camt")
_LARGEST = 10**12
_MOST_LINES = 5000
_CATEGORIES = tuple(category.value for category in BankCategory)


async def import_statement(ask: Ask) -> web.StreamResponse:
    return reply(await _import(ask, rehearse=False))


async def preview_statement(ask: Ask) -> web.StreamResponse:
    return reply(preview(await _import(ask, rehearse=True)))


async def _import(ask: Ask, *, rehearse: bool) -> dict[str, Any]:
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


async def list_accounts(ask: Ask) -> web.StreamResponse:
    return reply(await ask.db.read(bank_store.listed))


async def enter_lines(ask: Ask) -> web.StreamResponse:
    """A list of lines, or an object with the account and the lines; a bare list names its account in the query."""
    actor = ask.session.actor
    body = await ask.any_json()
    whole: dict[str, Any] = body if isinstance(body, dict) else {"transactions": body}
    fields = Fields({**whole, "account_id": whole.get("account_id") or ask.query.get("account_id")})
    account_id = identifier(fields, "account_id")
    lines = _lines(fields, account_id, whole.get("transactions"), await currency_for(ask, account_id))
    closing = fields.decimal("closing_balance", None, most=_LARGEST)
    day = fields.day("balance_date", datetime.now(UTC).date())
    described = fields.text("source_description", "", most=255)
    deduplicate = fields.flag("deduplicate", True)
    fields.done()
    return reply(
        await ask.db.write(
            lambda conn: bank_store.enter(
                conn,
                account_id,
                lines,
                closing=None if closing is None else (closing, day),
                described=described,
                deduplicate=deduplicate,
                actor=actor,
            )
        )
    )


async def set_balance(ask: Ask) -> web.StreamResponse:
    account_id, actor = ask.path["account_id"], ask.session.actor
    fields = Fields(await ask.json())
    balance = fields.decimal("balance", most=_LARGEST)
    day: date | None = fields.day("as_of_date", None)
    optional = {
        "currency": currency(fields),
        "notes": fields.text("notes", None),
    }
    fields.done()
    changes = {name: value for name, value in optional.items() if value is not None}
    return reply(
        await ask.db.write(lambda conn: bank_store.set_balance(conn, account_id, balance, day, changes, actor))
    )


async def show_ledger(ask: Ask) -> web.StreamResponse:
    account_id = ask.path["account_id"]
    fields = Fields(ask.query)
    wanted = page(fields, 100)
    first: date | None = fields.day("start", None)
    last: date | None = fields.day("end", None)
    fields.done()
    return reply(await ask.db.read(lambda conn: bank_store.ledger(conn, account_id, wanted, first=first, last=last)))


def _lines(fields: Fields, account_id: str, given: Any, usual: str) -> list[BankDraft]:
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_LINES:
        fields.wrong("transactions", f"must be a list of 1 to {_MOST_LINES} lines")
        return []
    lines = []
    for number, line in enumerate(given, 1):
        part = Fields(line if isinstance(line, dict) else {})
        lines.append(_line(part, account_id, number, usual))
        if part.errors:
            fields.wrong("transactions", f"line {number}: {Invalid(part.errors).detail['errors']}")
    return lines


def _line(part: Fields, account_id: str, number: int, usual: str) -> BankDraft:
    amount = part.decimal("amount", most=_LARGEST)
    if amount == 0 and "amount" not in part.errors:
        part.wrong("amount", "must not be zero")
    description = part.text("description", least=1, most=500)
    category = part.choice("category", _CATEGORIES, None)
    return BankDraft(
        row_number=number,
        account_id=account_id,
        date=part.day("date"),
        description=description.strip(),
        amount=Decimal(amount),
        category=category_of(description, amount) if category is None else BankCategory(category),
        currency=currency(part) or usual,
        post_date=part.day("post_date", None),
        reference_id=part.text("reference_id", None, least=1, most=255),
        reference_is_unique=part.has("reference_id"),
        running_balance=part.decimal("running_balance", None, most=_LARGEST),
        notes=part.text("notes", "", most=2000),
    )


ROUTES = (
    Route("POST", "/banking/import", WRITE, import_statement, BODY),
    Route("POST", "/banking/import/preview", WRITE, preview_statement, BODY),
    Route("GET", "/banking/accounts", READ, list_accounts),
    Route("GET", "/banking/accounts/{account_id}/transactions", READ, show_ledger),
    Route("PUT", "/banking/accounts/{account_id}/balance", WRITE, set_balance),
    Route("POST", "/banking/transactions", WRITE, enter_lines),
)
