"""The system's clock jumps by years, in both directions, while a journal is open: nothing that is bound to a duration
ends or lives on because of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.embedded.conftest import CHEAP, Caller
from tests.embedded.kept import clock as fixed
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import cipher_driver
from zorivest_rpc.embedded.disk import backups
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import new_api_key

JUMPS = [timedelta(days=3650), timedelta(days=-3650)]
KEY = new_api_key()


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> Any:
    with fixed.fixed_clock():
        yield lambda by: monkeypatch.setattr(fixed, "NOW", fixed.NOW + by)


@pytest.fixture
async def owner(tmp_path: Path, jump: Any) -> AsyncIterator[Caller]:
    directory = DataDir(tmp_path / "data")
    backend = Embedded.create(directory, KEY, key_source="client", driver=cipher_driver(), kdf=CHEAP)
    async with TestClient(TestServer(create_app(backend))) as client:
        caller = await Caller(client).unlock(KEY)
        caller.backend = backend  # type: ignore[attr-defined]
        yield caller
    await backend.close()


@pytest.mark.parametrize("by", JUMPS, ids=["ahead", "back"])
async def test_sessions_and_rates_do_not_notice(
    by: timedelta, owner: Caller, jump: Callable[[timedelta], None]
) -> None:
    await owner.expect(200, "PUT", "/mcp-guard/config", {"is_enabled": True, "calls_per_minute_limit": 2})
    assert (await owner.expect(200, "POST", "/mcp-guard/check"))["allowed"]
    jump(by)
    assert (await owner.expect(200, "POST", "/mcp-guard/check"))["allowed"]
    assert (await owner.expect(200, "POST", "/mcp-guard/check"))["allowed"] is False  # the third within the minute
    assert (await owner.get("/mcp-guard/status"))["is_locked"] is True


@pytest.mark.parametrize("by", JUMPS, ids=["ahead", "back"])
async def test_the_journal_opens_again_and_the_guard_is_as_it_was(
    by: timedelta, owner: Caller, jump: Callable[[timedelta], None]
) -> None:
    backend: Embedded = owner.backend  # type: ignore[attr-defined]
    await owner.expect(200, "POST", "/mcp-guard/lock", {"reason": "before the jump"})
    await backend.lock("test")
    jump(by)
    again = await Caller(owner.client).unlock(KEY)
    assert (await again.get("/mcp-guard/status"))["is_locked"] is True


async def test_a_backup_from_the_future_does_not_stop_the_daily_ones(
    owner: Caller, jump: Callable[[timedelta], None]
) -> None:
    backend: Embedded = owner.backend  # type: ignore[attr-defined]
    keeper = backend.keeper()
    jump(timedelta(days=3650))  # the clock is wrong for a while, and a backup is made
    await owner.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    await owner.expect(201, "POST", "/backups")
    jump(timedelta(days=-3650))
    await owner.expect(200, "PUT", "/settings", {"ui.theme": "dark"})
    assert await keeper.due() == "daily"
    await keeper.make("daily")
    assert await keeper.due() is None
    assert len(backups.list_backups(backend.directory)) >= 2
    await owner.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    jump(timedelta(days=1))
    assert await keeper.due() == "daily"
