"""A server on the official Python SDK, of either generation: `python_sdk.py stdio` or `python_sdk.py http PORT`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import anyio
from pydantic import BaseModel

try:  # the second generation, which speaks both eras
    from mcp.server.mcpserver import Context, Elicit, ElicitationResult, MCPServer, Resolve
    from mcp_types import Completion

    IS_FIRST = False
    OPTIONS: dict[str, Any] = {"host": "127.0.0.1"}
    server = MCPServer("python-sdk")
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP
    from mcp.types import Completion

    IS_FIRST = True
    OPTIONS = {}
    server = FastMCP("python-sdk", host="127.0.0.1", port=int((*sys.argv, "0", "0")[2]))


class Name(BaseModel):
    name: str = "Ada"


@server.tool()
def echo(text: str) -> str:
    return text


@server.tool()
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"step {number}")
        await anyio.sleep(0.02)  # some clients drop what comes with the answer
    return f"counted to {to}"


waiting: list[bool] = []


@server.tool()
async def wait() -> str:
    waiting.append(True)
    try:
        await anyio.sleep(600)
    finally:
        waiting.pop()
    return "waited"


@server.tool()
def running() -> str:
    return str(len(waiting))


@server.tool()
def fail() -> str:
    raise ValueError("out of paper")


def tell(answer: Any) -> str:
    return f"{answer.action}: {answer.data.name}" if answer.action == "accept" else answer.action


if IS_FIRST:

    @server.tool()
    async def ask(ctx: Context) -> str:
        return tell(await ctx.elicit("Who are you?", Name))

else:

    def who() -> Elicit[Name]:
        return Elicit("Who are you?", Name)

    @server.tool()
    async def ask(answer: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
        return tell(answer)

    @server.tool()
    async def touch(ctx: Context) -> str:
        await ctx.notify_resource_updated("note://today")
        return "touched"


@server.tool()
async def toggle_extra(ctx: Context) -> str:
    if "extra" in [tool.name for tool in await server.list_tools()]:
        server.remove_tool("extra")
    else:
        server.add_tool(echo, name="extra")
    if hasattr(ctx, "notify_tools_changed"):
        await ctx.notify_tools_changed()
    else:
        await ctx.session.send_tool_list_changed()
    return "the list has changed"


@server.resource("note://today")
def today() -> str:
    return "a note"


@server.resource("note://by/{name}")
def note_by(name: str) -> str:
    return f"a note by {name}"


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=[f"{argument.value}nna", f"{argument.value}nton"])


@server.prompt()
def review(topic: str) -> str:
    return f"Review {topic}."


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", **({**OPTIONS, "port": int(sys.argv[2])} if OPTIONS else {}))
