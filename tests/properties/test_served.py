"""What is listed can be used, and nothing that a client can say is an internal error."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connect import Client, Host, meta
from tests.fuzz.generate import METHODS
from tests.properties.test_decode import JSON

OFFER = "tests.fuzz.offer:offer"
NEVER = {-32603}


async def lists(client: Client) -> dict[str, list[Any]]:
    return {
        "tools": (await client.result("tools/list"))["tools"],
        "prompts": (await client.result("prompts/list"))["prompts"],
        "resources": (await client.result("resources/list"))["resources"],
    }


def example(schema: Any) -> Any:
    """A value that fits the simple schemas that tools of tests have."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: example(schema["properties"][name]) for name in schema.get("required", ())}
        case "array":
            return []
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return "x"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("offer", [OFFER, "tests.mcp.protocol.offers:many", "zorivest_rpc.showcase:offer"])
async def test_what_is_listed_is_callable(memory: Host, memory_modern: Host, revision: str, offer: str) -> None:
    modern = revision == "2026-07-28"
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}} if modern else {}
    client = await (memory_modern if modern else memory)(revision, offer=offer, capabilities=capabilities)
    listed = await lists(client)
    assert listed["tools"]
    for tool in listed["tools"]:
        params = {"name": tool["name"], "arguments": example(tool["inputSchema"])}
        if tool.get("execution", {}).get("taskSupport") == "required":
            params["task"] = {}
        answer = await client.ask("tools/call", params)
        refused = tool["name"] == "task_protocol_error" or answer.get("error", {}).get("code") == -32021
        assert "result" in answer or refused, (tool["name"], answer)
    for prompt in listed["prompts"]:
        arguments = {each["name"]: "x" for each in prompt.get("arguments", ())}
        answer = await client.ask("prompts/get", {"name": prompt["name"], "arguments": arguments})
        assert "result" in answer or prompt["name"] == "asks", answer
    for resource in listed["resources"]:
        answer = await client.ask("resources/read", {"uri": resource["uri"]})
        assert "result" in answer or resource["uri"] == "test://asks", answer


@given(
    st.lists(st.tuples(st.sampled_from(METHODS), st.dictionaries(st.text(), JSON, max_size=4)), max_size=6), st.data()
)
@settings(deadline=None, max_examples=80)
def test_no_params_yield_an_internal_error(requests: list[tuple[str, dict[str, Any]]], data: st.DataObject) -> None:
    modern = data.draw(st.booleans())

    async def talk() -> list[Any]:
        host = Host("memory-modern" if modern else "memory")
        client = await host(offer=OFFER, capabilities={})
        for number, (method, params) in enumerate(requests):
            for name in ("name", "uri", "taskId", "cursor", "arguments", "level", "ref", "argument", "notifications"):
                if data.draw(st.booleans()):
                    params[name] = data.draw(JSON)
            if modern:
                params["_meta"] = meta()
            await client.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        await client.send(
            {"jsonrpc": "2.0", "id": "end", "method": "ping", "params": {"_meta": meta()} if modern else {}}
        )
        await client.answer("end")
        await host.close()
        return client.answers

    for answer in asyncio.run(talk()):
        assert answer.get("error", {}).get("code") not in NEVER, answer


@given(
    st.sampled_from(["echo", "anything", "mirrored", "progress", "ask_rounds", "change"]),
    st.dictionaries(st.text(), JSON, max_size=3),
    JSON,
    JSON,
)
@settings(deadline=None, max_examples=150)
def test_no_arguments_yield_an_internal_error(tool: str, arguments: dict[str, Any], text: Any, other: Any) -> None:
    async def talk() -> list[Any]:
        host = Host("memory-modern")
        client = await host(offer=OFFER)
        answers = [
            await client.ask("tools/call", {"name": tool, "arguments": given, "inputResponses": {"first": other}})
            for given in (arguments, {"text": text}, {"steps": text, "extra": other}, {"kind": text})
        ]
        await host.close()
        return answers

    for answer in asyncio.run(talk()):
        assert answer.get("error", {}).get("code") not in NEVER, answer
