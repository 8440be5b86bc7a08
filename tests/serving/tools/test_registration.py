"""Every tool with logic has exactly one function, and its results keep the rules that hold for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.catalog.test_contract import PROMISED
from tests.serving.tools.stage import DEFINITIONS, SPECS, FakeBackend, Stage, kit, make_call, payload
from zorivest_rpc.serving.tools.settings import LogSettings

PYTHON = {spec.python for spec in SPECS.values() if spec.python is not None}


def test_there_is_a_function_for_every_tool_that_names_one_and_no_other() -> None:
    assert set(Stage(FakeBackend()).by_python()) == PYTHON


def test_every_tool_has_either_a_route_or_logic_of_its_own() -> None:
    assert all((spec.python is None) != (spec.rest is None) for spec in DEFINITIONS.tools)


def test_emergency_diagnosis_desktop_and_discovery_are_outside_the_guard() -> None:
    assert {spec.name for spec in DEFINITIONS.tools if not spec.guarded} & PROMISED == {
        "zorivest_emergency_stop",
        "zorivest_emergency_unlock",
        "zorivest_diagnose",
        "zorivest_launch_gui",
        "list_available_toolsets",
        "describe_toolset",
        "enable_toolset",
        "get_confirmation_token",
    }


LEAST: dict[str, dict[str, Any]] = {
    "update_policy_schedule": {"policy_id": "p", "enabled": True},
    "get_screenshot": {"image_id": 1},
    "get_confirmation_token": {"action": "create_trade", "params_summary": "x"},
    "describe_toolset": {"toolset_name": "nothing"},
    "enable_toolset": {"toolset_name": "nothing"},
    "update_log_level": {"feature": "tax", "level": "INFO"},
    "zorivest_emergency_unlock": {"confirm": "UNLOCK"},
    "zorivest_service_restart": {"confirm": "RESTART"},
    "tool_search": {"query": "zzzz"},
    "call_tool": {"name": "nothing"},
}


@pytest.mark.parametrize("name", sorted(spec.name for spec in SPECS.values() if spec.python is not None))
async def test_with_the_backend_down_every_tool_answers_in_one_of_two_forms(name: str) -> None:
    """A result, or a refusal with its class, its code and a next step; never a protocol error."""
    client = await Stage(FakeBackend()).connect()
    answer = await client.call(name, **LEAST.get(name, {}))
    assert "error" not in answer, answer
    if answer.get("isError"):
        about = answer["_meta"]["com.zorivest/error"]
        assert about["class"]
        assert about["code"]
        assert about["next"]
        assert answer["content"][0]["text"]
    else:
        assert name in {
            "zorivest_diagnose",
            "zorivest_launch_gui",
            "zorivest_service_logs",
            "list_available_toolsets",
            "tool_search",
        }


async def test_metrics_count_every_call_and_a_refusal_as_an_error() -> None:
    stage = Stage(FakeBackend())
    client = await stage.connect()
    await client.call("zorivest_diagnose")
    await client.call("get_log_settings")
    numbers = (await client.call("zorivest_diagnose", verbose=True))["structuredContent"]["metrics"]["per_tool"]
    assert numbers["zorivest_diagnose"]["call_count"] == 1
    assert numbers["get_log_settings"]["error_count"] == 1


async def test_a_tool_that_is_reached_through_call_tool_is_the_same_tool() -> None:
    stage = Stage(FakeBackend({"POST /mcp-guard/lock": {"is_locked": True}}))
    client = await stage.connect("claude-code")
    direct = await client.call("call_tool", name="zorivest_service_logs")
    assert direct["structuredContent"]["log_files"] == []
    gated = await client.call("call_tool", name="zorivest_emergency_stop")
    assert gated["_meta"]["com.zorivest/error"]["code"] == "confirmation_missing"
    assert stage.backend.paths() == ["POST /mcp-guard/check"]


async def test_a_result_is_shown_as_the_client_gets_it_but_its_message_always() -> None:
    def brief(call: Any, value: dict[str, Any]) -> dict[str, Any]:
        return {name: entry for name, entry in value.items() if name != "result"}

    backend = FakeBackend({"PUT /settings": {"status": "updated"}})
    outcome = await LogSettings(kit(backend, shape=brief)).write_level(
        make_call("update_log_level", feature="tax", level="INFO")
    )
    assert payload(outcome) == {"updated": "logging.tax.level", "level": "INFO"}
    given = kit(backend, shape=lambda call, value: {}).give(make_call("update_log_level"), {"a": 1}, message="done")
    assert payload(given) == {"message": "done"}
