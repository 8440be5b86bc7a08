"""The official Python client of both eras, `mcp` 2.x."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp import Client as SdkClient
from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tour import Answer, Diary, Progress, main, nothing

MODERN = "2026-07-28"


class Mcp2:
    def __init__(self, client: SdkClient, diary: Diary) -> None:
        self.client = client
        self.diary = diary
        self.revision = client.protocol_version

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def schemas(self) -> dict[str, dict[str, Any]]:
        return {tool.name: tool.input_schema for tool in (await self.client.list_tools()).tools}

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Answer:
        result = await self.client.call_tool(name, arguments, progress_callback=progress)
        texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
        wire = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Answer(texts, result.structured_content, bool(result.is_error), wire)

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
        async with self.client.listen(tools_list_changed=True) as subscription:

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
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        result = await self.client.get_prompt(name, arguments)
        return " ".join(m.content.text for m in result.messages if isinstance(m.content, types.TextContent))

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def templates(self) -> list[str]:
        return [template.uri_template for template in (await self.client.list_resource_templates()).resource_templates]

    async def read(self, uri: str) -> str:
        result = await self.client.read_resource(uri)
        return "".join(part.text for part in result.contents if isinstance(part, types.TextResourceContents))


@contextlib.asynccontextmanager
async def connect(transport: str, config: dict[str, Any], diary: Diary) -> AsyncIterator[Mcp2]:
    async def on_elicitation(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(**diary.answer(params.message, params.requested_schema))

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        diary.logs.append({"level": params.level, "data": params.data})

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification) and client.protocol_version != MODERN:
            diary.changes += 1

    if transport == "stdio":
        command, *arguments = config["command"]
        server: Any = StdioServerParameters(command=command, args=arguments, env=os.environ | config["env"])
    elif transport == "sse":
        server = sse_client(config["url"])
    else:
        http = create_mcp_http_client(headers=config.get("headers"))
        server = streamable_http_client(config["url"], http_client=http)
    client = SdkClient(
        server,
        mode=config["mode"],
        log_level="debug",
        elicitation_callback=on_elicitation if config.get("asks", True) else None,
        logging_callback=on_log,
        message_handler=on_message,
        client_info=types.Implementation(name=config.get("name", "mcp"), version="1"),
    )
    async with client:
        yield Mcp2(client, diary)


if __name__ == "__main__":
    main(connect)
