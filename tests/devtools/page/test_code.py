"""The collector as code: what it does on loading, where parts of a browser lack, and its redaction."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser.axe import STATIC
from tests.conformance import node
from tests.devtools.corpus import CORPUS, KEPT, PLANTED
from zorivest_rpc.devtools.redact import redact_text, redact_url

HARNESS = Path(__file__).parent / "code.mjs"
SECRETS = [
    'password="planted-1"',
    "https://user:planted-2@host.test/a?api_key=planted-3&page=2#access_token=planted-4",
    '{"user":"ada","credentials":{"passphrase":"planted-5"},"cardNumber":"planted-6"}',
    '{"token":"planted-7","cut":"here, and the text ends wi',
    "Authorization: Bearer planted-8-planted",
    "user=ada&secret=planted-9&iban=planted-10",
    "got zrv_sk_planted-11 and ctk_planted-12 and zdk_planted-13",
    "eyJplanted14.eyJplanted.planted-15",
    '{"list":[{"cvv":"planted-16"},{"ssn":"planted-17"}]}',
    '{ "Auth Key" : "planted-18" , "next": 1 }',
    "basic cGxhbnRlZDpwbGFudGVk",
]
PLAIN = [
    "order 17 of ada",
    "a=1&b=2",
    '{"total":3,"rows":[1,2]}',
    "https://host.test/trades/17?page=2",
    "basically fine",
]


def run(steps: list[list[Any]], missing: tuple[str, ...] = ()) -> dict[str, Any]:
    given = {"source": (STATIC / "collector.js").read_text(), "steps": steps, "missing": missing}
    command = [str(node.node()), str(HARNESS)]
    done = subprocess.run(
        command,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=node.environment(),
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def items(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for frame in told["sent"] if frame["frame"] == "events" for item in frame["items"]]


def test_loading_asks_nothing_of_the_network_and_loading_twice_does_nothing() -> None:
    told = run([["one"], ["two"]])
    assert (told["errors"], told["early"], told["opened"]) == ([], 0, 1)
    assert [frame["frame"] for frame in told["sent"]].count("hello") == 1
    assert [item["message"] for item in items(told)] == ["one", "two"]


@pytest.mark.parametrize(
    "missing",
    [("PerformanceObserver",), ("sessionStorage",), ("fetch",), ("CSS",), ("FormData",)],
    ids="".join,
)
def test_a_browser_without_some_part_is_observed_without_it(missing: tuple[str, ...]) -> None:
    told = run([["still there"]], missing)
    assert told["errors"] == []
    assert [item["message"] for item in items(told)] == ["still there"]


@pytest.mark.parametrize("missing", ["XMLHttpRequest", "history", "crypto", "performance", "document"])
def test_without_what_it_cannot_do_without_it_is_silent(missing: str) -> None:
    assert run([["anything"]], (missing,))["errors"] == []


def test_no_planted_secret_is_sent_and_what_is_none_is_left_alone() -> None:
    told = run([[text] for text in (*SECRETS, *PLAIN)])
    messages = [item["message"] for item in items(told)]
    assert len(messages) == len(SECRETS) + len(PLAIN)
    text = json.dumps(told["sent"])
    assert sorted(set(re.findall(r"planted[-\w]*|cGxhbnR\w+", text))) == []
    assert messages[len(SECRETS) :] == PLAIN
    assert "page=2" in messages[1]
    assert '"user":"ada"' in messages[2]


def test_a_quote_within_a_name_or_a_value_hides_nothing() -> None:
    [item] = items(run([['{"escaped\\"token":"planted-\\"19"}']]))
    assert item["message"] == '{"escaped\\"token":"[redacted]"}'


def test_no_secret_of_the_corpus_is_sent_and_json_stays_json() -> None:
    told = run([[text] for text in (*CORPUS, *KEPT)])
    messages = [item["message"] for item in items(told)]
    assert [text for text in messages if PLANTED in text] == []
    assert messages[len(CORPUS) :] == list(KEPT)
    for text, message in zip(CORPUS, messages, strict=False):
        assert redact_text(message) == redact_text(redact_text(message))
        if is_json(text):
            assert is_json(message), message


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def test_what_the_page_leaves_the_server_takes_out() -> None:
    for text in SECRETS:
        assert "planted" not in (redact_url(text) if text.startswith("https:") else redact_text(text)), text
    assert [redact_text(text) for text in PLAIN] == PLAIN
