"""Whatever a server sends as its tools and as results: others stay listed, and a call ends as a result or a refusal."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen
from tests.gateway.test_router import house
from tests.serving.middleware.fake import NoWire
from zorivest_rpc.errors import ZorivestError
from zorivest_rpc.gateway.errors import ToolingError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.methods.tools import encode
from zorivest_rpc.mcp.protocol.revisions import LATEST_LEGACY, MODERN
from zorivest_rpc.mcp.protocol.session import Session

LISTS = 60
WORDS = (
    *("type", "object", "string", "name", "description", "properties", "$ref", "#/x", "#", "enum", "items", "required"),
    *("a", "é\u202e", "\x00", "anyOf", "pattern", "(a+)+", "additionalProperties", "x-mcp-header", "clientId", "title"),
    *("confirmation_token", "annotations", "readOnlyHint", "content", "text", "resource_link", "uri", "default"),
    *("structuredContent", "isError", "$schema", "http://json-schema.org/draft-07/schema#", "$defs", "minimum"),
)
MEMBERS = ("outputSchema", "annotations", "title", "_meta", "icons", "execution")


class Inventor:
    """JSON that resembles what is expected, and seldom is."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def value(self, depth: int = 0) -> Any:
        random = self.random
        chance = random.random()
        if depth > 4 or chance < 0.35:
            return random.choice((None, True, 0, -1, 1e308, 10**20, "", 0.1, "x" * 300, *WORDS))
        if chance < 0.75:
            return {random.choice(WORDS): self.value(depth + 1) for _ in range(random.randint(0, 5))}
        return [self.value(depth + 1) for _ in range(random.randint(0, 4))]

    def tool(self) -> dict[str, Any]:
        random = self.random
        tool = {
            "name": random.choice(("echo", "a.b", "x" * 70, "tool", "é", 5, "")),
            "description": random.choice(("words", self.value())),
            "inputSchema": random.choice(
                ({"type": "object"}, {"type": "object", "properties": self.value()}, self.value())
            ),
        }
        return tool | {name: self.value() for name in MEMBERS if random.random() < 0.3}

    async def answer(self, seen: Seen) -> web.StreamResponse:
        random = self.random
        block = {"type": random.choice(("text", "image", "resource", "resource_link", self.value()))}
        block |= {name: self.value() for name in ("text", "uri", "resource", "data") if random.random() < 0.6}
        members = random.choice(({"content": self.value()}, {"content": [block]}, {random.choice(WORDS): self.value()}))
        return seen.result(**members, structuredContent=self.value())


@pytest.mark.parametrize("seed", range(3))
async def test_no_definition_and_no_result_breaks_more_than_itself(tmp_path: Path, seed: int) -> None:
    inventor = Inventor(seed)
    fake = Fake(tools_call=inventor.answer)
    async with house(tmp_path, ("ops", fake), pin="off", server_trust_annotations=True) as found:
        member = found.gateway.members["ops"]
        for _ in range(LISTS):
            fake.tools = [*(inventor.tool() for _ in range(3)), {**TOOL, "name": "fine"}]
            try:
                await member.discover()
            except ToolingError:
                continue
            assert "ops__fine" in found.tools
            for name in found.tools:
                try:
                    outcome = await found.gateway.forward(Call(name, {}, Session(), NoWire()))
                except ZorivestError:
                    continue
                for revision in (LATEST_LEGACY, MODERN):
                    encode(outcome, revision)
