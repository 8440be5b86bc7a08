"""zorivest_diagnose answers in every state of the backend, and never with a secret."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.serving.tools.stage import DOWN, FakeBackend, Stage, fits, kit, make_call, never, payload, refused
from zorivest_rpc.mcp.protocol.types import Implementation
from zorivest_rpc.serving.backend.interface import Reply
from zorivest_rpc.serving.catalog.load import load_clients
from zorivest_rpc.serving.catalog.spec import Mode
from zorivest_rpc.serving.modes.detect import detect
from zorivest_rpc.serving.tools.diagnostics import Diagnostics

HEALTHY: dict[str, Any] = {
    "GET /health": {"status": "ok", "database": {"unlocked": True}, "uptime_seconds": 12},
    "GET /version/": {"version": "1.0.0", "context": "dev"},
    "GET /mcp-guard/status": {"is_enabled": True, "is_locked": False, "call_count": 7},
    "GET /market-data/providers": [{"name": "alpha_vantage", "is_enabled": True, "has_key": True}],
}
SUMMARY: dict[str, Any] = {
    "session_uptime_minutes": 3,
    "total_tool_calls": 0,
    "overall_error_rate": 0,
    "calls_per_minute": 0,
    "slowest_tool": None,
    "most_errored_tool": None,
    "warnings": [],
}
TABLE = load_clients()


def summary(verbose: bool) -> dict[str, Any]:
    return {**SUMMARY, "per_tool": {}} if verbose else dict(SUMMARY)


def diagnostics(backend: FakeBackend, *, seconds: float = 5.0, override: Mode | None = None) -> Diagnostics:
    return Diagnostics(
        kit(backend),
        summary,
        lambda: 3,
        lambda session: detect(TABLE, name=session.client and session.client.name, override=override),
        version="1.2.3",
        runtime="Python 3.11",
        seconds=seconds,
    )


async def report(
    answers: dict[str, Any] | None = None, *, otherwise: Any = DOWN, seconds: float = 5.0, **arguments: Any
) -> dict[str, Any]:
    tool = diagnostics(FakeBackend(answers, otherwise), seconds=seconds)
    async with asyncio.timeout(10):
        outcome = await tool.diagnose(make_call("zorivest_diagnose", **arguments))
    assert not outcome.is_error
    found = payload(outcome)
    fits("zorivest_diagnose", found)
    return found


async def test_a_reachable_backend_gives_a_full_report() -> None:
    found = await report(HEALTHY)
    assert found["backend"] == {"reachable": True, "status": "ok", "url": "http://backend.test/api/v1"}
    assert found["version"] == {"version": "1.0.0", "context": "dev"}
    assert found["database"] == {"unlocked": True}
    assert found["guard"] == {"enabled": True, "locked": False, "call_count": 7}
    assert found["providers"] == [{"name": "alpha_vantage", "is_enabled": True, "has_key": True}]
    assert found["mcp_server"] == {"uptime_minutes": 3, "node_version": "Python 3.11", "version": "1.2.3"}
    assert found["metrics"] == SUMMARY
    assert "problems" not in found


async def test_a_backend_that_is_down_is_reported_as_unreachable() -> None:
    found = await report()
    assert found["backend"]["reachable"] is False
    assert found["backend"]["status"] == "unreachable"
    assert found["version"] == {"version": "unknown", "context": "unknown"}
    assert found["database"] == {"unlocked": False}
    assert found["guard"] == {"status": "unavailable"}
    assert found["providers"] == []
    assert found["metrics"] == SUMMARY
    assert {problem["code"] for problem in found["problems"]} == {"backend_unreachable"}
    assert "Start the backend" in found["next"]


async def test_the_four_probes_run_at_once_and_only_the_last_two_carry_a_session_if_there_is_one() -> None:
    backend = FakeBackend(HEALTHY)
    await diagnostics(backend).diagnose(make_call("zorivest_diagnose"))
    assert backend.most_running == 4
    assert {asked.path: asked.auth for asked in backend.asked} == {
        "/health": "none",
        "/version/": "none",
        "/mcp-guard/status": "if_any",
        "/market-data/providers": "if_any",
    }
    assert all(asked.urgent for asked in backend.asked)  # a report of what is, not of what was


@pytest.mark.parametrize("missing", sorted(HEALTHY))
@pytest.mark.parametrize("failure", [DOWN, refused(403), refused(500), refused(200, code="not_json")])
async def test_a_probe_that_fails_leaves_the_rest_of_the_report(missing: str, failure: Exception) -> None:
    whole, partly = await report(HEALTHY), await report({**HEALTHY, missing: failure})
    section = {
        "GET /health": ("backend", "database"),
        "GET /version/": ("version",),
        "GET /mcp-guard/status": ("guard",),
        "GET /market-data/providers": ("providers",),
    }[missing]
    for name, value in whole.items():
        assert (partly[name] != value) == (name in section)
    assert [problem["probe"] for problem in partly["problems"]] == [missing]


async def test_a_backend_that_never_answers_does_not_hold_the_report() -> None:
    found = await report({**HEALTHY, "GET /mcp-guard/status": never}, seconds=0.02)
    assert found["backend"]["reachable"] is True
    assert found["guard"] == {"status": "unavailable"}
    assert found["problems"] == [{"probe": "GET /mcp-guard/status", "code": "backend_timeout"}]


NONSENSE: list[Any] = [None, [], {}, "ok", 7, True, [1, None], {"status": 5, "database": "open"}, {"is_locked": "no"}]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
async def test_an_answer_that_is_nonsense_still_gives_a_report_of_the_promised_shape(nonsense: Any) -> None:
    found = await report(otherwise=Reply(200, nonsense))
    assert found["backend"]["reachable"] is True
    assert found["database"] == {"unlocked": "unknown"}
    assert found["guard"] == {"status": "unavailable"}
    assert found["providers"] == []


@pytest.mark.parametrize(
    ("health", "unlocked"),
    [
        ({"status": "ok", "database_unlocked": True}, True),
        ({"status": "ok", "database": {"unlocked": False}, "database_unlocked": True}, False),
        ({"status": "ok"}, "unknown"),
    ],
)
async def test_the_state_of_the_database_has_two_spellings(health: dict[str, Any], unlocked: Any) -> None:
    assert (await report({**HEALTHY, "GET /health": health}))["database"] == {"unlocked": unlocked}


async def test_other_spellings_of_provider_and_count_are_understood() -> None:
    found = await report(
        {
            **HEALTHY,
            "GET /mcp-guard/status": {"is_locked": True, "recent_calls_1hr": 4, "lock_reason": "manual"},
            "GET /market-data/providers": [{"provider_name": "Polygon.io", "is_enabled": False, "has_api_key": True}],
        }
    )
    assert found["guard"] == {"enabled": False, "locked": True, "call_count": 4, "reason": "manual"}
    assert found["providers"] == [{"name": "Polygon.io", "is_enabled": False, "has_key": True}]


async def test_the_reason_of_a_lock_that_was_lifted_is_not_shown() -> None:
    guard = {"is_enabled": True, "is_locked": False, "lock_reason": "manual"}
    assert "reason" not in (await report({**HEALTHY, "GET /mcp-guard/status": guard}))["guard"]


async def test_numbers_of_each_tool_come_only_when_asked_for() -> None:
    assert "per_tool" not in (await report(HEALTHY))["metrics"]
    assert "per_tool" in (await report(HEALTHY, verbose=True))["metrics"]


async def test_the_report_says_how_the_client_is_treated_and_why() -> None:
    call = make_call("zorivest_diagnose")
    call.session.client = Implementation("cursor", "1.0")
    client = payload(await diagnostics(FakeBackend(HEALTHY)).diagnose(call))["client"]
    assert (client["client"], client["mode"], client["source"]) == ("cursor", "static", "name")
    assert "cursor" in client["reason"]
    chosen = diagnostics(FakeBackend(HEALTHY), override=Mode.DYNAMIC)
    client = payload(await chosen.diagnose(call))["client"]
    assert (client["mode"], client["source"]) == ("dynamic", "override")


SECRETS = [
    "SECRET_KEY_123",
    "zrv_sk_9f8e7d6c5b4a39281706f5e4d3c2b1a0",
    "tok_abcdef0123456789",
    "ctk_0123456789abcdef",
    "Bearer qwertyuiopasdfgh",
    "ENC:gAAAAABlongciphertext",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("secret", SECRETS)
async def test_a_planted_secret_never_reaches_the_report(secret: str) -> None:
    """In every field that somebody may have thought of, and as a field, a name, a status and an error."""
    entry = {"name": "polygon", "is_enabled": True, "has_key": True, "api_key": secret, "key": secret}
    everywhere = {
        "status": secret,
        "api_key": secret,
        "session_token": secret,
        "database": {"unlocked": True, "dek": secret},
    }
    found = await report(
        {
            "GET /health": {**everywhere, secret: True},
            "GET /version/": {"version": f"1.0 {secret}", "context": f"dev {secret}", "token": secret},
            "GET /mcp-guard/status": {"is_locked": True, "is_enabled": True, "lock_reason": "manual", "token": secret},
            "GET /market-data/providers": [entry, {**entry, "name": f"p={secret}"}, {**entry, "has_key": secret}],
        },
        verbose=True,
    )
    assert secret not in json.dumps(found)
    assert [provider["name"] for provider in found["providers"]] == ["polygon", "polygon"]
    failing = await report(otherwise=refused(500, f"failed with {secret}", detail=secret, next=f"use {secret}"))
    assert secret not in json.dumps(failing)


@pytest.mark.parametrize("secret", SECRETS[1:])
async def test_a_credential_in_free_text_is_taken_out(secret: str) -> None:
    guard = {"is_locked": True, "lock_reason": f"leaked {secret} in chat"}
    found = await report({**HEALTHY, "GET /mcp-guard/status": guard})
    assert secret.removeprefix("Bearer ") not in json.dumps(found)
    assert found["guard"]["reason"] == "leaked … in chat"


async def test_every_answer_being_the_provider_list_reveals_no_key() -> None:
    listing = [{"name": "polygon", "is_enabled": True, "has_key": True, "api_key": "SECRET_KEY_123"}]
    assert "SECRET_KEY_123" not in json.dumps(await report(otherwise=Reply(200, listing)))


async def test_an_address_with_a_password_is_shown_without_it() -> None:
    backend = FakeBackend(HEALTHY)
    backend.base_url = "http://user:hunter2@backend.test:8765/api/v1"
    found = payload(await diagnostics(backend).diagnose(make_call("zorivest_diagnose")))
    assert found["backend"]["url"] == "http://backend.test:8765/api/v1"


async def test_a_client_can_diagnose_while_the_guard_is_locked() -> None:
    locked = {**HEALTHY, "POST /mcp-guard/check": {"allowed": False, "reason": "manual"}}
    client = await Stage(FakeBackend(locked)).connect("claude-code")
    answer = await client.call("zorivest_diagnose", verbose=True)
    assert "isError" not in answer
    assert answer["structuredContent"]["client"]["mode"] == "anthropic"
    assert (await client.call("zorivest_service_status"))["isError"] is True


async def test_a_client_can_diagnose_while_the_backend_is_down() -> None:
    client = await Stage(FakeBackend()).connect()
    answer = await client.call("zorivest_diagnose")
    assert "isError" not in answer
    assert answer["structuredContent"]["backend"]["reachable"] is False
