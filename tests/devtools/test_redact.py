"""No secret of the corpus is left, nothing beside it is lost, and no text of a page takes long."""

from __future__ import annotations

import re
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devtools.corpus import CORPUS, KEPT, PLANTED
from zorivest_rpc.devtools.redact import (
    REDACTED,
    redact_attributes,
    redact_headers,
    redact_html,
    redact_text,
    redact_url,
)


@pytest.mark.parametrize("text", CORPUS)
def test_a_secret_of_the_corpus_is_replaced_and_nothing_else(text: str) -> None:
    assert redact_text(text) == CORPUS[text]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == text


def test_what_is_redacted_stays_as_it_is() -> None:
    for text in CORPUS.values():
        assert redact_text(text) == text


def test_headers_lose_their_secrets_by_name_and_by_value() -> None:
    headers = {
        "Authorization": "x",
        "Set-Cookie": "x",
        "X-CSRF-Token": "x",
        "X-Api-Key": "x",
        "Via": "Bearer abcdefgh1",
        "Accept": "*/*",
    }
    assert redact_headers(headers) == {
        "authorization": REDACTED,
        "set-cookie": REDACTED,
        "x-csrf-token": REDACTED,
        "x-api-key": REDACTED,
        "via": REDACTED,
        "accept": "*/*",
    }


def test_an_address_loses_user_parameters_and_those_of_its_fragment() -> None:
    url = "https://ann:hunter2@x.test/a?access_token=hunter2&z=1#id_token=hunter2"
    assert redact_url(url) == "https://[redacted]@x.test/a?access_token=[redacted]&z=1#id_token=[redacted]"


def test_what_a_secret_input_holds_is_in_no_snippet_and_no_attribute() -> None:
    for tag in ('type="password"', 'name="user_secret"', "autocomplete=cc-number", "id='iban'"):
        for value in ('value="hunter2"', "value='hunter2'", "value=hunter2"):
            assert PLANTED not in redact_html(f"<form><input {value} {tag}></form>")
    assert 'value="plain"' in redact_html('<input name="city" value="plain">')
    attributes = {"type": "password", "value": PLANTED, "class": "wide", "data-token": PLANTED}
    assert redact_attributes(attributes) == {
        "type": "password",
        "value": REDACTED,
        "class": "wide",
        "data-token": REDACTED,
    }


@given(
    st.recursive(st.text(max_size=8) | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_the_value_of_a_secret_key_is_gone_whatever_it_is(value: object) -> None:
    import json

    text = json.dumps({"a": 1, "password": [value, PLANTED], "z": {"b": 2}})
    for _ in range(2):  # the same as a string within a string
        redacted = redact_text(text)
        assert PLANTED not in redacted
        assert REDACTED in redacted
        text = json.dumps({"body": text, "tail": "kept"})
        assert "kept" in redact_text(text)


@given(st.text(alphabet='ab"\\token ', max_size=12), st.text(alphabet="ab\"\\'{}[]:, ", max_size=20), st.integers(0, 3))
def test_quotes_and_backslashes_in_a_key_or_a_value_save_nothing_of_it(name: str, value: str, depth: int) -> None:
    import json

    text = json.dumps({"a": 1, f"{name}token{name}": f"{value}{PLANTED}{value}{PLANTED}", "z": "kept"})
    for _ in range(depth):
        text = json.dumps({"body": text, "tail": "kept"})
    redacted = redact_text(text)
    assert PLANTED not in redacted
    for _ in range(depth):
        redacted = json.loads(redacted)["body"]
    assert json.loads(redacted) == {"a": 1, f"{name}token{name}": REDACTED, "z": "kept"}


SPELLINGS = st.lists(st.sampled_from(("plain", "x", "X")), min_size=5, max_size=5)


@given(SPELLINGS, st.lists(st.sampled_from(("json", "numbers", "query")), max_size=3))
def test_a_name_is_read_as_servers_read_it_however_its_characters_are_written(
    spelt: list[str], around: list[str]
) -> None:
    characters = zip("Token", spelt, strict=True)
    name = "".join(char if way == "plain" else f"\\u{ord(char):04{way}}" for char, way in characters)
    text = f'{{"a":1,"{name}":"{PLANTED}","z":"kept"}}'
    for way in around:
        if way == "query":
            text = f"first=1&filter={quote(text, safe='')}&tail=kept"
        else:
            inner = text.replace("\\", r"\\").replace('"', r"\u0022" if way == "numbers" else r"\"")
            text = f'{{"body":"{inner}","t":"kept"}}'
    redacted = redact_text(text)
    assert PLANTED not in redacted
    assert redacted.count("kept") == text.count("kept")
    assert redact_text(redacted) == redacted


@given(st.text(alphabet="ab\"\\{}[]:=&;,<>/ \n'keytoken", max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    redact_html(redact_url(redact_text(text)))


HOSTILE = (
    *("a" * 16_000, "key" * 5_000, "\\" * 16_000 + "key", "key:" * 4_000, "key=" * 4_000, '"key":{' * 2_000),
    *("eyj-" * 4_000 + "key", 'name="key"' * 1_600, "key" + ":" * 16_000, "://" + ":" * 16_000 + "@key"),
    *("<input " * 2_000 + "key", '"' * 16_000 + "key:", '"key":"' * 2_000, '\\"key\\":' * 2_000, "key: " * 4_000),
    *('\\"' * 8_000 + "key:", "".join("\\" * n + '"key' for n in range(180)), "://:" * 4_000, "://:" + "@" * 16_000),
    *(
        '"' + "\\" * 16_000 + 'key":',
        'key="' + '\\"' * 8_000,
        'key: "' + "\\" * 16_000,
        "key=\\" * 3_000,
        "key: `" * 2_700,
    ),
    *("%41 " * 4_000 + "key", "%25" * 5_000 + "key", "%2525%2522key%3A" * 1_000, r"\u0022" * 2_500 + "key"),
    *(r"\u0061" * 2_500 + "key=%41", "\\" * 16_000 + r"\u00 %41", "%22key%22%3A%7B" * 1_000),
    *("bearer " * 2_000, "key='" * 3_000, "[{" * 8_000 + "key", '"key":' + "[{" * 8_000, "key;=" * 3_000),
)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: re.sub(r"\W", "_", text[:8]))
def test_a_text_twice_as_long_takes_no_more_than_in_proportion(text: str) -> None:
    """Counted in steps of the interpreter, where it loops, and bounded by the patterns where it does not: no run is
    looked at twice. A pattern that backtracked would hold this test for minutes."""
    steps = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        redact_html(text)
        redact_url(text)
    finally:
        sys.setprofile(None)
    assert steps < 40 * len(text)
