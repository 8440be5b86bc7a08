"""No secret of the corpus is left, nothing beside it is lost, and no text of a page takes long."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.devtools.redact import (
    REDACTED,
    redact_attributes,
    redact_headers,
    redact_html,
    redact_text,
    redact_url,
)

PLANTED = "hunter2"
CORPUS = {
    '{"password":"hunter2","a":1}': '{"password":"[redacted]","a":1}',
    '{"a":{"card":{"number":"hunter2","x":["]}"]}},"b":2}': '{"a":{"card":"[redacted]"},"b":2}',
    '{"apiKey" : "hunter2"}': '{"apiKey" : "[redacted]"}',
    '{"IBAN":["hunter2"],"z":1}': '{"IBAN":"[redacted]","z":1}',
    r'{"body":"{\"password\":\"hunter2\",\"n\":1}","z":3}': r'{"body":"{\"password\":\"[redacted]\",\"n\":1}","z":3}',
    r'{"token":"a\\\"hunter2","b":1}': '{"token":"[redacted]","b":1}',
    '{"password":"hunter2': '{"password":"[redacted]"',
    '{"cards":[{"n":"hunter2': '{"cards":"[redacted]"',
    "a=1&user%5Bpassword%5D=hunter2&b=2": "a=1&user%5Bpassword%5D=[redacted]&b=2",
    "login { password: 'hunter2', user: 1 }": "login { password: [redacted], user: 1 }",
    "the secret: hunter2": "the secret: [redacted]",
    "Authorization: Basic hunter2": "Authorization: [redacted]",
    "a=1; token=hunter2; b=2": "a=1; token=[redacted]; b=2",
    "Bearer hunter2hunter2": "[redacted]",
    "eyJhbGciOi.eyJzdWhunter2.sig": "[redacted]",
    "key zrv_sk_hunter2 x": "key [redacted] x",
    "ctk_hunter2 zdk_hunter2": "[redacted] [redacted]",
    '--x\r\nContent-Disposition: form-data; name="cvv"\r\n\r\nhunter2\r\n--x--': (
        '--x\r\nContent-Disposition: form-data; name="cvv"\r\n\r\n[redacted]\r\n--x--'
    ),
    r'{"escaped\"token":"planted-\"hunter2","b":1}': r'{"escaped\"token":"[redacted]","b":1}',
    r'{"token\"x":"planted-\"hunter2","b":1}': r'{"token\"x":"[redacted]","b":1}',
    r'{"token\\":"hunter2\\","b":1}': r'{"token\\":"[redacted]","b":1}',
    r'{"m":"{\"a\\\"key\":\"x\\\"hunter2\"}","b":1}': r'{"m":"{\"a\\\"key\":\"[redacted]\"}","b":1}',
    r'cut\"token":{"n":"]}\"hunter2"},"b":1': r'cut\"token":\"[redacted]\","b":1',
    r'password="hun\"hunter2" b': 'password="[redacted]" b',
    r"password='hun\'hunter2' b": "password='[redacted]' b",
    r'"password=\"a\\\"hunter2\" b"': r'"password=\"[redacted]\" b"',
    r'{ password: "hun\"hunter2", user: 1 }': "{ password: [redacted], user: 1 }",
    r'"{ password: \"hunter2\", user: 1 }"': '"{ password: [redacted], user: 1 }"',
    "{ token: `hunter2 hunter2`, user: 1 }": "{ token: [redacted], user: 1 }",
    "GET https://ann:hunter2@x.test/a failed": "GET https://[redacted]@x.test/a failed",
    '{"u":"https:\\/\\/ann:hunter2@x.test"}': '{"u":"https:\\/\\/[redacted]@x.test"}',
    "postgres://ann:p@hunter2@db:5432/x, mail a@b.test": "postgres://[redacted]@db:5432/x, mail a@b.test",
    'data-token="hunter2 hunter2"': 'data-token="[redacted]"',
}
KEPT = (
    "TypeError: x is not defined at https://localhost/key.js:10:5",
    'Cannot read properties of undefined (reading "key")',
    '{"name":"Ann","total":12.5,"items":[1,2]}',
    "https://localhost/passport/17?page=2",
    "authority://x",
    "https://localhost:8080/a@b:c@d",
    "mail to ann:hunter@x.test",
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
