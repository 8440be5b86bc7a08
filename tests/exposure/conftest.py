from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.connect import Host

LEGACY = ("memory", "stdio", "streamable")


@pytest.fixture(params=LEGACY)
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    host = Host(request.param)
    yield host
    await host.close()


@pytest.fixture(params=("memory-modern", "stdio-modern", "streamable-modern"))
async def connect_modern(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    host = Host(request.param)
    yield host
    await host.close()


@pytest.fixture
async def memory() -> AsyncIterator[Host]:
    host = Host("memory")
    yield host
    await host.close()
