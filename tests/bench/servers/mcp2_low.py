"""The peer `mcp` 2.x, low-level `Server`, answering in JSON and checking no arguments. argv: stdio | http PORT"""

import json
import os
import sys

import anyio
import httpx2 as httpx
import mcp_types as types
from mcp.server.lowlevel import Server

with open(os.environ["BENCH_CATALOG"], encoding="utf-8") as file:
    CATALOG = json.load(file)
BACKEND = os.environ.get("BENCH_BACKEND", "")
SCHEMAS = {tool["name"]: tool["inputSchema"] for tool in CATALOG["tools"]}
LIST = types.ListToolsResult(
    tools=[
        types.Tool(name=tool["name"], description=tool["description"], input_schema=tool["inputSchema"])
        for tool in CATALOG["tools"]
    ]
)
BROADCASTS = bool(os.environ.get("BENCH_BROADCAST"))
known = {}  # the connections to tell, by identity; kept only when a broadcast is going to be measured
clients = []


def text(value):
    return types.CallToolResult(content=[types.TextContent(type="text", text=value)])


async def on_list(ctx, params):
    return LIST


async def on_call(ctx, params):
    if params.name == "forward":
        if not clients:
            limits = httpx.Limits(max_connections=100, max_keepalive_connections=100)
            clients.append(httpx.AsyncClient(limits=limits))
        return text((await clients[0].post(BACKEND, json=params.arguments)).text)
    if BROADCASTS:
        if params.name == "broadcast":
            for connection in list(known.values()):
                await connection.send_tool_list_changed()
        else:
            known[id(ctx.session._connection)] = ctx.session._connection
    return text(CATALOG["echo_text"])


server = Server("bench", version="1", on_list_tools=on_list, on_call_tool=on_call, get_tool_input_schema=SCHEMAS.get)


async def stdio():
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


if sys.argv[1] == "stdio":
    anyio.run(stdio)
else:
    import uvicorn

    app = server.streamable_http_app(json_response=True)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning", access_log=False)
