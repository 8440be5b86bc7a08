"""A realistic floor: msgspec envelope, a task per call, arguments checked by jsonschema-rs, one write per loop turn.

argv: stdio | http PORT. Not a complete server: it knows no cancellation and no session but its id.
"""

import asyncio
import os
import sys
from typing import Any

import msgspec
import orjson
from jsonschema_rs import validator_for

with open(os.environ["BENCH_CATALOG"], "rb") as file:
    CATALOG = orjson.loads(file.read())
SCHEMAS = {tool["name"]: tool["inputSchema"] for tool in CATALOG["tools"]}
FIXED = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "floor", "version": "0"},
    },
    "tools/list": orjson.Fragment(orjson.dumps({"tools": CATALOG["tools"]})),
    "ping": {},
}
INVALID = {"content": [{"type": "text", "text": "invalid"}], "isError": True}
JSON = {"content-type": "application/json"}
validators = {}


class Params(msgspec.Struct):
    name: str = ""
    arguments: Any = None


class Envelope(msgspec.Struct):
    method: str
    id: Any = None
    params: Params | None = None


decode = msgspec.json.Decoder(Envelope).decode


def valid(name, arguments):
    check = validators.get(name)
    if check is None:
        check = validators[name] = validator_for(SCHEMAS[name]).is_valid
    return check(arguments)


async def echo(arguments):
    return {"content": [{"type": "text", "text": CATALOG["echo_text"]}], "isError": False}


async def answer(message):
    result = FIXED.get(message.method)
    if result is None:
        params = message.params
        result = await echo(params.arguments) if valid(params.name, params.arguments) else INVALID
    return orjson.dumps({"jsonrpc": "2.0", "id": message.id, "result": result})


async def stdio():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    writer, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    out, tasks = [], set()

    def flush():
        writer.write(b"\n".join(out) + b"\n")
        out.clear()

    async def one(message):
        line = await answer(message)
        if not out:
            loop.call_soon(flush)
        out.append(line)

    while line := await reader.readline():
        message = decode(line)
        if message.id is not None:
            task = loop.create_task(one(message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


def http(port):
    import uuid

    from aiohttp import web

    sessions = set()

    async def post(request):
        message = decode(await request.read())
        if message.method == "initialize":
            sid = uuid.uuid4().hex
            sessions.add(sid)
            return web.Response(body=await answer(message), headers={**JSON, "mcp-session-id": sid})
        modern = request.headers.get("mcp-protocol-version") == "2026-07-28"
        if not modern and request.headers.get("mcp-session-id") not in sessions:
            return web.Response(status=404)
        if message.id is None:
            return web.Response(status=202)
        return web.Response(body=await answer(message), headers=JSON)

    app = web.Application()
    app.router.add_post("/mcp", post)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


if sys.argv[1] == "stdio":
    asyncio.run(stdio())
else:
    http(int(sys.argv[2]))
