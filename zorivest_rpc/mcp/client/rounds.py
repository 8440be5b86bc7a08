"""Results of the modern era that ask for input instead of being one, and the request that answers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET

from zorivest_rpc.errors import ProtocolError, ZorivestError
from zorivest_rpc.mcp.client.forms import CANCELLED, Form, fill_in, is_for_a_secret, read_form
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, Json, dumps
from zorivest_rpc.mcp.protocol.replies import InputRequired, Sent, read_reply

__all__ = ["ASKABLE", "MOST_ROUNDS", "InputUnsupported", "Round", "check_complete", "read_round", "repeat_params"]

ASKABLE: Final = frozenset(("tools/call", "prompts/get", "resources/read"))
MOST_ROUNDS: Final = 16
_MOST_QUESTIONS: Final = 16


class InputUnsupported(ZorivestError):
    """The server wants what was never declared: a sample, the roots, a URL visited, or an unanswerable form."""


class Round(msgspec.Struct, frozen=True):
    """Forms to be filled in, by the server's keys, and the state to be sent back as it came."""

    forms: Mapping[str, Form]
    state: bytes | None = None  # encoded

    @property
    def open_forms(self) -> dict[str, Form]:
        """Those that a person may see."""
        return {key: form for key, form in self.forms.items() if not is_for_a_secret(form)}

    def answer(self, given: Mapping[str, Mapping[str, Json]]) -> dict[str, Json]:
        """`inputResponses`; what was not answered is cancelled, and so is a form for a secret."""
        return {
            key: dict(CANCELLED) if is_for_a_secret(form) else fill_in(form, given.get(key, CANCELLED))
            for key, form in self.forms.items()
        }


def check_complete(result_type: Json, method: str) -> None:
    """A missing `resultType` counts as complete; input may be asked for by three methods alone."""
    if result_type is not UNSET and result_type != "complete":
        shown = shorten(result_type, 40) if isinstance(result_type, str) else "no text"
        raise ProtocolError(INVALID_REQUEST, f"{method} was answered with resultType {shown!r}")


def read_round(result: msgspec.Raw | bytes, method: str, can_ask: bool) -> Round | None:
    """None: the result is complete. Only the three members that decide are read; the others are passed over."""
    found = read_reply(result, InputRequired)
    assert isinstance(found, InputRequired)
    if found.result_type is UNSET or found.result_type == "complete":
        return None
    if found.result_type != "input_required" or method not in ASKABLE:
        check_complete(found.result_type, method)
    asked = {} if found.input_requests is UNSET else read_reply(found.input_requests, dict[str, Sent])
    state = None if found.request_state is UNSET else bytes(found.request_state)
    if not asked and state is None:
        raise ProtocolError(INVALID_REQUEST, "it asks for input and says neither which nor why")
    if state is not None and state[:1] != b'"':
        raise ProtocolError(INVALID_REQUEST, "requestState is not a string")
    if len(asked) > _MOST_QUESTIONS:
        raise ProtocolError(INVALID_REQUEST, f"it asks {len(asked)} questions at once")
    forms = {}
    for key, sent in asked.items():
        form = read_form(sent.params) if sent.method == "elicitation/create" else None
        if form is None or not can_ask:
            raise InputUnsupported(sent.method)
        forms[key] = form
    return Round(forms, state)


def repeat_params(params: bytes, round: Round, answers: Mapping[str, Json]) -> bytes:
    """The same request once more, with the answers and the unchanged state."""
    members = [params[1:-1].strip()]
    if round.forms:
        members.append(b'"inputResponses":' + dumps(answers))
    if round.state is not None:
        members.append(b'"requestState":' + round.state)
    return b"{%b}" % b",".join(member for member in members if member)
