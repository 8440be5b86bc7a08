"""`/import`: trades from files that brokers export, and what was imported when."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from aiohttp import web

from ...errors import NotFound
from ...imports.broker import import_broker_file
from ...imports.broker_pdf import import_broker_pdf
from ...imports.drafts import BrokerHints, BrokerImport, ImportLimits
from ...imports.rates_csv import RatesImport, is_rates_file, read_rates
from ...imports.stored import rates as rate_store
from ...imports.stored import trades as import_store
from ...values.fields import Fields
from ...values.futures import SETTING as FUTURE_MULTIPLIERS
from ...values.futures import parse_multipliers
from ...values.inputs import identifier, page
from ..routing import READ, WRITE, RestCall, Route, Upload, reply
from ..uploads import BODY, Importer, Progress, form_with_file, preview, read_file
from .selection import currency_for

__all__ = ["ROUTES"]


async def import_csv(ask: RestCall) -> web.StreamResponse:
    """CSV in any known layout, the XML of a Flex query, or a table of exchange rates."""
    return reply(await _import(ask, import_broker_file, "broker_csv"))


async def preview_csv(ask: RestCall) -> web.StreamResponse:
    return reply(preview(await _import(ask, import_broker_file, "broker_csv", rehearse=True)))


async def import_pdf(ask: RestCall) -> web.StreamResponse:
    return reply(await _import(ask, import_broker_pdf, "broker_pdf"))


async def preview_pdf(ask: RestCall) -> web.StreamResponse:
    return reply(preview(await _import(ask, import_broker_pdf, "broker_pdf", rehearse=True)))


async def _import(
    ask: RestCall, importer: Importer[BrokerHints, BrokerImport], kind: str, *, rehearse: bool = False
) -> dict[str, Any]:
    actor = ask.session.actor
    form, upload = await form_with_file(ask)
    fields = Fields(form.fields)
    account_id = identifier(fields, "account_id")
    broker = fields.text("broker_hint", "auto", most=64)
    fields.done()
    if kind == "broker_csv" and is_rates_file(upload.data):
        return await _import_rates(ask, upload, account_id, rehearse=rehearse)
    settings = ask.backend.settings()
    auto_create = await settings.value("accounts.auto_create")
    zone = await settings.value("import.timezone")
    hints = BrokerHints(
        account_id=account_id,
        broker=broker.strip() or "auto",
        file_name=upload.filename,
        timezone=zone,
        currency=await currency_for(ask, account_id),
        multipliers=parse_multipliers(await settings.value(FUTURE_MULTIPLIERS)),
    )
    with Progress(ask) as progress:
        found = await read_file(ask, importer, upload, hints, progress)
        run = ask.db.rehearse if rehearse else ask.db.write
        return await run(
            lambda conn: import_store.store(
                conn,
                found,
                kind=kind,
                file_name=upload.filename,
                actor=actor,
                auto_create=auto_create,
                zone=zone,
                progress=progress.report_written,
            )
        )


async def _import_rates(ask: RestCall, upload: Upload, account_id: str, *, rehearse: bool) -> dict[str, Any]:
    """Rates belong to no account; the one that was named is only repeated."""
    actor = ask.session.actor

    def read(
        source: bytes,
        hints: None,
        *,
        limits: ImportLimits,
        expired: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> RatesImport:
        return read_rates(source, limits)

    with Progress(ask) as progress:
        found = await read_file(ask, read, upload, None, progress)
        store = functools.partial(
            rate_store.store,
            found=found,
            data=upload.data,
            filename=upload.filename,
            account_id=account_id,
            actor=actor,
        )
        return await (ask.db.rehearse if rehearse else ask.db.write)(store)


async def list_batches(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    wanted = page(fields, 20)
    fields.done()
    answer = await ask.db.read(lambda conn: import_store.batches(conn, wanted))
    if not answer["total"]:
        answer["hint"] = "Nothing was imported yet; import_broker_csv and import_bank_statement read files."
    return reply(answer)


async def progress(ask: RestCall) -> web.StreamResponse:
    """How far the import with this idempotency key has come; 404 when there is none under way."""
    found = ask.backend.reading.get(ask.path["key"])
    if found is None:
        raise NotFound("no_such_import", "No import with this key is being read.")
    done, total = found
    words = f"{100 * done // max(total, 1)} % of the import done"
    return reply({"done": done, "total": total, "message": words})


ROUTES = (
    Route("GET", "/import/progress/{key}", READ, progress),
    Route("POST", "/import/csv", WRITE, import_csv, BODY),
    Route("POST", "/import/csv/preview", WRITE, preview_csv, BODY),
    Route("POST", "/import/pdf", WRITE, import_pdf, BODY),
    Route("POST", "/import/pdf/preview", WRITE, preview_pdf, BODY),
    Route("GET", "/import/batches", READ, list_batches),
)
