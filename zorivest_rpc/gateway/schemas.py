"""Whether an upstream's schema can be served: understood by our validator, bounded, and without a trap in it.

The arguments of a call are checked by a validator that was compiled from it, so a schema may neither make that one
read other documents, nor run for ever, nor end the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

__all__ = [
    "COMBINATOR",
    "RESERVED",
    "RESERVED_PROPERTY",
    "UNSUPPORTED",
    "Unservable",
    "check_schema",
    "has_nested_quantifier",
    "rename_arguments",
    "undo_renames",
]

UNSUPPORTED: Final = "schema_unsupported"
COMBINATOR: Final = "schema_combinator"
RESERVED_PROPERTY: Final = "reserved_property"
RESERVED: Final = ("clientId", "confirmation_token")  # arguments that we add ourselves
DEEPEST, MOST_SUBSCHEMAS, LONGEST_PATTERN = 32, 2_000, 512
_DIALECTS: Final = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")
_ONE: Final = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED: Final = ("$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties")
# These look at the same value as the schema they stand in: a circle of them never ends.
_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")


class Unservable(NamedTuple):
    """Why a tool is dropped at discovery: the reason that is listed, and what exactly, for the operator."""

    reason: str
    problem: str


class _Place(NamedTuple):
    pointer: str
    schema: Any
    depth: int


def check_schema(schema: Any, *, is_output: bool = False) -> Unservable | None:
    """What is wrong with an input (or output) schema, or None. Last of all it is compiled, as each call will need."""
    if not isinstance(schema, dict) or (not is_output and schema.get("type") != "object"):
        return Unservable(UNSUPPORTED, 'the root of an input schema has "type": "object"')
    dialect = schema.get("$schema")
    if dialect is not None and (not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS):
        return Unservable(UNSUPPORTED, f"dialect {str(dialect)[:100]} is not supported")
    places: dict[str, _Place] = {}
    problem = _collect(schema, places) or _check_references(places)
    if problem:
        return Unservable(UNSUPPORTED, problem)
    if not is_output and (found := [key for key in ("oneOf", "anyOf", "allOf") if key in schema]):
        return Unservable(COMBINATOR, f"{found[0]} at the top level")
    return _check_compiles(schema)


def _collect(root: dict[str, Any], places: dict[str, _Place]) -> str | None:
    """Every subschema by the pointer that leads to it, or why there is no going on; not what stands in `enum`, `const`,
    `default` or `examples`, which are values."""
    stack = [_Place("#", root, 1)]
    while stack:
        place = stack.pop()
        if place.pointer in places:
            continue
        if place.depth > DEEPEST:
            return f"more than {DEEPEST} levels"
        places[place.pointer] = place
        if len(places) > MOST_SUBSCHEMAS:
            return f"more than {MOST_SUBSCHEMAS} subschemas"
        if problem := _problem_at(place):
            return problem
        if isinstance(place.schema, dict):
            stack += _below(place)
            reference = _target(place.schema.get("$ref"), {})
            if reference.startswith("#/") and reference not in places:  # it may stand under a key of its author's own
                found = _resolve(root, reference)
                stack += [_Place(reference, found, 1)] if isinstance(found, dict | bool) else []
    return None


def _below(place: _Place) -> Iterator[_Place]:
    below = place.depth + 1
    for key in _ONE:
        if isinstance(inner := place.schema.get(key), dict | bool):
            yield _Place(f"{place.pointer}/{key}", inner, below)
    for key in _MANY:
        if isinstance(inner := place.schema.get(key), list):
            yield from (_Place(f"{place.pointer}/{key}/{n}", each, below) for n, each in enumerate(inner))
    for key in _NAMED:
        inner = place.schema.get(key)
        for name, each in inner.items() if isinstance(inner, dict) else ():
            if not (key == "dependencies" and isinstance(each, list)):
                yield _Place(f"{place.pointer}/{key}/{_escape(name)}", each, below)


def _resolve(root: Any, reference: str) -> Any:
    value = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def _problem_at(place: _Place) -> str | None:
    schema = place.schema
    if isinstance(schema, bool):
        return None
    if not isinstance(schema, dict):
        return f"{place.pointer} is no schema"
    if place.pointer != "#" and ("$id" in schema or "$schema" in schema):
        return f"{place.pointer} begins a document of its own"
    for key in ("$dynamicRef", "$recursiveRef"):
        if key in schema:
            return f"{place.pointer} has {key}"
    patterns = [schema["pattern"]] if "pattern" in schema else []
    if isinstance(schema.get("patternProperties"), dict):
        patterns += list(schema["patternProperties"])
    for pattern in patterns:
        if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
            return f"{place.pointer} has a pattern of more than {LONGEST_PATTERN} characters"
        if has_nested_quantifier(pattern):
            return f"{place.pointer} has a pattern with a quantifier inside a quantified group"
    return None


def _check_references(places: Mapping[str, _Place]) -> str | None:
    """Each `$ref` leads to a subschema of this document, and none of them in a circle around one value."""
    anchors = {
        f"#{schema['$anchor']}": pointer
        for pointer, (_, schema, _) in places.items()
        if isinstance(schema, dict) and isinstance(schema.get("$anchor"), str)
    }
    same: dict[str, list[str]] = {}
    for pointer, place in places.items():
        if not isinstance(place.schema, dict):
            continue
        reference = place.schema.get("$ref")
        if reference is not None:
            target = _target(reference, anchors)
            if target not in places:
                return f"{pointer} refers to {str(reference)[:100]}, which is no part of the schema"
            same.setdefault(pointer, []).append(target)
    for pointer in places:
        parent, _, last = pointer.rpartition("/")
        if last in _SAME_VALUE and parent in places:
            same.setdefault(parent, []).append(pointer)
        grand, _, key = parent.rpartition("/")
        if key in _SAME_VALUE and grand in places:
            same.setdefault(grand, []).append(pointer)
    return "its references lead in a circle" if _has_circle(same) else None


def _target(reference: Any, anchors: Mapping[str, str]) -> str:
    from urllib.parse import unquote

    if not isinstance(reference, str):
        return ""
    return anchors.get(reference, "#" if reference in ("#", "#/") else unquote(reference))


def _has_circle(edges: Mapping[str, list[str]]) -> bool:
    done: set[str] = set()
    for start in edges:
        path: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                path.discard(node)
                done.add(node)
            elif node in path:
                return True
            elif node not in done:
                path.add(node)
                stack.append((node, True))
                stack += [(other, False) for other in edges.get(node, ())]
    return False


def _check_compiles(schema: dict[str, Any]) -> Unservable | None:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema, retriever=_refuse_fetch)
    except ValueError as exc:
        return Unservable(UNSUPPORTED, str(exc).partition("\n")[0][:200])
    return None


def _refuse_fetch(uri: str) -> Any:
    raise ValueError(f"{uri} is no part of the schema")


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def has_nested_quantifier(pattern: str) -> bool:
    """Whether a group that repeats holds something whose length varies: what backtracking can take for ever on.

    `?` around a group repeats nothing, and `{3}` inside one varies nothing."""
    varies = [False]  # for the pattern itself, and for each open group
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 2
        elif char == "[":
            position = _end_of_class(pattern, position)
        elif char == "(":
            varies.append(False)  # a `?` that follows says what kind of group it is, and is read as a letter
            position += 1
            continue
        elif char == ")" and len(varies) > 1:
            inside = varies.pop()
            position += 1
            repeats, varying, position = _quantifier(pattern, position)
            if repeats and inside:
                return True
            varies[-1] = varies[-1] or inside or varying
            continue
        else:
            position += 1
        _, varying, position = _quantifier(pattern, position)
        varies[-1] = varies[-1] or varying
    return False


def _quantifier(pattern: str, position: int) -> tuple[bool, bool, int]:
    """Whether a quantifier here repeats (twice or more), whether it varies, and where it ends."""
    char = pattern[position : position + 1]
    end = position
    repeats = varies = False
    if char and char in "*+?":
        repeats, varies, end = char != "?", True, position + 1
    elif char == "{":
        close = pattern.find("}", position)
        low, comma, high = pattern[position + 1 : max(close, 0)].partition(",")
        if close > 0 and low.isdigit() and (not high or high.isdigit()):
            most = (int(high) if high else None) if comma else int(low)
            repeats, varies, end = most is None or most > 1, bool(comma) and high != low, close + 1
    return repeats, varies, end  # what makes it lazy is read as a letter, which makes no difference here


def _end_of_class(pattern: str, position: int) -> int:
    position += 1
    if pattern.startswith("^", position):
        position += 1
    if pattern.startswith("]", position):
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1


# --- arguments whose names are ours


def rename_arguments(schema: dict[str, Any], renames: Mapping[str, str]) -> dict[str, Any] | Unservable:
    """The schema as it is published: properties renamed, none of them one of ours, none of them twice."""
    properties = schema.get("properties", {})
    present = {name: renames[name] for name in renames if name in properties}
    names = [present.get(name, name) for name in properties]
    if taken := [name for name in names if name in RESERVED]:
        problem = f'its property "{taken[0]}" is one of ours; name another in argument_renames'
        return Unservable(RESERVED_PROPERTY, problem)
    if len(set(names)) != len(names):
        return Unservable(RESERVED_PROPERTY, "two properties get one name by argument_renames")
    if not present:
        return schema
    renamed = {present.get(name, name): inner for name, inner in properties.items()}
    after = {**schema, "properties": renamed}
    if isinstance(schema.get("required"), list):
        after["required"] = [present.get(name, name) for name in schema["required"]]
    return after


def undo_renames(arguments: Mapping[str, Any], schema: Mapping[str, Any], renames: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a call under the names of the server's own `schema`; a rename of no argument of it is none."""
    properties = schema.get("properties", {})
    back = {published: upstream for upstream, published in renames.items() if upstream in properties}
    return {back.get(name, name): value for name, value in arguments.items()}
