"""Forms that a server wants filled in: what is asked, what must not be asked, and what an accepted form holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_PARAMS, Json

__all__ = ["CANCELLED", "Form", "fill_in", "is_for_a_secret", "names_a_secret", "read_form"]

CANCELLED: Final[Mapping[str, Json]] = {"action": "cancel"}
_ACTIONS: Final = ("accept", "decline", "cancel")
_SECRET: Final = re.compile(r"password|passwd|passphrase|passcode|secret|token|credential|apikey|creditcard|cardnumber")
_SECRET_WORDS: Final = frozenset(("key", "keys", "card", "cards", "pin", "pwd", "cvv", "cvc", "otp"))
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_MOST_SHOWN: Final = 4_000  # characters of a message
_MOST_FIELDS: Final = 64
_MOST_CHOICES: Final = 256
_MOST_NAME: Final = 128


class Form(msgspec.Struct, frozen=True):
    """`schema` is a flat object of values and choices, as far as the server's was one."""

    message: str
    schema: dict[str, Json]


def read_form(params: Mapping[str, Json]) -> Form | None:
    """The params of `elicitation/create`; None for one that wants a URL visited. ProtocolError: neither."""
    if params.get("mode", "form") != "form":
        return None
    message, schema = params.get("message"), params.get("requestedSchema")
    if not isinstance(message, str) or not isinstance(schema, dict):
        raise ProtocolError(INVALID_PARAMS, "a form has a message and a requestedSchema")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise ProtocolError(INVALID_PARAMS, "the properties of a form are an object")
    if len(properties) > _MOST_FIELDS or any(len(name) > _MOST_NAME for name in properties):
        raise ProtocolError(INVALID_PARAMS, f"a form has at most {_MOST_FIELDS} fields with short names")
    fields = {name: _read_field(name, field) for name, field in properties.items()}
    plain: dict[str, Json] = {"type": "object", "properties": fields}
    required = schema.get("required")
    if isinstance(required, list):
        plain["required"] = [name for name in fields if name in required]
    return Form(message[:_MOST_SHOWN], plain)


def _read_field(name: str, field: Json) -> dict[str, Json]:
    """A field as far as a form may have one: a value or a choice. A reference, a pattern and whatever else a schema can
    hold is left out: it would be followed, or run, by whoever checks the answer."""
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(field, dict) or (kind is not None and not (isinstance(kind, str) and kind in _KINDS)):
        raise ProtocolError(INVALID_PARAMS, f"the field {name[:80]!r} of a form is neither a value nor a choice")
    plain = {key: field[key] for key, fits in _MEMBERS.items() if key in field and fits(field[key])}
    if kind == "array":
        items = field.get("items")
        items = items if isinstance(items, dict) else {}
        plain["items"] = {
            key: items[key] for key in ("type", "enum", "anyOf") if key in items and _MEMBERS[key](items[key])
        }
        if not plain["items"].keys() & {"enum", "anyOf"}:
            raise ProtocolError(INVALID_PARAMS, f"the field {name[:80]!r} of a form is a list without choices")
    if "default" in field and (kind is None or type(field["default"]) in _KINDS[str(kind)]):
        plain["default"] = field["default"]
    return plain


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_SHOWN


def _is_number(value: Json) -> bool:
    return type(value) in (int, float)


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and 0 < len(value) <= _MOST_CHOICES and all(map(_is_text, value))


def _are_choices(value: Json) -> bool:
    """Constants, each with a title."""
    return isinstance(value, list) and 0 < len(value) <= _MOST_CHOICES and all(map(_is_choice, value))


def _is_choice(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= {"const", "title", "description"}
        and all(map(_is_text, value.values()))
    )


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {  # and what a default of each is
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
}
_MEMBERS: Final[Mapping[str, Callable[[Json], bool]]] = {
    "type": lambda value: value in _KINDS if isinstance(value, str) else False,
    "title": _is_text,
    "description": _is_text,
    "enum": _are_texts,
    "enumNames": _are_texts,
    "oneOf": _are_choices,
    "anyOf": _are_choices,
    "minLength": _is_number,
    "maxLength": _is_number,
    "minItems": _is_number,
    "maxItems": _is_number,
    "minimum": _is_number,
    "maximum": _is_number,
    "format": lambda value: value in ("email", "uri", "date", "date-time"),
}


def _fields(form: Form) -> Mapping[str, Json]:
    found = form.schema.get("properties")
    return found if isinstance(found, dict) else {}


def is_for_a_secret(form: Form) -> bool:
    """Whether a field's name or title asks for a password, a token, a key or a card."""
    for name, field in _fields(form).items():
        title = field.get("title") if isinstance(field, dict) else None
        for text in (name, title):
            if isinstance(text, str) and names_a_secret(text):
                return True
    return False


def names_a_secret(text: str) -> bool:
    """Whether a name or title is that of a password, a token, a key or a card."""
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
