"""An HTTP server for faults that need a process: `python -m tests.mcp.transports.http_program [options of serve]`.

Its tools say `running NAME` on stderr when they have begun; `wait` ends when the file that it was given exists.
"""

# ruff: noqa: ASYNC110, ASYNC240 - the test is in another process, so a file is the event
from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from zorivest_rpc.cli.serve import serve_http
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.call import Call, Handler, Outcome, say
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.offer import Offer, ToolShelf, run_in_thread


def announce(call: Call) -> None:
    os.write(2, f"running {call.name}\n".encode())


async def wait(call: Call) -> Outcome:
    announce(call)
    while not Path(call.arguments["file"]).exists():
        await asyncio.sleep(0.01)
    return say("waited")


async def stream(call: Call) -> Outcome:
    call.progress(1)
    return await wait(call)


def block_thread(call: Call) -> Outcome:
    announce(call)
    time.sleep(60)
    return say("slept")


def offer() -> Offer:
    handlers: dict[str, Handler] = {"wait": wait, "stream": stream, "block_thread": run_in_thread(block_thread)}
    tools = [(Tool(name, f"Test tool {name}.", {"type": "object"}), handler) for name, handler in handlers.items()]
    return Offer("http-program", "1", tools=ToolShelf(tools))


if __name__ == "__main__":
    sys.exit(serve_http(offer, parse("serve", sys.argv[1:])))
