"""The floor on stdio: a bare asyncio line loop, orjson in and out, a fixed answer; not an MCP server."""

import asyncio
import os
import sys

import orjson

with open(os.environ["BENCH_CATALOG"], "rb") as file:
    CATALOG = orjson.loads(file.read())
BACKEND = os.environ.get("BENCH_BACKEND", "")
FIXED = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "floor", "version": "0"},
    },
    "tools/list": {"tools": CATALOG["tools"]},
    "ping": {},
}
ECHO = {"content": [{"type": "text", "text": CATALOG["echo_text"]}], "isError": False}


async def main():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    writer, _ = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    session = None
    tasks = set()

    def answer(mid, result):
        writer.write(orjson.dumps({"jsonrpc": "2.0", "id": mid, "result": result}) + b"\n")

    async def forward(mid, arguments):
        headers = {"content-type": "application/json"}
        async with session.post(BACKEND, data=orjson.dumps(arguments), headers=headers) as reply:
            answer(mid, {"content": [{"type": "text", "text": await reply.text()}], "isError": False})

    while line := await reader.readline():
        message = orjson.loads(line)
        mid = message.get("id")
        if mid is None:
            continue
        result = FIXED.get(message["method"])
        if result is None:
            if message["params"]["name"] == "forward":
                if session is None:
                    import aiohttp

                    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100))
                task = loop.create_task(forward(mid, message["params"]["arguments"]))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                continue
            result = ECHO
        writer.write(orjson.dumps({"jsonrpc": "2.0", "id": mid, "result": result}) + b"\n")
    if session is not None:
        await session.close()


asyncio.run(main())
