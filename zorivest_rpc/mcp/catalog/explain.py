"""Why arguments do not fit: each field with its value, what is allowed there, and a call that would fit.

Imported when the fast validator has refused something, never before. `jsonschema` is the judge here: what it accepts
has no problems, and then the refusal does not stand. It takes 10 µs for each part that it looks at, and repeats what it
refuses in its messages: of a value of many parts only the first problem is told, as the fast validator finds it. A
foreign schema it never sees, because there are schemas and expressions on which it would not end; there the fast
validator has the last word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from json import JSONEncoder
from typing import Final, NamedTuple

from zorivest_rpc.mcp.catalog.compile import compile_schema
from zorivest_rpc.mcp.catalog.names import LONGEST_COMPARED
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps

__all__ = ["MOST", "example", "problems"]

MOST: Final = 5  # problems told at once
_SHOWN: Final = 60  # characters of a value or of a list of names
_LONG: Final = 1_000  # characters of a text, or parts of a value, that are looked at as a whole
_MANY_RULES: Final = 500  # members and entries of a schema
_LONGEST_EXAMPLE: Final = 600
_SECRET: Final = frozenset(("confirmation_token",))
# What a schema says of its members taken together.
_OF_ALL: Final = frozenset(
    (
        *("required", "minProperties", "dependentRequired", "dependentSchemas", "dependencies"),
        *("if", "then", "else", "not", "allOf", "anyOf", "oneOf", "const", "enum"),
    )
)
_KINDS: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}


def problems(schema: Json, value: Json, *, is_foreign: bool = False) -> list[str]:
    """`path: what is wrong` of each problem, at most MOST and a hint that there are more; none if the judge accepts."""
    found: list[str] = []
    errors: Iterator[Json]
    if not _is_small(value):
        errors = _first_error(schema, value)
    elif not is_foreign:
        errors = _judge(schema).iter_errors(value)
    else:  # the fast validator makes all errors before it tells the first
        errors = _fast_errors(schema, value) if _is_plain(schema) else _first_error(schema, value)
    for error in errors:
        for problem in _describe(error):  # one at a time: there may be as many as the message has names
            if problem not in found:
                found.append(problem)
            if len(found) > MOST:
                return [*found[:MOST], "and more"]
    return found


def _is_small(value: Json) -> bool:
    """Whether the judge may look at all of it; the answer itself takes at most _LONG steps."""
    parts, rest = [value], _LONG
    while parts:
        part = parts.pop()
        if isinstance(part, str | list | dict):
            rest -= 1 + len(part) // (_LONG if isinstance(part, str) else 1)
            if rest < 0 or (isinstance(part, str) and len(part) > _LONG):
                return False
            if isinstance(part, list):
                parts += part
            elif isinstance(part, dict):
                rest -= sum(len(name) // _SHOWN for name in part)
                parts += part.values()
    return True


def _is_plain(schema: Json) -> bool:
    """Whether each part of a small value meets few rules, which no reference can multiply."""
    parts, rest = [schema], _MANY_RULES
    while parts:
        part = parts.pop()
        rest -= 1
        if rest < 0 or (isinstance(part, dict) and "$ref" in part):
            return False
        if isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part
    return True


class _Error(NamedTuple):
    """A problem that the fast validator found, with the judge's words for its parts."""

    validator: str
    validator_value: Json
    schema: Json
    instance: Json
    absolute_path: list[str | int]
    message: str


def _first_error(schema: Json, value: Json) -> Iterator[_Error]:
    """`iter_errors` of the fast validator would make every error first: 1.3 s for a list of 100 000 wrong entries."""
    plain = _plain_error(schema, value, [])
    if plain is not None:
        yield plain
        return
    try:
        compile_schema(schema, mask="…").validate(value)
    except ValueError as error:
        yield _in_judges_words(schema, value, error)


def _fast_errors(schema: Json, value: Json) -> Iterator[_Error]:
    for error in compile_schema(schema, mask="…").iter_errors(value):
        yield _in_judges_words(schema, value, error)


def _in_judges_words(schema: Json, value: Json, error: Json) -> _Error:
    keyword = str(error.schema_path[-1]) if error.schema_path else ""
    where, part = _at(schema, error.schema_path[:-1]), _at(value, error.instance_path)
    missing = getattr(error.kind, "property", None)
    words = f"{missing!r} is a required property" if keyword == "required" else ""
    allowed = where.get(keyword) if isinstance(where, dict) else where
    return _Error(keyword, allowed, where, part, error.instance_path, words)


def _plain_error(schema: Json, value: Json, path: list[str | int]) -> _Error | None:
    """A wrong type, a missing or an unknown name, without the copy of `value` that the validator's error would make:
    of 100 000 lists within lists that takes 60 ms."""
    if not isinstance(schema, dict):
        return None
    if not _has_kind(value, schema.get("type")):
        return _Error("type", schema["type"], schema, value, path, "")
    known, entries = schema.get("properties", {}), schema.get("items")
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                return _Error("required", schema["required"], schema, value, path, f"{name!r} is a required property")
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        if closed and any(name not in known for name in value):
            return _Error("additionalProperties", False, schema, value, path, "")
        inner = (_plain_error(known[name], value[name], [*path, name]) for name in known if name in value)
        return next((error for error in inner if error is not None), None)
    if isinstance(value, list) and isinstance(entries, dict) and "prefixItems" not in schema:
        kind = entries.get("type")
        if all(_has_kind(sample, kind) for sample in {type(entry): entry for entry in value}.values()):
            return None  # one sample per Python type: a long list has few types, and one look each is enough
        for place, entry in enumerate(value):
            if not _has_kind(entry, kind):
                return _Error("type", kind, entries, entry, [*path, place], "")
    return None


_TYPES: Final = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


def _has_kind(value: Json, kind: Json) -> bool:
    """Whether a value may be of this type; what only the validator can tell counts as yes."""
    expected = _TYPES.get(kind) if isinstance(kind, str) else None
    if expected is not None:
        return isinstance(value, expected)
    return kind not in ("integer", "number") or type(value) in (int, float)


def _at(value: Json, path: list[str | int]) -> Json:
    for step in path:
        value = value[str(step) if isinstance(value, dict) else step]  # a name of digits comes as a number
    return value


def _judge(schema: Json) -> Json:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return validator_for(schema, default=Draft202012Validator)(schema)


def _describe(error: Json) -> Iterator[str]:
    keyword, path = error.validator, [str(step) for step in error.absolute_path]
    if keyword == "required":
        known = error.schema.get("properties", {})
        for name in error.validator_value:
            if name not in error.instance and f"{name!r} is a required" in error.message:
                allowed = _describe_allowed(known.get(name, {}))
                yield f"{'.'.join([*path, name])}: missing; it must be {allowed}" + _such_as(known.get(name, {}), name)
    elif keyword == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        for name in error.instance:
            if name not in known:
                shown = _value(error.instance[name], name)
                yield f"{'.'.join([*path, _cut(str(name))])}: no such argument (given {shown}); {_instead(name, known)}"
    else:
        name = path[-1] if path else "arguments"
        allowed = _describe_allowed(error.schema) if isinstance(error.schema, dict) else "left out"
        given = _value(error.instance, name)
        yield f"{'.'.join(path) or name}: given {given}; it must be {allowed}" + _such_as(error.schema, name)


def _instead(name: str, known: dict[str, Json]) -> str:
    near = get_close_matches(name, known, 1) if len(name) <= LONGEST_COMPARED else []
    if near:
        return f"did you mean {near[0]}?"
    return f"allowed are {_cut(', '.join(known), 240)}" if known else "none is taken here"


def _describe_allowed(schema: Json) -> str:
    """What a schema asks for, in words."""
    if not isinstance(schema, dict):
        return "anything"
    if "const" in schema:
        return f"exactly {_json(schema['const'])}"
    if "enum" in schema:
        return "one of " + ", ".join(map(_json, schema["enum"]))
    kinds = schema.get("type", ())
    words = " or ".join(_KINDS.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))
    return " ".join(part for part in (words or "of another form", " and ".join(_bounds(schema))) if part)


def _bounds(schema: dict[str, Json]) -> Iterator[str]:
    templates = {
        "minimum": "at least {}",
        "exclusiveMinimum": "above {}",
        "maximum": "at most {}",
        "exclusiveMaximum": "below {}",
        "multipleOf": "in steps of {}",
        "minLength": "of at least {} characters",
        "maxLength": "of at most {} characters",
        "minItems": "with at least {} entries",
        "maxItems": "with at most {} entries",
        "minProperties": "with at least {} members",
        "maxProperties": "with at most {} members",
        "pattern": "that matches {}",
        "format": "in the form {}",
    }
    for keyword, words in templates.items():
        if keyword in schema:
            text = words.format(schema[keyword])
            yield text if schema[keyword] != 1 else text.removesuffix("s").replace("entrie", "entry")


def _such_as(schema: Json, name: str) -> str:
    found = _sample(schema, name)
    return "" if found is None or name == "arguments" else f", for example {_cut(_json(found), 120)}"


def example(schema: Json, given: Json, *, is_foreign: bool = False) -> str | None:
    """A call that fits, as JSON: what was given where that is good, and samples for the rest; None if none is found."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    required = [name for name in schema.get("required", ()) if name in properties]
    judge: Json = compile_schema(schema) if is_foreign else _judge(schema)
    fits = (
        _part_check(schema) if is_foreign else lambda name, part: judge.evolve(schema=properties[name]).is_valid(part)
    )
    kept = {
        name: value
        for name, value in (given.items() if isinstance(given, dict) else ())
        if name in properties and name not in _SECRET and _is_small(value) and fits(name, value)
    }
    named = [name for name in given if name in properties] if isinstance(given, dict) else []
    wanted = [*required, *(name for name in named if name not in required and name not in _SECRET)]
    for names in (wanted, required):
        call = {name: kept.get(name, _sample(properties[name], name)) for name in names}
        text = dumps(call).decode()
        if len(text) <= _LONGEST_EXAMPLE and judge.is_valid(call):
            return text
    return None


def _part_check(schema: Json) -> Callable[[str, Json], bool]:
    """Whether an argument fits, whatever else is given; where references lead stays in its place."""
    alone = {key: value for key, value in schema.items() if key not in _OF_ALL}
    check = compile_schema(alone).is_valid
    return lambda name, part: check({name: part})


def _sample(schema: Json, name: str) -> Json:  # noqa: C901 - one branch for each keyword that decides a value
    """A value of the kind that is asked for; a text that only the caller can know is its name in brackets."""
    if not isinstance(schema, dict):
        return None
    for keyword in ("examples", "enum"):
        if schema.get(keyword):
            return schema[keyword][0]
    for keyword in ("const", "default"):
        if keyword in schema:
            return schema[keyword]
    kind = schema.get("type")
    if kind == "string":
        return f"<{name}>" if "pattern" not in schema else _of_pattern(schema["pattern"], name)
    if kind in ("integer", "number"):
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        if low is None and name.endswith("year"):
            return 2026
        if low is None:
            return min(100, schema.get("maximum", 100))
        return low + (1 if "exclusiveMinimum" in schema else 0)
    if kind == "boolean":
        return True
    if kind == "array":
        entry = _sample(schema.get("items", {}), name.removesuffix("s"))
        return [] if entry is None else _repeat(entry, schema.get("minItems", 1))
    if kind == "object":
        inside, others = schema.get("properties", {}), schema.get("additionalProperties")
        call = {each: _sample(inside.get(each, {}), each) for each in schema.get("required", ())}
        return call if call or not schema.get("minProperties") else {"<name>": _sample(others, "value")}
    return None


def _repeat(entry: Json, least: int) -> Json:
    """A list of the least length, unless that is more than an example has room for."""
    entries = [entry] * max(1, least) if least <= _LONG else None
    return entries if _is_small(entries) else None


def _of_pattern(pattern: str, name: str) -> str | None:
    matches = compile_schema({"pattern": pattern}).is_valid
    return next((text for text in ("2026-01-31", f"<{name}>", name) if matches(text)), None)


def _value(value: Json, name: str) -> str:
    return "…" if name in _SECRET else _cut(_json(value))


def _json(value: Json) -> str:
    if isinstance(value, str):
        value = value[:_LONG]  # more is not shown
    if _is_small(value):
        return dumps(value).decode(errors="replace")
    text = ""
    for piece in JSONEncoder(separators=(",", ":"), ensure_ascii=False).iterencode(value):  # lazy, unlike `dumps`
        text += piece
        if len(text) > 4 * _SHOWN:
            break
    return text


def _cut(text: str, most: int = _SHOWN) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
