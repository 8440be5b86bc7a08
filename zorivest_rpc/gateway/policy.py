"""Whether a call runs, is confirmed first, or is refused: one table for our own tools and those of other servers.

The table is the contract's, cell by cell. What a server says of its own tools can raise the answer and, where the
server is not trusted, never lower it; what stands in the arguments of a call has no part in it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from zorivest_rpc.errors import ConfirmationRequired
from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.patterns import is_literal, matches, matches_any

__all__ = [
    "EXEMPT",
    "Channel",
    "Decision",
    "Subject",
    "blocked",
    "choose_channel",
    "classify",
    "confirmation_required",
    "decide",
    "declined",
    "not_approved",
    "unmatched_entries",
]

Provenance = Literal["built-in", "upstream"]
Class = Literal["R", "W", "D"]  # reads only, writes, destructive
Channel = Literal["token", "elicitation", "console", "explain", "refuse"]

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
    name = subject.name
    if matches_any(profile.deny_tool, name):
        return Decision("deny", list="deny_tool")
    if name in EXEMPT and subject.provenance == "built-in":
        return Decision("allow")
    destructive = subject.kind == "D"
    required = matches_any(profile.require_confirm_tool, name)
    approved = not subject.changed and any(
        matches(entry, name) for entry in profile.approve_tool if is_literal(entry) or not destructive
    )
    mode = profile.tool_confirmation_mode
    cell = _TABLE[subject.provenance, destructive, mode][required + 2 * approved]
    if cell == ASKED_BY_CLIENT:
        cell = _built_in_cell(confirm, client_asks and profile.confirmation_channel == "auto")
    elif cell == UNLESS_SWITCHED_OFF:
        cell = C if profile.confirm_destructive else A
    if cell == C:
        return Decision("confirm", _reason(subject, mode, required))
    return Decision("allow", auto=cell == AUTO, list="approve_tool" if approved else None)


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


def choose_channel(setting: str, *, has_token: bool, can_ask: bool, has_console: bool = False) -> Channel:
    """How a call that has to be confirmed is confirmed: by its token, by a form, at the console; or what it is refused
    with: how a token is fetched (`explain`), or plainly (`refuse`)."""
    if setting == "auto":
        return "token" if has_token else "elicitation" if can_ask else "explain"
    if setting == "token":
        return "token" if has_token else "explain"
    if setting == "elicitation":
        return "elicitation" if can_ask else "refuse"
    return "console" if setting == "console" and has_console else "refuse"


def confirmation_required(tool: str, reason: str) -> ConfirmationRequired:
    step = f'Call get_confirmation_token with action "{tool}", then repeat this call with confirmation_token.'
    text = f'Confirmation required for "{tool}" ({reason}). {step}'
    return ConfirmationRequired(text, code="confirmation_missing", next=step)


def not_approved(tool: str) -> ConfirmationRequired:
    step = "An operator can add it to approve_tool."
    return ConfirmationRequired(f'"{tool}" needs approval and none was given. {step}', code="not_approved", next=step)


def blocked(tool: str) -> ConfirmationRequired:
    step = "Use another tool, or ask the operator."
    return ConfirmationRequired(f'"{tool}" is blocked by deny_tool.', code="denied", next=step)


def declined(tool: str) -> ConfirmationRequired:
    step = "Ask the user what to do instead."
    return ConfirmationRequired(f'The user declined "{tool}".', code="confirmation_declined", next=step)


def unmatched_entries(profile: Profile, names: Collection[str]) -> list[str]:
    """One warning for each entry of a list that matches no tool; `names` are all that exist, held ones included."""
    lists: tuple[tuple[str, Iterable[str]], ...] = (
        ("require_confirm_tool", profile.require_confirm_tool),
        ("approve_tool", profile.approve_tool),
        ("deny_tool", profile.deny_tool),
    )
    return [
        f'{name}: "{entry}" matches no tool'
        for name, entries in lists
        for entry in entries
        if not any(matches(entry, tool) for tool in names)
    ]
