"""The guard of an embedded client is followed without waking it, keeping it or taking a place for it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil
import pytest

from zorivest_rpc.app import Journal
from zorivest_rpc.cli.admin import Admin
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find, is_held
from zorivest_rpc.tenants.embedded import clean_environ, directory_of


async def test_a_look_at_the_guard_leaves_a_sleeping_client_asleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "clients.toml"
    file.write_text("[clients.a]\nembedded = true\n")
    file.chmod(0o600)
    data, directory = tmp_path / "data", directory_of(tmp_path / "data", "a")
    monkeypatch.setenv("ZORIVEST_TENANTS_FILE", str(file))
    journal = Journal(parse("stdio", ["--data-dir", str(data)]))
    assert journal.tenancy is not None
    try:
        assert await journal.followed.look_at_guard("a", None) is None
        assert not directory.exists()

        Admin(directory, environ=clean_environ(os.environ), wakeable=True).ask("POST", "/mcp-guard/lock", {})
        state = await journal.followed.look_at_guard("a", "some.version")
        assert isinstance(state, dict)
        assert state["is_locked"] is True
        assert journal.tenancy.embedded().running == ()
        assert is_held(directory)
    finally:
        await journal.close()
        if (located := find(directory)) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(located.pid)
                process.terminate()
                process.wait(20)
