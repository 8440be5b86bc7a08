"""Whether a call runs, is confirmed first, or is refused: one table for our own tools and those of other servers.

The table is the contract's, cell by cell. What a server says of its own tools can raise the answer and, where the
server is not trusted, never lower it; what stands in the arguments of a call has no part in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.patterns import is_literal, matches, matches_any

__all__ = [
    "EXEMPT",
    "Decision",
    "Subject",
    "classify",
    "decide",
    "depends_on_client",
]

Provenance = Literal["built-in", "upstream"]
Class = Literal["R", "W", "D"]  # reads only, writes, destructive

# They find, describe and confirm; `call_tool` runs another tool, which is judged itself.
EXEMPT: Final = frozenset(
    (
        *("list_available_toolsets", "describe_toolset", "enable_toolset", "get_confirmation_token", "list_clients"),
        *("zorivest_diagnose", "tool_search", "call_tool"),
    )
)

A, C, AUTO = "A", "C", "A*"  # allow; confirm; allow what would have been confirmed, and log it
ASKED_BY_CLIENT, UNLESS_SWITCHED_OFF = "C†", "C§"
# (provenance, destructive, mode) -> the cells for: no list, require, approve, require and approve
_TABLE: Final[Mapping[tuple[str, bool, str], tuple[str, str, str, str]]] = {
    ("built-in", False, "never"): (A, C, A, AUTO),
    ("built-in", False, "mcp-only"): (A, C, A, AUTO),
    ("built-in", False, "always"): (C, C, AUTO, AUTO),
    ("built-in", True, "never"): (ASKED_BY_CLIENT, C, AUTO, AUTO),
    ("built-in", True, "mcp-only"): (ASKED_BY_CLIENT, C, AUTO, AUTO),
    ("built-in", True, "always"): (C, C, AUTO, AUTO),
    ("upstream", False, "never"): (A, C, A, AUTO),
    ("upstream", False, "mcp-only"): (C, C, AUTO, AUTO),
    ("upstream", False, "always"): (C, C, AUTO, AUTO),
    ("upstream", True, "never"): (UNLESS_SWITCHED_OFF, C, AUTO, AUTO),
    ("upstream", True, "mcp-only"): (C, C, AUTO, AUTO),
    ("upstream", True, "always"): (C, C, AUTO, AUTO),
}


class Subject(NamedTuple):
    """A tool as it is judged. `changed`: its definition is not the pinned one, which suspends an approval."""

    name: str
    provenance: Provenance
    kind: Class
    changed: bool = False


class Decision(NamedTuple):
    """`allow`, `confirm` or `deny`; `reason` is why it is confirmed, `auto` whether a list spared a confirmation."""

    verdict: Literal["allow", "confirm", "deny"]
    reason: str | None = None
    auto: bool = False
    list: str | None = None  # the list that decided, for people: approve_tool, deny_tool


def classify(
    provenance: Provenance, annotations: Mapping[str, Any] | None, *, trusted: bool = False, gated: bool = False
) -> Class:
    """The class of a tool. `gated`: a built-in that asks first, an import that does included. Only an explicit
    `destructiveHint: true` counts as destructive, and it counts from everybody."""
    hints = annotations or {}
    if hints.get("destructiveHint") is True or (provenance == "built-in" and gated):
        return "D"
    believed = provenance == "built-in" or trusted
    return "R" if believed and hints.get("readOnlyHint") is True else "W"


def decide(profile: Profile, subject: Subject, *, confirm: str = "auto", client_asks: bool = False) -> Decision:
    """What becomes of a call. `confirm` is the server-wide `--confirm`; `client_asks` says that this client, over
    stdio, is known to ask its user for a tool with these hints. Its name is its own word, so any channel but `auto`
    takes no notice of it."""
    if matches_any(profile.deny_tool, subject.name):
        return Decision("deny", list="deny_tool")
    if _is_exempt(subject):
        return Decision("allow")
    required, approved = _listed(profile, subject)
    mode = profile.tool_confirmation_mode
    cell = _TABLE[subject.provenance, subject.kind == "D", mode][required + 2 * approved]
    if cell == ASKED_BY_CLIENT:
        cell = _built_in_cell(confirm, client_asks and profile.confirmation_channel == "auto")
    elif cell == UNLESS_SWITCHED_OFF:
        cell = C if profile.confirm_destructive else A
    if cell == C:
        return Decision("confirm", _reason(subject, mode, required))
    return Decision("allow", auto=cell == AUTO, list="approve_tool" if approved else None)


def depends_on_client(profile: Profile, subject: Subject) -> bool:
    """Whether `--confirm` and the calling client decide: no list names the tool, and the mode leaves it to them."""
    if _is_exempt(subject) or matches_any(profile.deny_tool, subject.name):
        return False
    required, approved = _listed(profile, subject)
    row = _TABLE[subject.provenance, subject.kind == "D", profile.tool_confirmation_mode]
    return row[required + 2 * approved] == ASKED_BY_CLIENT


def _is_exempt(subject: Subject) -> bool:
    return subject.name in EXEMPT and subject.provenance == "built-in"


def _listed(profile: Profile, subject: Subject) -> tuple[bool, bool]:
    """Whether a list requires a confirmation, and whether one spares it: what destroys only by its own name."""
    approved = not subject.changed and any(
        matches(entry, subject.name) for entry in profile.approve_tool if is_literal(entry) or subject.kind != "D"
    )
    return matches_any(profile.require_confirm_tool, subject.name), approved


def _built_in_cell(confirm: str, delegated: bool) -> str:
    """The cell that `--confirm` and a client that asks by itself decide."""
    if confirm == "auto":
        return A if delegated else C
    return A if confirm == "never" else C


def _reason(subject: Subject, mode: str, required: bool) -> str:
    if required:
        return "listed in require_confirm_tool"
    if subject.kind == "D":
        return "destructive"
    return "mode always" if mode == "always" else "upstream tool"
