"""The same served transport as the tests of the transports use, on both loops that a server may run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.mcp.transports.conftest import served, writer

__all__ = ["served", "writer"]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop
    except ImportError:
        return loops
    return {**loops, "uvloop": uvloop.new_event_loop}
