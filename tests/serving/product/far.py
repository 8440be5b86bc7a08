"""A server whose calls end at a backend and at another MCP server that only note what they were asked to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.gateway.fake import TOOL, Fake, serving
from tests.serving.product.conftest import Client
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse

FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"confirm": True}}


class Far:
    """The backend and another MCP server: what each was asked to do, the questions of guard and session left out."""

    def __init__(self, fake: Fake) -> None:
        self.backend = ""
        self.server = ""
        self.fake = fake
        self.asked: list[str] = []
        self.issued = 0
        self.checked = 0  # times that the guard was asked
        self.is_locked = False

    def clear(self) -> None:
        self.asked.clear()
        self.fake.seen.clear()
        self.issued = 0

    @property
    def done(self) -> int:
        return len(self.asked) + len(self.fake.of("tools/call"))


@asynccontextmanager
async def serve_far(fake: Fake | None = None) -> AsyncIterator[Far]:
    found = Far(fake or Fake())
    answers: dict[str, Any] = {
        "/auth/unlock": {"session_token": "s", "expires_in": 3600, "role": "admin"},
        "/mcp-guard/status": {"is_locked": False, "is_enabled": True},
    }

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        path = request.path.removeprefix("/api/v1")
        if path == "/mcp-guard/check":
            found.checked += 1
            return web.json_response({"allowed": not found.is_locked, "reason": "a test"})
        if path == "/confirmation-tokens":
            found.issued += 1
            return web.json_response({"token": f"from-the-backend-{found.issued}"})
        if path not in answers:
            found.asked.append(path)
        return web.json_response(answers.get(path, {}))

    if fake is None:
        found.fake.tools = [
            {**TOOL, "name": "read", "annotations": {"readOnlyHint": True}},
            {**TOOL, "name": "write", "annotations": {"readOnlyHint": False, "destructiveHint": False}},
            {**TOOL, "name": "destroy", "annotations": {"destructiveHint": True}},
        ]
    async with serving(answer) as url, serving(found.fake.handle) as server:
        found.backend, found.server = url.removesuffix("/mcp"), server
        yield found


@asynccontextmanager
async def opened(
    far: Far,
    place: Path,
    profile: str = "",
    *flags: str,
    name: str = "cline",
    trusted: bool = True,
    entry: str = "",
    own_file: bool = True,
    **options: Any,
) -> AsyncIterator[Client]:
    config = place / "config.toml"
    head = f'[[profiles.default.mcp_servers]]\nname = "ops"\nendpoint = "{far.server}"\n{entry}\n'
    config.write_text(f"[profiles.default]\n{profile}\n{head}trust_annotations = {str(trusted).lower()}\n")
    given = {"HOME": str(place), "ZORIVEST_KEYRING": "off", "ZORIVEST_API_KEY": "zrv_sk_of_a_test"}
    own = ["--config", str(config)] if own_file else []
    words = ["--data-dir", str(place), *own, "--api-url", far.backend, *flags]
    client = Client(
        Journal(parse("stdio", words, given | options.pop("environ", {}))),
        name,
        options.pop("capabilities", {}),
        options.pop("revision", "2025-11-25"),
    )
    try:
        await client.open()
        gateway = client.journal.gateway()
        if gateway is not None:
            gateway.start()
            await gateway.settle(60)
        far.clear()
        yield client
    finally:
        await client.close()
