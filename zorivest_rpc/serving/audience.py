"""What one session sees and may call: its client's profile, the toolsets it has, and the limits that bind it.

Two sessions that look alike share one View, so a list is encoded once per kind of client. Choosing is not limiting:
`--toolsets` decides what is listed; `--exclude-tools`, `--read-only` and the request's own headers decide what works.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.catalog.view import SOON, STEADY, View
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.catalog.approval import BLOCKED, Channel, block
from zorivest_rpc.serving.catalog.spec import Definitions, Mode, ToolsetSpec, ToolSpec, spellings
from zorivest_rpc.serving.catalog.toolsets import (
    Selection,
    ToolsetConfig,
    always_loaded,
    choose,
    first_list,
    is_eager,
    members,
    survives_read_only,
    toolset_names,
)
from zorivest_rpc.serving.modes.detect import Profile, client_entry, detect
from zorivest_rpc.serving.modes.gate import asked_by_client
from zorivest_rpc.serving.modes.present import Clients, Presentation, definition, presentation

if TYPE_CHECKING:
    from zorivest_rpc.exposure.engine import Engine
    from zorivest_rpc.exposure.view import ExposedView

__all__ = ["THE_ONE", "ActingFor", "Audience", "Bound", "ListLimits", "Policy"]

_MOST_REMEMBERED: Final = 256
_USUAL_LIMIT: Final = 40  # tools of a client whose own limit is not known
_MOST_PRESENTED: Final = 64


class Policy(msgspec.Struct, frozen=True):
    """What the operator said on the command line, in the environment and in the toolset file."""

    toolsets: str | None = None
    toolsets_variable: str | None = None
    tools: str | None = None
    excluded: frozenset[str] = frozenset()
    read_only: bool = False
    mode: Mode | None = None
    config: ToolsetConfig = ToolsetConfig()
    allowed_callers: tuple[str, ...] = ("code_execution",)
    inside_claude_code: bool = False
    confirm: Literal["auto", "always", "never"] = "auto"
    channel: Channel = "auto"
    trusts_names: bool = True
    """Whether a client is what it calls itself: over stdio it started us, over HTTP any caller can send any name."""
    exposure: str = "auto"
    meta_skip: tuple[str, ...] = ()
    """Names of clients whose lists tell no modes and no counts."""


class Bound(msgspec.Struct, frozen=True, cache_hash=True):
    """What one client's own settings allow; None: every toolset."""

    toolsets: frozenset[str] | None = None
    read_only: bool = False
    client: str = ""
    """Which client it is, where other servers are assigned to it by name."""
    away: frozenset[str] = frozenset()
    """Toolsets of other servers that are assigned to other clients."""

    def allows(self, spec: ToolSpec) -> bool:
        return self.has(spec) and not (self.read_only and not survives_read_only(spec))

    def has(self, spec: ToolSpec) -> bool:
        if spec.clients and self.client not in spec.clients:
            return False
        return self.toolsets is None or not spec.toolset or not self.toolsets.isdisjoint(spec.toolsets)

    def has_toolset(self, name: str) -> bool:
        return name not in self.away and (self.toolsets is None or name in self.toolsets)


class ActingFor(msgspec.Struct, frozen=True, cache_hash=True):
    """The clients that a list or a call is for; what one of them may use is shown. None where there is but one."""

    clients: Clients | None = None
    bounds: frozenset[Bound] = frozenset()
    tenants: tuple[str, ...] = ()
    """Whose data the list follows."""

    def allows(self, spec: ToolSpec) -> bool:
        return not self.bounds or any(bound.allows(spec) for bound in self.bounds)

    def has_toolset(self, name: str) -> bool:
        return not self.bounds or any(bound.has_toolset(name) for bound in self.bounds)


THE_ONE: Final = ActingFor()


class ListLimits(msgspec.Struct, frozen=True):
    """What binds a session; `only` and `toolsets` come from request headers and are None where those say nothing.

    What is always loaded stays: the brake, the diagnosis and the tokens are no matter of taste."""

    excluded: frozenset[str] = frozenset()
    read_only: bool = False
    toolsets: frozenset[str] | None = None
    only: frozenset[str] | None = None
    acting_for: ActingFor = THE_ONE

    def refusal(self, spec: ToolSpec) -> tuple[str, str] | None:
        """(code, reason) why the tool may not be called, or None."""
        if spec.is_denied:
            return "denied", BLOCKED
        if spec.name in self.excluded:
            return "excluded", "it is excluded on this server (--exclude-tools or X-MCP-Exclude-Tools)"
        if self.read_only and not survives_read_only(spec):
            return "read_only", "this session may only read (--read-only or X-MCP-Readonly)"
        if spec.toolset and (self.toolsets is not None or self.only is not None):
            inside = self.toolsets is not None and not self.toolsets.isdisjoint(spec.toolsets)
            named = self.only is not None and spec.name in self.only
            if not inside and not named:
                return "narrowed", "this connection narrowed its tools with X-MCP-Toolsets or X-MCP-Tools"
        if not self.acting_for.allows(spec):
            return "client_toolset", "it is not enabled for the client"
        return None


class AudienceView(View):
    """A view together with the profile it was made for, so that a call that carries it need not find it again."""

    __slots__ = ("profile",)

    def __init__(self, listed: Iterable[Tool], also_found: Iterable[Tool], profile: Profile) -> None:
        super().__init__(listed, also_found)
        self.profile = profile


class Audience:
    """The catalogue as sessions see it."""

    def __init__(self, definitions: Definitions, policy: Policy, exposure: Engine | None = None) -> None:
        """`exposure` has the rules that are in play; without one a list never follows the state."""
        self.policy = policy
        self.exposure = exposure
        self.gated: dict[str, ToolSpec] = {}  # one object for good: the confirmation looks tools up in it
        self._profiles: dict[tuple[object, ...], Profile] = {}
        self._base: dict[str, Tool] = {}
        self.specs: dict[str, ToolSpec] = {}
        self.adopt(definitions)
        choose(definitions, flag=policy.toolsets, environment=policy.toolsets_variable, tools=policy.tools)

    def adopt(self, definitions: Definitions) -> None:
        """Replace the catalogue as a whole. A tool that stays as it was keeps its compiled validator."""
        before, policy = self.specs, self.policy
        self.definitions = definitions
        everything = (*definitions.tools, *definitions.meta_tools, *definitions.withheld)
        self.specs = {spec.name: spec for spec in everything}
        self._base = {
            name: self._base[name]
            if before.get(name) == spec
            else Tool.from_checked_file(
                name, spec.input_schema, task=spec.task, spellings=spellings(spec), is_foreign=bool(spec.upstream)
            )
            for name, spec in self.specs.items()
        }
        self.gated.clear()
        self.gated.update({spec.name: spec for spec in definitions.tools if spec.is_gated})
        self._presented: dict[Presentation, dict[str, Tool]] = {}
        self._views: dict[tuple[object, ...], AudienceView] = {}
        self._ttl = SOON if any(toolset.upstream for toolset in definitions.toolsets) else STEADY
        if self.exposure is not None:
            self.exposure.forget_views()
        self._asked_by_client: dict[tuple[Profile, str], frozenset[str]] = {}
        unbound = ListLimits(policy.excluded, policy.read_only)
        self._limits: dict[tuple[tuple[str, ...], frozenset[Bound]], ListLimits] = {((), frozenset()): unbound}

    def is_network_bound(self, name: str) -> bool:
        """Whether it waits for others by nature: a tool that says so, or what is read from another server."""
        spec = self.specs.get(name)
        return spec is None or spec.network_bound

    def profile(self, session: Session) -> Profile:
        """Who is calling, decided from this session alone."""
        client, able = session.client, session.capabilities
        key = (
            client and client.name,
            client and client.version,
            able.list_changed,
            able.elicitation_form,
            able.elicitation_url,
            session.agent,
        )
        found = self._profiles.get(key)
        if found is None:
            elicitation: dict[str, object] = {"form": {}} if able.elicitation_form else {}
            if able.elicitation_url:
                elicitation["url"] = {}
            found = detect(
                self.definitions.clients,
                name=client and client.name,
                version=client and client.version,
                capabilities={
                    "tools": {"listChanged": able.list_changed},
                    **({"elicitation": elicitation} if elicitation else {}),
                },
                override=self.policy.mode,
                client_modes=self.policy.config.client_modes,
                user_agent=session.agent,
                claude_code_environment=self.policy.inside_claude_code,
            )
            _remember(self._profiles, key, found)
        return found

    def profile_of(self, call: Call) -> Profile:
        """The profile that the call's view carries; a call of a resource has no view."""
        profile = getattr(call.view, "profile", None)
        return profile if profile is not None else self.profile(call.session)

    def asks_before(self, call: Call) -> bool:
        """Whether the server itself asks before this call of a gated tool runs."""
        profile, revision = self.profile_of(call), call.session.revision.name
        return self._asks(profile, revision, call.name, self.policy.trusts_names and not call.dispatched)

    def asks(self, session: Session, spec: ToolSpec, *, trusts_names: bool | None = None) -> bool:
        """Whether the server itself would ask before this gated tool, called directly; `trusts_names` answers for
        another transport than the one that is served."""
        trusts = self.policy.trusts_names if trusts_names is None else trusts_names
        return self._asks(self.profile(session), session.revision.name, spec.name, trusts)

    def _asks(self, profile: Profile, revision: str, name: str, trusts_names: bool) -> bool:
        """A client is trusted to ask if its name can be trusted and it has seen this tool's hints; of a call through
        the dispatcher it saw the dispatcher's."""
        ruling = self.specs[name].ruling
        if ruling is not None:  # the operator's policy decides, whatever the client shows of the tool's hints
            return ruling.verdict == "confirm"
        if self.policy.confirm != "auto":
            return self.policy.confirm == "always"
        if self.policy.channel != "auto":  # the client's own question is none of the ways that the operator chose
            return True
        return not trusts_names or name not in self._names_asked_by_client(profile, revision)

    def _names_asked_by_client(self, profile: Profile, revision: str) -> frozenset[str]:
        key = (profile, revision)
        names = self._asked_by_client.get(key)
        if names is None:
            how = presentation(profile, revision, self.policy.allowed_callers)
            names = asked_by_client(profile, self.gated.values(), how)
            _remember(self._asked_by_client, key, names)
        return names

    def gated_tools(
        self, session: Session, *, trusts_names: bool | None = None, who: ActingFor = THE_ONE
    ) -> tuple[ToolSpec, ...]:
        """The tools before which the server always asks, of those that the session may call."""
        limits = self.limits(session, who)
        return tuple(
            spec
            for spec in self.gated.values()
            if spec.confirm and limits.refusal(spec) is None and self.asks(session, spec, trusts_names=trusts_names)
        )

    def limits(self, session: Session, who: ActingFor = THE_ONE) -> ListLimits:
        key = (session.asked, who.bounds)
        found = self._limits.get(key)
        if found is None:
            found = self._narrow(session.asked)
            if who.bounds:
                found = msgspec.structs.replace(found, acting_for=ActingFor(None, who.bounds))
            _remember(self._limits, key, found)
        return found

    def _narrow(self, asked: tuple[str, ...]) -> ListLimits:
        """Headers can only narrow: an unknown name narrows to nothing rather than opening anything."""
        toolsets, tools, excluded, read_only = (*asked, "", "", "", "")[:4]
        wanted = _names(toolsets)
        if "all" in wanted:
            wanted = frozenset(toolset_names(self.definitions))
        if "default" in wanted:
            wanted |= {toolset.name for toolset in self.definitions.toolsets if toolset.default}
        narrows = bool(toolsets.strip() or tools.strip())
        return ListLimits(
            self.policy.excluded | _names(excluded),
            self.policy.read_only or read_only.strip().lower() not in ("", "0", "false", "no", "off"),
            wanted | set(always_loaded(self.definitions)) if narrows else None,
            _names(tools) if tools.strip() else None,
        )

    def selection(self, session: Session) -> Selection:
        policy, config = self.policy, self.policy.config
        override = None
        if config.client_overrides and session.client is not None:
            override = client_entry(config.client_overrides, session.client.name, self.definitions.clients)
        return choose(
            self.definitions,
            flag=policy.toolsets,
            environment=policy.toolsets_variable,
            client_override=override,
            config_default=config.default_toolsets,
            tools=policy.tools,
        )

    def visible_tools(self, session: Session, who: ActingFor = THE_ONE) -> tuple[ToolSpec, ...]:
        """What the session lists now, in list order, the two meta-tools last."""
        loaded = self.loaded_tools(session, who)
        if self.exposure is None:
            return loaded
        view = self._exposed_view(self.exposure, session, who)
        return tuple(spec for spec in loaded if not view.is_hidden(spec.name))

    def loaded_tools(self, session: Session, who: ActingFor = THE_ONE) -> tuple[ToolSpec, ...]:
        """What the session lists while nothing is hidden for want of data."""
        profile, limits = self.profile(session), self.limits(session, who)
        begins_with = {
            spec.name
            for spec in first_list(self.definitions, self.selection(session), lists_all=profile.implied.lists_all)
        }
        loaded = session.toolsets
        chosen = [
            spec
            for spec in self.definitions.tools
            if (spec.name in begins_with or not loaded.isdisjoint(spec.toolsets)) and limits.refusal(spec) is None
        ]
        meta = [spec for spec in self.definitions.meta_tools if limits.refusal(spec) is None]
        left_out = self._above_limit(session, chosen, len(meta))
        return (*(spec for spec in chosen if spec.name not in left_out), *meta)

    def listed_toolsets(self, session: Session) -> frozenset[str]:
        """Those whose prompts and resources are listed: what the session begins with, and what it has loaded since."""
        selection, toolsets = self.selection(session), self.definitions.toolsets
        if self.profile(session).implied.lists_all and not selection.requested:
            chosen = frozenset(each.name for each in toolsets if each.default or not each.upstream)
        else:
            chosen = frozenset(selection.toolsets)
        limit = self.limits(session).toolsets
        return (chosen | session.toolsets) if limit is None else (chosen | session.toolsets) & limit

    def unlisted_for_room(self, session: Session) -> tuple[ToolSpec, ...]:
        """Tools of other servers that would be listed if this client's list had room for them."""
        profile, limits = self.profile(session), self.limits(session)
        first = first_list(self.definitions, self.selection(session), lists_all=profile.implied.lists_all)
        chosen = [spec for spec in first if limits.refusal(spec) is None]
        meta = sum(1 for spec in self.definitions.meta_tools if limits.refusal(spec) is None)
        left_out = self._above_limit(session, chosen, meta)
        return tuple(spec for spec in chosen if spec.name in left_out)

    def _above_limit(self, session: Session, chosen: Sequence[ToolSpec], meta: int) -> frozenset[str]:
        """A static client sees what is loaded without being asked for only as far as its limit reaches, in the order of
        the list; what was asked for is listed above it too (a warning says so)."""
        theirs = [spec.name for spec in chosen if spec.upstream]
        profile = self.profile(session)
        if not theirs or profile.mode is not Mode.STATIC or self.selection(session).requested:
            return frozenset()
        room = (profile.traits.tool_limit or _USUAL_LIMIT) - meta - (len(chosen) - len(theirs))
        return frozenset(theirs[max(0, room) :])

    def view(self, session: Session, who: ActingFor = THE_ONE) -> View:
        if self.exposure is not None:
            return self._exposed_view(self.exposure, session, who)
        key = self._view_key(session, who)
        found = self._views.get(key)
        if found is None:
            profile = self.profile(session)
            how = presentation(profile, session.revision.name, self.policy.allowed_callers, who.clients)
            tools = self._tools(how)
            listed = [tools[spec.name] for spec in self.loaded_tools(session, who)]
            found = AudienceView(listed, tools.values(), profile)
            found.ttl_ms = self._ttl
            _remember(self._views, key, found)
        return found

    def exposed_view(self, session: Session, who: ActingFor = THE_ONE) -> ExposedView | None:
        """The view of a list that follows the state; None where no rule is in play."""
        return None if self.exposure is None else self._exposed_view(self.exposure, session, who)

    def _view_key(self, session: Session, who: ActingFor) -> tuple[object, ...]:
        client = session.client
        return (
            session.revision.name,
            self.profile(session),
            client and client.name if self.policy.config.client_overrides else None,
            session.toolsets,
            session.asked,
            who,
        )

    def _exposed_view(self, engine: Engine, session: Session, who: ActingFor) -> ExposedView:
        """The one seam between sessions and the state that their lists follow."""
        key = self._view_key(session, who)
        found = engine.recall(key)
        if found is not None:
            return found
        from zorivest_rpc.serving.modes.exposure import manner

        profile, revision, policy = self.profile(session), session.revision, self.policy
        tools = self._tools(presentation(profile, revision.name, policy.allowed_callers, who.clients))
        how = manner(policy.exposure, profile, revision.name, modern=revision.modern, meta_skip=policy.meta_skip)
        listed = [tools[spec.name] for spec in self.loaded_tools(session, who)]
        made = engine.view(key, who.tenants, listed, tools.values(), how, revision.shape, profile)
        made.ttl_ms = min(made.ttl_ms or self._ttl, self._ttl)
        return made

    def definition(self, session: Session, spec: ToolSpec, who: ActingFor = THE_ONE) -> dict[str, object]:
        """The wire definition as this session's list shows it, or would."""
        how = presentation(self.profile(session), session.revision.name, self.policy.allowed_callers, who.clients)
        return self._tools(how)[spec.name].definition

    def _tools(self, how: Presentation) -> dict[str, Tool]:
        found = self._presented.get(how)
        if found is None:
            found = {
                name: self._base[name].present(definition(spec, how, eager=is_eager(self.definitions, spec)))
                for name, spec in self.specs.items()
            }
            if len(self._presented) >= _MOST_PRESENTED:  # sets of clients are as many as there are callers
                del self._presented[next(iter(self._presented))]
            self._presented[how] = found
        return found

    def callable_tools(self, session: Session, toolset: str, who: ActingFor = THE_ONE) -> tuple[ToolSpec, ...]:
        """The tools of the toolset that this session may call: what every count of it counts."""
        limits = self.limits(session, who)
        return tuple(spec for spec in members(self.definitions, toolset) if limits.refusal(spec) is None)

    def groups(self, session: Session, who: ActingFor = THE_ONE) -> list[tuple[ToolsetSpec, int, bool]]:
        """Each toolset, how many of its tools this session may call, and whether it has loaded all of these."""
        limits = self.limits(session, who)
        listed = {spec.name for spec in self.loaded_tools(session, who)}
        inside: dict[str, list[str]] = {}
        for spec in self.definitions.tools:
            if limits.refusal(spec) is None:
                for name in spec.toolsets:
                    inside.setdefault(name, []).append(spec.name)
        found = [(toolset, inside.get(toolset.name, [])) for toolset in self.definitions.toolsets]
        return [(toolset, len(names), bool(names) and listed.issuperset(names)) for toolset, names in found]

    def is_loaded(self, session: Session, toolset: str, who: ActingFor = THE_ONE) -> bool:
        """Whether the session has loaded every tool of the toolset that may be called; one without any is not."""
        allowed = self.callable_tools(session, toolset, who)
        listed = {spec.name for spec in self.loaded_tools(session, who)}
        return bool(allowed) and all(spec.name in listed for spec in allowed)

    def refusal(self, session: Session, name: str) -> ToolError | None:
        limits = self.limits(session)
        if self.specs[name].is_denied:
            return block(name)
        if not limits.excluded and not limits.read_only and not session.asked:
            return None
        reason = limits.refusal(self.specs[name])
        if reason is None:
            return None
        code, words = reason
        next = "Ask the operator to lift the limit, or use another tool; tool_search finds those that are allowed."
        return ToolError(f"{name} cannot be called: {words}. {next}", code=code, next=next)


def _names(text: str) -> frozenset[str]:
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def _remember(cache: dict, key: object, value: object) -> None:  # type: ignore[type-arg]
    if len(cache) >= _MOST_REMEMBERED:
        del cache[next(iter(cache))]
    cache[key] = value


def sizes(audience: Audience, session: Session, specs: Iterable[ToolSpec], who: ActingFor = THE_ONE) -> int:
    """Bytes that these tools take in this session's list."""
    view = audience.view(session, who)
    shape = session.revision.shape
    return sum(len(tool.fragment(shape)) + 1 for spec in specs if (tool := view.find(spec.name)) is not None)
