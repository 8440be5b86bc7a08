"""A server on FastMCP 4: `fastmcp_4.py stdio` or `fastmcp_4.py http PORT`."""

from __future__ import annotations

import sys

import anyio
from fastmcp import Context, FastMCP
from mcp_types import ToolListChangedNotification
from pydantic import BaseModel

server: FastMCP = FastMCP("fastmcp")
waiting: list[bool] = []


class Name(BaseModel):
    name: str = "Ada"


@server.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Who are you?", Name)
    return f"{answer.action}: {answer.data.name}" if answer.action == "accept" else answer.action


@server.resource("note://today")
def today() -> str:
    return "a note"


@server.resource("note://by/{name}")
def note_by(name: str) -> str:
    return f"a note by {name}"


@server.prompt
def review(topic: str) -> str:
    return f"Review {topic}."


@server.tool
def echo(text: str) -> str:
    return text


@server.tool
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
        await anyio.sleep(0.02)  # some clients drop what comes with the answer
    return f"counted to {to}"


@server.tool
async def wait() -> str:
    waiting.append(True)
    try:
        await anyio.sleep(600)
    finally:
        waiting.pop()
    return "waited"


@server.tool
def running() -> str:
    return str(len(waiting))


@server.tool
def fail() -> str:
    raise ValueError("out of paper")


@server.tool
async def toggle_extra(ctx: Context) -> str:
    if "extra" in [tool.name for tool in await server.list_tools()]:
        server.local_provider.remove_tool("extra")
    else:
        server.add_tool(extra)
    await ctx.send_notification(ToolListChangedNotification())
    return "the list has changed"


def extra() -> str:
    return "extra"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio", show_banner=False)
    else:
        server.run("http", show_banner=False, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
