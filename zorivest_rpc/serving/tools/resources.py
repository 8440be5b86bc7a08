"""What can be read without a call: the policy schema and step types, the toolsets, the guard, and stored screenshots.

A resource is no way around a limit. Each stands for a tool: where a session may not call the tool it does not see the
resource, and where the guard would stop the tool it stops the reading."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

from zorivest_rpc.errors import BackendError, BackendUnreachable, GuardLocked, ProtocolError, ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Scope
from zorivest_rpc.mcp.offer import Resource, ResourceShelf, Template
from zorivest_rpc.mcp.protocol.content import Block
from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR, Json, dumps
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.backend.interface import Request
from zorivest_rpc.serving.tools.diagnostics import guard_state, without_credentials
from zorivest_rpc.serving.tools.kit import bad_answer
from zorivest_rpc.serving.tools.rest import BackendFor
from zorivest_rpc.serving.tools.screenshots import fetch

__all__ = ["GUARD", "IMAGES", "LISTED", "POLICY_SCHEMA", "STEP_TYPES", "TOOLSET", "TOOLSETS", "Shelf", "tool_behind"]

POLICY_SCHEMA: Final = "pipeline://policies/schema"
STEP_TYPES: Final = "pipeline://step-types"
TOOLSETS: Final = "zorivest://toolsets"
TOOLSET: Final = "zorivest://toolsets/{toolset}"
GUARD: Final = "zorivest://guard"
IMAGES: Final = "zorivest://images/{image_id}"
LISTED: Final = (POLICY_SCHEMA, STEP_TYPES, TOOLSETS, GUARD)  # those without a variable

Permit: TypeAlias = Callable[[Call], Awaitable[None]]
"""Ask the guard; raises unless it says yes."""
Refusal: TypeAlias = Callable[[Session, str], ToolError | None]
"""Why a session may not call a tool, or None."""

_STANDS_FOR: Final[Mapping[str, str]] = {
    POLICY_SCHEMA: "list_policies",
    STEP_TYPES: "list_policies",
    IMAGES: "get_screenshot",
}
_JSON: Final = "application/json"
_GUARD_SECONDS: Final = 5.0
_COUNTS: Final = ("calls_per_minute_limit", "calls_per_hour_limit", "recent_calls_1min", "recent_calls_1hr")


def tool_behind(name: str) -> str | None:
    """The tool whose limits a resource or template shares; None where it stands for none."""
    return _STANDS_FOR.get(name)


class Shelf(ResourceShelf):
    def __init__(
        self,
        backend_for: BackendFor,
        *,
        list_toolsets: Handler,
        describe_toolset: Handler,
        permit: Permit,
        refusal: Refusal,
        note: Callable[[Call, Json], None] = lambda call, state: None,
        name_owner: Callable[[Call, ToolError], ToolError] = lambda call, error: error,
    ) -> None:
        """`note` is told which state of the guard was shown, and `name_owner` says whose backend failed."""
        self._backend_for = backend_for
        self._list_toolsets = list_toolsets
        self._describe_toolset = describe_toolset
        self._permit = permit
        self._refusal = refusal
        self._note = note
        self._name_owner = name_owner
        super().__init__(self._own_resources(), self._own_templates())

    def _own_resources(self) -> list[Resource]:
        return [
            Resource(
                POLICY_SCHEMA,
                "policy-schema",
                self._schema,
                _about("Policy schema", "JSON Schema of a pipeline policy, as create_policy takes it."),
            ),
            Resource(
                STEP_TYPES,
                "step-types",
                self._step_types,
                _about("Pipeline step types", "The types of step a policy may have, with their parameters."),
            ),
            Resource(
                TOOLSETS,
                "toolsets",
                self._toolsets,
                _about("Toolsets", "Every toolset with its size, and whether this session has it loaded."),
            ),
            Resource(
                GUARD,
                "guard",
                self._guard,
                _about("Guard", "Whether the guard is on or locked, its limits and the calls it counted."),
            ),
        ]

    def _own_templates(self) -> list[Template]:
        return [
            Template(TOOLSET, "toolset", self._toolset, _about("Toolset", "The tools of one toolset.")),
            Template(
                IMAGES,
                "screenshot",
                self._image,
                {
                    "title": "Trade screenshot",
                    "description": "One stored screenshot; get_trade_screenshots lists the ids of a trade.",
                },
            ),
        ]

    def visible(self, session: Session) -> Sequence[Resource]:
        return [resource for resource in super().visible(session) if self._is_visible(session, resource.uri)]

    def templates(self, session: Session) -> Sequence[Template]:
        return [template for template in super().templates(session) if self._is_visible(session, template.uri_template)]

    def find(
        self, session: Session, uri: str, scope: Scope = EVERYONE
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        found = super().find(session, uri, scope)
        if found is None:
            return None
        name = found[0].uri if isinstance(found[0], Resource) else found[0].uri_template
        return found if self._is_visible(session, name) else None

    def _is_visible(self, session: Session, name: str) -> bool:
        tool = _STANDS_FOR.get(name)
        return tool is None or self._refusal(session, tool) is None

    async def _schema(self, call: Call) -> list[Block]:
        return await self._from_backend(call, "/scheduling/policies/schema", dict)

    async def _step_types(self, call: Call) -> list[Block]:
        return await self._from_backend(call, "/scheduling/step-types", list)

    async def _from_backend(self, call: Call, path: str, kind: type) -> list[Block]:
        with self._server_side(call):
            await self._permit(call)
            reply = await self._backend_for(call).ask(Request("GET", path))
            if not isinstance(reply.value, kind):
                raise bad_answer(path, reply, "an object" if kind is dict else "a list")
        return _json(call, reply.value)

    async def _toolsets(self, call: Call) -> list[Block]:
        inner = call.dispatch("list_available_toolsets", {})
        return _json(call, (await self._list_toolsets(inner)).structured)

    async def _toolset(self, call: Call) -> list[Block]:
        inner = call.dispatch("describe_toolset", {"toolset_name": call.arguments["toolset"]})
        try:
            return _json(call, (await self._describe_toolset(inner)).structured)
        except ToolError:
            raise KeyError(call.name) from None  # no such toolset: no such resource

    async def _guard(self, call: Call) -> list[Block]:
        """Readable in every state, as the state is the point."""
        answer: Json = None
        try:
            reply = await self._backend_for(call).ask(
                Request("GET", "/mcp-guard/status", auth="if_any", timeout=_GUARD_SECONDS)
            )
            answer = reply.value
        except ToolError:
            pass
        self._note(call, answer)
        state = guard_state(answer)
        if "status" not in state:
            state |= {name: answer[name] for name in _COUNTS if type(answer.get(name)) is int}
        return _json(call, without_credentials(state))

    async def _image(self, call: Call) -> list[Block]:
        image_id = call.arguments["image_id"]
        if not (image_id.isascii() and image_id.isdigit() and len(image_id) <= 18):
            raise KeyError(call.name)
        with self._server_side(call):
            await self._permit(call)
            try:
                picture = await fetch(self._backend_for(call), int(image_id))
            except BackendError as error:
                if error.code == "not_found":
                    raise KeyError(call.name) from None
                raise
        return [{"uri": call.name, "mimeType": picture.mime_type, "blob": b64encode(picture.data).decode()}]

    @contextmanager
    def _server_side(self, call: Call) -> Iterator[None]:
        """A backend that fails is no fault of the URI that was asked for, nor is a guard that cannot be asked."""
        try:
            yield
        except GuardLocked as error:
            if error.code == "guard_blocked":
                raise
            raise ProtocolError(INTERNAL_ERROR, error.text) from None
        except (BackendError, BackendUnreachable) as error:
            raise ProtocolError(INTERNAL_ERROR, self._name_owner(call, error).text) from None


def _about(title: str, description: str) -> dict[str, Json]:
    return {"title": title, "description": description, "mimeType": _JSON}


def _json(call: Call, value: Json) -> list[Block]:
    return [{"uri": call.name, "mimeType": _JSON, "text": dumps(value).decode()}]
