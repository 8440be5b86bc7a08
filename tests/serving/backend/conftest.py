"""Servers that misbehave, backends that are closed again, clocks that stand still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import aiohttp
import aioresponses as aioresponses_module
import aioresponses.core
import pytest

from tests.serving.backend.misbehaving import Misbehaving
from zorivest_rpc.serving.backend.http import HttpBackend
from zorivest_rpc.serving.backend.limits import BackendLimits


class Clock:
    """A clock that a test sets, and the sleep that goes with it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
async def bounded() -> AsyncIterator[None]:
    """Nothing may hang, and no task may be left over."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left_over = await asyncio.wait(left, timeout=30)
        assert not left_over


@pytest.fixture
async def server() -> AsyncIterator[Misbehaving]:
    server = Misbehaving()
    await server.start()
    yield server
    await server.stop()


Make = Callable[..., HttpBackend]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every backend is tested on both its wires; what aioresponses answers has to be asked by aiohttp's own objects."""
    if "wire" in metafunc.fixturenames:
        metafunc.parametrize("wire", ["plain"] if "replies" in metafunc.fixturenames else ["direct", "plain"])


@pytest.fixture
async def make(clock: Clock, wire: str) -> AsyncIterator[Make]:
    """Backends with a clock that stands still; all are closed in the end."""
    made: list[HttpBackend] = []

    def one(
        where: str | Callable[[], Awaitable[str]], key: str | Callable[[], str] | None = None, **options: Any
    ) -> HttpBackend:
        options.setdefault("limits", BackendLimits(total=10.0))
        options.setdefault("clock", clock)
        options.setdefault("sleep", clock.sleep)
        options.setdefault("rng", lambda: 1.0)
        options.setdefault("plain", wire == "plain")
        backend = HttpBackend(where, (lambda: key) if isinstance(key, str) else key, **options)
        made.append(backend)
        return backend

    yield one
    for backend in made:
        await backend.close()


class _Response(aiohttp.ClientResponse):
    """aioresponses knows no `stream_writer`, which this version of aiohttp asks for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        writer = type("Writer", (), {"output_size": 0})()
        super().__init__(*args, **{"stream_writer": writer, **kwargs})


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Iterator[aioresponses_module.aioresponses]:
    monkeypatch.setattr(aioresponses.core, "ClientResponse", _Response)
    with aioresponses_module.aioresponses() as mocked:
        yield mocked
