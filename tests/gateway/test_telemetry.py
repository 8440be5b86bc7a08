"""Events as JSON lines: complete, free of secrets, rotated, and one end for each call."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.telemetry import COMMON, EVENTS, Redactor, Telemetry, secret_values

ENDS = {"tool.succeeded", "tool.failed", "tool.denied"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_is_one_line_in_the_file_and_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "events"
    telemetry = Telemetry(str(path), Redactor(), run_id="r1", clock=lambda: 1_700_000_000.25)
    with caplog.at_level(logging.INFO, "zorivest_rpc.gateway.telemetry"):
        telemetry.emit("mcp.state", server="ops", from_="connecting", to="ready")
    wanted = {
        "ts": "2023-11-14T22:13:20.250+00:00",
        "event": "mcp.state",
        "run_id": "r1",
        "server": "ops",
        "from": "connecting",
        "to": "ready",
    }
    assert lines(path) == [wanted]
    assert [json.loads(record.message) for record in caplog.records] == [wanted]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_takes_its_fields_and_no_other(tmp_path: Path, event: str) -> None:
    path = tmp_path / "events"
    telemetry = Telemetry(str(path), Redactor(), capture_content=True)
    fields = dict.fromkeys((*COMMON, *EVENTS[event]), "x")
    telemetry.emit(event, **fields)
    (line,) = lines(path)
    assert {name: line[name] for name in fields} == fields
    with pytest.raises(ValueError, match="no event"):
        telemetry.emit(event, surprise=1)


CONTRACT = {
    "tool.requested": set(),
    "tool.succeeded": {"duration_ms", "bytes", "attempts", "is_error"},
    "tool.failed": {"class", "code", "duration_ms", "attempts"},
    "tool.denied": {"reason"},
    "tool.confirm_requested": {"channel"},
    "tool.confirmed": {"channel", "auto"},
    "mcp.discovery.started": set(),
    "mcp.discovery.succeeded": {"tools", "held", "era", "latency_ms"},
    "mcp.discovery.failed": {"code"},
    "mcp.state": {"from", "to"},
    "mcp.circuit.opened": set(),
    "mcp.circuit.closed": set(),
    "mcp.list_changed": {"added", "removed", "changed"},
    "mcp.tool.held": {"reason", "hash_old", "hash_new"},
    "mcp.pin.accepted": set(),
}


def test_the_names_of_the_events_and_their_fields_are_the_contracts() -> None:
    assert {event: set(fields) - {"arguments", "result"} for event, fields in EVENTS.items()} == CONTRACT
    assert set(COMMON) == {"call_id", "tenant", "principal", "tool", "provenance", "server"}
    with pytest.raises(ValueError, match="no event"):
        Telemetry(None, Redactor()).emit("tool.surprise")


SECRETS = ("hunter2-hunter2", 'quo"te\\d\nsecret', "hunter2-hunter2-longer", "schlüssel")


def test_secrets_never_reach_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "events"
    telemetry = Telemetry(str(path), Redactor(SECRETS), capture_content=True)
    planted = [*SECRETS, "Bearer abc.def-ghi", "authorization: BEARER xyz123", "zrv_sk_0123456789", "ctk_abc-DEF_9"]
    with caplog.at_level(logging.INFO, "zorivest_rpc.gateway.telemetry"):
        record = telemetry.call(tool="t", arguments={"a": planted, f"key {SECRETS[0]}": {"deep": planted}})
        record.record_failure(kind="TOOLING", code=f"x {SECRETS[0]}", duration_ms=1, attempts=1)
    written = path.read_text() + caplog.text
    values = [str(value) for line in lines(path) for value in _leaves(line)]
    for secret in (*SECRETS, "abc.def-ghi", "xyz123", "zrv_sk_0", "ctk_abc", "-longer"):
        assert secret not in written
        assert json.dumps(secret)[1:-1] not in written
        assert not any(secret in value for value in values)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in (key, *_leaves(inner))]
    return [leaf for inner in value for leaf in _leaves(inner)] if isinstance(value, list) else [value]


def test_the_values_of_every_variable_that_a_server_names_are_secrets() -> None:
    server = Server(
        name="a",
        auth_bearer_env="A",
        headers_env={"X-Key": "B"},
        auth_bearer_env_by_tenant={"acme": "C"},
        env_pass=("D", "E"),
    )
    environ = {"A": "aaaa", "B": "bbbb", "C": "cccc", "D": "dddd", "E": "", "F": "ffff"}
    assert secret_values(Profile(mcp_servers=(server,)), environ) == ["aaaa", "bbbb", "cccc", "dddd"]


def test_a_value_of_three_characters_hides_nothing() -> None:
    assert Redactor(["abc", ""]).text("abc abcd") == "abc abcd"
    assert Redactor(["abcd"]).text("abc abcd") == "abc [redacted]"


@pytest.mark.parametrize("capture", [False, True])
def test_what_was_sent_and_answered_is_recorded_on_request_only(tmp_path: Path, capture: bool) -> None:
    path = tmp_path / "events"
    record = Telemetry(str(path), Redactor(), capture_content=capture).call(tool="t", arguments={"q": "private"})
    record.record_success(duration_ms=2, bytes=9, attempts=1, is_error=False, result={"r": "private"})
    assert ("private" in path.read_text()) is capture
    assert [("arguments" in line, "result" in line) for line in lines(path)] == [(capture, False), (False, capture)]


def test_the_lines_of_a_call_share_what_they_have_in_common(tmp_path: Path) -> None:
    path = tmp_path / "events"
    telemetry = Telemetry(str(path), Redactor())
    common = {"tenant": "acme", "principal": "k1", "tool": "ops__t", "provenance": "upstream", "server": "ops"}
    record = telemetry.call(**common)
    record.record_question("token")
    record.record_confirmation("token")
    record.record_success(duration_ms=5, bytes=10, attempts=2, is_error=True)
    told = lines(path)
    assert [line["event"] for line in told] == [
        "tool.requested",
        "tool.confirm_requested",
        "tool.confirmed",
        "tool.succeeded",
    ]
    assert len({line["call_id"] for line in told}) == len({line["run_id"] for line in told}) == 1
    assert all({name: line[name] for name in common} == common for line in told)
    assert told[-1] | {"attempts": 2, "bytes": 10, "duration_ms": 5, "is_error": True} == told[-1]


STEPS = st.lists(st.sampled_from(["succeeded", "failed", "denied", "confirm", "confirmed"]), max_size=8)


@given(st.lists(STEPS, max_size=6))
def test_a_call_has_one_end_whatever_happens(calls: list[list[str]]) -> None:
    told: list[dict[str, Any]] = []
    telemetry = Telemetry(None, Redactor())
    telemetry.emit = lambda event, **fields: told.append({"event": event, **fields})  # type: ignore[method-assign]
    for steps in calls:
        record = telemetry.call(tool="t")
        for step in (*steps, "denied"):
            {
                "succeeded": lambda record=record: record.record_success(
                    duration_ms=1, bytes=1, attempts=1, is_error=False
                ),
                "failed": lambda record=record: record.record_failure(
                    kind="TOOLING", code="c", duration_ms=1, attempts=1
                ),
                "denied": lambda record=record: record.record_denial("r"),
                "confirm": lambda record=record: record.record_question("token"),
                "confirmed": lambda record=record: record.record_confirmation("token"),
            }[step]()
    ends: dict[str, int] = {}
    for line in told:
        if line["event"] == "tool.requested":
            ends[line["call_id"]] = 0
        elif line["event"] in ENDS:
            ends[line["call_id"]] += 1
    assert list(ends.values()) == [1] * len(calls)


def test_the_file_is_rotated_three_times(tmp_path: Path) -> None:
    path = tmp_path / "events"
    telemetry = Telemetry(str(path), Redactor(), largest=600)
    for number in range(40):
        telemetry.emit("mcp.discovery.failed", server="s", code=f"n{number}")
    kept = sorted(name for name in os.listdir(tmp_path) if not name.endswith(".lock"))
    assert kept == ["events", "events.1", "events.2", "events.3"]
    codes = [line["code"] for name in reversed(kept) for line in lines(tmp_path / name)]
    assert codes == [f"n{number}" for number in range(40 - len(codes), 40)]
    assert all((tmp_path / name).stat().st_size <= 600 for name in kept)
    assert all((tmp_path / name).stat().st_mode & 0o777 == 0o600 for name in kept)


def test_a_line_larger_than_a_file_is_written_alone(tmp_path: Path) -> None:
    path = tmp_path / "events"
    telemetry = Telemetry(str(path), Redactor(), largest=100)
    for _ in range(2):
        telemetry.emit("mcp.discovery.failed", server="s", code="x" * 200)
    assert len(lines(path)) == len(lines(tmp_path / "events.1")) == 1


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.touch(0o644)
    path.chmod(0o644)
    Telemetry(str(path), Redactor()).emit("mcp.circuit.opened", server="s")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_stops_nothing_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    telemetry = Telemetry(str(tmp_path / "no" / "events"), Redactor())
    with caplog.at_level(logging.WARNING, "zorivest_rpc.gateway.telemetry"):
        for _ in range(3):
            telemetry.emit("mcp.circuit.opened", server="s")
    assert len(caplog.records) == 1
