"""A small stdio server whose tools misbehave on purpose: `python -m tests.mcp.transports.stdio_program [options]`.

Each tool says `running NAME` on stderr when it has begun, so that a test can wait for that instead of for time.
"""

# ruff: noqa: ASYNC221, ASYNC251 - blocking the loop is what these tools are for
from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
import warnings

from zorivest_rpc.cli.stdio import serve_stdio
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.call import Call, Handler, Outcome, give, say
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.offer import Offer, ToolShelf, run_in_thread

ANYTHING = {"type": "object"}
CHILD = "import os; os.write(1, b'stray child\\n'); os.write(2, b'child on stderr\\n')"
SHOW_DESCRIPTORS = (
    "import os, json; print(json.dumps({fd: os.readlink(f'/proc/self/fd/{fd}')"
    " for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')}))"
)


def announce(call: Call) -> None:
    os.write(2, f"running {call.name}\n".encode())


async def stray(call: Call) -> Outcome:
    """Everything that could put foreign bytes on stdout."""
    print("stray print")
    sys.stdout.write("stray write\n")
    sys.stdout.flush()
    if sys.__stdout__ is not None:
        sys.__stdout__.write("stray original\n")
        sys.__stdout__.flush()
    warnings.warn("stray warning", stacklevel=1)
    os.write(1, b"stray descriptor\n")
    libc = ctypes.CDLL(None)
    libc.puts(b"stray puts")
    libc.fflush(None)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD)
    await process.wait()
    subprocess.run([sys.executable, "-c", CHILD], check=True)
    return say("done")


async def descriptors(call: Call) -> Outcome:
    """What a child finds open, when it is started without any care."""
    shown = subprocess.run([sys.executable, "-c", SHOW_DESCRIPTORS], capture_output=True, text=True, check=True)
    forked = await asyncio.get_running_loop().run_in_executor(None, _through_a_shell)
    own = {str(fd): os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)}
    return give({"child": shown.stdout, "shell": forked, "own": own})


def _through_a_shell() -> str:
    return subprocess.run(["/bin/sh", "-c", "ls -l /proc/self/fd"], capture_output=True, text=True, check=True).stdout


async def read_stdin(call: Call) -> Outcome:
    """A child that reads stdin gets nothing, and takes nothing from the client."""
    shown = subprocess.run([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"], stdout=-1, check=True)
    return say(shown.stdout.decode().strip())


async def echo(call: Call) -> Outcome:
    return say(call.arguments["text"])


async def length(call: Call) -> Outcome:
    return say(str(len(call.arguments["text"])))


async def big(call: Call) -> Outcome:
    return say("x" * call.arguments["size"])


async def threads(call: Call) -> Outcome:
    return give({"names": sorted(thread.name for thread in threading.enumerate())})


async def wait(call: Call) -> Outcome:
    announce(call)
    await asyncio.sleep(call.arguments.get("seconds", 3600))
    return say("waited")


async def stubborn(call: Call) -> Outcome:
    """Does not let itself be cancelled."""
    announce(call)
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue


def block_thread(call: Call) -> Outcome:
    announce(call)
    time.sleep(60)
    return say("slept")


async def block_loop(call: Call) -> Outcome:
    announce(call)
    time.sleep(60)
    return say("slept")


async def chatter(call: Call) -> Outcome:
    """Progress without end, for a reader that may not be there."""
    announce(call)
    for number in range(call.arguments["count"]):
        call.progress(number, message="y" * 1000)
        if number % 100 == 0:
            await asyncio.sleep(0)
    os.write(2, b"finished chatter\n")
    return say("said it all")


def offer() -> Offer:
    handlers: dict[str, Handler] = {
        "stray": stray,
        "descriptors": descriptors,
        "read_stdin": read_stdin,
        "echo": echo,
        "length": length,
        "big": big,
        "threads": threads,
        "wait": wait,
        "stubborn": stubborn,
        "block_thread": run_in_thread(block_thread),
        "block_loop": block_loop,
        "chatter": chatter,
    }
    padding = "z" * 40_000  # so that one small request has a large answer
    tools = [(Tool(name, f"Test tool {name}.", ANYTHING), handler) for name, handler in handlers.items()]
    tools.append((Tool("padding", padding, ANYTHING), echo))
    return Offer("stdio-program", "1", tools=ToolShelf(tools))


if __name__ == "__main__":
    serve_stdio(offer, parse("stdio", sys.argv[1:]))
