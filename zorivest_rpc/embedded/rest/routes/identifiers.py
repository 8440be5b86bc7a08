"""`/identifiers`: which tickers CUSIP, ISIN, SEDOL and FIGI codes stand for."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ...errors import Invalid
from ...market.identifiers import Asked, resolve
from ...values.identifiers import IdentifierType
from ..routing import READ, RestCall, Route, reply
from .market_data import market_of

__all__ = ["ROUTES"]

_MOST = 1000
_LONGEST = 64


async def resolve_all(ask: RestCall) -> web.StreamResponse:
    """A bare list, or one under `identifiers`, of `{id_type, id_value}` or of codes whose shape tells their type."""
    body = await ask.any_json()
    items = body.get("identifiers") if isinstance(body, dict) else body
    if not isinstance(items, list):
        raise Invalid({"identifiers": ["must be a list of {id_type, id_value}"]})
    if len(items) > _MOST:
        raise Invalid({"identifiers": [f"must have at most {_MOST} items"]})
    errors: dict[str, list[str]] = {}
    asked = [_read(item, f"identifiers[{place}]", errors) for place, item in enumerate(items)]
    if errors:
        raise Invalid(errors)
    return reply(await resolve(ask.db, market_of(ask), asked, ask.backend.outbound.now()))


def _read(item: Any, where: str, errors: dict[str, list[str]]) -> Asked:
    if isinstance(item, str):
        item = {"id_value": item}
    if not isinstance(item, dict):
        errors[where] = ["must be an object with id_type and id_value"]
        return Asked(None, "")
    value, kind = item.get("id_value"), item.get("id_type")
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _LONGEST:
        errors[f"{where}.id_value"] = [f"must be a code of at most {_LONGEST} characters"]
        return Asked(None, "")
    if kind is None:
        return Asked(None, value)
    try:
        return Asked(IdentifierType(str(kind).strip().lower()), value)
    except ValueError:
        errors[f"{where}.id_type"] = [f"must be one of {', '.join(known.value for known in IdentifierType)}"]
        return Asked(None, "")


ROUTES = (Route("POST", "/identifiers/resolve", READ, resolve_all),)
