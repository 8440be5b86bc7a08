"""A refusal that a model can act on: field, value, what is allowed, and a call of the right form."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.errors import InvalidArguments
from zorivest_rpc.mcp.catalog.explain import example, problems
from zorivest_rpc.mcp.catalog.intended import read_intended
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.serving.catalog.load import load

SPECS = {spec.name: spec for spec in (*load().tools, *load().meta_tools)}
TOOLS = {name: Tool.from_checked_file(name, spec.input_schema) for name, spec in SPECS.items()}


def refusal(name: str, arguments: dict[str, Any]) -> str:
    with pytest.raises(InvalidArguments) as refused:
        TOOLS[name].check(arguments)
    return refused.value.text


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("create_trade", {"action": "BUY"}, 'action: given "BUY"; it must be one of "BOT", "SLD", for example "BOT"'),
        (
            "tool_search",
            {"query": "x", "limit": 99},
            "limit: given 99; it must be a whole number at least 1 and at most 20",
        ),
        ("get_sqn", {"period": 7}, "period: given 7; it must be"),
        ("get_tax_lots", {}, "account_id: missing; it must be text of at least 1 character"),
        ("estimate_tax", {"tax_year": "this"}, 'tax_year: given "this"; it must be a whole number, for example 2026.'),
        ("list_trades", {"limt": 5}, "limt: no such argument (given 5); did you mean limit?"),
        ("list_brokers", {"x": 1}, "x: no such argument (given 1); none is taken here"),
        ("disconnect_market_provider", {"provider_name": "a", "confirm_destructive": False}, "exactly true"),
        (
            "resolve_identifiers",
            {"identifiers": [{"id_type": "x", "id_value": "1"}]},
            'identifiers.0.id_type: given "x"',
        ),
        ("find_wash_sales", {"date_range_start": "May"}, 'for example "2026-01-31"'),
    ],
)
def test_field_value_and_what_is_allowed_are_named(name: str, arguments: dict[str, Any], words: str) -> None:
    assert words in refusal(name, arguments)


def test_many_problems_are_told_at_once_but_not_without_end() -> None:
    told = refusal("create_trade", {})
    assert told.count(": missing; ") == 5
    assert "and more" in told


def test_a_long_value_is_cut_and_a_token_not_repeated() -> None:
    assert len(refusal("get_settings", {"key": ["x" * 10_000]})) < 400
    assert "sesame" not in refusal("sync_broker", {"broker_id": "b", "confirmation_token": {"sesame": 1}})


@pytest.mark.parametrize("name", sorted(SPECS))
def test_the_example_of_every_tool_fits_its_schema(name: str) -> None:
    shown = example(SPECS[name].input_schema, {})
    assert shown is not None
    TOOLS[name].check(orjson.loads(shown))


def test_the_example_keeps_what_was_good_and_repairs_the_rest() -> None:
    shown = example(SPECS["tool_search"].input_schema, {"query": "wash sale", "limit": 99, "nope": 1})
    assert shown == '{"query":"wash sale","limit":5}'


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_whatever_is_refused_is_explained_and_nothing_else_comes_out(data: st.DataObject) -> None:
    spec = SPECS[data.draw(st.sampled_from(sorted(SPECS)))]
    names = (
        st.sampled_from(sorted(spec.input_schema.get("properties", {})))
        if spec.input_schema.get("properties")
        else st.text()
    )
    arguments = data.draw(st.dictionaries(names | st.text(max_size=8), VALUES, max_size=5))
    found = problems(spec.input_schema, read_intended(spec.input_schema, arguments))
    if found:
        assert found[0] in refusal(spec.name, arguments)
    else:
        TOOLS[spec.name].check(arguments)


def test_what_the_judge_accepts_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Tool.from_checked_file("list_trades", SPECS["list_trades"].input_schema)
    monkeypatch.setattr("zorivest_rpc.mcp.catalog.tool._compile", lambda schema: lambda value: False)
    tool.check({"limit": 5})
    with pytest.raises(InvalidArguments):
        tool.check({"limit": "five"})


MANY = [f"lot-{number}" for number in range(3_000)]  # more parts than the judge is given
LARGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown name": (
        "detect_options_strategy",
        {"leg_exec_ids": MANY, "no_such_argument": 1},
        "no_such_argument: no such argument (given 1); allowed are ",
    ),
    "a missing name": ("simulate_tax_impact", {"lot_ids": MANY}, ": missing; it must be "),
    "a wrong type": ("get_settings", {"key": [MANY]}, 'key: given [["lot-0",'),
    "a wrong type of a number": (
        "tool_search",
        {"query": "a" * 2_000, "limit": "5"},
        'limit: given "5"; it must be a whole',
    ),
    "a limit": ("tool_search", {"query": "a" * 2_000, "limit": 99}, "it must be text "),
    "a wrong entry": (
        "detect_options_strategy",
        {"leg_exec_ids": [*MANY, 5]},
        "leg_exec_ids.3000: given 5; it must be text",
    ),
    "a wrong entry's member": (
        "resolve_identifiers",
        {"identifiers": [*({"id_type": "isin", "id_value": "1"} for _ in range(3_000)), {"id_type": "isin"}]},
        "identifiers.3000.id_value: missing",
    ),
    "a wrong value of a name made of digits": (
        "update_settings",
        {"settings": {**dict.fromkeys(MANY, "a"), "0": 5}},
        "settings.0: given 5; it must be text",
    ),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_problem_of_a_large_value_is_told_like_that_of_a_small_one(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, arguments, words = LARGE[case]
    assert words in refusal(name, arguments)
    (told,) = {*problems(SPECS[name].input_schema, arguments)} - {"and more"}
    monkeypatch.setattr("zorivest_rpc.mcp.catalog.explain._is_small", lambda value: True)
    assert told in problems(SPECS[name].input_schema, arguments), (
        "the judge, who takes longer, has the same words for it"
    )


@pytest.mark.parametrize("extra", [None, {"no_such_argument": 1}])
def test_a_large_value_that_fits_is_no_problem(extra: dict[str, Any] | None) -> None:
    given = {"settings": dict.fromkeys(MANY, "a")}
    assert bool(problems(SPECS["update_settings"].input_schema, {**given, **(extra or {})})) == bool(extra)


def test_a_large_value_of_a_foreign_schema_is_explained_through_its_references() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "size": {"minimum": 3}}}
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    told = problems(schema, {"tree": {"next": {"size": 1}}, "many": MANY})
    assert told == ["tree.next.size: given 1; it must be of another form at least 3"]


# --- every word that a schema can be told in


def told(schema: Any, value: Any) -> str:
    """What is said of one argument `x` that its schema refuses."""
    (problem,) = problems({"type": "object", "properties": {"x": schema}, "additionalProperties": False}, {"x": value})
    return problem


@pytest.mark.parametrize(
    ("kind", "words", "wrong"),
    [
        ("string", "text", 1),
        ("integer", "a whole number", 1.5),
        ("number", "a number", "1"),
        ("boolean", "true or false", 1),
        ("object", "an object", []),
        ("array", "a list", {}),
        ("null", "null", 0),
    ],
)
def test_every_kind_has_its_word(kind: str, words: str, wrong: Any) -> None:
    assert f"; it must be {words}" in told({"type": kind}, wrong)
    assert "; it must be text or null" in told({"type": ["string", "null"]}, [])


@pytest.mark.parametrize(
    ("keyword", "limit", "wrong", "words"),
    [
        ("minimum", 2, 1, "at least 2"),
        ("exclusiveMinimum", 2, 2, "above 2"),
        ("maximum", 2, 3, "at most 2"),
        ("exclusiveMaximum", 2, 2, "below 2"),
        ("multipleOf", 5, 7, "in steps of 5"),
        ("minLength", 2, "a", "of at least 2 characters"),
        ("minLength", 1, "", "of at least 1 character"),
        ("maxLength", 2, "abc", "of at most 2 characters"),
        ("maxLength", 1, "ab", "of at most 1 character"),
        ("minItems", 2, [1], "with at least 2 entries"),
        ("maxItems", 1, [1, 2], "with at most 1 entry"),
        ("minProperties", 2, {"a": 1}, "with at least 2 members"),
        ("maxProperties", 1, {"a": 1, "b": 2}, "with at most 1 member"),
        ("pattern", "^a", "b", "that matches ^a"),
    ],
)
def test_every_bound_has_its_words(keyword: str, limit: Any, wrong: Any, words: str) -> None:
    assert told({keyword: limit}, wrong).endswith(f"; it must be of another form {words}")


def test_a_form_is_named_beside_what_else_is_asked_for() -> None:
    assert "text of at least 3 characters and in the form date" in told(
        {"type": "string", "format": "date", "minLength": 3}, "x"
    )


@pytest.mark.parametrize(
    ("schema", "sample"),
    [
        ({"type": "integer"}, "100"),
        ({"type": "integer", "maximum": 7}, "7"),
        ({"type": "integer", "maximum": 700}, "100"),
        ({"type": "integer", "minimum": 7}, "7"),
        ({"type": "number", "exclusiveMinimum": 7}, "8"),
        ({"type": "boolean"}, "true"),
        ({"type": "array", "items": {"type": "integer"}}, "[100]"),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, "[100,100]"),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}, '{"a":"<a>"}'),
        ({"type": "object"}, "{}"),
        ({"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}}, '{"<name>":100}'),
        (
            {"type": "object", "minProperties": 1, "required": ["a"], "properties": {"a": {"type": "boolean"}}},
            '{"a":true}',
        ),
    ],
)
def test_a_sample_is_of_the_kind_that_is_asked_for(schema: Any, sample: str) -> None:
    assert told(schema, "wrong").endswith(f", for example {sample}")
    assert example({"type": "object", "required": ["x"], "properties": {"x": schema}}, {}) == f'{{"x":{sample}}}'


def test_a_year_without_a_lower_bound_is_a_present_one() -> None:
    def shown(name: str, schema: Any) -> str | None:
        return example({"type": "object", "required": [name], "properties": {name: schema}}, {})

    assert shown("tax_year", {"type": "integer"}) == '{"tax_year":2026}'
    assert shown("tax_year", {"type": "integer", "minimum": 1990}) == '{"tax_year":1990}'
    assert shown("years", {"type": "integer"}) == '{"years":100}'


def test_the_arguments_as_a_whole_have_no_sample() -> None:
    assert problems({"type": "object"}, []) == ["arguments: given []; it must be an object"]


@pytest.mark.parametrize("count", [5, 6])
def test_five_problems_are_told_and_more_are_counted_as_more(count: int) -> None:
    found = problems({"type": "object", "additionalProperties": False}, {f"n{each}": each for each in range(count)})
    assert found[:5] == [f"n{each}: no such argument (given {each}); none is taken here" for each in range(5)]
    assert found[5:] == (["and more"] if count > 5 else [])


@pytest.mark.parametrize(("length", "shown"), [(58, '"' + "x" * 58 + '"'), (59, '"' + "x" * 58 + "…")])
def test_a_value_is_shown_in_at_most_sixty_characters(length: int, shown: str) -> None:
    assert told({"type": "integer"}, "x" * length) == f"x: given {shown}; it must be a whole number, for example 100"


def test_names_are_listed_where_none_is_near() -> None:
    known: dict[str, Any] = {f"name{number:03d}": {} for number in range(40)}
    (problem,) = problems({"properties": known, "additionalProperties": False}, {"zzz": 1})
    words = "zzz: no such argument (given 1); allowed are "
    assert problem == words + ", ".join(known)[:239] + "…"


def test_a_missing_argument_is_told_once_for_each_name() -> None:
    schema = {"required": ["a", "b", "c"], "properties": {"a": {"type": "integer"}}}
    assert problems(schema, {"b": 1}) == [
        "a: missing; it must be a whole number, for example 100",
        "c: missing; it must be of another form",
    ]


def test_a_schema_for_other_names_is_told_like_any_other() -> None:
    (problem,) = problems({"additionalProperties": {"type": "integer"}}, {"a": "x"})
    assert problem == 'a: given "x"; it must be a whole number, for example 100'


def test_an_example_that_would_be_too_long_leaves_out_what_is_not_required() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    most = 600 - len('{"a":"x","b":""}')
    assert example(schema, {"a": "x", "b": "y" * most}) == f'{{"a":"x","b":"{"y" * most}"}}'
    assert example(schema, {"a": "x", "b": "y" * (most + 1)}) == '{"a":"x"}'
    assert example(schema, {"a": "x", "confirmation_token": "sesame"}) == '{"a":"x"}'
