"""A backend whose providers are all on one local server, with time that moves when told to."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.upstream import Upstream, addresses, start
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.market.outbound import Outbound

OPEN_MARKET = datetime(2026, 3, 10, 15, 0, tzinfo=UTC)  # a Tuesday, eleven o'clock in New York


class Time:
    """One time for the wall and for waiting: sleeping moves it, and so does a test."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.passed

    def now(self) -> datetime:
        return OPEN_MARKET + timedelta(seconds=self.passed)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed += seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    server = await start(upstream)
    yield upstream
    await server.close()


@pytest.fixture
async def outbound(upstream: Upstream, time: Time) -> AsyncIterator[Outbound]:
    outbound = Outbound(addresses(upstream.address), clock=time.clock, sleep=time.sleep, now=time.now)
    yield outbound
    await outbound.close()


@pytest.fixture
def closed_port() -> int:
    """A port of this machine where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture
async def market(backend: Embedded, outbound: Outbound, admin: Caller) -> Caller:
    """An admin of a backend that asks the local server."""
    await backend.outbound.close()
    backend.outbound = outbound
    return admin


@pytest.fixture
def connect(market: Caller) -> Callable[..., Any]:
    """Give a provider a key."""

    async def put(name: str, **values: Any) -> None:
        await market.expect(200, "PUT", f"/market-data/providers/{name}", {"api_key": f"key-of-{name}", **values})

    return put
