"""The peer FastMCP 4: its proxy with one connected client, on uvloop. argv: stdio | http PORT; a URL or a command."""

import os
import sys

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

front = sys.argv[1]
target = sys.argv[3:] if front == "http" else sys.argv[2:]


async def main():
    behind = target[0]
    if not behind.startswith("http"):
        behind = StdioTransport(command=target[0], args=target[1:], env=dict(os.environ), cwd=os.getcwd())
    async with Client(behind, mode="auto") as client:
        proxy = create_proxy(client)
        if front == "stdio":
            await proxy.run_stdio_async(show_banner=False)
        else:
            options = {"host": "127.0.0.1", "port": int(sys.argv[2]), "json_response": True, "show_banner": False}
            await proxy.run_http_async(log_level="warning", uvicorn_config={"access_log": False}, **options)


anyio.run(main, backend_options={"use_uvloop": True})
