"""What a request selects: a period in the days of the trader's time zone, and an account or all."""

from __future__ import annotations

from datetime import tzinfo
from zoneinfo import ZoneInfo

from ..fields import Fields
from ..period import Period, parse_period
from ..results import Scope
from ..routing import Ask

__all__ = ["period_of", "scope_of", "zone_of"]


async def zone_of(ask: Ask) -> tzinfo:
    """Where the trader's days begin and end: the zone that schedules run in."""
    return ZoneInfo(await ask.backend.settings().value("scheduling.default_timezone"))


async def period_of(ask: Ask, default: str) -> Period:
    """The query's period; 422 outside the grammar."""
    return parse_period(ask.query.get("period") or default, zone=await zone_of(ask))


async def scope_of(ask: Ask, default: str) -> Scope:
    """The query's account, or all, and its period."""
    fields = Fields(ask.query)
    account_id = fields.text("account_id", None, most=128)
    fields.done()
    return Scope(account_id or None, await period_of(ask, default))
