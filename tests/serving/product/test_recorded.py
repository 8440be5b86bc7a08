"""The telemetry of calls, ours and other servers': each is requested once, asked about where it is, and ends once."""

from __future__ import annotations

import json
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving.product.conftest import Client, refusal_of
from tests.serving.product.far import FORMS, YES, Far, opened, serve_far
from tests.serving.product.shop import shop
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ENDS = {"tool.succeeded", "tool.failed", "tool.denied"}


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    async with serve_far() as found:
        yield found


class Told:
    """The lines of a telemetry file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "telemetry.jsonl"
        self.environ = {"ZORIVEST_TELEMETRY": str(self.path)}

    def lines(self, tool: str | None = None) -> list[dict[str, Any]]:
        text = self.path.read_text() if self.path.exists() else ""
        every = [json.loads(line) for line in text.splitlines()]
        return [line for line in every if line["event"].startswith("tool.") and tool in (None, line.get("tool"))]

    def events(self, tool: str | None = None) -> list[str]:
        return [line["event"] for line in self.lines(tool)]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


@pytest.mark.parametrize(
    ("name", "given", "provenance", "server"),
    [("list_trades", {}, "built-in", None), ("ops__read", {"text": "x"}, "upstream", "ops")],
)
async def test_a_call_is_requested_and_ends(
    far: Far, tmp_path: Path, told: Told, name: str, given: dict[str, Any], provenance: str, server: str | None
) -> None:
    async with opened(far, tmp_path, 'approve_tool = ["ops__read"]', environ=told.environ) as client:
        await client.call(name, **given)
    begun, *rest, ended = told.lines(name)
    assert (begun["event"], begun["provenance"], begun.get("server")) == ("tool.requested", provenance, server)
    assert [line["event"] for line in rest] == (["tool.confirmed"] if server else [])
    assert ended["event"] == "tool.succeeded"
    assert ended["attempts"] == 1
    assert ended["duration_ms"] >= 0
    assert len({line["call_id"] for line in (begun, *rest, ended)}) == 1
    assert len({line["run_id"] for line in told.lines()}) == 1


async def test_an_approval_that_spares_a_confirmation_is_told(far: Far, tmp_path: Path, told: Told) -> None:
    profile = 'approve_tool = ["ops__read", "list_trades", "sync_broker"]'
    async with opened(far, tmp_path, profile, environ=told.environ) as client:
        for name, given in (("ops__read", {}), ("list_trades", {}), ("sync_broker", {"broker_id": "b"})):
            await client.call(name, **given)
    auto = [line["tool"] for line in told.lines() if line["event"] == "tool.confirmed" and line["auto"]]
    assert auto == ["ops__read", "sync_broker"], "list_trades would not have been confirmed"


async def test_a_token_is_asked_for_refused_and_taken(far: Far, tmp_path: Path, told: Told) -> None:
    async with opened(far, tmp_path, environ=told.environ) as client:
        await client.call("ops__write", text="x")
        issued = await client.call("get_confirmation_token", action="ops__write", params_summary="a test")
        token = issued["structuredContent"]["token"]
        await client.call("ops__write", text="x", confirmation_token=token)
        await client.call("ops__write", text="x", confirmation_token=token)
    assert told.events("ops__write") == [
        "tool.requested", "tool.confirm_requested", "tool.denied",
        "tool.requested", "tool.confirmed", "tool.succeeded",
        "tool.requested", "tool.denied",
    ]  # fmt: skip
    denied = [line["reason"] for line in told.lines("ops__write") if line["event"] == "tool.denied"]
    assert denied == ["confirmation_missing", "confirmation_used"]
    assert {line["channel"] for line in told.lines("ops__write") if "channel" in line} == {"token"}
    assert token not in told.path.read_text()


@pytest.mark.parametrize("name", ["ops__write", "list_trades"])
async def test_a_form_belongs_to_the_call_it_was_shown_for(far: Far, tmp_path: Path, told: Told, name: str) -> None:
    profile = 'require_confirm_tool = ["list_trades"]'
    async with opened(far, tmp_path, profile, environ=told.environ, capabilities=FORMS) as client:
        client.answers = [YES, {"action": "decline"}]
        await client.call(name)
        assert refusal_of(await client.call(name))["code"] == "confirmation_declined"
    assert told.events(name) == [
        "tool.requested", "tool.confirm_requested", "tool.confirmed", "tool.succeeded",
        "tool.requested", "tool.confirm_requested", "tool.denied",
    ]  # fmt: skip
    assert len({line["call_id"] for line in told.lines(name)}) == 2


async def test_in_the_modern_era_two_requests_are_one_call(far: Far, tmp_path: Path, told: Told) -> None:
    async with opened(far, tmp_path, environ=told.environ, capabilities=FORMS, revision=MODERN) as client:
        params = {"name": "ops__write", "arguments": {"text": "x"}}
        asked = (await client.request("tools/call", params))["result"]
        (key,) = asked["inputRequests"]
        assert told.events("ops__write") == ["tool.requested", "tool.confirm_requested"]
        answer = {"inputResponses": {key: YES}, "requestState": asked["requestState"]}
        await client.request("tools/call", {**params, **answer})
        await client.request("tools/call", params)
    assert told.events("ops__write") == [
        "tool.requested", "tool.confirm_requested", "tool.confirmed", "tool.succeeded",
        "tool.requested", "tool.confirm_requested", "tool.failed",
    ]  # fmt: skip
    assert told.lines("ops__write")[-1]["code"] == "cancelled", "no answer can come any more"


async def test_what_is_denied_and_what_the_guard_stops_is_told_as_denied(far: Far, tmp_path: Path, told: Told) -> None:
    async with opened(far, tmp_path, 'deny_tool = ["list_trades"]', environ=told.environ) as client:
        await client.call("list_trades")
        await client.call("call_tool", name="list_trades", arguments={})
        far.is_locked = True
        await client.call("ops__read")
    assert told.events("list_trades") == ["tool.requested", "tool.denied"] * 2
    assert [line.get("reason") for line in told.lines() if line["event"] == "tool.denied"] == [
        "deny_tool", "deny_tool", "guard_blocked",
    ]  # fmt: skip


async def test_nothing_sent_or_answered_is_recorded_unless_that_is_asked_for(
    far: Far, tmp_path: Path, told: Told
) -> None:
    for more in ({}, {"ZORIVEST_TELEMETRY_CAPTURE_CONTENT": "1"}):
        async with opened(far, tmp_path, 'approve_tool = ["*"]', environ=told.environ | more) as client:
            await client.call("ops__read", text="planted-word")
            assert ("planted-word" in told.path.read_text()) is bool(more)


async def test_without_profile_and_variable_nothing_is_recorded(
    far: Far, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"HOME": str(tmp_path), "ZORIVEST_KEYRING": "off", "ZORIVEST_API_KEY": "zrv_sk_of_a_test"}
    words = ["--data-dir", str(tmp_path), "--api-url", far.backend]
    with caplog.at_level(logging.INFO):
        client = Client(Journal(parse("stdio", words, given)), "cline", {}, LEGACY)
        await client.open()
        await client.call("list_trades")
        await client.close()
    assert far.done == 1
    assert [record for record in caplog.records if "tool.requested" in record.getMessage()] == []


@pytest.mark.parametrize("seed", range(4))
async def test_in_a_random_run_every_call_has_exactly_one_end(far: Far, tmp_path: Path, told: Told, seed: int) -> None:
    chance = random.Random(seed)
    profile = 'approve_tool = ["ops__read"]\ndeny_tool = ["ops__destroy"]\nrequire_confirm_tool = ["list_trades"]'
    revision = chance.choice([LEGACY, MODERN])
    capabilities = chance.choice([FORMS, {}])
    options: dict[str, Any] = {"environ": told.environ, "revision": revision, "capabilities": capabilities}
    asked = 0
    async with opened(far, tmp_path, profile, **options) as client:
        client.answers = [chance.choice([YES, {"action": "decline"}, {"action": "cancel"}]) for _ in range(200)]
        for _ in range(60):
            far.is_locked = chance.random() < 0.1
            name = chance.choice(
                ["ops__read", "ops__write", "ops__destroy", "list_trades", "sync_broker", "get_settings", "call_tool"]
            )
            given: dict[str, Any] = {"broker_id": "b"} if name == "sync_broker" else {}
            if name == "call_tool":
                given = {"name": chance.choice(["ops__write", "list_trades", "ops__destroy"]), "arguments": {}}
            if chance.random() < 0.2:
                given["confirmation_token"] = "ctk_invented"
            if chance.random() < 0.1:
                given["broker_id"] = 7
            params: dict[str, Any] = {"name": name, "arguments": given}
            result = (await client.request("tools/call", params)).get("result", {})
            if result.get("resultType") == "input_required" and chance.random() < 0.7:
                answers = {key: chance.choice([YES, {"action": "decline"}]) for key in result["inputRequests"]}
                asked += 1
                await client.request(
                    "tools/call", {**params, "inputResponses": answers, "requestState": result["requestState"]}
                )
    begun = Counter(line["call_id"] for line in told.lines() if line["event"] == "tool.requested")
    ended = Counter(line["call_id"] for line in told.lines() if line["event"] in ENDS)
    assert len(begun) > 20
    assert begun == ended
    assert set(begun.values()) == {1}


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.one_journal("telemetry repeats a URI as it was asked for, with the client in it")
async def test_what_is_read_from_another_server_is_requested_and_ends_like_a_call(
    tmp_path: Path, told: Told, revision: str
) -> None:
    environ = told.environ | {"ZORIVEST_TELEMETRY_CAPTURE_CONTENT": "1"}
    async with shop(tmp_path, environ=environ, revision=revision) as (_, client, far):
        uri = "upstream:ops:notes:///a"
        reference = {"type": "ref/prompt", "name": "ops__greet"}
        for is_locked in (False, True):
            far.is_locked = is_locked
            await client.request("prompts/get", {"name": "ops__greet", "arguments": {"who": "Jack"}})
            await client.request("resources/read", {"uri": uri})
            completing = {"ref": reference, "argument": {"name": "who", "value": "a"}}
            await client.request("completion/complete", completing)
        far.is_locked = False
        await client.request("resources/read", {"uri": "upstream:ops:notes:///missing"})
    lines = told.lines()
    begun = [line for line in lines if line["event"] == "tool.requested"]
    kinds = ["ops/prompts", "ops/resources", "ops/completions"]
    assert [line["tool"] for line in begun] == [*kinds, *kinds, "ops/resources"]
    assert {(line["provenance"], line["server"]) for line in lines} == {("upstream", "ops")}
    assert [line["arguments"] for line in begun[:2]] == [
        {"name": "ops__greet", "arguments": {"who": "Jack"}},
        {"uri": uri},
    ]
    ends = [line for line in lines if line["event"] in ENDS]
    assert [line["event"] for line in ends] == ["tool.succeeded"] * 3 + ["tool.denied"] * 3 + ["tool.failed"]
    assert {line["reason"] for line in ends[3:6]} == {"guard_blocked"}
    assert ends[6]["code"] == "upstream_error"
    assert Counter(line["call_id"] for line in ends) == Counter(line["call_id"] for line in begun)
