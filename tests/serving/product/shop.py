"""Another MCP server with prompts, resources and a template behind the whole product, and what tests of it ask."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Noted, Seen, answering, note
from tests.gateway.test_http_questions import Changing
from tests.serving.product.conftest import Client
from tests.serving.product.far import Far, opened, serve_far

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
CAPABILITIES: dict[str, Any] = {
    "tools": {}, "prompts": {"listChanged": True}, "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}  # fmt: skip
MARK = {"com.zorivest/untrusted": True}
NOTES = {"uri": "notes:///a", "name": "a", "title": "Note A", "description": "The first note", "mimeType": "text/plain"}
TEMPLATE = {"uriTemplate": "notes:///by/{name}", "name": "by name", "description": "A note by its name"}
GREET = {
    "name": "greet",
    "description": "Greet a person",
    "arguments": [{"name": "who", "description": "Whom", "required": True}],
}


class Shop:
    """What the other server has; changed by a test."""

    def __init__(self, era: str) -> None:
        self.changing = Changing(era, CAPABILITIES)
        self.prompts: list[Any] = [GREET]
        self.resources: list[Any] = [NOTES]
        self.templates: list[Any] = [TEMPLATE]
        self.contents: Any = None
        fake = self.fake = self.changing.fake
        fake.seen = Noted()
        fake.handlers |= {
            "prompts/list": self.list_prompts,
            "prompts/get": self.get,
            "resources/list": self.list_resources,
            "resources/templates/list": self.list_templates,
            "resources/read": self.read,
            "resources/subscribe": answering(200, {"result": {}}),
            "resources/unsubscribe": answering(200, {"result": {}}),
            "completion/complete": self.complete,
            "tools/call": self.call,
        }
        fake.tools = [TOOL]

    async def list_prompts(self, seen: Seen) -> web.StreamResponse:
        return seen.result(prompts=self.prompts)

    async def list_resources(self, seen: Seen) -> web.StreamResponse:
        return seen.result(resources=self.resources)

    async def list_templates(self, seen: Seen) -> web.StreamResponse:
        return seen.result(resourceTemplates=self.templates)

    async def get(self, seen: Seen) -> web.StreamResponse:
        who = seen.params["arguments"]["who"]
        link = {"type": "resource_link", "uri": "notes:///a", "name": "a", "_meta": {"theirs": 1}}
        messages = [
            {"role": "user", "content": {"type": "text", "text": f"Hello {who}"}},
            {"role": "assistant", "content": link},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "notes:///z", "text": "z"}}},
        ]
        return seen.result(messages=messages, description="theirs")

    async def read(self, seen: Seen) -> web.StreamResponse:
        uri = seen.params["uri"]
        if "missing" in uri:
            return seen.error(-32002, "no such note")
        contents = [{"uri": uri, "mimeType": "text/plain", "text": f"content of {uri}", "_meta": {"theirs": 1}}]
        return seen.result(contents=contents if self.contents is None else self.contents)

    async def complete(self, seen: Seen) -> web.StreamResponse:
        typed = seen.params["argument"]["value"]
        return seen.result(completion={"values": [f"{typed}nna", f"{typed}nton"], "total": 7, "hasMore": True})

    async def call(self, seen: Seen) -> web.StreamResponse:
        links = [
            {"type": "resource_link", "uri": uri, "name": uri} for uri in ("notes:///a", "notes:///q", "upstream:x:y")
        ]
        return seen.result(content=[*links, {"type": "resource", "resource": {"uri": "notes:///a", "text": "in"}}])

    async def asked(self, true: Callable[[], bool]) -> None:
        """Wait until what the server was asked makes this true."""
        seen = self.fake.seen
        assert isinstance(seen, Noted)
        while not true():
            await seen.reach(len(seen) + 1)

    def changed(self, kind: str) -> None:
        self.changing.messages.put_nowait(note(f"{kind}/list_changed"))

    def updated(self, uri: str) -> None:
        self.changing.messages.put_nowait(note("resources/updated", uri=uri))

    @property
    def followed(self) -> list[Any]:
        """What is subscribed to upstream, in the words of its era, in order."""
        if self.fake.era == "legacy":
            return [
                (seen.method.removeprefix("resources/"), seen.params["uri"])
                for seen in self.fake.seen
                if "scribe" in seen.method
            ]
        return [
            tuple(seen.params["notifications"].get("resourceSubscriptions", ()))
            for seen in self.fake.of("subscriptions/listen")
        ]


@asynccontextmanager
async def shop(
    place: Path, era: str = "modern", entry: str = "", profile: str = 'approve_tool = ["*"]', **options: Any
) -> AsyncIterator[tuple[Shop, Client, Far]]:
    open_shop = Shop(era)
    async with (
        serve_far(open_shop.fake) as far,
        opened(far, place, profile, entry=entry, **options) as client,
    ):
        if client.revision == LEGACY:
            await names_of(client)  # of the server's coming a client is not told that knows the lists with it
        client.notifications.clear()
        yield open_shop, client, far
        open_shop.changing.messages.put_nowait(None)


async def names_of(client: Client) -> tuple[list[str], list[str], list[str]]:
    prompts = (await client.request("prompts/list", {}))["result"]["prompts"]
    resources = (await client.request("resources/list", {}))["result"]["resources"]
    templates = (await client.request("resources/templates/list", {}))["result"]["resourceTemplates"]
    return (
        [each["name"] for each in prompts if "__" in each["name"] or each["name"] == "greet"],
        [each["uri"] for each in resources if not each["uri"].startswith(("pipeline:", "zorivest:"))],
        [each["uriTemplate"] for each in templates if not each["uriTemplate"].startswith("zorivest:")],
    )


async def read(client: Client, uri: str) -> Any:
    return await client.request("resources/read", {"uri": uri})
