"""`/backups`: which there are, and one more. Restoring is for the command line: no backend may run meanwhile."""

from __future__ import annotations

import asyncio

from aiohttp import web

from ...database import audit
from ...disk import backups
from ..routing import ADMIN, READ, RestCall, Route, reply

__all__ = ["ROUTES"]

_SMALL = 1024


async def list_backups(ask: RestCall) -> web.StreamResponse:
    found = await asyncio.to_thread(backups.list_backups, ask.backend.directory)
    items = [backup.view() for backup in found]
    return reply({"items": items, "total": len(items), "last_error": ask.backend.keeper().last_error})


async def make_backup(ask: RestCall) -> web.StreamResponse:
    made = await ask.backend.keeper().make("manual")
    actor = ask.session.actor
    await ask.db.write(lambda conn: audit.record(conn, actor, "backup.create", "backup", made.name))
    return reply(made.view(), 201)


ROUTES = (
    Route("GET", "/backups", READ, list_backups),
    Route("POST", "/backups", ADMIN, make_backup, _SMALL),
)
