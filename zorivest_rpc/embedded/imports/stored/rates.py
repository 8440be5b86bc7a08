"""A file of exchange rates on its way into the journal, and what the import answers."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from ...journal.exchange import Rate, add_rates
from ..collect import outcome
from ..rates_csv import RatesImport
from ..source import sha256
from .trades import date_range, new_batch_id, record_batch, render_errors, same_file

__all__ = ["store"]


def store(
    conn: Connection, found: RatesImport, data: bytes, filename: str, account_id: str, actor: str
) -> dict[str, Any]:
    """Keep the rates of a file; the answer has the shape of every import."""
    digest = sha256(data)
    counts = add_rates(conn, (Rate(one.day, one.base, one.quote, one.rate) for one in found.rates), found.layout, actor)
    days = [one.day for one in found.rates]
    parsed = found.total_rows - found.error_rows
    is_known = same_file(conn, account_id, digest)
    warnings = [{"code": "same_file", "message": "This very file was imported before."}] if is_known else []
    answer: dict[str, Any] = {
        "batch_id": new_batch_id(),
        "status": outcome(parsed, found.error_rows).value,
        "kind": "exchange_rates",
        "broker": "ecb" if found.layout == "ecb_rates" else "rates",
        "detected_by": "header",
        "detected_format": found.layout,
        "account_id": account_id,
        "total_rows": found.total_rows,
        "parsed_rows": parsed,
        "imported": counts["added"] + counts["changed"],
        "duplicates_skipped": counts["unchanged"],
        "fees_updated": 0,
        "skipped_rows": 0,
        "error_rows": found.error_rows,
        "errors": render_errors(found.errors),
        "warnings": warnings,
        "date_range": date_range(min(days, default=None), max(days, default=None)),
        "symbols": [],
        "preview": [],
        "rates": counts,
        "currencies": sorted({one.base for one in found.rates} | {one.quote for one in found.rates}),
    }
    record_batch(
        conn,
        answer,
        kind="rates",
        file_name=filename,
        file_sha256=digest,
        duplicates=counts["unchanged"],
        updated=counts["changed"],
        broker=answer["broker"],
        first_day=min(days, default=None),
        last_day=max(days, default=None),
        actor=actor,
    )
    return answer
