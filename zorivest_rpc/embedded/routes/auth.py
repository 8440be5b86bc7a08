"""`/auth`: unlock, lock, and the API keys."""

from __future__ import annotations

from aiohttp import web

from ..fields import Fields
from ..routing import ADMIN, OPEN, READ, Ask, Route, no_content, reply
from ..vault import Role

__all__ = ["ROUTES"]

_SMALL = 16 * 1024


async def unlock(ask: Ask) -> web.StreamResponse:
    """Exchange an API key for a session; works while the database is open, so that sessions can be renewed."""
    fields = Fields(await ask.json())
    api_key = fields.text("api_key", least=1, most=512)
    fields.done()
    ask.backend.last_used = ask.backend.clock()
    token, session, lasts = await ask.backend.unlock(api_key)
    return reply(
        {
            "session_token": token,
            "role": session.role.label,
            "scopes": session.role.scopes,
            "expires_in": lasts,
            "inline_guard": True,
        }
    )


async def lock(ask: Ask) -> web.StreamResponse:
    await ask.backend.lock(ask.session.actor)
    return reply({"status": "locked"})


async def status(ask: Ask) -> web.StreamResponse:
    """Open to everybody, so the role is the caller's own and only shown with a valid token."""
    session = ask.optional_session()
    return reply(
        {
            "locked": ask.backend.locked,
            "active_sessions": ask.backend.sessions.active(),
            "role": session.role.label if session is not None else None,
        }
    )


async def create_key(ask: Ask) -> web.StreamResponse:
    """The answer is the only place where the new key is ever shown."""
    body = await ask.json()
    fields = Fields({**body, "label": body.get("label") or body.get("name")})
    label = fields.text("label", least=1, most=100)
    role = fields.choice("role", [role.label for role in Role], Role.READ_WRITE.label)
    expires_in = fields.integer("expires_in", None, least=1, most=10 * 366 * 86_400)
    fields.done()
    entry, raw = await ask.backend.add_key(ask.session.actor, label, Role.from_label(role), expires_in)
    return reply({**entry.view(), "raw_key": raw}, 201)


async def list_keys(ask: Ask) -> web.StreamResponse:
    return reply([entry.view() for entry in ask.backend.vault.active()])


async def revoke_key(ask: Ask) -> web.StreamResponse:
    await ask.backend.revoke_key(ask.session.actor, ask.path["key_id"])
    return no_content()


ROUTES = (
    Route("POST", "/auth/unlock", OPEN, unlock, _SMALL),
    Route("POST", "/auth/lock", READ, lock, _SMALL),
    Route("GET", "/auth/status", OPEN, status),
    Route("POST", "/auth/keys", ADMIN, create_key, _SMALL),
    Route("GET", "/auth/keys", ADMIN, list_keys),
    Route("DELETE", "/auth/keys/{key_id}", ADMIN, revoke_key),
)
