"""Before a report looks at the journal, what is worked out only on demand is worked out.

Expired options are settled with each read; tax lots follow the trades with each tax question. A
statement of a report is such a question too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection

from ..database.engine import Database
from ..journal.expiry import settle_due
from ..tax.model import TaxError
from ..tax.stored import profiles as tax_profiles
from ..tax.stored import sync as tax_store
from .step import StepFailed

__all__ = ["bring_up_to_date"]

_LOTS = re.compile(r"(?i)\btax_(lots|wash_matches)\b")


async def bring_up_to_date(db: Database, statements: Iterable[str], now: datetime) -> None:
    """Make true what the statements will read; costs a write only when something changed since."""
    await settle_due(db)
    if not any(_LOTS.search(statement) for statement in statements):
        return

    def due(conn: Connection) -> bool:
        return tax_store.is_due(conn, tax_store.rules_of(conn, tax_profiles.load(conn, now)))

    def sync(conn: Connection) -> None:
        tax_store.sync(conn, tax_store.rules_of(conn, tax_profiles.load(conn, now)), now)

    try:
        if await db.read(due):
            await db.write(sync)
    except TaxError as exc:
        raise StepFailed(f"The tax lots cannot be brought up to date: {exc.text}", retry=False) from None
