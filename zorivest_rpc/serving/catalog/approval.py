"""By which way a call is confirmed, and the words for a call that the operator's policy does not let run."""

from __future__ import annotations

from typing import Final, Literal

from zorivest_rpc.errors import ConfirmationRequired, ToolError

__all__ = [
    "BLOCKED",
    "TOKEN",
    "Channel",
    "Way",
    "block",
    "choose_way",
    "confirmation_required",
    "declined",
    "not_approved",
    "takes_tokens",
]

Channel = Literal["auto", "elicitation", "token", "console", "none"]
Way = Literal["token", "elicitation", "console", "explain", "refuse"]
TOKEN: Final = "confirmation_token"
BLOCKED: Final = "it is blocked by deny_tool"


def takes_tokens(channel: str) -> bool:
    return channel in ("auto", "token")


def choose_way(channel: str, *, has_token: bool, can_ask: bool, has_console: bool = False) -> Way:
    """How a call that has to be confirmed is confirmed: by its token, by a form, at the console; or what it is refused
    with: how a token is fetched (`explain`), or plainly (`refuse`)."""
    if channel == "auto":
        return "token" if has_token else "elicitation" if can_ask else "explain"
    if channel == "token":
        return "token" if has_token else "explain"
    if channel == "elicitation":
        return "elicitation" if can_ask else "refuse"
    return "console" if channel == "console" and has_console else "refuse"


def confirmation_required(tool: str, reason: str, preface: str = "") -> ConfirmationRequired:
    step = f'Call get_confirmation_token with action "{tool}", then repeat this call with confirmation_token.'
    text = f'{preface}Confirmation required for "{tool}" ({reason}). {step}'
    return ConfirmationRequired(text, code="confirmation_missing", next=step)


def not_approved(tool: str) -> ConfirmationRequired:
    step = "An operator can add it to approve_tool."
    return ConfirmationRequired(f'"{tool}" needs approval and none was given. {step}', code="not_approved", next=step)


def block(tool: str) -> ToolError:
    step = "Use another tool, or ask the operator."
    return ConfirmationRequired(f'"{tool}" is blocked by deny_tool.', code="denied", next=step)


def declined(tool: str) -> ConfirmationRequired:
    step = "Ask the user what to do instead."
    return ConfirmationRequired(f'The user declined "{tool}".', code="confirmation_declined", next=step)
