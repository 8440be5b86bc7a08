"""The floor on HTTP: a bare aiohttp.web handler, orjson in and out, a fixed answer; not an MCP server. argv: PORT

GET holds an SSE stream open; POST /broadcast sends one list_changed to all of them.
"""

import asyncio
import os
import sys
import uuid

import aiohttp
import orjson
from aiohttp import web

with open(os.environ["BENCH_CATALOG"], "rb") as file:
    CATALOG = orjson.loads(file.read())
BACKEND = os.environ.get("BENCH_BACKEND", "")
FIXED = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "floor", "version": "0"},
    },
    "tools/list": {"tools": CATALOG["tools"]},
    "ping": {},
}
ECHO = {"content": [{"type": "text", "text": CATALOG["echo_text"]}], "isError": False}
JSON = {"content-type": "application/json"}
CHANGED = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
CLIENT = web.AppKey("client", aiohttp.ClientSession)
streams = set()


async def post(request):
    message = orjson.loads(await request.read())
    mid = message.get("id")
    if mid is None:
        return web.Response(status=202)
    method = message["method"]
    result = FIXED.get(method)
    if result is None:
        params = message["params"]
        if params["name"] == "forward":
            order = orjson.dumps(params["arguments"])
            async with request.app[CLIENT].post(BACKEND, data=order, headers=JSON) as reply:
                result = {"content": [{"type": "text", "text": await reply.text()}], "isError": False}
        else:
            result = ECHO
    body = orjson.dumps({"jsonrpc": "2.0", "id": mid, "result": result})
    if method == "initialize":
        return web.Response(body=body, headers={**JSON, "mcp-session-id": uuid.uuid4().hex})
    return web.Response(body=body, headers=JSON)


async def get(request):
    stream = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await stream.prepare(request)
    await stream.write(b": open\n\n")
    streams.add(stream)
    try:
        await asyncio.Event().wait()
    finally:
        streams.discard(stream)
    return stream


async def broadcast(request):
    for stream in list(streams):
        await stream.write(CHANGED)
    return web.Response(text=str(len(streams)))


async def client(app):
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100)) as session:
        app[CLIENT] = session
        yield


app = web.Application()
app.cleanup_ctx.append(client)
app.router.add_post("/mcp", post)
app.router.add_get("/mcp", get)
app.router.add_post("/broadcast", broadcast)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)
