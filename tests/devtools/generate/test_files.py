"""Archives, reports and summaries: what they hold, and what they say of what is missing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.devtools.generate.recordings import act, ask, fail, measured, record
from zorivest_rpc.devtools.entries import Recording
from zorivest_rpc.devtools.generate import make_artefact


def har(recording: Recording, **arguments: Any) -> list[dict[str, Any]]:
    made = make_artefact("har", recording, arguments)
    entries: list[dict[str, Any]] = json.loads(made.content)["log"]["entries"]
    return entries


def test_an_archive_has_the_requests_oldest_first_with_times_that_add_up() -> None:
    second = ask(20, "/api/b?b=2&a=1&a=3&c=#part", "POST", 201, wait_ms=8.0, request_body="{}", request_truncated=True)
    first, last = har(record(second, ask(10)))
    assert [first["request"]["method"], last["request"]["method"]] == ["GET", "POST"]
    assert last["timings"] == {"send": 0, "wait": 8.0, "receive": 4.5}
    assert first["timings"] == {"send": 0, "wait": 12.5, "receive": 0.0}
    assert sum(last["timings"].values()) == last["time"]
    query = [(each["name"], each["value"]) for each in last["request"]["queryString"]]
    assert query == [("b", "2"), ("a", "1"), ("a", "3"), ("c", "")]
    assert last["request"]["url"].endswith("/api/b?b=2&a=1&a=3&c=")
    assert last["request"]["postData"]["comment"]
    assert last["request"]["bodySize"] == -1
    assert first["startedDateTime"].endswith("Z")


@pytest.mark.parametrize(("took", "wait"), [(0.0, None), (5.0, 9.0), (-3.0, -1.0), (0.7, 0.1), (1e9, 0.3)])
def test_no_time_of_an_archive_is_negative(took: float, wait: float | None) -> None:
    [entry] = har(record(ask(0, took=took, wait_ms=wait)))
    assert all(value >= 0 for value in entry["timings"].values())
    assert sum(entry["timings"].values()) == entry["time"]


@pytest.mark.parametrize("ms", [8.64e15, 253402300799999.0, 0.0])
def test_a_request_of_any_time_that_a_page_can_tell_is_archived(ms: float) -> None:
    item = msgspec.structs.replace(ask(0), ts=ms)
    assert len(har(record(item))) == 1


def test_an_address_is_a_uri_and_what_is_none_is_left_out_and_noted() -> None:
    told = [msgspec.structs.replace(ask(0), url=url) for url in ("", "/api/a", "no address", "http://h/a b?q={x|y}%20")]
    made = make_artefact("har", record(*told), {})
    [entry] = json.loads(made.content)["log"]["entries"]
    assert entry["request"]["url"] == "http://h/a%20b?q=%7Bx%7Cy%7D%20"
    assert made.notes == ("3 requests have no absolute address, and are left out.",)


def test_the_type_of_what_was_sent_is_the_requests_own() -> None:
    item = ask(
        0,
        method="POST",
        request_body="a=1",
        request_content_type="text/form",
        content_type="text/html",
        response_body="x",
    )
    [entry] = har(record(item))
    assert entry["request"]["postData"]["mimeType"] == "text/form"
    assert entry["response"]["content"]["mimeType"] == "text/html"


def test_an_archive_takes_the_filters_of_its_caller() -> None:
    recording = record(ask(0), ask(1, "/api/b", "POST", 404), ask(2, "/img", status=0, error="aborted"))
    assert len(har(recording, url="/api/")) == 2
    assert [each["response"]["status"] for each in har(recording, method="post")] == [404]
    assert [each["response"]["status"] for each in har(recording, status_min=400, status_max=499)] == [404]
    assert [each["comment"] for each in har(recording, status_max=0)] == ["aborted"]


AUDIT: dict[str, Any] = {
    "url": "http://shop.test/a b?token=1#x",
    "engine": "axe-core",
    "engine_version": "4.1",
    "partial": False,
    "violations": [
        {
            "id": "label",
            "impact": "critical",
            "description": "d",
            "help": "h",
            "helpUrl": "https://help.test/label?v=1",
            "tags": ["wcag2a", "wcag2a"],
            "nodes": [
                {"target": ["#a"], "html": "<input id=a>", "failureSummary": "Fix"},
                {"target": ["iframe", "#b"], "html": "<input id=b>", "failureSummary": ""},
            ],
            "node_count": 12,
        },
        {"id": "region", "impact": "moderate", "nodes": [{"target": ["p"], "html": "<p>"}], "node_count": 1},
        {"id": "minor", "impact": "minor", "nodes": [{"target": ["i"], "html": "<i>"}], "node_count": 1},
    ],
    "incomplete": [{"id": "contrast", "impact": "serious", "nodes": [{"target": ["b"]}], "node_count": 1}],
    "passes": [{"id": "title", "impact": None, "helpUrl": "javascript:x", "nodes": [{"target": ["html"]}]}],
}


def test_a_report_has_a_rule_for_each_and_a_place_for_every_element() -> None:
    made = make_artefact("sarif", record(audit=AUDIT), {"include_passes": True})
    [run] = json.loads(made.content)["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert rules["label"]["helpUri"] == "https://help.test/label?v=1"
    assert rules["label"]["properties"]["tags"] == ["wcag2a"]
    assert "helpUri" not in rules["title"]
    results = run["results"]
    assert [(each["ruleId"], each["kind"], each["level"]) for each in results] == [
        ("label", "fail", "error"),
        ("label", "fail", "error"),
        ("region", "fail", "warning"),
        ("minor", "fail", "note"),
        ("contrast", "review", "none"),
        ("title", "pass", "none"),
    ]
    [location] = results[1]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "http://shop.test/a%20b"
    assert location["physicalLocation"]["region"] == {"startLine": 1, "snippet": {"text": "<input id=b>"}}
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "iframe #b"
    prints = [each["partialFingerprints"]["ruleAndSelector/v1"] for each in results]
    assert len(set(prints)) == len(prints)
    assert all(run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"] for each in results)
    assert made.notes == ("Of 1 rules only the first elements are listed.",)
    without = json.loads(make_artefact("sarif", record(audit=AUDIT), {}).content)["runs"][0]["results"]
    assert "pass" not in {each["kind"] for each in without}


def test_a_partial_report_says_so() -> None:
    made = make_artefact("sarif", record(audit=AUDIT | {"partial": True, "engine": "builtin"}), {})
    assert any("partial" in note for note in made.notes)
    assert json.loads(made.content)["runs"][0]["tool"]["driver"]["name"] == "zorivest-rpc built-in check"


def summary(recording: Recording) -> str:
    return make_artefact("pr_summary", recording, {}).content


def test_a_summary_compares_the_first_load_with_the_latest() -> None:
    first = {"load": 100.0, "fcp": 50.0, "cls": 0.1, "bytes": 1000}
    text = summary(record(measured=(measured(first, first | {"load": 150.0, "cls": 0.25, "lcp": 90.0}),)))
    assert "| Load | 100 ms | 150 ms | +50 (+50%) |" in text
    assert "| FCP | 50 ms | 50 ms | unchanged |" in text
    assert "| LCP | not known | 90 ms | – |" in text
    assert "| CLS | 0.100 | 0.250 | +0.15 (+150%) |" in text


def test_a_summary_says_what_is_new_gone_failed_and_not_known() -> None:
    recording = record(
        fail("old and gone"),
        fail("stays"),
        ask(0, "/api/x", status=500),
        act("click"),
        act("click"),
        fail("stays"),
        fail("new `one` | here\nnext"),
        ask(1, "/api/y", status=0, error="aborted"),
        measured=(measured({"load": 10.0}, {"load": 10.0}, number=4),),
    )
    text = summary(recording)
    assert "New since the first measured load (1):\n- `new 'one' ¦ here next`" in text
    assert "Gone since then (1):\n- `old and gone`" in text
    assert "2 of 2:\n- `GET http://shop.test/api/x: 500`" in text
    assert "aborted" in text
    assert "4 log entries, 2 requests, 2 actions" in text


def test_an_empty_summary_says_that_nothing_was_recorded() -> None:
    made = make_artefact("pr_summary", record(), {})
    assert "No page load was measured." in made.content
    assert "No request was recorded." in made.content
    assert made.notes
    one = summary(record(measured=(measured({"load": 10.0}),)))
    assert "nothing to compare it with" in one
