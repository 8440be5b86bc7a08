"""update_policy_schedule: read a policy, replace what was given of its trigger, and write the whole document back."""

from __future__ import annotations

import orjson

from zorivest_rpc.errors import BackendError, InvalidArguments
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.backend.refusals import unknown_route
from zorivest_rpc.serving.modes.present import fill
from zorivest_rpc.serving.tools.kit import Kit, bad_answer, segment

__all__ = ["Schedules"]


class Schedules:
    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def handlers(self) -> dict[str, Handler]:
        return {"update_policy_schedule": self.update}

    async def update(self, call: Call) -> Outcome:
        """An unknown policy ends after the read; steps and the rest of the document go back as they came."""
        policy_id: str = call.arguments["policy_id"]
        changes = _changes(call.arguments)
        if not changes:
            raise InvalidArguments(
                "update_policy_schedule has nothing to change: give cron_expression, timezone or enabled.",
                next='For example {"policy_id": "…", "enabled": false}.',
            )
        path = f"/scheduling/policies/{segment('policy_id', policy_id)}"
        document = await self._document(call, path, policy_id)
        trigger = document.get("trigger")
        edited = {**document, "trigger": {**(trigger if isinstance(trigger, dict) else {}), **changes}}
        written = await self._kit.write(call, "PUT", path, {"policy_json": edited})
        answer = written.reply.value
        if not isinstance(answer, dict):
            raise bad_answer(path, written.reply, "the updated policy, so list_policies has to show whether it changed")
        policy = {name: value for name, value in answer.items() if name != "policy_json"}
        if (kept := _object(answer.get("policy_json"))) is not None:
            policy["policy_json"] = kept
        template = self._kit.spec(call).message
        message = None if template is None else fill(template, policy)
        if message is not None and policy.get("approved") is False:
            beside = "in the desktop app or with the approve command"
            way = beside if self._kit.desktop(call) else "with zorivest-rpc approve"
            message += f" It runs only after a person approves it, {way}."
        return self._kit.give(call, policy, message=message, receipt=written.receipt)

    async def _document(self, call: Call, path: str, policy_id: str) -> dict[str, Json]:
        try:
            reply = await self._kit.backend_for(call).ask(Request("GET", path))
        except BackendError as error:
            if error.status != 404 or unknown_route(error):
                raise
            raise BackendError(
                404,
                f'There is no policy "{policy_id}"; nothing was changed. list_policies gives the ids.',
                code="not_found",
                next="Find the id with list_policies.",
                reported=error.reported,
                detail=error.detail,
            ) from None
        document = _object(reply.value.get("policy_json")) if isinstance(reply.value, dict) else None
        if document is None:
            raise bad_answer(path, reply, "a policy document; nothing was changed")
        return document


def _changes(arguments: dict[str, Json]) -> dict[str, Json]:
    """By presence and not by truth: `enabled: false` is a change, an empty text is none."""
    return {
        name: arguments[name] for name in ("cron_expression", "timezone", "enabled") if arguments.get(name, "") != ""
    }


def _object(value: Json) -> dict[str, Json] | None:
    """A document comes as an object, or as JSON text of one."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
    return value if isinstance(value, dict) else None
