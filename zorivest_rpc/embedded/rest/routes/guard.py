"""`/mcp-guard`: the circuit breaker's state, its switch, and its question."""

from __future__ import annotations

from aiohttp import web

from ...guard import LONGEST_WAIT, PERSON, TOOL
from ...values.fields import Fields
from ..routing import ADMIN, OPEN, READ, WRITE, RestCall, Route, reply

__all__ = ["ROUTES"]

_PARTIES = (PERSON, TOOL)


async def status(ask: RestCall) -> web.StreamResponse:
    return reply(ask.backend.guard.status())


async def watch(ask: RestCall) -> web.StreamResponse:
    """The state; with `after` and `wait`, not before the version is another than `after` or `wait` seconds are over."""
    after, seconds = ask.query.get("after"), ask.query.get("wait", "")
    if after and seconds.isascii() and seconds.isdigit():
        backend = ask.backend
        await backend.guard.wait(after, min(float(seconds[:4]), LONGEST_WAIT), backend.stop_requested)
    return await status(ask)


async def configure(ask: RestCall) -> web.StreamResponse:
    fields = Fields(await ask.json())
    wanted = {
        "is_enabled": fields.flag("is_enabled", None),
        "calls_per_minute_limit": fields.integer("calls_per_minute_limit", None, least=1, most=10_000),
        "calls_per_hour_limit": fields.integer("calls_per_hour_limit", None, least=1, most=100_000),
    }
    fields.done()
    changes = {name: value for name, value in wanted.items() if value is not None}
    if changes:
        await ask.backend.guard.configure(ask.db, ask.session.actor, changes)
    return await status(ask)


async def lock(ask: RestCall) -> web.StreamResponse:
    fields = Fields(await ask.json())
    reason = fields.text("reason", "manual", least=1, most=100)
    by = fields.choice("by", _PARTIES, TOOL)
    fields.done()
    await ask.backend.guard.lock(ask.db, ask.session.actor, reason, by)
    await ask.backend.mark()  # a copy of the database from before the lock is older than the vault from here on
    return await status(ask)


async def unlock(ask: RestCall) -> web.StreamResponse:
    """`locked_at` releases that lock alone: a person who agreed to one has not seen a newer one."""
    fields = Fields(await ask.json())
    by = fields.choice("by", _PARTIES, TOOL)
    locked_at = fields.moment("locked_at", None)
    fields.done()
    await ask.backend.guard.unlock(ask.db, ask.session.actor, by, locked_at)
    return await status(ask)


async def check(ask: RestCall) -> web.StreamResponse:
    verdict = await ask.backend.guard.check(ask.db, ask.session.actor)
    refused = {} if verdict.allowed else {"locked_by": verdict.locked_by}
    return reply({"allowed": verdict.allowed, "reason": verdict.reason, **refused})


ROUTES = (
    Route("GET", "/mcp-guard/status", OPEN, watch),
    Route("PUT", "/mcp-guard/config", ADMIN, configure),
    Route("POST", "/mcp-guard/lock", READ, lock),  # a brake needs no permission
    Route("POST", "/mcp-guard/unlock", WRITE, unlock),
    Route("POST", "/mcp-guard/check", READ, check),
)
