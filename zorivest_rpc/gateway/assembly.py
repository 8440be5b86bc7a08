"""The one function that puts a catalogue together: our own tools as the operator's policy has them, and other servers'.

Rule 1: no other code makes `Definitions` with a policy applied or with a tool of another server in them, so no tool
        escapes its policy, and none is added after it.
Rule 2: where the policy says nothing more than a tool's own file, the tool stays the very same object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.toolsets import list_toolsets
from zorivest_rpc.serving.catalog.approval import TOKEN, takes_tokens
from zorivest_rpc.serving.catalog.spec import Definitions, Ruling, ToolSpec

if TYPE_CHECKING:
    from zorivest_rpc.gateway.policy import Decision

__all__ = ["assemble", "names_no_tool", "ruling_of", "with_token"]

_TOKEN_PROPERTY: Final = {
    "type": "string",
    "description": "From get_confirmation_token, where the client shows no form.",
}
_ALWAYS: Final = -1  # entries that an import may write without a confirmation


def _waiting(server: Server) -> tuple[int, str, str | None]:
    return 0, "connecting", None


def assemble(
    base: Definitions,
    profile: Profile,
    theirs: Iterable[ToolSpec] = (),
    withheld: Iterable[ToolSpec] = (),
    look: Callable[[Server], tuple[int | None, str, str | None]] = _waiting,
) -> Definitions:
    """Our own first, then `theirs` in the given order. `look` gives a server's number of tools, state and error.

    ValueError for a tool that was not judged."""
    theirs, withheld = tuple(theirs), tuple(withheld)
    unjudged = [spec.name for spec in (*theirs, *withheld) if spec.ruling is None]
    if unjudged:
        raise ValueError(f"no policy was applied to {', '.join(unjudged)}")
    return msgspec.structs.replace(
        base,
        toolsets=(*base.toolsets, *list_toolsets(profile, look)),
        tools=(*_bind(profile, base.tools), *theirs),
        meta_tools=_bind(profile, base.meta_tools),
        withheld=withheld,
    )


def ruling_of(decision: Decision, *, mints: bool) -> Ruling:
    return Ruling(decision.verdict, decision.reason, decision.auto, mints)


def with_token(schema: dict[str, Any]) -> dict[str, Any]:
    """The token is the last property and optional (publish pipeline, step 3)."""
    properties = schema.get("properties", {})
    return schema if TOKEN in properties else {**schema, "properties": {**properties, TOKEN: _TOKEN_PROPERTY}}


def names_no_tool(profile: Profile, names: Collection[str], unknown: Iterable[Server] = ()) -> list[str]:
    """One sentence for each entry of a list that matches no tool. What may yet be a tool of an `unknown` server, whose
    list was not read so far, is left for later."""
    from zorivest_rpc.gateway.patterns import matches_any

    waited_for = tuple(unknown)
    lists = (
        ("require_confirm_tool", profile.require_confirm_tool),
        ("approve_tool", profile.approve_tool),
        ("deny_tool", profile.deny_tool),
    )
    return [
        f'{key}: "{entry}" matches no tool'
        for key, entries in lists
        for entry in entries
        if not any(matches_any((entry,), name) for name in names)
        and not any(_may_name(entry, server) for server in waited_for)
    ]


def _may_name(entry: str, server: Server) -> bool:
    """Whether the entry could match a tool that the server may publish."""
    from zorivest_rpc.gateway.patterns import matches_any

    if not server.prefix or any(matches_any((entry,), alias) for alias in server.tool_aliases.values()):
        return True
    head, star, _ = entry.partition("*")
    prefix = f"{server.name}__"
    return head.startswith(prefix) or (bool(star) and prefix.startswith(head))


def _bind(profile: Profile, tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    says_more = (
        profile.tool_confirmation_mode == "always"
        or profile.require_confirm_tool
        or profile.approve_tool
        or profile.deny_tool
    )
    return tuple(_bind_one(profile, spec) for spec in tools) if says_more else tuple(tools)


def _bind_one(profile: Profile, spec: ToolSpec) -> ToolSpec:
    from zorivest_rpc.gateway.policy import Decision, Subject, classify, decide, depends_on_client

    hints = {"readOnlyHint": spec.reads_only, "destructiveHint": spec.annotations.destructive_hint}
    kind = classify("built-in", hints, gated=spec.is_gated)
    subject = Subject(spec.name, "built-in", kind)
    decision = decide(profile, subject)
    if (spec.is_gated and depends_on_client(profile, subject)) or (decision == Decision("allow") and not spec.is_gated):
        return spec
    ruling = ruling_of(decision, mints=not spec.is_gated)
    if decision.verdict == "deny":
        return msgspec.structs.replace(spec, ruling=ruling)
    if decision.verdict == "allow":
        return msgspec.structs.replace(spec, ruling=ruling, confirm=False, confirm_above=None)
    if spec.confirm_above is not None:  # confirmed for the bytes of its file, which are read before it is asked
        return msgspec.structs.replace(spec, ruling=ruling, confirm_above=_ALWAYS)
    schema = with_token(spec.input_schema) if takes_tokens(profile.confirmation_channel) else spec.input_schema
    return msgspec.structs.replace(spec, ruling=ruling, confirm=True, input_schema=schema)
