"""Whether an upstream's schema can be served: understood by our validator, bounded, and without a trap in it.

The arguments of a call are checked by a validator that was compiled from it, so a schema may neither make that one
read other documents, nor run for ever, nor end the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from zorivest_rpc.gateway.expressions import has_nested_quantifier, weigh_pattern

__all__ = [
    "COMBINATOR",
    "RESERVED",
    "RESERVED_PROPERTY",
    "UNSUPPORTED",
    "Unservable",
    "check_schema",
    "compile_output",
    "rename_arguments",
    "undo_renames",
]

UNSUPPORTED: Final = "schema_unsupported"
COMBINATOR: Final = "schema_combinator"
RESERVED_PROPERTY: Final = "reserved_property"
RESERVED: Final = ("clientId", "confirmation_token")  # arguments that we add ourselves
DEEPEST, MOST_SUBSCHEMAS, LONGEST_PATTERN = 32, 2_000, 512
MOST_UNFOLDED: Final = 10_000  # subschemas, each counted for every way that leads to it
_MOST_STEPS: Final = 400_000_000  # for one result; one is 2 to 5 ns
HEAVIEST_PATTERNS: Final = 50_000  # of one schema together: about 25 ms and 5 MB once they are compiled
_DIALECTS: Final = ("https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema")
_ONE: Final = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
_MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED: Final = ("$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties")
# These look at the same value as the schema they stand in: a circle of them never ends.
_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
_LOOKS_BACK: Final = frozenset(("unevaluatedProperties", "unevaluatedItems"))


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
    problem = _collect(schema, places) or _check_patterns(places) or _check_references(places)
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
    return None


def compile_output(schema: dict[str, Any]) -> tuple[Callable[[Any], bool], int]:
    """The check of a result by a schema that was checked itself, and the size in bytes up to which it soon ends."""
    from zorivest_rpc.mcp.catalog.compile import LONGEST_TRIED, compile_schema, has_only_linear

    places: dict[str, _Place] = {}
    _collect(schema, places)
    patterns = [each for place in places.values() if isinstance(place.schema, dict) for each in _patterns(place.schema)]
    most = _MOST_STEPS // (_count_unfolded(places) + sum(map(weigh_pattern, patterns)))
    return compile_schema(schema).is_valid, most if has_only_linear(schema) else min(most, LONGEST_TRIED)


def _check_patterns(places: Mapping[str, _Place]) -> str | None:
    """Each expression is one that ends, and together they are small once their repetitions are written out."""
    weight = 0
    for pointer, (_, schema, _) in places.items():
        for pattern in _patterns(schema) if isinstance(schema, dict) else ():
            if not isinstance(pattern, str) or len(pattern) > LONGEST_PATTERN:
                return f"{pointer} has a pattern of more than {LONGEST_PATTERN} characters"
            if has_nested_quantifier(pattern):
                return f"{pointer} has a pattern with a quantifier inside a quantified group"
            weight += weigh_pattern(pattern)
            if weight > HEAVIEST_PATTERNS:
                return f"{pointer} has a pattern that repeats too much"
    return None


def _patterns(schema: dict[str, Any]) -> list[Any]:
    named = schema.get("patternProperties")
    alone = [schema["pattern"]] if "pattern" in schema else []
    return [*alone, *named] if isinstance(named, dict) else alone


def _check_references(places: Mapping[str, _Place]) -> str | None:
    """Each `$ref` leads to a subschema of this document, none of them in a circle around one value, and together they
    do not multiply without measure."""
    same: dict[str, list[str]] = {}
    for pointer, target in _targets(places).items():
        if target not in places:
            reference = str(places[pointer].schema["$ref"])[:100]
            return f"{pointer} refers to {reference}, which is no part of the schema"
        same[pointer] = [target]
    for pointer in places:
        parent, _, last = pointer.rpartition("/")
        if last in _SAME_VALUE and parent in places:
            same.setdefault(parent, []).append(pointer)
        grand, _, key = parent.rpartition("/")
        if key in _SAME_VALUE and grand in places:
            same.setdefault(grand, []).append(pointer)
    if _has_circle(same):
        return "its references lead in a circle"
    if _count_unfolded(places) > MOST_UNFOLDED:
        return f"its references unfold to more than {MOST_UNFOLDED} subschemas"
    return None


def _targets(places: Mapping[str, _Place]) -> dict[str, str]:
    """Where each `$ref` leads, by the pointer of the schema that it stands in."""
    schemas = {pointer: place.schema for pointer, place in places.items() if isinstance(place.schema, dict)}
    anchors = {f"#{schema['$anchor']}": pointer for pointer, schema in schemas.items() if "$anchor" in schema}
    return {
        pointer: _target(schema["$ref"], anchors)
        for pointer, schema in schemas.items()
        if schema.get("$ref") is not None
    }


def _count_unfolded(places: Mapping[str, _Place]) -> int:
    """How many subschemas are applied, each counted for every way that leads to it; at most just above the limit.

    Where references double at each step, twenty definitions are a million, and the validator goes through them all
    while nothing else runs. A way back to where it came from counts nothing, because there the validator remembers what
    it has judged; what looks back at the members that its parts know has them judged again."""
    targets = _targets(places)
    parts: dict[str, list[str]] = {}
    for pointer, place in places.items():
        if isinstance(place.schema, dict):
            defined = (f"{pointer}/$defs/", f"{pointer}/definitions/")  # these stand there only to be referred to
            inner = [part.pointer for part in _below(place) if not part.pointer.startswith(defined)]
            inner += [targets[pointer]] if pointer in targets else []
            parts[pointer] = inner if _LOOKS_BACK.isdisjoint(place.schema) else inner * 3
    counts: dict[str, int] = {}
    begun: set[str] = set()
    stack = [("#", False)]
    while stack:
        pointer, leaving = stack.pop()
        if leaving:
            counts[pointer] = min(1 + sum(counts.get(part, 0) for part in parts.get(pointer, ())), MOST_UNFOLDED + 1)
        elif pointer not in begun:
            begun.add(pointer)
            stack.append((pointer, True))
            stack += [(part, False) for part in parts.get(pointer, ())]
    return counts["#"]


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
    from zorivest_rpc.mcp.catalog.compile import compile_schema

    try:
        compile_schema(schema)
    except ValueError as exc:
        return Unservable(UNSUPPORTED, str(exc).partition("\n")[0][:200])
    return None


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


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
