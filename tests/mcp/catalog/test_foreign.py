"""Schemas that another server wrote: whatever they say, a check of theirs ends soon, and so does what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from zorivest_rpc.errors import InvalidArguments
from zorivest_rpc.mcp.catalog.compile import compile_schema, has_only_linear
from zorivest_rpc.mcp.catalog.tool import Tool


def given(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def refusal(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    tool = Tool.from_checked_file("far__do", schema, is_foreign=True)
    with pytest.raises(InvalidArguments) as refused:
        tool.check(arguments)
    return refused.value.text


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def test_an_expression_that_tries_every_way_ends() -> None:
    """The `re` of Python would take years for this one."""
    told = refusal(given(a={"type": "string", "pattern": "^(a|a)*b"}), {"a": "a" * 60})
    assert "it must be text that matches ^(a|a)*b" in told


def test_definitions_that_double_in_a_circle_end() -> None:
    both = {"allOf": [{"properties": {"a": {"$ref": "#/$defs/A"}}}, {"properties": {"a": {"$ref": "#/$defs/B"}}}]}
    schema = {**given(a={"$ref": "#/$defs/A"}, b={"type": "string"}), "$defs": {"A": both, "B": both}}
    assert "b: given 5; it must be text" in refusal(schema, {**nested(60), "b": 5})
    last = {**schema, "$defs": {"A": {**both, "minProperties": 1}, "B": {**both, "minProperties": 1}}}
    assert "it must be of another form with at least 1 member" in refusal(last, nested(60))


@pytest.mark.parametrize("least", [10**10, 500])
def test_an_example_is_not_as_long_as_a_schema_wants(least: int) -> None:
    wanted: dict[str, Any] = {"type": "string"}
    for _ in range(8):
        wanted = {"type": "array", "minItems": least, "items": wanted}
    told = refusal({**given(a=wanted), "required": ["a"]}, {})
    assert told.startswith('Invalid arguments for "far__do": a: missing; it must be a list with at least')
    assert len(told) < 300


def test_many_problems_are_told_and_what_fits_is_in_the_example() -> None:
    schema = {
        **given(n={"type": "integer", "minimum": 3}, when={"pattern": r"^\d{4}-\d\d-\d\d$", "type": "string"}, x={}),
        "required": ["n", "when"],
        "additionalProperties": False,
    }
    told = refusal(schema, {"n": 1, "y": 2, "x": [1]})
    assert "n: given 1; it must be a whole number at least 3, for example 3" in told
    assert "when: missing" in told
    assert "y: no such argument (given 2)" in told
    assert told.endswith('with your own values: {"n":3,"when":"2026-01-31","x":[1]}')


def test_references_of_an_argument_are_followed_for_the_example() -> None:
    schema = {**given(a={"$ref": "#/$defs/word"}, b={"type": "string"}), "$defs": {"word": {"const": "yes"}}}
    assert refusal(schema, {"a": "yes", "b": 1}).endswith('{"a":"yes","b":"<b>"}')


@pytest.mark.parametrize(
    ("pattern", "linear"), [("(a|a)*b", True), (r"^\p{L}+$", True), (r"(.)\1", False), ("(?=a)b", False)]
)
def test_look_around_and_back_references_need_the_other_engine(pattern: str, linear: bool) -> None:
    assert has_only_linear(given(a={"pattern": pattern})) is linear


def test_what_runs_out_of_tries_does_not_match() -> None:
    check = compile_schema({"pattern": r"(.)(.*)\1.*b$"}).is_valid
    assert check("axab")
    assert not check("a" * 20_000)


def test_no_schema_is_fetched() -> None:
    with pytest.raises(ValueError, match="never fetched"):
        compile_schema({"$ref": "https://elsewhere.example/s"})
