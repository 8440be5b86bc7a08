"""`/auth`: unlock, lock, the API keys and the passphrase."""

from __future__ import annotations

from aiohttp import web

from zorivest_rpc.proof import PROOF_PATH, is_challenge, prove

from ...errors import Invalid, Unavailable
from ...values.fields import Fields
from ...vault.vault import SHORTEST, Role
from ..routing import ADMIN, OPEN, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]

_SMALL = 16 * 1024


async def unlock(ask: RestCall) -> web.StreamResponse:
    """Exchange an API key, or the owner's passphrase, for a session; works while the database is open, so that sessions
    can be renewed."""
    body = await ask.json()
    fields = Fields(body)
    by_passphrase = body.get("passphrase") is not None and body.get("api_key") is None
    secret = fields.text("passphrase" if by_passphrase else "api_key", least=1, most=512)
    fields.done()
    ask.backend.last_used = ask.backend.clock()
    enter = ask.backend.unlock_by_passphrase if by_passphrase else ask.backend.unlock
    token, session, lasts = await enter(secret)
    return reply(
        {
            "session_token": token,
            "role": session.role.label,
            "scopes": session.role.scopes,
            "expires_in": lasts,
            "inline_guard": True,
        }
    )


async def show_proof(ask: RestCall) -> web.StreamResponse:
    """The answer to a challenge, for a server that wants to know whether this is the backend of its directory."""
    challenge = ask.query.get("challenge", "")
    if not is_challenge(challenge):
        raise Invalid({"challenge": ["must be 64 hexadecimal digits in lower case"]})
    backend = ask.backend
    if not backend.proof_place:
        raise Unavailable("not_listening", "This backend does not listen at an address of its own.")
    return reply({"proof": prove(backend.proof_secret, challenge, backend.proof_place)})


async def lock(ask: RestCall) -> web.StreamResponse:
    await ask.backend.lock(ask.session.actor)
    return reply({"status": "locked"})


async def status(ask: RestCall) -> web.StreamResponse:
    """Open without a session, so the role is the caller's own and only shown with a valid token."""
    session = ask.optional_session()
    return reply(
        {
            "locked": ask.backend.locked,
            "active_sessions": ask.backend.sessions.active(),
            "role": session.role.label if session is not None else None,
        }
    )


async def create_key(ask: RestCall) -> web.StreamResponse:
    """The answer is the only place where the new key is ever shown."""
    body = await ask.json()
    fields = Fields({**body, "label": body.get("label") or body.get("name")})
    label = fields.text("label", least=1, most=100)
    role = fields.choice("role", [role.label for role in Role], Role.READ_WRITE.label)
    expires_in = fields.integer("expires_in", None, least=1, most=10 * 366 * 86_400)
    fields.done()
    entry, raw = await ask.backend.add_key(ask.session.actor, label, Role.from_label(role), expires_in)
    return reply({**entry.view(), "raw_key": raw}, 201)


async def list_keys(ask: RestCall) -> web.StreamResponse:
    return reply([entry.view() for entry in ask.backend.vault.active()])


async def revoke_key(ask: RestCall) -> web.StreamResponse:
    await ask.backend.revoke_key(ask.session.actor, ask.path["key_id"])
    return no_content()


async def show_passphrase(ask: RestCall) -> web.StreamResponse:
    held = ask.backend.vault.passphrase
    return reply({"set": held is not None, **(held.view() if held is not None else {})})


async def set_passphrase(ask: RestCall) -> web.StreamResponse:
    """A second way to the same database, for the person who owns it; the answer never repeats it."""
    fields = Fields(await ask.json())
    passphrase = fields.text("passphrase", least=SHORTEST, most=512)
    fields.done()
    held = await ask.backend.set_passphrase(ask.session.actor, passphrase)
    return reply({"set": True, **held.view()})


async def remove_passphrase(ask: RestCall) -> web.StreamResponse:
    await ask.backend.remove_passphrase(ask.session.actor)
    return no_content()


ROUTES = (
    Route("POST", "/auth/unlock", OPEN, unlock, _SMALL),
    Route("POST", "/auth/lock", ADMIN, lock, _SMALL),
    Route("GET", "/auth/status", OPEN, status),
    Route("GET", PROOF_PATH, OPEN, show_proof),
    Route("POST", "/auth/keys", ADMIN, create_key, _SMALL),
    Route("GET", "/auth/keys", ADMIN, list_keys),
    Route("DELETE", "/auth/keys/{key_id}", ADMIN, revoke_key),
    Route("GET", "/auth/passphrase", ADMIN, show_passphrase),
    Route("PUT", "/auth/passphrase", ADMIN, set_passphrase, _SMALL),
    Route("DELETE", "/auth/passphrase", ADMIN, remove_passphrase),
)
