"""`/confirmation-tokens`: permission for one destructive action."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from aiohttp import web

from .. import audit
from ..confirmations import TOKEN_SECONDS
from ..fields import Fields
from ..routing import READ, Ask, Route, reply

__all__ = ["ROUTES"]

_SMALL = 64 * 1024


async def issue(ask: Ask) -> web.StreamResponse:
    fields = Fields(await ask.json())
    action = fields.text("action", least=1, most=100)
    summary = fields.text("params_summary", "", most=2000)
    params_hash = fields.text("params_hash", None, least=1, most=200)
    fields.done()
    token = ask.backend.confirmations.issue(action, ask.session.id, params_hash)
    return reply(
        {
            "token": token,
            "action": action,
            "params_summary": summary,
            "expires_in_seconds": TOKEN_SECONDS,
            "expires_at": datetime.now(UTC) + timedelta(seconds=TOKEN_SECONDS),
        },
        201,
    )


async def consume(ask: Ask) -> web.StreamResponse:
    """Spends a token; the answer is 200 either way and says why not."""
    fields = Fields(await ask.json())
    token = fields.text("token", least=1, most=200)
    action = fields.text("action", least=1, most=100)
    params_hash = fields.text("params_hash", None, least=1, most=200)
    fields.done()
    session = ask.session
    reason = ask.backend.confirmations.consume(token, action, session.id, params_hash)
    if reason == "ok":
        await ask.db.write(lambda conn: audit.record(conn, session.actor, "confirmation.consume", "action", action))
    return reply({"valid": reason == "ok", "reason": reason})


ROUTES = (
    Route("POST", "/confirmation-tokens", READ, issue, _SMALL),
    Route("POST", "/confirmation-tokens/consume", READ, consume, _SMALL),
)
