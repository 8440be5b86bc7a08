"""`/demo`: the demo data, loaded and removed as a whole."""

from __future__ import annotations

from aiohttp import web

from ...demo import load as demo
from ..routing import ADMIN, READ, RestCall, Route, reply

__all__ = ["ROUTES"]


async def load(ask: RestCall) -> web.StreamResponse:
    return reply(await demo.load_into(ask.backend), 201)


async def status(ask: RestCall) -> web.StreamResponse:
    count = await ask.db.read(demo.count_trades)
    return reply({"loaded": count > 0, "trades": count})


async def remove(ask: RestCall) -> web.StreamResponse:
    return reply(await demo.remove_from(ask.backend))


ROUTES = (
    Route("POST", "/demo", ADMIN, load),
    Route("GET", "/demo", READ, status),
    Route("DELETE", "/demo", ADMIN, remove),
)
