"""Two JSON Schema engines judge arguments: the quick one every call, the other to explain. They must never differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from zorivest_rpc.serving.catalog.load import load

DEFINITIONS = load()
TOOLS = {tool.name: tool.input_schema for tool in (*DEFINITIONS.tools, *DEFINITIONS.meta_tools)}
MODEST = settings(
    max_examples=20,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

# Digits, spaces and letters beyond ASCII, a final newline, numbers at the edges: where engines have differed before.
TEXT = st.text(alphabet=st.sampled_from("aZ_09-. \n\t٣é✓😀$^"), max_size=14) | st.text(max_size=6)
WHOLE = st.integers(-(2**63), 2**64 - 1) | st.integers(-3, 100_003)
NUMBER = (
    WHOLE | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e300, 5e-324])
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that the schema accepts."""
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if isinstance(kind, list):
        return st.one_of([fitting({**schema, "type": one}) for one in kind])
    if kind == "string":
        return fitting_text(schema)
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        return st.integers(schema.get("minimum", -(2**40)), schema.get("maximum", 2**40))
    if kind == "number":
        return fitting_number(schema)
    if kind == "array":
        return st.lists(
            fitting(schema["items"]), min_size=schema.get("minItems", 0), max_size=schema.get("maxItems", 4)
        )
    return fitting_object(schema)


def fitting_text(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    pattern = schema.get("pattern")
    if pattern is None:
        return st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 12), 12))
    longest = schema.get("maxLength", 100)
    return st.from_regex(pattern + r"\Z").filter(lambda text: len(text) <= longest)


def fitting_number(schema: dict[str, Any]) -> st.SearchStrategy[float]:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", -1e9)), schema.get("maximum", 1e9)
    floats = st.floats(low, high, exclude_min="exclusiveMinimum" in schema)
    whole = st.integers(int(low) + ("exclusiveMinimum" in schema), int(high))
    return floats | whole


def fitting_object(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    fixed = st.fixed_dictionaries(
        {name: fitting(properties[name]) for name in required},
        optional={name: fitting(entry) for name, entry in properties.items() if name not in required},
    )
    more = schema.get("additionalProperties")
    if properties or more is False:
        return fixed
    values = fitting(more) if isinstance(more, dict) else ANYTHING
    return st.dictionaries(TEXT, values, min_size=schema.get("minProperties", 0), max_size=3)


@st.composite
def nearly_fitting(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """Arguments that fit but for one or two changes: a wrong value somewhere, a missing or an extra member."""
    arguments = draw(fitting(schema))
    for _ in range(draw(st.integers(1, 2))):
        node: Any = arguments
        while True:
            keys: list[Any] = list(node) if isinstance(node, dict) else list(range(len(node)))
            deeper = [key for key in keys if isinstance(node[key], dict | list) and node[key]]
            if not deeper or draw(st.booleans()):
                break
            node = node[draw(st.sampled_from(deeper))]
        action = draw(st.sampled_from(["replace", "drop", "add", "edge"]))
        if keys and action != "add":
            key = draw(st.sampled_from(keys))
            if action == "replace":
                node[key] = draw(ANYTHING)
            elif action == "edge":
                node[key] = edge(node[key])
            else:
                del node[key]
        elif isinstance(node, dict):
            node[draw(TEXT)] = draw(ANYTHING)
        else:
            node.append(draw(ANYTHING))
    return arguments


def edge(value: Any) -> Any:
    """A value beside this one: what a bound or a type might or might not still accept."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return float(value) if abs(value) < 2**53 else value - 1
    if isinstance(value, float):
        return -value
    return value + "\n" if isinstance(value, str) else [value]


class Judges(NamedTuple):
    """One schema and the two engines that read it."""

    schema: dict[str, Any]
    slow: Draft202012Validator
    quick: jsonschema_rs.Draft202012Validator


@pytest.fixture(scope="module", params=sorted(TOOLS))
def judges(request: pytest.FixtureRequest) -> Judges:
    schema = TOOLS[request.param]
    return Judges(schema, Draft202012Validator(schema), jsonschema_rs.Draft202012Validator(schema))


@seed(20261031)
@MODEST
@given(data=st.data())
def test_both_engines_accept_what_fits(judges: Judges, data: st.DataObject) -> None:
    arguments = data.draw(fitting(judges.schema))
    judges.slow.validate(arguments)
    assert judges.quick.is_valid(arguments)


@seed(20261031)
@MODEST
@given(data=st.data())
def test_both_engines_agree_on_what_nearly_fits(judges: Judges, data: st.DataObject) -> None:
    arguments = data.draw(nearly_fitting(judges.schema))
    assert judges.quick.is_valid(arguments) is judges.slow.is_valid(arguments)


def test_unknown_arguments_are_refused_by_every_tool() -> None:
    for name, schema in TOOLS.items():
        assert not jsonschema_rs.Draft202012Validator(schema).is_valid({"no_such_input": 1}), name


@pytest.mark.parametrize("text", ["2026-01-01", "2026-1-1", "2026-01-01\n", "٢٠٢٦-01-01", "2026-01-01T00:00"])
def test_a_date_is_judged_alike_and_in_full(text: str) -> None:
    schema, arguments = TOOLS["find_wash_sales"], {"date_range_start": text}
    assert Draft202012Validator(schema).is_valid(arguments) is (text == "2026-01-01")
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(arguments) is (text == "2026-01-01")
