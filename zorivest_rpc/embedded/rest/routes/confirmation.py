"""`/confirmation-tokens`: a fresh token for one confirmed action, which the MCP server binds and spends."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta

from aiohttp import web

from ...values.fields import Fields
from ..routing import READ, RestCall, Route, reply

__all__ = ["ROUTES"]

_SECONDS = 60
_SMALL = 64 * 1024


async def issue(ask: RestCall) -> web.StreamResponse:
    fields = Fields(await ask.json())
    action = fields.text("action", least=1, most=100)
    summary = fields.text("params_summary", "", most=2000)
    fields.text("params_hash", None, least=1, most=200)
    fields.done()
    return reply(
        {
            "token": "ctk_" + secrets.token_urlsafe(16),
            "action": action,
            "params_summary": summary,
            "expires_in_seconds": _SECONDS,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_SECONDS),
        },
        201,
    )


ROUTES = (Route("POST", "/confirmation-tokens", READ, issue, _SMALL),)
