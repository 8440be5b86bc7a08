"""What each side said that it can do, reduced to the few facts that the other may act on."""

from __future__ import annotations

from typing import Final

import msgspec

from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.revisions import Revision

__all__ = [
    "NO_CAPABILITIES",
    "TASKS_EXTENSION",
    "Capabilities",
    "Offered",
    "read_capabilities",
    "read_offered",
    "required_by",
]

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"


class Capabilities(msgspec.Struct, frozen=True, gc=False):
    """`tasks` means the extension of 2026-07-28; the older task augmentation needs no word from the client."""

    sampling: bool = False
    sampling_tools: bool = False
    elicitation_form: bool = False
    elicitation_url: bool = False
    roots: bool = False
    tasks: bool = False
    list_changed: bool = False  # not in the specification; some clients say so, and mean that they reload lists

    def allows(self, method: str, params: Json) -> bool:
        """Whether this client declared that it can be asked this."""
        match method:
            case "elicitation/create":
                return self.elicitation_url if params.get("mode") == "url" else self.elicitation_form
            case "sampling/createMessage":
                return self.sampling and (self.sampling_tools or not {"tools", "toolChoice"} & params.keys())
            case "roots/list":
                return self.roots
        return False


NO_CAPABILITIES: Final = Capabilities()


def read_capabilities(declared: dict[str, Json], revision: Revision) -> Capabilities:
    """`elicitation: {}` means forms alone; a member of the wrong type counts as not declared."""

    def part(value: Json, key: str) -> Json:
        found = value.get(key) if isinstance(value, dict) else None
        return found if isinstance(found, dict) else None

    sampling, elicitation = part(declared, "sampling"), part(declared, "elicitation")
    asked = elicitation is not None and revision.elicitation
    url = asked and revision.url_elicitation and part(elicitation, "url") is not None
    return Capabilities(
        sampling=sampling is not None,
        sampling_tools=part(sampling, "tools") is not None,
        elicitation_form=asked and (part(elicitation, "form") is not None or not url),
        elicitation_url=url,
        roots=part(declared, "roots") is not None,
        list_changed=(part(declared, "tools") or {}).get("listChanged") is True,
        tasks=revision.modern and part(part(declared, "extensions"), TASKS_EXTENSION) is not None,
    )


def required_by(method: str, params: Json) -> dict[str, Json]:
    """The capabilities object that would allow this question; what error -32021 carries."""
    match method:
        case "elicitation/create":
            return {"elicitation": {"url": {}} if params.get("mode") == "url" else {}}
        case "sampling/createMessage":
            return {"sampling": {"tools": {}} if {"tools", "toolChoice"} & params.keys() else {}}
        case "roots/list":
            return {"roots": {}}
    return {}


class Offered(msgspec.Struct, frozen=True, gc=False):
    """What a server said that it has, reduced to the few facts that a client may act on."""

    tools: bool = False
    tools_changed: bool = False
    prompts: bool = False
    prompts_changed: bool = False
    resources: bool = False
    resources_changed: bool = False
    resources_subscribe: bool = False
    logging: bool = False
    completions: bool = False


def read_offered(declared: Json) -> Offered:
    """A member of the wrong type counts as not declared."""
    has = declared if isinstance(declared, dict) else {}

    def flag(part: str, name: str) -> bool:
        value = has.get(part)
        return isinstance(value, dict) and value.get(name) is True

    return Offered(
        tools=isinstance(has.get("tools"), dict),
        tools_changed=flag("tools", "listChanged"),
        prompts=isinstance(has.get("prompts"), dict),
        prompts_changed=flag("prompts", "listChanged"),
        resources=isinstance(has.get("resources"), dict),
        resources_changed=flag("resources", "listChanged"),
        resources_subscribe=flag("resources", "subscribe"),
        logging=isinstance(has.get("logging"), dict),
        completions=isinstance(has.get("completions"), dict),
    )
