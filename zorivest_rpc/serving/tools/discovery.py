"""The tools about tools: toolsets and loading them, searching the catalogue, and calling what is not listed.

They answer from memory, so they work with the backend down and the guard locked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome, give
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.mcp.catalog.tool import FORBIDDEN
from zorivest_rpc.mcp.protocol.content import text
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.audience import THE_ONE, ActingFor, Audience, sizes
from zorivest_rpc.serving.catalog.search import SearchIndex
from zorivest_rpc.serving.catalog.spec import Definitions, Mode, ToolsetSpec, ToolSpec
from zorivest_rpc.serving.catalog.toolsets import always_loaded, members, toolset_names
from zorivest_rpc.serving.modes.detect import Profile
from zorivest_rpc.serving.modes.present import present_input

__all__ = ["Discovery"]

_BYTES_PER_TOKEN: Final = 4  # of JSON in English; an estimate for people, not a bill


class Discovery:
    """`changed` tells a session that its list is another one now; `run` is the chain of a tool by name."""

    def __init__(
        self,
        audience: Audience,
        changed: Callable[[Session], None],
        run: Callable[[str], Handler],
        *,
        acting_for: Callable[[Call], ActingFor] = lambda call: THE_ONE,
        refusal: Callable[[Call, str], ToolError | None] | None = None,
        inner_arguments: Callable[[Call, dict[str, Json]], dict[str, Json]] = lambda call, given: given,
        toolset: Callable[[Call, ToolsetSpec, int], ToolsetSpec] = lambda call, toolset, count: toolset,
    ) -> None:
        """Where the server acts for several clients, `acting_for` says for which a call is, `refusal` what it may not
        do, `inner_arguments` takes the client's id out of the arguments of a tool that is called by name, and `toolset`
        tells a toolset (with so many tools) as the client of a call has it."""
        self._acting_for = acting_for
        self._refusal = refusal or (lambda call, name: audience.refusal(call.session, name))
        self._inner_arguments = inner_arguments
        self._toolset = toolset
        self._audience = audience
        self._changed = changed
        self._run = run
        self._index: tuple[Definitions, SearchIndex] | None = None

    def handlers(self) -> dict[str, Handler]:
        return {
            "list_available_toolsets": self.list_available_toolsets,
            "describe_toolset": self.describe_toolset,
            "enable_toolset": self.enable_toolset,
            "tool_search": self.tool_search,
            "call_tool": self.call_tool,
        }

    async def list_available_toolsets(self, call: Call) -> Outcome:
        audience, session, who = self._audience, call.session, self._acting_for(call)
        listed = self._listed_now(session, who)
        shown = []
        for toolset in audience.definitions.toolsets:
            if not who.has_toolset(toolset.name):
                continue
            inside = audience.callable_tools(session, toolset.name, who)
            toolset = self._toolset(call, toolset, len(inside))  # noqa: PLW2901 - as this client has it
            size = sizes(audience, session, inside, who)
            entry = {
                "name": toolset.name,
                "description": toolset.description,
                "tool_count": len(inside),
                "loaded": audience.is_loaded(session, toolset.name, who),
                "always_loaded": toolset.always_loaded,
                "definition_bytes": size,
                "estimated_tokens": size // _BYTES_PER_TOKEN,
            }
            if listed is not None:
                entry["listed_now"] = sum(spec.name in listed for spec in inside)
            if toolset.upstream:
                entry |= {"source": "upstream", "status": toolset.status, "error": toolset.error}
            shown.append(entry)
        return give({"toolsets": shown, "total_tools": sum(entry["tool_count"] for entry in shown)})

    async def describe_toolset(self, call: Call) -> Outcome:
        who = self._acting_for(call)
        name = self._require_known(call.arguments["toolset_name"], who)
        audience = self._audience
        toolset = next(each for each in audience.definitions.toolsets if each.name == name)
        session, allowed = call.session, audience.callable_tools(call.session, name, who)
        toolset = self._toolset(call, toolset, len(allowed))
        listed = self._listed_now(session, who)
        given: dict[str, Json] = {
            "name": name,
            "description": toolset.description,
            "loaded": audience.is_loaded(session, name, who),
            "tool_count": len(allowed),
            "tools": [
                self._describe(spec) | ({} if listed is None else {"listed": spec.name in listed}) for spec in allowed
            ],
        }
        # A tool of another server that is denied is in no list; held and withdrawn ones have no place in the toolset.
        denied = (spec for spec in audience.definitions.withheld if spec.toolset == name and spec.is_denied)
        refused = [
            {"name": spec.name, "reason": self._reason(session, spec, who), **_facts(spec)}
            for spec in (*members(audience.definitions, name), *denied)
            if spec not in allowed and not self._is_of_others(session, spec, who)
        ]
        if refused:
            given["refused"] = refused
        return give(given)

    def _listed_now(self, session: Session, who: ActingFor) -> frozenset[str] | None:
        """What is listed now; None where no list follows the journal, so that there is nothing to tell apart."""
        if self._audience.exposure is None:
            return None
        return frozenset(spec.name for spec in self._audience.visible_tools(session, who))

    def _is_of_others(self, session: Session, spec: ToolSpec, who: ActingFor) -> bool:
        """A tool of a server that is for other clients is no tool of this one's: it is not told."""
        if not spec.clients:
            return False
        refusal = self._audience.limits(session, who).refusal(spec)
        return refusal is not None and refusal[0] == "client_toolset"

    def _reason(self, session: Session, spec: ToolSpec, who: ActingFor) -> str:
        refusal = self._audience.limits(session, who).refusal(spec)
        return "" if refusal is None else refusal[1]

    def _describe(self, spec: ToolSpec) -> dict[str, Json]:
        return {**self._outline(spec), **_facts(spec)}

    def _outline(self, spec: ToolSpec) -> dict[str, Json]:
        return {
            "name": spec.name,
            "description": spec.description.minimal,
            "annotations": {
                "readOnlyHint": spec.annotations.read_only_hint,
                "destructiveHint": spec.annotations.destructive_hint,
                "idempotentHint": spec.annotations.idempotent_hint,
            },
        }

    async def enable_toolset(self, call: Call) -> Outcome:
        """Unknown, loaded already, not for this client, or done: in this order."""
        who = self._acting_for(call)
        name = self._require_known(call.arguments["toolset_name"], who)
        audience, session = self._audience, call.session
        allowed = audience.callable_tools(session, name, who)
        if audience.is_loaded(session, name, who):
            return give({"message": f'Toolset "{name}" is already loaded ({len(allowed)} tools).', "toolset": name})
        if not allowed:
            return self._load_without_tools(call, name, who)
        definitions = [audience.definition(session, spec, who) for spec in allowed]
        lines = "\n".join(f"- {spec.name}: {spec.description.minimal}" for spec in allowed)
        if session.revision.modern:
            message = (
                f'Toolset "{name}" has {len(allowed)} tools. In this protocol revision a list does not change because '
                "of a call: run them with call_tool (name and arguments)."
            )
            return self._answer_loaded(session, {"message": message, "toolset": name, "tools": definitions}, lines)
        profile = audience.profile(session)
        if profile.mode is Mode.STATIC:
            restart = f"Restart the MCP server with --toolsets {self._with(session, name)} to include this category."
            raise ToolError(
                f"Dynamic tool loading is not supported by your IDE. {restart} Without a restart: tool_search shows "
                f"the inputs of its tools and call_tool runs them by name.\n{lines}",
                code="static_client",
                next=f"Use call_tool with one of: {', '.join(spec.name for spec in allowed)}.",
            )
        session.toolsets |= {name}
        message = f'✅ Toolset "{name}" enabled ({len(allowed)} tools). {_how_soon(profile)}'
        count, limit = len(audience.visible_tools(session, who)), profile.traits.tool_limit
        given: dict[str, Json] = {"message": message, "toolset": name, "tools": definitions}
        if limit is not None and count > limit:
            given["warning"] = (
                f"{count} tools are listed now; {profile.title} works best with at most {limit}. "
                "call_tool runs tools without listing them."
            )
        outcome = self._answer_loaded(session, given, lines)
        outcome.after = [lambda: self._changed(session)]
        return outcome

    def _load_without_tools(self, call: Call, name: str, who: ActingFor) -> Outcome:
        """Another server may have prompts and resources alone, and they are listed once its toolset is loaded."""
        audience, session = self._audience, call.session
        toolset = self._toolset(call, next(each for each in audience.definitions.toolsets if each.name == name), 0)
        can_load = not session.revision.modern and audience.profile(session).mode is not Mode.STATIC
        is_there = toolset.upstream and toolset.status in ("ready", "degraded")
        if not (can_load and is_there) or members(audience.definitions, name) or name in session.toolsets:
            raise self._refuse_empty(call, name, who)
        session.toolsets |= {name}
        message = f'✅ Toolset "{name}" enabled. It has no tools; prompts and resources that its server has are listed.'
        outcome = give({"message": message, "toolset": name})
        outcome.after = [lambda: self._changed(session)]
        return outcome

    def _refuse_empty(self, call: Call, name: str, who: ActingFor) -> ToolError:
        """A toolset without a tool that may be called: its server is away, or a limit forbids all of them."""
        definitions = self._audience.definitions
        toolset = self._toolset(call, next(each for each in definitions.toolsets if each.name == name), 0)
        inside = [spec for spec in members(definitions, name) if not self._is_of_others(call.session, spec, who)]
        reason = self._audience.limits(call.session, who).refusal(inside[0]) if inside else None
        if reason is not None:
            code, why = reason
            advice = "Ask the operator to lift the limit."
        else:
            code, why = "empty", (toolset.error or _why_empty(toolset)).removesuffix(".")
            advice = "Call list_available_toolsets later, or ask the operator."
        return ToolError(f'Toolset "{name}" cannot be enabled: {why}. {advice}', code=code, next=advice)

    def _with(self, session: Session, name: str) -> str:
        """The toolsets of a restart that adds one: a choice replaces the one before, so what is loaded is named too."""
        audience = self._audience
        kept = {name, *audience.selection(session).toolsets}
        always = always_loaded(audience.definitions)
        return ",".join(
            each
            for each in toolset_names(audience.definitions)
            if each not in always and (each in kept or audience.is_loaded(session, each))
        )

    def _answer_loaded(self, session: Session, value: dict[str, Json], lines: str) -> Outcome:
        """The text names the tools; it repeats their definitions only where the model would not get them otherwise,
        neither in a new list nor as structure."""
        traits = self._audience.profile(session).traits
        lists_them = not session.revision.modern and traits.list_changed == "yes"
        sees_structure = session.revision.structured and traits.structured == "preferred"
        shown = value
        if lists_them or sees_structure:
            shown = {key: entry for key, entry in value.items() if key != "tools"}
        return Outcome([text(f"{value['message']}\n{lines}"), text(dumps(shown).decode())], value)

    def _require_known(self, name: str, who: ActingFor) -> str:
        known = [each for each in toolset_names(self._audience.definitions) if who.has_toolset(each)]
        if name in known:
            return name
        near = nearest(name, known)
        next = f'Did you mean "{near}"?' if near else f"There are: {', '.join(known)}."
        raise ToolError(
            f'Unknown toolset "{shorten(name)}". Use list_available_toolsets to see available groups. {next}',
            code="unknown_toolset",
            next=next,
        )

    async def tool_search(self, call: Call) -> Outcome:
        """The whole catalogue within the session's limits, listed or not."""
        definitions = self._audience.definitions
        if self._index is None or self._index[0] is not definitions:
            self._index = (definitions, SearchIndex(definitions.tools))
        index = self._index[1]
        query, limit = call.arguments["query"], call.arguments.get("limit", 5)
        regex = call.arguments.get("mode", "bm25") == "regex"
        found = index.expression(query) if regex else index.words(query)
        who, session = self._acting_for(call), call.session
        limits = self._audience.limits(session, who)
        specs = [match.tool for match in found if limits.refusal(match.tool) is None]
        listed = {spec.name for spec in self._audience.visible_tools(session, who)}
        matches = [
            {
                "name": spec.name,
                "toolset": spec.toolset,
                "description": spec.description.rich,
                "inputSchema": present_input(spec, who.clients),
                "annotations": self._outline(spec)["annotations"],
                "listed": spec.name in listed,
            }
            for spec in specs[:limit]
        ]
        given: dict[str, Json] = {"matches": matches, "total": len(specs)}
        if not matches:
            given["hint"] = "Nothing matches. Try other words, or list_available_toolsets for the groups there are."
        elif not all(entry["listed"] for entry in matches):
            given["hint"] = "A tool that is not listed runs through call_tool with its name and arguments."
        return give(given)

    async def call_tool(self, call: Call) -> Outcome:
        """The same validation, limits and chain as a direct call; the inner tool is the one that is counted."""
        name, arguments = call.arguments["name"], call.arguments.get("arguments", {})
        spec = self._audience.specs.get(name)
        if spec is None or name == "call_tool":
            raise self._refuse_unknown(name)
        arguments = self._inner_arguments(call, arguments)
        refusal = self._refusal(call, name)
        if refusal is not None:
            raise refusal
        view = call.view or self._audience.view(call.session)
        tool = view.find(name)
        assert tool is not None
        arguments = view.check(tool, arguments)
        if tool.task != FORBIDDEN:
            call.continue_as_task()
        return await self._run(name)(call.dispatch(name, arguments))

    def _refuse_unknown(self, name: str) -> ToolError:
        if name == "call_tool":
            next = "Name the tool you want to run."
            return ToolError(f"call_tool cannot call itself. {next}", code="recursion", next=next)
        near = nearest(name, self._audience.specs)
        next = (f'Did you mean "{near}"? ' if near else "") + "tool_search finds tools by what they do."
        return ToolError(f'There is no tool "{shorten(name)}". {next}', code="unknown_tool", next=next)


def _facts(spec: ToolSpec) -> dict[str, Json]:
    """What a tool of another server is there, and what the policy says of it."""
    facts: dict[str, Json] = {"upstream_name": spec.upstream_name, "pinned": spec.is_pinned} if spec.upstream else {}
    return facts if spec.ruling is None else {**facts, "confirmation": spec.ruling.verdict}


def _how_soon(profile: Profile) -> str:
    """When the new tools can be called by name. A client that reloads its list late still sends the model's next
    request with the old one (seen with Gemini CLI), so the way that needs no list is named with it."""
    refreshes = profile.traits.list_changed
    if refreshes == "yes":
        return "Tools are now available."
    if refreshes == "next-turn" or profile.mode is Mode.ANTHROPIC:
        return "Tools are available from your next turn, or now with call_tool."
    return "Your client may not refresh its list; call_tool works at once."


def _why_empty(toolset: ToolsetSpec) -> str:
    return "it has no tools" if toolset.status in ("", "ready") else f"it is {toolset.status}"
