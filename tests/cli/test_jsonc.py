"""The editor for JSON with comments: random documents, random styles, one member in and out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.clients import jsonc
from zorivest_rpc.clients.refusal import ClientFileRefused

VALUE = {"command": "/opt/ü/zorivest-rpc", "args": ["--read-only"]}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
)
KEYS = st.one_of(st.sampled_from(["mcpServers", "servers", "a", "//", "/*", "}", ","]), st.text(max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
GAPS = st.lists(
    st.sampled_from(["", " ", "\n", "\t", "\r\n", '// a, } " comment\n', "/* b: { */", "\n    "]), max_size=3
).map("".join)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value written down with any whitespace and comments, with or without trailing commas."""
    gap = draw(GAPS)
    ascii: bool = draw(st.booleans())
    if isinstance(value, dict):
        parts = [
            draw(GAPS) + json.dumps(key, ensure_ascii=ascii) + draw(GAPS) + ":" + draw(written(each))
            for key, each in value.items()
        ]
    elif isinstance(value, list):
        parts = [draw(written(each)) for each in value]
    else:
        return gap + json.dumps(value) + draw(GAPS)
    trailing: bool = draw(st.booleans())
    comma = "," + draw(GAPS) if parts and trailing else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return gap + opening + ",".join(parts) + comma + draw(GAPS) + closing + draw(GAPS)


@st.composite
def documents(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    value = draw(st.dictionaries(KEYS, VALUES, max_size=4))
    servers = draw(
        st.one_of(st.none(), st.dictionaries(KEYS.filter(lambda key: key != "zorivest"), VALUES, max_size=3))
    )
    value.pop("mcpServers", None)
    if servers is not None:
        value["mcpServers"] = servers
    return value, draw(written(value))


@given(documents())
@settings(max_examples=150, deadline=None)
def test_any_document_is_read_as_what_was_written(document: tuple[dict[str, Any], str]) -> None:
    value, text = document
    assert jsonc.parse(text).value == value


@given(documents())
@settings(max_examples=150, deadline=None)
def test_a_member_goes_in_and_everything_else_stays(document: tuple[dict[str, Any], str]) -> None:
    value, text = document
    after = jsonc.place(text, ("mcpServers", "zorivest"), jsonc.render(VALUE))
    expected = {**value, "mcpServers": {**value.get("mcpServers", {}), "zorivest": VALUE}}
    assert jsonc.parse(after).value == expected
    assert _is_subsequence("".join(text.split()), after)  # comments and commas too


@given(documents())
@settings(max_examples=150, deadline=None)
def test_what_went_in_comes_out_again(document: tuple[dict[str, Any], str]) -> None:
    value, text = document
    after = jsonc.place(text, ("mcpServers", "zorivest"), jsonc.render(VALUE))
    before = jsonc.remove(after, ("mcpServers", "zorivest"))
    if value.get("mcpServers"):
        assert before == text  # byte for byte, next to other members
    elif "mcpServers" not in value and value:
        assert jsonc.remove(after, ("mcpServers",)) == text
    else:
        assert jsonc.parse(before).value == {**value, "mcpServers": {}}


@given(documents(), st.data())
@settings(max_examples=100, deadline=None)
def test_any_member_can_be_taken_out_of_any_object(document: tuple[dict[str, Any], str], data: st.DataObject) -> None:
    value, text = document
    if not value:
        return
    key = data.draw(st.sampled_from(sorted(value)))
    assert jsonc.parse(jsonc.remove(text, (key,))).value == {other: value[other] for other in value if other != key}


@given(documents(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_truncated_or_garbled_document_is_refused_or_still_sound(
    document: tuple[dict[str, Any], str], data: st.DataObject
) -> None:
    _, text = document
    cut = data.draw(st.integers(0, len(text)))
    garbled = text[:cut] + data.draw(st.sampled_from(["", "x", "'", "\x00", "}}", '"'])) + text[cut + 1 :]
    try:
        end = jsonc.parse(garbled).end
    except ClientFileRefused as refused:
        where = refused.where
    else:
        where = f"line {end}" if end <= len(garbled) else "beyond the end"
    assert where.startswith("line ")


def _is_subsequence(needle: str, text: str) -> bool:
    rest = iter(text)
    return all(char in rest for char in needle)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "s": {\n    "z": 1\n  }\n}'),
        ('{\n\t"a": 1\n}\n', '{\n\t"a": 1,\n\t"s": {\n\t\t"z": 1\n\t}\n}\n'),
        ('{\r\n    "s": {}\r\n}', '{\r\n    "s": {\r\n        "z": 1\r\n    }\r\n}'),
        ('{"s": {"a": 1}}', '{"s": {"a": 1, "z": 1}}'),
        ('{"s": {"a": 1,}}', '{"s": {"a": 1, "z": 1,}}'),
        ('{"s": {\n  "a": 1 // one\n}}', '{"s": {\n  "a": 1, // one\n  "z": 1\n}}'),
        ('{"s": {\n  "a": 1, /* two */\n}}', '{"s": {\n  "a": 1, /* two */\n  "z": 1,\n}}'),
        ('{"s": {"a": 1 // one\n}}', '{"s": {"a": 1, // one\n  "z": 1\n}}'),
        ('{"s": { /* none */ }}', '{"s": { /* none */\n  "z": 1\n}}'),
        ("", '{\n  "s": {\n    "z": 1\n  }\n}\n'),
        ("// mine", '// mine\n{\n  "s": {\n    "z": 1\n  }\n}\n'),
        ("\ufeff{}", '\ufeff{\n  "s": {\n    "z": 1\n  }\n}'),
    ],
)
def test_a_member_is_written_in_the_style_of_its_surroundings(before: str, after: str) -> None:
    assert jsonc.place(before, ("s", "z"), jsonc.render(1)) == after


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ('{"a": 1', "line 1, column 8", "a comma or } is expected"),
        ('{\n  "a": tru\n}', "line 2, column 8", "a value is expected"),
        ("{'a': 1}", "line 1, column 2", "a key in double quotes or } is expected"),
        ('{"a": "b\n"}', "line 1, column 7", "a string is not closed"),
        ('{"a": 01}', "line 1, column 8", "a value is expected"),
        ('{"a": 1} x', "line 1, column 10", "there is more after the end of the document"),
        ('{"a": 1 /* b', "line 1, column 9", "a comment is not closed"),
        ('{"s": 1}', "line 1, column 7", "s is not an object"),
        ('{"s": {"z": 1}, "s": {}}', "line 1, column 17", '"s" is there twice'),
        ('{"a": "\\x"}', "line 1, column 7", "a string has a wrong escape"),
        ("[" * 500, "line 1, column 202", "it is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "line 1, column 7", "a number is too long"),
    ],
)
def test_a_malformed_document_is_refused_with_the_place(text: str, where: str, problem: str) -> None:
    with pytest.raises(ClientFileRefused) as refused:
        jsonc.place(text, ("s", "z"), jsonc.render(1))
    assert (refused.value.where, refused.value.problem) == (where, problem)
