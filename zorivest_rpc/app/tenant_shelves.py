"""Prompts, resources and completions of a server with several tenants: each names the tenant in its own way.

A resource says it in its URI, a prompt by its first argument, a completion by the argument that the client knows
already. The names that the shelves below know carry no tenant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from zorivest_rpc.app.shelves import Prompts, Resources
from zorivest_rpc.app.tenant_others import TenantOthers
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Scope
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, Completion, Messages, Prompt, Resource, Template, message
from zorivest_rpc.mcp.protocol.content import text
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.serving.audience import Audience
from zorivest_rpc.serving.catalog.toolsets import toolset_names
from zorivest_rpc.tenants.config import normalise_id
from zorivest_rpc.tenants.context import TenantContext
from zorivest_rpc.tenants.uris import bare_template, name_client_in, split_client, template_for

if TYPE_CHECKING:
    from zorivest_rpc.app.tenancy import ServedTenants
    from zorivest_rpc.serving.tools.completions import JournalCompletions
    from zorivest_rpc.serving.tools.resources import Shelf

__all__ = ["TenantPrompts", "TenantResources", "complete", "shelves_for"]

_CLIENT: Final = "clientId"
_MOST_LISTED: Final = 20
_ABOUT: Final = (_CLIENT, "Client to act for; list_clients names them", True)


class TenantPrompts(Prompts):
    """Each prompt begins with the client that it is about, and tells the model to stay with it."""

    def __init__(self, audience: Audience, served: ServedTenants, theirs: TenantOthers) -> None:
        super().__init__(audience, lambda: None)
        self._served = served
        self._theirs = theirs
        self._shown: dict[str, Prompt] = {}

    def visible(self, session: Session) -> Sequence[Prompt]:
        own = [self._with_client(prompt) for prompt in super().visible(session)]
        return [*own, *(_with_argument(prompt, _tell_first) for prompt in self._theirs.prompts(session))]

    def find(self, session: Session, name: str) -> Prompt | None:
        found = super().find(session, name)
        return self._theirs.find_prompt(session, name) if found is None else self._with_client(found)

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        rest, scope = self._served.resolver.resolve(session.principal, headers, arguments)
        return {_CLIENT: scope.name, **rest}, scope

    def find_for(self, session: Session, prompt: Prompt, scope: Scope) -> Prompt:
        if super().find(session, prompt.name) is not None:
            return prompt
        return _with_argument(self._theirs.find_prompt_for(session, prompt.name, scope), _tell_first)

    def digest(self, session: Session) -> bytes:
        return self._theirs.digest(session, PROMPTS, ())

    def _with_client(self, prompt: Prompt) -> Prompt:
        found = self._shown.get(prompt.name)
        if found is None:
            found = self._shown[prompt.name] = _with_argument(prompt, _tell_in_each)
        return found


def _with_argument(prompt: Prompt, tell: Callable[[Messages, Scope], Messages]) -> Prompt:
    """The prompt with the client as its first argument, which it does not get itself."""

    async def get(call: Call) -> Messages:
        rest = {name: value for name, value in call.arguments.items() if name != _CLIENT}
        return tell(await prompt.get(call.dispatch(call.name, rest)), call.scope)

    return replace(prompt, arguments=(_ABOUT, *prompt.arguments), get=get)


def _tell_in_each(messages: Messages, scope: Scope) -> Messages:
    """In our own texts: what to do stands before them."""
    return [
        {**each, "content": {**each["content"], **text(f"{_instruct(scope)}\n\n{words}")}}
        if isinstance(words := each["content"].get("text"), str)
        else each
        for each in messages
    ]


def _tell_first(messages: Messages, scope: Scope) -> Messages:
    """Of another server no text is changed: ours is a message of its own, without the mark of what is not ours."""
    return [message(text(_instruct(scope))), *messages]


def _instruct(scope: Scope) -> str:
    return f"Act for the client {dumps(scope.name).decode()} alone: pass it as {_CLIENT} with every tool."


class TenantResources(Resources):
    """What shows a tenant's data is there once for each of them."""

    def __init__(
        self,
        shelf: Callable[[], Shelf],
        audience: Audience,
        served: ServedTenants,
        stands_for: Callable[[str], str | None],
        theirs: TenantOthers,
    ) -> None:
        """`stands_for` names the tool whose limits a resource shares."""
        super().__init__(shelf, audience, lambda: None)
        self._served = served
        self._stands_for = stands_for
        self._theirs = theirs

    def visible(self, session: Session) -> Sequence[Resource]:
        ids = self._ids(session)
        if len(ids) > _MOST_LISTED:
            return ()
        shared = super().visible(session)
        own = [
            replace(resource, uri=name_client_in(resource.uri, id), name=f"{resource.name}-{id}")
            for id in ids
            for resource in shared
            if self._is_allowed(session, resource.uri, id)
        ]
        return [*own, *self._theirs.resources(session)]

    def templates(self, session: Session) -> Sequence[Template]:
        are_listed = len(self._ids(session)) <= _MOST_LISTED
        single = () if are_listed else super().visible(session)
        return [
            *(Template(template_for(each.uri), each.name, each.read, each.extra) for each in single),
            *(replace(each, uri_template=template_for(each.uri_template)) for each in super().templates(session)),
            *self._theirs.templates(session, instead=not are_listed),
        ]

    def admit(self, session: Session, headers: RequestHeaders | None, uri: str) -> tuple[str, Scope]:
        bare, scope = self._resolve(session, headers, uri)
        if super().find(session, bare) is None:
            refusal = self._served.refuse_read(session, scope)
        else:
            tool = self._tool_of(session, bare)
            refusal = None if tool is None else self._served.refusal(session, tool, scope)
        if refusal is not None:
            raise refusal
        return bare, scope

    def find(
        self, session: Session, uri: str, scope: Scope = EVERYONE
    ) -> tuple[Resource | Template, dict[str, str]] | None:
        return super().find(session, uri) or self._theirs.find_resource(session, uri, scope)

    def spell(self, session: Session, headers: RequestHeaders | None, uri: str) -> str:
        try:
            bare, scope = self._resolve(session, headers, uri)
        except ToolError:
            return uri
        return name_client_in(bare, scope.name)

    def may_follow(self, session: Session, uri: str) -> bool:
        """Named by its one spelling, because a change is told under that."""
        bare, given = split_client(uri)
        id = None if given is None else normalise_id(given)
        if id is None or uri != name_client_in(bare, id) or id not in self._ids(session):
            return False
        if super().find(session, bare) is None:
            return self._theirs.has_resource(session, bare, id)
        return self._is_allowed(session, bare, id)

    def digest(self, session: Session) -> bytes:
        ids = self._ids(session)
        templates = self._theirs.digest(session, "templates", ())
        if len(ids) <= _MOST_LISTED:
            return self._theirs.digest(session, RESOURCES, ids) + templates
        either = self._theirs.digest(session, RESOURCES, ())  # then all of them are templates
        return bytes(16) + blake2b(either + templates, digest_size=16).digest()

    def _ids(self, session: Session) -> tuple[str, ...]:
        return self._served.resolver.grants(session.principal).ids

    def _resolve(self, session: Session, headers: RequestHeaders | None, uri: str) -> tuple[str, Scope]:
        bare, given = split_client(uri)
        arguments: dict[str, Json] = {} if given is None else {_CLIENT: given}
        _, scope = self._served.resolver.resolve(session.principal, headers, arguments)
        return bare, scope

    def _is_allowed(self, session: Session, bare: str, id: str) -> bool:
        tool, scope = self._tool_of(session, bare), self._served.contexts.of(id).scope
        return tool is None or self._served.refusal(session, tool, scope, counts=False) is None

    def _tool_of(self, session: Session, bare: str) -> str | None:
        found = super().find(session, bare)
        if found is None:
            return None
        return self._stands_for(found[0].uri if isinstance(found[0], Resource) else found[0].uri_template)


async def complete(
    served: ServedTenants,
    theirs: TenantOthers,
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

    bare = bare_template(name) if kind == "resource" else name
    only_client = bare != name and bare in LISTED  # a template where there are too many clients to list each
    is_ours = only_client or has_completions(kind, bare)
    if not is_ours and not theirs.has(session, kind, bare):
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
    if not is_ours:
        found = await theirs.complete(session, kind, bare, argument, value, rest, context.scope)
        return found or Completion([])
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
    served: ServedTenants, audience: Audience, shelf: Callable[[], Shelf], theirs: TenantOthers
) -> tuple[TenantPrompts, TenantResources]:
    from zorivest_rpc.serving.tools.resources import tool_behind

    prompts = TenantPrompts(audience, served, theirs)
    return prompts, TenantResources(shelf, audience, served, tool_behind, theirs)
