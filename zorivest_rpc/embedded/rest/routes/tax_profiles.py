"""`/tax/profiles`: who the taxpayer is, year by year."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from aiohttp import web
from sqlalchemy import Connection

from ...errors import NotFound
from ...tax.model import DISCLAIMER, CostBasisMethod, FilingStatus, TaxError, WashSaleMethod, parse
from ...tax.stored import profiles as tax_profiles
from ...tax.stored.profiles import AMOUNTS, FLAGS
from ...values.answers import to_json
from ...values.fields import Fields
from ..routing import ADMIN, READ, RestCall, Route, reply

__all__ = ["FIRST_YEAR", "LAST_YEAR", "ROUTES", "member"]

E = TypeVar("E", bound=Enum)

FIRST_YEAR, LAST_YEAR = 1990, 2100
_LARGEST = 10**12


async def show_profile(ask: RestCall) -> web.StreamResponse:
    year = _path_year(ask)
    now = datetime.now(UTC)

    def job(conn: Connection) -> dict[str, Any]:
        profiles = tax_profiles.load(conn, now)
        if not profiles.is_known(year):
            raise NotFound("tax profile", year)
        return {**to_json(profiles.of(year)), "disclaimer": DISCLAIMER}

    return reply(await ask.db.read(job))


async def save_profile(ask: RestCall) -> web.StreamResponse:
    year, actor = _path_year(ask), ask.session.actor
    fields = Fields(await ask.json())
    wanted: dict[str, Any] = {
        "filing_status": member(fields, "filing_status", FilingStatus, None),
        "wash_sale_method": member(fields, "wash_sale_method", WashSaleMethod, None),
        "default_cost_basis": member(fields, "default_cost_basis", CostBasisMethod, None),
        "state": fields.text("state", None, most=2),
        "federal_bracket": fields.decimal("federal_bracket", None, least=0, most=1),
        "state_tax_rate": fields.decimal("state_tax_rate", None, least=0, most=1),
        **{name: fields.decimal(name, None, least=0, most=_LARGEST) for name in AMOUNTS},
        **{name: fields.flag(name, None) for name in FLAGS},
    }
    if wanted["state"] is not None and not re.fullmatch(r"|[A-Za-z]{2}", wanted["state"]):
        fields.wrong("state", "must be two letters")
    fields.done()
    changes = {name: value for name, value in wanted.items() if value is not None}
    if "state" in changes:
        changes["state"] = changes["state"].upper()
    status = await ask.db.write(lambda conn: tax_profiles.save(conn, year, changes, actor))
    return reply({"status": status, "tax_year": year, "disclaimer": DISCLAIMER})


def _path_year(ask: RestCall) -> int:
    fields = Fields({"tax_year": ask.path["year"]})
    year = fields.integer("tax_year", least=FIRST_YEAR, most=LAST_YEAR)
    fields.done()
    return year


def member(fields: Fields, name: str, kind: type[E], *default: E | None) -> Any:
    """A member of a closed set in any spelling in use."""
    text = fields.text(name, default[0], most=64) if default else fields.text(name, least=1, most=64)
    if not isinstance(text, str):
        return text
    try:
        return parse(kind, text)
    except TaxError as exc:
        if name not in fields.errors:
            fields.wrong(name, exc.text)
        return default[0] if default else next(iter(kind))


ROUTES = (
    Route("GET", "/tax/profiles/{year}", READ, show_profile),
    Route("PUT", "/tax/profiles/{year}", ADMIN, save_profile),
)
