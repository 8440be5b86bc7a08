"""`/demo`: the demo data, loaded and removed as a whole."""

from __future__ import annotations

from datetime import UTC, datetime

from aiohttp import web

from .. import demo
from ..demo_data import tell
from ..routing import ADMIN, READ, Ask, Route, reply

__all__ = ["ROUTES"]


async def load(ask: Ask) -> web.StreamResponse:
    now = datetime.now(UTC)
    story = await ask.backend.work("figures", lambda: tell(now.date()))
    picture = await ask.backend.work("pictures", lambda: demo.chart(story))
    return reply(await ask.db.write(lambda conn: demo.load(conn, story, picture, now)), 201)


async def status(ask: Ask) -> web.StreamResponse:
    count = await ask.db.read(demo.loaded)
    return reply({"loaded": count > 0, "trades": count})


async def remove(ask: Ask) -> web.StreamResponse:
    return reply(await ask.db.write(demo.remove))


ROUTES = (
    Route("POST", "/demo", ADMIN, load),
    Route("GET", "/demo", READ, status),
    Route("DELETE", "/demo", ADMIN, remove),
)
