"""Prompts, resources and completions of a server with several tenants: each names the tenant in its own way.

A resource says it in its URI, a prompt by its first argument, a completion by the argument that the client knows
already. The names that the shelves below know carry no tenant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote

from msgspec.structs import replace

from zorivest_rpc.app.shelves import Prompts, Resources
from zorivest_rpc.mcp.call import Call, Scope
from zorivest_rpc.mcp.offer import Completion, Messages, Prompt, Resource, Template
from zorivest_rpc.mcp.protocol.content import text
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.toolsets import toolset_names
from zorivest_rpc.tenants.config import normalise_id
from zorivest_rpc.tenants.context import TenantContext

if TYPE_CHECKING:
    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.serving.tools.completions import JournalCompletions
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["TenantPrompts", "TenantResources", "complete", "shelves_for", "uri_for"]

_CLIENT: Final = "clientId"
_MOST_LISTED: Final = 20
_ABOUT: Final = (_CLIENT, "Client to act for; list_clients names them", True)
_OF_TEMPLATE: Final = "{?clientId}"


def uri_for(uri: str, id: str) -> str:
    """The URI of a tenant's own resource."""
    return f"{uri}?{_CLIENT}={quote(id, safe='')}"


class TenantPrompts(Prompts):
    """Each prompt begins with the client that it is about, and tells the model to stay with it."""

    def __init__(self, audience: Audience, served: ServedTenants) -> None:
        super().__init__(audience, lambda: None)
        self._served = served
        self._shown: dict[str, Prompt] = {}

    def visible(self, session: Session) -> Sequence[Prompt]:
        return [self._with_client(prompt) for prompt in super().visible(session)]

    def find(self, session: Session, name: str) -> Prompt | None:
        found = super().find(session, name)
        return None if found is None else self._with_client(found)

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        rest, scope = self._served.resolver.resolve(session.principal, headers, arguments)
        return {_CLIENT: scope.name, **rest}, scope

    def _with_client(self, prompt: Prompt) -> Prompt:
        found = self._shown.get(prompt.name)
        if found is None:

            async def get(call: Call) -> Messages:
                call.arguments = {name: value for name, value in call.arguments.items() if name != _CLIENT}
                return [_for_client(each, call.scope) for each in await prompt.get(call)]

            found = self._shown[prompt.name] = replace(prompt, arguments=(_ABOUT, *prompt.arguments), get=get)
        return found


def _for_client(message: dict[str, Json], scope: Scope) -> dict[str, Json]:
    words = message["content"].get("text")
    if not isinstance(words, str):
        return message
    told = f"Act for the client {dumps(scope.name).decode()} alone: pass it as {_CLIENT} with every tool."
    return {**message, "content": {**message["content"], **text(f"{told}\n\n{words}")}}


class TenantResources(Resources):
    """What shows a tenant's data is there once for each of them."""

    def __init__(
        self,
        shelf: Callable[[], Shelf],
        audience: Audience,
        served: ServedTenants,
        stands_for: Callable[[str], str | None],
    ) -> None:
        """`stands_for` names the tool whose limits a resource shares."""
        super().__init__(shelf, audience, lambda: None)
        self._served = served
        self._stands_for = stands_for

    def visible(self, session: Session) -> Sequence[Resource]:
        ids = self._served.resolver.grants(session.principal).ids
        if len(ids) > _MOST_LISTED:
            return ()
        shared = super().visible(session)
        return [
            replace(resource, uri=uri_for(resource.uri, id), name=f"{resource.name}-{id}")
            for id in ids
            for resource in shared
            if self._is_allowed(session, resource.uri, id)
        ]

    def templates(self, session: Session) -> Sequence[Template]:
        shown = [replace(each, uri_template=each.uri_template + _OF_TEMPLATE) for each in super().templates(session)]
        if len(self._served.resolver.grants(session.principal).ids) <= _MOST_LISTED:
            return shown
        single = [
            Template(each.uri + _OF_TEMPLATE, each.name, each.read, each.extra) for each in super().visible(session)
        ]
        return [*single, *shown]

    def admit(self, session: Session, headers: RequestHeaders | None, uri: str) -> tuple[str, Scope]:
        bare, given = _split(uri)
        arguments: dict[str, Json] = {} if given is None else {_CLIENT: given}
        _, scope = self._served.resolver.resolve(session.principal, headers, arguments)
        tool = self._tool_of(session, bare)
        if tool is not None and (refusal := self._served.refusal(session, tool, scope)) is not None:
            raise refusal
        return bare, scope

    def may_follow(self, session: Session, uri: str) -> bool:
        """Named by its one spelling, because a change is told under that."""
        bare, given = _split(uri)
        id = None if given is None else normalise_id(given)
        if id is None or uri != uri_for(bare, id) or id not in self._served.resolver.grants(session.principal).known:
            return False
        return self._is_allowed(session, bare, id)

    def _is_allowed(self, session: Session, bare: str, id: str) -> bool:
        tool, scope = self._tool_of(session, bare), self._served.contexts.of(id).scope
        return tool is None or self._served.refusal(session, tool, scope, counts=False) is None

    def _tool_of(self, session: Session, bare: str) -> str | None:
        found = super().find(session, bare)
        if found is None:
            return None
        return self._stands_for(found[0].uri if isinstance(found[0], Resource) else found[0].uri_template)


def _split(uri: str) -> tuple[str, str | None]:
    """A URI without its client, and the client; a query of another kind stays part of a URI that nothing has."""
    bare, _, query = uri.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    if not query:
        return bare, None
    return (bare, pairs[0][1]) if len(pairs) == 1 and pairs[0][0] == _CLIENT else (uri, None)


async def complete(
    served: ServedTenants,
    session: Session,
    kind: str,
    name: str,
    argument: str,
    value: str,
    others: dict[str, str],
) -> Completion | None:
    """The ids that are granted, and everything else from the client that is named beside it; without one nothing."""
    from zorivest_rpc.serving.tools.completions import has_completions
    from zorivest_rpc.serving.tools.resources import LISTED

    bare = name.removesuffix(_OF_TEMPLATE) if kind == "resource" else name
    only_client = bare != name and bare in LISTED  # a template where there are too many clients to list each
    if not only_client and not has_completions(kind, bare):
        return None
    grants = served.resolver.grants(session.principal)
    if argument == _CLIENT:
        typed = value.strip().lower()
        return Completion([id for id in grants.ids if id.startswith(typed)])
    id = normalise_id(others.get(_CLIENT) or "")
    if only_client or id is None or id not in grants.known:
        return Completion([])
    context = served.contexts.of(id)
    if not context.is_configured:
        return Completion([])
    rest = {key: each for key, each in others.items() if key != _CLIENT}
    return await _completions_of(served, context)(session, kind, bare, argument, value, rest)


def _completions_of(served: ServedTenants, context: TenantContext) -> JournalCompletions:
    """Those of one tenant, within its own limits."""
    from zorivest_rpc.serving.tools.completions import JournalCompletions

    served.contexts.watch_idle()
    audience, bound = served.audience, context.tenant.toolsets
    names = [name for name in toolset_names(audience.definitions) if bound is None or name in bound]
    return JournalCompletions(
        lambda asking: context.backend(),
        lambda: names,
        lambda session, tool: (
            audience.refusal(session, tool) or served.refusal(session, tool, context.scope, counts=False)
        ),
    )


def shelves_for(
    served: ServedTenants, audience: Audience, shelf: Callable[[], Shelf]
) -> tuple[TenantPrompts, TenantResources]:
    from zorivest_rpc.serving.tools.resources import tool_behind

    return TenantPrompts(audience, served), TenantResources(shelf, audience, served, tool_behind)
