"""Which schemas of an upstream can be served, with every limit from both sides."""

from __future__ import annotations

from typing import Any

import pytest

from zorivest_rpc.gateway.expressions import has_nested_quantifier, weigh_pattern
from zorivest_rpc.gateway.schemas import (
    Unservable,
    check_schema,
    rename_arguments,
    undo_renames,
)


def given(**more: Any) -> dict[str, Any]:
    return {"type": "object", **more}


def reason(schema: Any, **how: bool) -> str | None:
    found = check_schema(schema, **how)
    return None if found is None else found.reason


NEWEST = "https://json-schema.org/draft/2020-12/schema"
SEVENTH = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "schema",
    [
        given(),
        given(properties={"a": {"type": "string", "enum": ["x"]}}, required=["a"], additionalProperties=False),
        given(**{"$schema": NEWEST}),
        given(**{"$schema": SEVENTH}),
        given(**{"$schema": SEVENTH.rstrip("#")}),
        given(properties={"a": {"$ref": "#/$defs/b"}}, **{"$defs": {"b": {"type": "string"}}}),
        given(properties={"a": {"$ref": "#/definitions/x~1y"}}, definitions={"x/y": {"type": "string"}}),
        given(properties={"a": {"$ref": "#/components/b"}}, components={"b": {"type": "string"}}),
        given(properties={"a": {"$ref": "#there"}}, **{"$defs": {"b": {"$anchor": "there"}}}),
        given(properties={"child": {"$ref": "#"}}),
        given(properties={"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}),
        given(properties={"a": {"pattern": r"^(https?://)?[\w.-]+(:\d{2,5})?$"}}),
        given(properties={"oneOf": {"type": "string"}}),
        given(default={"$ref": "https://elsewhere.example", "pattern": "(a+)+"}, examples=[{"anyOf": 1}]),
        given(**{"$id": "https://a.example/s"}, properties={"a": {"$ref": "#/$defs/b"}}, **{"$defs": {"b": {}}}),
        given(additionalProperties=True, dependencies={"a": ["b"]}, **{"$schema": SEVENTH}),
    ],
)
def test_a_schema_that_is_served(schema: dict[str, Any]) -> None:
    assert check_schema(schema) is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (None, "type"),
        ([], "type"),
        (True, "type"),
        ({"type": "array"}, "type"),
        ({}, "type"),
        (given(**{"$schema": "http://json-schema.org/draft-04/schema#"}), "dialect"),
        (given(**{"$schema": "https://json-schema.org/draft/2019-09/schema"}), "dialect"),
        (given(**{"$schema": 7}), "dialect"),
        (given(properties={"a": {"$ref": "https://elsewhere.example/s"}}), "no part of the schema"),
        (given(properties={"a": {"$ref": "file:///etc/passwd"}}), "no part of the schema"),
        (given(properties={"a": {"$ref": "other.json#/x"}}), "no part of the schema"),
        (given(properties={"a": {"$ref": "#/$defs/missing"}}), "no part of the schema"),
        (given(properties={"a": {"$ref": "#nowhere"}}), "no part of the schema"),
        (given(properties={"a": {"$ref": 5}}), "no part of the schema"),
        (given(properties={"a": {"$id": "https://b.example", "type": "string"}}), "document of its own"),
        (given(properties={"a": {"$dynamicRef": "#x"}}), "$dynamicRef"),
        (given(properties={"a": {"$ref": "#/$defs/a"}}, **{"$defs": {"a": {"$ref": "#/$defs/a"}}}), "circle"),
        (
            given(**{"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            "circle",
        ),
        (given(**{"$ref": "#"}), "circle"),
        (given(properties={"a": 5}), "no schema"),
        (given(properties={"a": {"type": "strang"}}), ""),
        (given(properties={"a": {"pattern": "("}}), ""),
        (given(properties={"a": {"pattern": "(a+)+$"}}), "quantified group"),
        (given(patternProperties={"^(x*)*$": {}}), "quantified group"),
        (given(properties={"a": {"pattern": 5}}), "pattern"),
    ],
)
def test_a_schema_that_cannot_be_served(schema: Any, problem: str) -> None:
    found = check_schema(schema)
    assert found is not None
    assert found.reason == "schema_unsupported"
    assert problem in found.problem


BAD = {"pattern": "(a+)+"}
ONE = (
    *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
MANY = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
NAMED = ("$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties")


@pytest.mark.parametrize(
    "inner",
    [
        *({key: BAD} for key in ONE),
        *({key: [{}, BAD]} for key in MANY),
        *({key: {"x": {}, "y": BAD}} for key in NAMED),
    ],
    ids=[*ONE, *(f"{key} of many" for key in MANY), *NAMED],
)
def test_every_place_of_a_subschema_is_looked_at(inner: dict[str, Any]) -> None:
    found = check_schema(given(properties={"a": inner}))
    assert found is not None
    assert "quantified group" in found.problem


@pytest.mark.parametrize("key", ["not", "if", "then", "else"])
def test_a_circle_through_one_schema_of_the_same_value(key: str) -> None:
    found = check_schema(given(**{"$defs": {"a": {key: {"$ref": "#/$defs/a"}}}}))
    assert found is not None
    assert "circle" in found.problem


@pytest.mark.parametrize("key", ["allOf", "anyOf", "oneOf"])
def test_a_circle_through_several_schemas_of_the_same_value(key: str) -> None:
    found = check_schema(given(**{"$defs": {"a": {key: [{}, {"$ref": "#/$defs/a"}]}}}))
    assert found is not None
    assert "circle" in found.problem


@pytest.mark.parametrize("key", ["dependentSchemas", "dependencies"])
def test_a_circle_through_what_depends_on_a_member(key: str) -> None:
    found = check_schema(given(**{"$defs": {"a": {key: {"x": {"$ref": "#/$defs/a"}}}}}))
    assert found is not None
    assert "circle" in found.problem


@pytest.mark.parametrize("key", ["items", "additionalProperties", "contains", "propertyNames"])
def test_a_tree_is_no_circle(key: str) -> None:
    assert check_schema(given(**{"$defs": {"a": {key: {"$ref": "#/$defs/a"}}}})) is None


@pytest.mark.parametrize("key", ["oneOf", "anyOf", "allOf"])
def test_a_combinator_at_the_top_makes_some_providers_refuse_the_whole_list(key: str) -> None:
    schema = given(**{key: [{"required": ["a"]}]})
    assert check_schema(schema) == Unservable("schema_combinator", f"{key} at the top level")
    assert reason(schema, is_output=True) is None


def test_an_output_schema_may_be_of_any_type() -> None:
    assert reason({"type": "array", "items": {"type": "string"}}, is_output=True) is None
    assert reason({"$ref": "https://x.example"}, is_output=True) == "schema_unsupported"


def levels(count: int) -> dict[str, Any]:
    """A schema with that many levels, the root included."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(count - 1):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(("count", "wanted"), [(32, None), (33, "schema_unsupported"), (5000, "schema_unsupported")])
def test_a_schema_has_at_most_32_levels(count: int, wanted: str | None) -> None:
    assert reason(levels(count)) == wanted


@pytest.mark.parametrize(("count", "wanted"), [(2000, None), (2001, "schema_unsupported")])
def test_a_schema_has_at_most_2000_subschemas(count: int, wanted: str | None) -> None:
    assert reason(given(properties={f"p{n}": {} for n in range(count - 1)})) == wanted


@pytest.mark.parametrize(("length", "wanted"), [(512, None), (513, "schema_unsupported")])
def test_a_pattern_has_at_most_512_characters(length: int, wanted: str | None) -> None:
    assert reason(given(properties={"a": {"pattern": "a" * length}})) == wanted


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(a+)+",
            "(a*)*",
            "(a+)*",
            "(?:a+)+",
            "(?<n>a+)+",
            "(a|b+)*",
            "((a+))+",
            "(a?){5}",
            "(a{1,3}){2,}",
            "(a+){3}",
        ),
        *("^(\\w+\\s?)*$", "(([a-z])+.)+", "(a+?)+", "x(?:y(?:z*)w)+", "(a{2,}){2}", r"(\(a+)+", "([)]+)+"),
        *("(a+b)*", "(ab*?c)+", "(a++)*", "(?:(a)b+){2,}", "((?:x)+y)*", "(?=a+)*", "[^]]+([]a]*)+", r"[\]](a+)+"),
    ],
)
def test_a_quantifier_inside_a_quantified_group(pattern: str) -> None:
    assert has_nested_quantifier(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("a+", "(a)+", "(a+)", "(a+)?", "(https?://)?x", "(ab{3})+", r"^\d{4}-\d{2}(-\d{2})?$", "[(a+)+]", r"\(a+\)+"),
        *("(?=.*[A-Z])(?=.*\\d).{8,}", "a{2}{3}", "", "(", ")", "a)+", "[", "\\", "(?:)", "a{,3}", "{+}", "(x{1,1})+"),
    ],
)
def test_no_quantifier_inside_a_quantified_group(pattern: str) -> None:
    assert not has_nested_quantifier(pattern)


@pytest.mark.parametrize("name", ["clientId", "confirmation_token"])
def test_an_argument_of_ours_has_to_be_renamed(name: str) -> None:
    schema = given(properties={"a": {}, name: {"type": "string"}}, required=[name, "a"])
    found = rename_arguments(schema, {})
    assert isinstance(found, Unservable)
    assert found.reason == "reserved_property"
    renamed = rename_arguments(schema, {name: "their_own"})
    assert renamed == given(properties={"a": {}, "their_own": {"type": "string"}}, required=["their_own", "a"])
    assert isinstance(renamed, dict)
    assert list(renamed["properties"]) == ["a", "their_own"]
    assert undo_renames({"their_own": 1, "a": 2}, schema, {name: "their_own"}) == {name: 1, "a": 2}


def test_a_rename_takes_no_name_that_is_there() -> None:
    schema = given(properties={"clientId": {}, "b": {}})
    assert isinstance(rename_arguments(schema, {"clientId": "b"}), Unservable)
    assert isinstance(rename_arguments(schema, {"clientId": "confirmation_token"}), Unservable)


def test_a_schema_without_clashes_stays_as_it_is() -> None:
    schema = given(properties={"b": {}})
    assert rename_arguments(schema, {"clientId": "b"}) is schema
    assert undo_renames({"b": 1}, schema, {"clientId": "b"}) == {"b": 1}
    assert rename_arguments(given(), {"clientId": "x"}) == given()


def doubling(steps: int) -> dict[str, Any]:
    """Definitions of which each applies the next one twice."""
    defined = {f"a{step}": {"allOf": [{"$ref": f"#/$defs/a{step + 1}"}] * 2} for step in range(steps)}
    return given(**{"$ref": "#/$defs/a0", "$defs": {**defined, f"a{steps}": {}}})


def looking_back(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return given(properties={"a": schema})


@pytest.mark.parametrize("schema", [doubling(11), looking_back(7), given(properties={"a": {"allOf": [{}]}, "b": True})])
def test_references_that_multiply_a_little_are_served(schema: dict[str, Any]) -> None:
    assert check_schema(schema) is None


@pytest.mark.parametrize("schema", [doubling(13), doubling(600), looking_back(9), looking_back(14)])
def test_references_that_multiply_without_measure_are_not(schema: dict[str, Any]) -> None:
    found = check_schema(schema, is_output=True)
    assert found is not None
    assert "unfold to more than 10000" in found.problem


def test_a_circle_through_a_member_unfolds_once() -> None:
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "others": {"items": {"$ref": "#"}}}}
    assert check_schema(given(**tree)) is None


@pytest.mark.parametrize(
    ("pattern", "weight"),
    [
        *(("abc", 3), ("a{10}", 10), ("a{2,10}", 10), ("a{3,}", 3), ("(ab){10}", 30), ("((a{10}){10}){10}", 1110)),
        *(("[a-z]{8}", 8), ("[^a]{2}", 16), (".{4}", 32), (r"\p{L}{4}", 1000), (r"[\p{L}]", 250), ("a{2}{3}", 6)),
        *(("", 0), ("a{0}", 1), ("{", 1), ("a{²}", 4), ("a{x}", 4), (r"\{9}", 3), ("a{" + "9" * 400 + "}", 1_000_000)),
    ],
)
def test_an_expression_weighs_what_is_written_out(pattern: str, weight: int) -> None:
    assert weigh_pattern(pattern) == weight


def test_expressions_are_small_together() -> None:
    many = {f"a{number}": {"pattern": r"^\p{L}{2,100}$"} for number in range(3)}
    found = check_schema(given(properties=many))
    assert found is not None
    assert "repeats too much" in found.problem
    assert check_schema(given(properties={f"a{number}": {"pattern": "^.{1,255}$"} for number in range(20)})) is None
    assert reason(given(properties={"a": {"pattern": "a{²}"}})) == "schema_unsupported"  # digits of another kind


@pytest.mark.parametrize("pattern", ["^(?!x)y", r"(.)\1", "(?<=a)b"])
def test_an_expression_that_looks_around_is_served(pattern: str) -> None:
    assert check_schema(given(properties={"a": {"pattern": pattern}})) is None
