"""Other MCP servers that say in every answer which server they are and with which credential they were asked."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from aiohttp import web

from tests.gateway.fake import Fake, Noted, Seen, event, note

NOTE = "note://book"
LINK = {"type": "resource_link", "uri": NOTE, "name": "book"}
INSIDE = {"type": "resource", "resource": {"uri": f"{NOTE}/2", "text": "page 2"}}
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}
TOOL = {"name": "look", "description": "Look", "inputSchema": {"type": "object", "properties": {}}}
PROMPT = {"name": "brief", "description": "Brief", "arguments": [{"name": "topic", "required": True}]}
PAGES = {"uriTemplate": "note://book/{page}", "name": "page"}


class Book(Fake):
    """`of` replaces what it lists, by the credential that it is asked with: {"prompts": [...], ...}."""

    def __init__(self, name: str, era: str = "modern") -> None:
        super().__init__(era, CAPABILITIES)
        self.heard = self.seen = Noted()
        self.name = name
        self.of_bearer: dict[str, dict[str, Any]] = defaultdict(dict)
        self._streams: dict[str, list[asyncio.Queue[Any]]] = defaultdict(list)
        self.opened = Noted()
        self.handlers |= {
            "tools/list": self._list("tools", [TOOL]),
            "prompts/list": self._list("prompts", [PROMPT]),
            "resources/list": self._list("resources", [{"uri": NOTE, "name": "book"}]),
            "resources/templates/list": self._list("resourceTemplates", [PAGES]),
            "tools/call": self._look,
            "prompts/get": self._brief,
            "resources/read": self._read,
            "resources/subscribe": self._nod,
            "resources/unsubscribe": self._nod,
            "completion/complete": self._complete,
            "subscriptions/listen": self._listen,
            "GET": self._listen,
        }

    def whose(self, seen: Seen) -> str:
        return seen.headers.get("Authorization", "").removeprefix("Bearer ")

    def whom(self, seen: Seen) -> str:
        """The same without what would be redacted as a credential."""
        return self.whose(seen).removeprefix("t-")

    def tell(self, bearer: str, method: str, **params: Any) -> None:
        """On the streams of the connections with this credential."""
        for stream in self._streams[bearer]:
            stream.put_nowait(note(method, **params))

    def end(self) -> None:
        for streams in self._streams.values():
            for stream in streams:
                stream.put_nowait(None)

    def _list(self, member: str, usual: list[Any]) -> Any:
        async def handle(seen: Seen) -> web.StreamResponse:
            return seen.result(**{member: self.of_bearer[self.whose(seen)].get(member, usual)})

        return handle

    async def _look(self, seen: Seen) -> web.StreamResponse:
        return seen.result(content=[{"type": "text", "text": f"{self.name} by {self.whom(seen)}"}, LINK, INSIDE])

    async def _brief(self, seen: Seen) -> web.StreamResponse:
        words = f"{self.name} by {self.whom(seen)}: {seen.params['arguments']}"
        blocks = [{"type": "text", "text": words}, LINK, INSIDE]
        return seen.result(messages=[{"role": "user", "content": block} for block in blocks])

    async def _read(self, seen: Seen) -> web.StreamResponse:
        uri = seen.params["uri"]
        return seen.result(contents=[{"uri": uri, "text": f"{self.name} by {self.whom(seen)}: {uri}"}])

    async def _complete(self, seen: Seen) -> web.StreamResponse:
        return seen.result(completion={"values": [f"{self.name} by {self.whom(seen)}"]})

    async def _nod(self, seen: Seen) -> web.StreamResponse:
        return seen.result()

    async def _listen(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        messages: asyncio.Queue[Any] = asyncio.Queue()
        self._streams[self.whose(seen)].append(messages)
        if seen.verb == "POST":
            await response.write(event(note("subscriptions/acknowledged", notifications=seen.params["notifications"])))
        self.opened.append(seen)
        try:
            while (message := await messages.get()) is not None:
                await response.write(event(message))
        finally:
            self._streams[self.whose(seen)].remove(messages)
        return response
