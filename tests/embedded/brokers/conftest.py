"""A backend whose brokers are on one local server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.conftest import Caller
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Upstream, addresses, start
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.market.outbound import Outbound


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
async def owner(backend: Embedded, upstream: Upstream, time: Time, admin: Caller) -> AsyncIterator[Caller]:
    """An admin of a backend that asks the local server."""
    await backend.outbound.close()
    backend.outbound = Outbound(addresses(upstream.address), clock=time.clock, sleep=time.sleep, now=time.now)
    yield admin
    await backend.outbound.close()


@pytest.fixture
def folder(backend: Embedded) -> Path:
    return backend.directory.imports


async def trades_of(owner: Caller) -> list[dict[str, Any]]:
    """What the journal holds, oldest first."""
    items: list[dict[str, Any]] = (await owner.get("/trades?limit=500&sort=time"))["items"]
    return items
