"""`/settings`: preferences as strings, typed under `/settings/resolved`, written all or nothing."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ...errors import NotFound
from ...settings import spec_of
from ..routing import READ, WRITE, RestCall, Route, reply

__all__ = ["ROUTES"]


async def list_all(ask: RestCall) -> web.StreamResponse:
    found = await ask.backend.settings().read_all()
    return reply({key: value for key, (value, _) in sorted(found.items())})


async def get_resolved(ask: RestCall) -> web.StreamResponse:
    found = await ask.backend.settings().read_all()
    return reply({key: _render_setting(key, value, source) for key, (value, source) in sorted(found.items())})


async def show(ask: RestCall) -> web.StreamResponse:
    key = ask.path["key"]
    spec = spec_of(key)
    if spec is None:
        raise NotFound("setting", key, "GET /settings lists them all.")
    value, _ = (await ask.backend.settings().read_all()).get(key, (spec.default, "hardcoded"))
    return reply({"key": key, "value": value, "value_type": spec.type})


async def update(ask: RestCall) -> web.StreamResponse:
    changes = await ask.json()
    count = await ask.backend.settings().update(changes, ask.session.actor)
    if any(key.startswith("logging.") for key in changes):
        await ask.backend.apply_logging()
    return reply({"status": "updated", "count": count})


def _render_setting(key: str, value: str, source: str) -> dict[str, Any]:
    spec = spec_of(key)
    assert spec is not None  # only known keys are resolved
    return {"key": key, "value": spec.parse(value), "value_type": spec.type, "source": source}


ROUTES = (
    Route("GET", "/settings", READ, list_all),
    Route("PUT", "/settings", WRITE, update),
    Route("GET", "/settings/resolved", READ, get_resolved),
    Route("GET", "/settings/{key}", READ, show),
)
