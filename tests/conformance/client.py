"""What the official suite starts as the client under test: the gateway's client, and per scenario what a user would do.

The suite appends the URL of its server to the command and names the scenario in the environment. The era is left to be
detected, as it is for a server that a user configures.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from zorivest_rpc.gateway.http_client import HttpUpstream
from zorivest_rpc.gateway.upstream import Call, Result
from zorivest_rpc.mcp.client.caller import Identity
from zorivest_rpc.mcp.client.forms import Form

SECONDS = 20.0


async def accept(form: Form) -> Mapping[str, Any]:
    """The user who presses the button and fills in nothing."""
    return {"action": "accept", "content": {}}


async def call_tool(client: HttpUpstream, tool: str, arguments: Mapping[str, Any] | None = None) -> Result:
    params = json.dumps({"name": tool, "arguments": dict(arguments or {})}).encode()
    return await client.call(Call("tools/call", params, tool, seconds=SECONDS, can_ask=True, ask=accept))


async def call_each(client: HttpUpstream) -> None:
    """List, and call what is listed with a value of the right type for each argument."""
    listing = await client.list_tools()
    for item in listing.items:
        fields = item.definition["inputSchema"].get("properties", {})
        await call_tool(client, item.name, {name: example(field) for name, field in fields.items()})


def example(field: Mapping[str, Any]) -> Any:
    return {"number": 2.5, "integer": 3, "boolean": True, "array": [], "object": {}}.get(field.get("type", ""), "text")


async def list_only(client: HttpUpstream) -> None:
    await client.list_tools()


async def use_everything(client: HttpUpstream) -> None:
    """Tools, resources and prompts, so that each method has sent its headers."""
    await call_each(client)
    for resource in (await client.list_resources()).items:
        params = json.dumps({"uri": resource.name}).encode()
        await client.call(Call("resources/read", params, resource.name, seconds=SECONDS))
    for prompt in (await client.list_prompts()).items:
        params = json.dumps({"name": prompt.name}).encode()
        await client.call(Call("prompts/get", params, prompt.name, seconds=SECONDS))


async def call_given(client: HttpUpstream) -> None:
    """The calls that the suite hands over."""
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await call_tool(client, call["name"], call["arguments"])


async def echo_schema(client: HttpUpstream) -> None:
    """Send back the schema of one tool as it was received."""
    tools = {item.name: item.definition for item in (await client.list_tools()).items}
    await call_tool(client, "json_schema_echo", {"schema": tools["json_schema_2020_12_tool"]["inputSchema"]})


SCENARIOS: dict[str, Callable[[HttpUpstream], Awaitable[None]]] = {
    "initialize": list_only,
    "tools_call": call_each,
    "elicitation-sep1034-client-defaults": call_each,
    "sse-retry": call_each,
    "request-metadata": call_each,
    "sep-2322-client-request-state": call_each,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_given,
    "http-invalid-tool-headers": call_each,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
}


async def main(url: str) -> None:
    client = HttpUpstream("suite", url, Identity("zorivest-rpc", "0"), seconds=SECONDS)
    try:
        await client.connect()
        await SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]](client)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
