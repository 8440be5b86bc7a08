"""The official Python client of the handshake era, `mcp` 1.x."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import AnyUrl
from tour import Answer, Diary, Progress, main, nothing


class Mcp1:
    def __init__(self, session: ClientSession, revision: str) -> None:
        self.session = session
        self.revision = revision

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def schemas(self) -> dict[str, dict[str, Any]]:
        return {tool.name: tool.inputSchema for tool in (await self.session.list_tools()).tools}

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Answer:
        result = await self.session.call_tool(name, arguments, progress_callback=progress)
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        wire = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Answer(texts, result.structuredContent, bool(result.isError), wire)

    async def call_and_cancel(self, name: str, arguments: dict[str, Any], ready: Callable[[], Awaitable[None]]) -> str:
        request_id = self.session._request_id  # the library offers no other way to learn the id it is about to use
        call = asyncio.create_task(self.session.call_tool(name, arguments))
        await asyncio.sleep(0)
        await ready()
        parameters = types.CancelledNotificationParams(requestId=request_id, reason="the tour goes on")
        await self.session.send_notification(types.ClientNotification(types.CancelledNotification(params=parameters)))
        call.cancel()
        try:
            result = await call
        except asyncio.CancelledError:
            return "cancelled"
        return f"answered: {result}"

    def watching(self) -> contextlib.AbstractAsyncContextManager[None]:
        return nothing()

    async def loosen_log_level(self) -> None:
        await self.session.set_logging_level("debug")

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in (await self.session.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        result = await self.session.get_prompt(name, arguments)
        return " ".join(m.content.text for m in result.messages if isinstance(m.content, types.TextContent))

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self.session.list_resources()).resources]

    async def templates(self) -> list[str]:
        return [template.uriTemplate for template in (await self.session.list_resource_templates()).resourceTemplates]

    async def read(self, uri: str) -> str:
        result = await self.session.read_resource(AnyUrl(uri))
        return "".join(part.text for part in result.contents if isinstance(part, types.TextResourceContents))


@contextlib.asynccontextmanager
async def connect(transport: str, config: dict[str, Any], diary: Diary) -> AsyncIterator[Mcp1]:
    async def on_elicitation(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(**diary.answer(params.message, params.requestedSchema))

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        diary.logs.append({"level": params.level, "data": params.data})

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            diary.changes += 1

    async with contextlib.AsyncExitStack() as stack:
        if transport == "stdio":
            command, *arguments = config["command"]
            parameters = StdioServerParameters(command=command, args=arguments, env=os.environ | config["env"])
            read, write = await stack.enter_async_context(stdio_client(parameters))
        elif transport == "sse":
            read, write = await stack.enter_async_context(sse_client(config["url"]))
        else:
            http = await stack.enter_async_context(create_mcp_http_client(headers=config.get("headers")))
            read, write, _ = await stack.enter_async_context(streamable_http_client(config["url"], http_client=http))
        session = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                elicitation_callback=on_elicitation if config.get("asks", True) else None,
                logging_callback=on_log,
                message_handler=on_message,
                client_info=types.Implementation(name=config.get("name", "mcp"), version="1"),
            )
        )
        opened = await session.initialize()
        yield Mcp1(session, str(opened.protocolVersion))


if __name__ == "__main__":
    main(connect)
