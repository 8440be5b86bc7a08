"""The official library's client, told by lines of JSON what to do; what came back is one line each.

    relay.py stdio COMMAND …      relay.py http ADDRESS

{"list": true} answers with the tools, {"tool": NAME, "arguments": {…}} with the result; each answer tells how many
times the list was announced as changed until then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

changes: list[Any] = []


async def note(message: Any) -> None:
    if isinstance(message, types.ServerNotification) and isinstance(message.root, types.ToolListChangedNotification):
        changes.append(message)


def connect(kind: str, words: list[str]) -> Any:
    if kind == "http":
        return streamablehttp_client(words[0])
    return stdio_client(StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ)))


async def main(kind: str, words: list[str]) -> None:
    loop = asyncio.get_running_loop()
    async with connect(kind, words) as streams, ClientSession(*streams[:2], message_handler=note) as session:
        await session.initialize()
        print(json.dumps({"ready": True}), flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            asked = json.loads(line)
            if "list" in asked:
                result = await session.list_tools()
            else:
                result = await session.call_tool(asked["tool"], asked["arguments"])
            answer = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            print(json.dumps(answer | {"changes": len(changes)}), flush=True)


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
