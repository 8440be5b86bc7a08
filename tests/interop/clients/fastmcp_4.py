"""FastMCP's client, which speaks both eras through the official library's session."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import mcp_types as types
from fastmcp import Client as FastClient
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.client.subscriptions import listen
from tour import Answer, Diary, Progress, main, nothing

MODERN = "2026-07-28"


class Fast:
    def __init__(self, client: FastClient[Any], diary: Diary) -> None:
        self.client = client
        self.diary = diary
        self.revision = client.protocol_version or "none"

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Answer:
        result = await self.client.call_tool(name, arguments, progress_handler=progress, raise_on_error=False)
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        return Answer(texts, result.structured_content, bool(result.is_error), {"_meta": result.meta})

    async def call_and_cancel(self, name: str, arguments: dict[str, Any], ready: Callable[[], Awaitable[None]]) -> str:
        call = asyncio.create_task(self.client.call_tool(name, arguments))
        await ready()
        call.cancel()
        try:
            result = await call
        except asyncio.CancelledError:
            return "cancelled"
        return f"answered: {result}"

    def watching(self) -> contextlib.AbstractAsyncContextManager[None]:
        return self._listening() if self.revision == MODERN else nothing()

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        async with listen(self.client.session, tools_list_changed=True) as subscription:

            async def note() -> None:
                async for _event in subscription:
                    self.diary.changes += 1

            noting = asyncio.create_task(note())
            try:
                yield
            finally:
                noting.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await noting

    async def loosen_log_level(self) -> None:
        if self.revision != MODERN:
            await self.client.set_logging_level("debug")

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in await self.client.list_prompts()]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        result = await self.client.get_prompt(name, arguments)
        return " ".join(m.content.text for m in result.messages if isinstance(m.content, types.TextContent))

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in await self.client.list_resources()]

    async def templates(self) -> list[str]:
        return [template.uri_template for template in await self.client.list_resource_templates()]

    async def read(self, uri: str) -> str:
        contents = await self.client.read_resource(uri)
        return "".join(part.text for part in contents if isinstance(part, types.TextResourceContents))


@contextlib.asynccontextmanager
async def connect(transport: str, config: dict[str, Any], diary: Diary) -> AsyncIterator[Fast]:
    async def on_elicitation(message: str, _kind: Any, params: Any, _context: Any) -> ElicitResult[Any]:
        return ElicitResult(**diary.answer(message, params.requested_schema))

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        diary.logs.append({"level": params.level, "data": params.data})

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification) and client.protocol_version != MODERN:
            diary.changes += 1

    if transport == "stdio":
        command, *arguments = config["command"]
        server: Any = StdioTransport(command=command, args=arguments, env=os.environ | config["env"], keep_alive=False)
    else:
        server = (SSETransport if transport == "sse" else StreamableHttpTransport)(config["url"])
    client: FastClient[Any] = FastClient(
        server,
        mode=config["mode"],
        elicitation_handler=on_elicitation,
        log_handler=on_log,
        message_handler=on_message,
    )
    async with client:
        yield Fast(client, diary)


if __name__ == "__main__":
    main(connect)
