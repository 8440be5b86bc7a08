"""What every test may ask for: a server and a client to it, over one transport after another."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.connect import KINDS, LEGACY_KINDS, MODERN_KINDS, Host
from tests.quick import choose, is_left_out

# No test is judged by the clock: a busy machine would fail what is right.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="a share of every test file, in less than three minutes")
    parser.addoption("--tenancy", action="store_true", help="in front of a server with tenancy on; see tests/tenancy")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--tenancy"):
        from tests.tenancy.plugin import Tenancy

        config.pluginmanager.register(Tenancy(), "tenancy")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("--quick") and is_left_out(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        items[:] = choose(items)


def pytest_collection_finish() -> None:
    """What collecting made lives as long as the session. Frozen, it is not walked again by each full collection of
    the many tests that ask for one: 0.25 s of processor time each, with all tests collected."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=KINDS)
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    """Every transport, in every era that it can carry."""
    host = Host(request.param)
    yield host
    await host.close()


@pytest.fixture(params=LEGACY_KINDS)
async def legacy(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    host = Host(request.param)
    yield host
    await host.close()


@pytest.fixture(params=MODERN_KINDS)
async def modern(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    host = Host(request.param)
    yield host
    await host.close()


@pytest.fixture
async def memory() -> AsyncIterator[Host]:
    """The legacy era in one process."""
    host = Host("memory")
    yield host
    await host.close()


@pytest.fixture
async def memory_modern() -> AsyncIterator[Host]:
    host = Host("memory-modern")
    yield host
    await host.close()


@pytest.fixture
async def http() -> AsyncIterator[Host]:
    """Streamable HTTP with a client of the legacy era."""
    host = Host("streamable")
    yield host
    await host.close()


@pytest.fixture
async def http_modern() -> AsyncIterator[Host]:
    host = Host("streamable-modern")
    yield host
    await host.close()
