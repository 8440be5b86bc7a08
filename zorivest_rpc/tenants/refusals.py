"""What is told where a call names no client that it can be done for: one text for each reason, and how to go on.

A client that is disabled or not granted reads like one that does not exist; the log alone knows better."""

from __future__ import annotations

import json
from typing import Any, Final

from zorivest_rpc.errors import ToolError

__all__ = [
    "NOTICE",
    "ClientRefused",
    "busy",
    "conflict",
    "enumerate_ids",
    "invalid",
    "missing",
    "more_than_one_header",
    "name_client",
    "out_of_bounds",
    "over_rate",
    "quote",
    "read_only",
    "timed_out",
    "unconfigured",
    "unknown",
]

NOTICE: Final = "The X-Client-ID header is deprecated. Send clientId with each tool call."
_MOST_NAMED: Final = 20
_SHOWN: Final = 64
_LIST: Final = "Call list_clients and use an id from it."
_INPUT, _POLICY, _BACKEND = "INPUT", "POLICY", "BACKEND"


class ClientRefused(ToolError):
    """A call whose client is unclear, unknown or limited; the model can correct all but the last itself."""

    def __init__(self, text: str, *, kind: str, code: str, next: str) -> None:
        super().__init__(text, code=code, next=next)
        self.kind = kind


def quote(value: Any) -> str:
    """A received value on one line: control characters escaped, and cut."""
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    shown = "".join(
        char if char.isprintable() and not "\ud800" <= char <= "\udfff" else json.dumps(char)[1:-1]
        for char in words[:_SHOWN]
    )
    return shown[:_SHOWN]


def enumerate_ids(ids: tuple[str, ...]) -> str:
    if not ids:
        return "none"
    more = len(ids) - _MOST_NAMED
    return ", ".join(ids[:_MOST_NAMED]) + (f" and {more} more (use list_clients)" if more > 0 else "")


def missing(ids: str) -> ClientRefused:
    words = f"clientId is required. Available clients: {ids}. Use list_clients for details."
    return ClientRefused(words, kind=_INPUT, code="client_missing", next=_LIST)


def invalid(given: Any, ids: str) -> ClientRefused:
    words = f'Invalid client ID: "{quote(given)}". Use only a-z, 0-9, "-" and "_". Available clients: {ids}.'
    return ClientRefused(words, kind=_INPUT, code="client_invalid", next=_LIST)


def unknown(given: Any, ids: str) -> ClientRefused:
    words = f'Unknown client ID: "{quote(given)}". Available clients: {ids}.'
    return ClientRefused(words, kind=_INPUT, code="client_unknown", next=_LIST)


def unconfigured(id: str, others: str) -> ClientRefused:
    words = f'Client "{id}" is not usable: its credential is not configured on the server. Other clients: {others}.'
    next = "Ask the operator to configure its credential."
    return ClientRefused(words, kind=_BACKEND, code="client_unconfigured", next=next)


def more_than_one_header() -> ClientRefused:
    words = "More than one X-Client-ID header was sent. Send exactly one, or use clientId."
    return ClientRefused(words, kind=_INPUT, code="client_header_multiple", next="Send clientId with each tool call.")


def conflict(id: str, other: Any, *, inner: bool = False) -> ClientRefused:
    what = "inner clientId" if inner else "X-Client-ID header"
    words = f'clientId "{id}" and {what} "{quote(other)}" differ. Send only clientId.'
    return ClientRefused(words, kind=_INPUT, code="client_conflict", next="Send only clientId.")


def read_only(id: str, tool: str) -> ClientRefused:
    words = f'Client "{id}" is read-only; "{tool}" changes data.'
    next = "Use a tool that only reads, or ask the operator."
    return ClientRefused(words, kind=_POLICY, code="client_readonly", next=next)


def out_of_bounds(id: str, tool: str) -> ClientRefused:
    words = f'"{tool}" is not enabled for client "{id}".'
    next = "Use another tool; list_available_toolsets names what this client has."
    return ClientRefused(words, kind=_POLICY, code="client_toolset", next=next)


def over_rate(id: str, limit: int, seconds: int) -> ClientRefused:
    words = f'Client "{id}" is limited to {limit} calls per minute; try again in {seconds} s.'
    return ClientRefused(words, kind=_POLICY, code="client_rate", next=f"Wait {seconds} s and call again.")


def busy(id: str, limit: int) -> ClientRefused:
    words = f'Client "{id}": {limit} of its calls are being done already; wait for one to end and try again.'
    return ClientRefused(words, kind=_BACKEND, code="client_busy", next="Wait for a call of this client to end.")


def timed_out(id: str, milliseconds: int) -> ClientRefused:
    words = f'Client "{id}": the backend gave no answer within {milliseconds} ms.'
    return ClientRefused(words, kind=_BACKEND, code="client_timeout", next="Try again later.")


def name_client(error: ToolError, id: str) -> ToolError:
    """The same failure of a backend, with the client that it belongs to in front."""
    words = f'Client "{id}": '
    if words not in error.text:
        error.text = words + error.text
        error.args = (error.text,)
    if words not in error.problem:
        error.problem = words + error.problem
    return error
