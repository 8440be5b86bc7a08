"""Forms that a server wants filled in: what is asked, what must not be asked, and what an accepted form holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json

__all__ = ["CANCELLED", "Form", "fill_in", "is_for_a_secret", "read_form"]

CANCELLED: Final[Mapping[str, Json]] = {"action": "cancel"}
_ACTIONS: Final = ("accept", "decline", "cancel")
_SECRET: Final = re.compile(r"password|passwd|passphrase|passcode|secret|token|credential|apikey|creditcard|cardnumber")
_SECRET_WORDS: Final = frozenset(("key", "keys", "card", "cards", "pin", "pwd", "cvv", "cvc", "otp"))
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MOST_SHOWN: Final = 4_000  # characters of a message


class Form(msgspec.Struct, frozen=True):
    """`schema` is a flat object of primitives, as the server sent it."""

    message: str
    schema: dict[str, Json]


def read_form(params: Mapping[str, Json]) -> Form | None:
    """The params of `elicitation/create`; None for one that wants a URL visited. ProtocolError: neither."""
    if params.get("mode", "form") != "form":
        return None
    message, schema = params.get("message"), params.get("requestedSchema")
    if not isinstance(message, str) or not isinstance(schema, dict):
        raise ProtocolError(INVALID_PARAMS, "a form has a message and a requestedSchema")
    if not isinstance(schema.get("properties", {}), dict):
        raise ProtocolError(INVALID_PARAMS, "the properties of a form are an object")
    return Form(message[:_MOST_SHOWN], schema)


def _fields(form: Form) -> Mapping[str, Json]:
    found = form.schema.get("properties")
    return found if isinstance(found, dict) else {}


def is_for_a_secret(form: Form) -> bool:
    """Whether a field's name or title asks for a password, a token, a key or a card."""
    for name, field in _fields(form).items():
        title = field.get("title") if isinstance(field, dict) else None
        for text in (name, title):
            if isinstance(text, str) and _names_a_secret(text):
                return True
    return False


def _names_a_secret(text: str) -> bool:
    joined = re.sub(r"[^a-z]", "", text.lower())
    return bool(_SECRET.search(joined)) or any(word.lower() in _SECRET_WORDS for word in _WORDS.findall(text))


def fill_in(form: Form, answer: Mapping[str, Json]) -> dict[str, Json]:
    """The answer to send: a field that an accepted form leaves out gets the schema's default. What is no answer at all
    is a cancelled one."""
    action = answer.get("action")
    if action not in _ACTIONS:
        return dict(CANCELLED)
    if action != "accept":
        return {"action": action}
    content = answer.get("content")
    filled = dict(content) if isinstance(content, dict) else {}
    for name, field in _fields(form).items():
        if name not in filled and isinstance(field, dict) and "default" in field:
            filled[name] = field["default"]
    return {"action": "accept", "content": filled}
