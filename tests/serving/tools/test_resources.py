"""Resources: what can be read, by whom, and what a locked guard keeps back."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from tests.catalogue import count, toolsets
from tests.serving.tools.stage import DOWN, FakeBackend, Stage, Turn, refused
from zorivest_rpc.mcp.protocol.jsonrpc import INTERNAL_ERROR, RESOURCE_NOT_FOUND
from zorivest_rpc.serving.audience import Policy
from zorivest_rpc.serving.backend.interface import Reply

SCHEMA = {"type": "object", "title": "Policy", "properties": {"name": {"type": "string"}}}
STEPS = [{"type": "fetch", "side_effects": False, "params_schema": {"type": "object"}}]
PIXELS = b"RIFF....WEBP"
FULL: dict[str, Any] = {
    "POST /mcp-guard/check": {"allowed": True, "reason": "ok"},
    "GET /scheduling/policies/schema": SCHEMA,
    "GET /scheduling/step-types": Turn(STEPS),
    "GET /mcp-guard/status": {"is_enabled": True, "is_locked": False, "call_count": 3, "calls_per_minute_limit": 60},
    "GET /images/7": {"mime_type": "image/webp", "caption": "exit"},
    "GET /images/7/full": Reply(200, None, PIXELS, "image/webp"),
}
LOCKED = {**FULL, "POST /mcp-guard/check": {"allowed": False, "reason": "manual"}}
OF_THE_BACKEND = ["pipeline://policies/schema", "pipeline://step-types", "zorivest://images/7"]


async def read(uri: str, answers: dict[str, Any] = FULL, **options: Any) -> dict[str, Any]:
    client = await Stage(FakeBackend(answers), **options).connect()
    return await client.request("resources/read", uri=uri)


async def content(uri: str, answers: dict[str, Any] = FULL) -> Any:
    (found,) = (await read(uri, answers))["contents"]
    assert (found["uri"], found["mimeType"]) == (uri, "application/json")
    return json.loads(found["text"])


async def test_the_list_names_every_fixed_resource_and_the_templates() -> None:
    client = await Stage(FakeBackend(FULL)).connect()
    resources = (await client.request("resources/list"))["resources"]
    assert [resource["uri"] for resource in resources] == [
        "pipeline://policies/schema",
        "pipeline://step-types",
        "zorivest://toolsets",
        "zorivest://guard",
    ]
    assert {resource["mimeType"] for resource in resources} == {"application/json"}
    templates = (await client.request("resources/templates/list"))["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == [
        "zorivest://toolsets/{toolset}",
        "zorivest://images/{image_id}",
    ]


async def test_the_pipeline_resources_are_the_backends_own() -> None:
    assert await content("pipeline://policies/schema") == SCHEMA
    assert await content("pipeline://step-types") == STEPS


@pytest.mark.parametrize("uri", OF_THE_BACKEND[:2])
@pytest.mark.parametrize("answer", [Turn("text"), Turn(5), DOWN, refused(500)])
async def test_what_the_backend_cannot_give_is_an_error(uri: str, answer: Any) -> None:
    paths = ("GET /scheduling/policies/schema", "GET /scheduling/step-types")
    error = (await read(uri, {**FULL, **dict.fromkeys(paths, answer)}))["error"]
    assert error["code"] == INTERNAL_ERROR


@pytest.mark.parametrize("uri", OF_THE_BACKEND)
async def test_a_guard_that_cannot_be_asked_is_no_fault_of_the_uri(uri: str) -> None:
    error = (await read(uri, {**FULL, "POST /mcp-guard/check": DOWN}))["error"]
    assert error["code"] == INTERNAL_ERROR
    assert "MCP guard blocked" in error["message"]


async def test_the_toolsets_can_be_read_all_or_one_with_the_backend_down() -> None:
    found = await content("zorivest://toolsets", {})
    assert len(found["toolsets"]) == 9
    assert found["total_tools"] == sum(map(count, toolsets()))
    tax = await content("zorivest://toolsets/tax", {})
    assert (tax["name"], len(tax["tools"])) == ("tax", count("tax"))
    assert (await read("zorivest://toolsets/taxes", {}))["error"]["code"] == RESOURCE_NOT_FOUND


async def test_reading_toolsets_is_counted_under_the_names_of_tools() -> None:
    stage = Stage(FakeBackend())
    client = await stage.connect()
    for uri in ("zorivest://toolsets", "zorivest://toolsets/tax"):
        await client.request("resources/read", uri=uri)
    assert set(stage.metrics.summary(True)["per_tool"]) == {"list_available_toolsets", "describe_toolset"}


async def test_the_guard_can_be_read_in_every_state() -> None:
    assert await content("zorivest://guard") == {
        "enabled": True,
        "locked": False,
        "call_count": 3,
        "calls_per_minute_limit": 60,
    }
    assert await content("zorivest://guard", {}) == {"status": "unavailable"}
    assert await content("zorivest://guard", {"GET /mcp-guard/status": Turn([1])}) == {"status": "unavailable"}
    locked = {"is_locked": True, "lock_reason": "saw zrv_sk_planted in a chat", "token": "tok_planted"}
    found = await content("zorivest://guard", {"GET /mcp-guard/status": locked})
    assert (found["locked"], found["reason"]) == (True, "saw … in a chat")


async def test_a_screenshot_is_read_as_a_blob() -> None:
    (found,) = (await read("zorivest://images/7"))["contents"]
    assert (found["uri"], found["mimeType"]) == ("zorivest://images/7", "image/webp")
    assert b64decode(found["blob"]) == PIXELS


@pytest.mark.parametrize("image_id", ["8", "x", "-7", "7.0", "٧", "1" * 30, "%2e%2e"])
async def test_an_image_that_is_not_there_is_no_resource(image_id: str) -> None:
    answers = {**FULL, "GET /images/8": refused(404)}
    assert (await read(f"zorivest://images/{image_id}", answers))["error"]["code"] == RESOURCE_NOT_FOUND


@pytest.mark.parametrize("uri", OF_THE_BACKEND)
async def test_a_locked_guard_keeps_the_backends_data_back(uri: str) -> None:
    stage = Stage(FakeBackend(LOCKED))
    error = (await (await stage.connect()).request("resources/read", uri=uri))["error"]
    assert "MCP guard blocked" in error["message"]
    assert stage.backend.paths() == ["POST /mcp-guard/check"]


@pytest.mark.parametrize("uri", OF_THE_BACKEND)
async def test_a_guard_that_cannot_be_asked_keeps_it_back_as_well(uri: str) -> None:
    assert "MCP guard blocked" in (await read(uri, {**FULL, "POST /mcp-guard/check": DOWN}))["error"]["message"]


async def test_a_session_that_may_not_call_the_tool_does_not_see_its_resource() -> None:
    policy = Policy(excluded=frozenset(("get_screenshot", "list_policies")))
    stage = Stage(FakeBackend(FULL), policy=policy)
    client = await stage.connect()
    listed = [resource["uri"] for resource in (await client.request("resources/list"))["resources"]]
    assert listed == ["zorivest://toolsets", "zorivest://guard"]
    templates = (await client.request("resources/templates/list"))["resourceTemplates"]
    assert [template["name"] for template in templates] == ["toolset"]
    for uri in OF_THE_BACKEND:
        assert (await client.request("resources/read", uri=uri))["error"]["code"] == RESOURCE_NOT_FOUND
    assert stage.backend.asked == []
