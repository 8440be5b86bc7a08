"""A local server that stands for every provider and broker: it answers as told and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from zorivest_rpc.embedded.brokers.sync import ADDRESSES
from zorivest_rpc.embedded.market.providers import PROVIDERS

NOWHERE = "http://127.0.0.1:9"  # the port of a service that nobody runs

Maker = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Upstream:
    """Answers by path: JSON data, a maker of responses, or a `Sequence` of these, given one after another."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    address: str = ""

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(
            Asked(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(body) if body else None,
            )
        )
        answer = self.answers.get(request.path)
        if isinstance(answer, Sequence):
            answer = answer.take()
        if callable(answer):
            made: web.StreamResponse = await answer(request)
            return made
        if answer is None:
            return web.json_response({"error": "no such thing"}, status=404)
        return web.json_response(answer)


class Sequence:
    """Answers given one after another; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def take(self) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def status(code: int, body: Any = None, headers: dict[str, str] | None = None) -> Maker:
    async def make(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=code, headers=headers)

    return make


def raw(data: bytes, content_type: str = "application/json", code: int = 200) -> Maker:
    async def make(request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, content_type=content_type, status=code)

    return make


async def start(upstream: Upstream) -> TestServer:
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", upstream.handle)
    server = TestServer(app)
    await server.start_server(access_log=None)
    upstream.address = f"http://127.0.0.1:{server.port}"
    return server


def addresses(base: str) -> dict[str, str]:
    """Every provider and broker below one address."""
    names = [provider.slug for provider in PROVIDERS]
    names += [f"{provider.slug}_{host}" for provider in PROVIDERS for host in provider.hosts]
    return {name: f"{base}/{name}" for name in (*names, *(name for name, _ in ADDRESSES.values()))}
