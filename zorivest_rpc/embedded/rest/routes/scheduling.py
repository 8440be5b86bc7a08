"""`/scheduling`: policies, their runs, and the schedule. Approving needs a token that no route gives out."""

from __future__ import annotations

import uuid
from typing import Any

import orjson
from aiohttp import web

from ...errors import Forbidden, Invalid, NotFound
from ...scheduling import mail, policies, runs
from ...scheduling.budget import note
from ...scheduling.document import policy_schema, step_type_views
from ...values.fields import Fields
from ..routing import ADMIN, READ, WRITE, RestCall, Route, no_content, reply

__all__ = ["ROUTES"]

_SMALL = 16 * 1024
_DOCUMENT = 512 * 1024


async def create_policy(ask: RestCall) -> web.StreamResponse:
    document = await _document(ask)
    return reply(await ask.backend.scheduling.create(document, _actor(ask)), 201)


async def list_policies(ask: RestCall) -> web.StreamResponse:
    fields = Fields(ask.query)
    enabled_only = fields.flag("enabled_only", False)
    fields.done()
    now = ask.backend.scheduling.now()
    rows = await ask.db.read(lambda conn: policies.every(conn, enabled_only=enabled_only))
    return reply({"policies": [policies.view(row, now) for row in rows], "total": len(rows)})


async def show_schema(ask: RestCall) -> web.StreamResponse:
    return reply(policy_schema())


async def show_policy(ask: RestCall) -> web.StreamResponse:
    row = await ask.db.read(lambda conn: policies.find(conn, ask.path["policy_id"]))
    return reply(policies.view(row, ask.backend.scheduling.now()))


async def replace_policy(ask: RestCall) -> web.StreamResponse:
    document = await _document(ask)
    return reply(await ask.backend.scheduling.update(ask.path["policy_id"], document, _actor(ask)))


async def delete_policy(ask: RestCall) -> web.StreamResponse:
    await ask.backend.scheduling.delete(ask.path["policy_id"], _actor(ask))
    return no_content()


async def approve_policy(ask: RestCall) -> web.StreamResponse:
    """For the person at the terminal; a tool's request is refused whatever token it brings."""
    if "X-MCP-Guard" in ask.request.headers:
        raise Forbidden("approval_by_person_only", "No tool can approve a policy: zorivest-rpc approve POLICY does.")
    fields = Fields(await ask.json())
    seen = fields.text("content_hash", None, most=64)
    fields.done()
    token = ask.request.headers.get("X-Approval-Token")
    return reply(await ask.backend.scheduling.approve(ask.path["policy_id"], token, seen))


async def run_policy(ask: RestCall) -> web.StreamResponse:
    fields = Fields({**ask.query, **await ask.json()})
    dry_run = fields.flag("dry_run", False)
    fields.done()
    trigger = "mcp" if _from_mcp(ask) else "manual"
    found = await ask.backend.scheduling.run(
        ask.path["policy_id"], dry_run=dry_run, trigger_type=trigger, actor=_actor(ask), key=_key(ask)
    )
    return reply(found)


async def run_progress(ask: RestCall) -> web.StreamResponse:
    """How far the run has come that the request with this idempotency key started; 404 when none is under way."""
    return reply(ask.backend.scheduling.progress(ask.path["key"]))


async def withdraw_request(ask: RestCall) -> web.StreamResponse:
    return reply(await ask.backend.scheduling.withdraw(ask.path["key"][:64], _actor(ask)))


async def policy_runs(ask: RestCall) -> web.StreamResponse:
    policy_id, limit = ask.path["policy_id"], _limit(ask)
    found = await ask.db.read(lambda conn: runs.history(conn, policy_id, limit))
    if not found:  # of a policy that was deleted the history remains
        await ask.db.read(lambda conn: policies.find(conn, policy_id))
    return reply(found)


async def all_runs(ask: RestCall) -> web.StreamResponse:
    limit = _limit(ask)
    return reply(await ask.db.read(lambda conn: runs.history(conn, None, limit)))


async def show_run(ask: RestCall) -> web.StreamResponse:
    return reply(await ask.backend.scheduling.show(ask.path["run_id"]))


async def cancel_run(ask: RestCall) -> web.StreamResponse:
    run_id = ask.path["run_id"]
    try:
        run_id = str(uuid.UUID(run_id))
    except ValueError:
        raise Invalid({"run_id": ["must be a UUID"]}) from None
    return reply(await ask.backend.scheduling.cancel(run_id, _actor(ask)))


async def step_types(ask: RestCall) -> web.StreamResponse:
    return reply(step_type_views())


async def set_mail_server(ask: RestCall) -> web.StreamResponse:
    """The password goes in and never comes out; sending none keeps the stored one for the same server and user."""
    body = await ask.json()
    server = mail.read_fields(body, ask.backend.fields())
    actor, now = _actor(ask), ask.backend.scheduling.now()

    def job(conn: Any) -> mail.MailServer:
        kept = mail.keep_password(conn, server, "password" in body)
        mail.save(conn, kept, now)
        note(conn, now, actor, "email_provider.update", "email_provider", kept.host, username=kept.username)
        return kept

    return reply((await ask.db.write(job)).view())


async def remove_mail_server(ask: RestCall) -> web.StreamResponse:
    actor, now = _actor(ask), ask.backend.scheduling.now()

    def job(conn: Any) -> None:
        server = mail.load(conn)
        if server is None:
            raise NotFound("mail server", "email")
        mail.save(conn, None, now)
        note(conn, now, actor, "email_provider.delete", "email_provider", server.host)

    await ask.db.write(job)
    return no_content()


async def _document(ask: RestCall) -> Any:
    """`policy_json`, an object or its text."""
    value = (await ask.json()).get("policy_json")
    if isinstance(value, str):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            raise Invalid({"policy_json": ["is not JSON"]}) from None
    if value is None:
        raise Invalid({"policy_json": ["is required"]})
    return value


def _limit(ask: RestCall) -> int:
    fields = Fields(ask.query)
    limit = fields.integer("limit", 20, least=1, most=100)
    fields.done()
    return limit


def _key(ask: RestCall) -> str:
    return ask.request.headers.get("Idempotency-Key", "")[:64]


def _from_mcp(ask: RestCall) -> bool:
    """Only tools ask the guard, with the call itself."""
    return ask.request.headers.get("X-MCP-Guard") == "check"


def _actor(ask: RestCall) -> str:
    return f"mcp:{ask.session.key_id}" if _from_mcp(ask) else ask.session.actor


ROUTES = (
    Route("POST", "/scheduling/policies", WRITE, create_policy, _DOCUMENT),
    Route("GET", "/scheduling/policies", READ, list_policies),
    Route("GET", "/scheduling/policies/schema", READ, show_schema),
    Route("GET", "/scheduling/policies/{policy_id}", READ, show_policy),
    Route("PUT", "/scheduling/policies/{policy_id}", WRITE, replace_policy, _DOCUMENT),
    Route("DELETE", "/scheduling/policies/{policy_id}", WRITE, delete_policy),
    Route("POST", "/scheduling/policies/{policy_id}/approve", ADMIN, approve_policy, _SMALL),
    Route("POST", "/scheduling/policies/{policy_id}/run", WRITE, run_policy, _SMALL),
    Route("GET", "/scheduling/policies/{policy_id}/runs", READ, policy_runs),
    Route("GET", "/scheduling/runs", READ, all_runs),
    Route("GET", "/scheduling/runs/{run_id}", READ, show_run),
    Route("POST", "/scheduling/runs/{run_id}/cancel", WRITE, cancel_run, _SMALL),
    Route("GET", "/scheduling/progress/{key}", READ, run_progress),
    Route("POST", "/scheduling/progress/{key}/cancel", WRITE, withdraw_request, _SMALL),
    Route("GET", "/scheduling/step-types", READ, step_types),
    Route("PUT", "/scheduling/email", ADMIN, set_mail_server, _SMALL),
    Route("DELETE", "/scheduling/email", ADMIN, remove_mail_server),
)
