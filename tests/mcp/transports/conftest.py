"""A served transport per test, over both writers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.mcp.transports.http_served import Served, serving


@pytest.fixture(params=["direct", "plain"])
def writer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def served(writer: str) -> AsyncIterator[Served]:
    async with serving(plain_writer=writer == "plain") as started:
        yield started
