"""Estimated tax payments that were made, as the taxpayer recorded them."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, select

from ...database import audit
from ...database.schema.books import tax_payments
from ..model import Quarter
from ..quarterly import TaxPayment

__all__ = ["book", "list_payments"]


def list_payments(conn: Connection, year: int) -> list[TaxPayment]:
    """The payments for a year, in the order they were recorded."""
    rows = conn.execute(select(tax_payments).where(tax_payments.c.tax_year == year).order_by(tax_payments.c.id))
    return [TaxPayment(quarter=Quarter(row.quarter), amount=row.amount, paid_on=row.paid_on) for row in rows]


def book(conn: Connection, year: int, payment: TaxPayment, actor: str) -> None:
    quarter = payment.quarter.value
    conn.execute(
        tax_payments.insert().values(
            tax_year=year,
            quarter=quarter,
            amount=payment.amount,
            paid_on=payment.paid_on,
            created_at=datetime.now(UTC),
        )
    )
    audit.record(conn, actor, "tax_payment.record", "tax_payment", f"{year}-{quarter}", amount=str(payment.amount))
