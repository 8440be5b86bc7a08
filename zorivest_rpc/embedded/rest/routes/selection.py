"""What a request selects: a period in the days of the journal's time zone, an account or all, and a currency."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from ...analytics.stored.results import Scope
from ...journal.accounts import find
from ...tax.dates import EXCHANGE_ZONE
from ...values.fields import Fields
from ...values.inputs import currency
from ...values.period import Period, parse_period
from ..routing import RestCall

__all__ = ["currency_for", "period_of", "scope_of", "tell_period", "zone_of"]


async def zone_of(ask: RestCall) -> tzinfo:
    """Where the journal's days begin and end: `journal.timezone`, else the zone that schedules run in if the user set
    one, else the exchange's, whose days taxes count by."""
    settings = ask.backend.settings()
    chosen = await settings.value("journal.timezone")
    if not chosen:
        schedules, source = (await settings.read_all())["scheduling.default_timezone"]
        chosen = EXCHANGE_ZONE if source == "hardcoded" else schedules
    return ZoneInfo(chosen)


async def period_of(ask: RestCall, default: str) -> Period:
    """The query's period; 422 outside the grammar."""
    return parse_period(ask.query.get("period") or default, zone=await zone_of(ask))


def tell_period(period: Period) -> dict[str, Any]:
    """Which zone the days of an answer's period have, and what that means beside the tax tools."""
    told = {"period_timezone": str(period.zone)}
    if str(period.zone) != EXCHANGE_ZONE:
        told["period_note"] = (
            f"Days begin and end in {period.zone}, as the journal is set; tax answers count by {EXCHANGE_ZONE} trade "
            "dates, so a trade around midnight can be in another day or year there."
        )
    return told


async def scope_of(ask: RestCall, default: str) -> Scope:
    """The query's account, or all, its period, and the currency of the sums."""
    fields = Fields(ask.query)
    account_id = fields.text("account_id", None, most=128) or None
    wanted = currency(fields)
    fields.done()
    return Scope(account_id, await period_of(ask, default), wanted or await currency_for(ask, account_id))


async def currency_for(ask: RestCall, account_id: str | None) -> str:
    """What sums are told in: the account's currency where there is one account, else the journal's."""
    if account_id is not None:
        row = await ask.db.read(lambda conn: find(conn, account_id))
        if row is not None:
            return str(row["currency"])
    return str(await ask.backend.settings().value("journal.currency"))
