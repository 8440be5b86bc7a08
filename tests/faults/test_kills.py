"""A killed backend under load: callers reach its successor, and nobody is told to start anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kills import run

OPEN_BREAKER = "backend_down"


async def test_a_killed_backend_does_not_open_the_breaker_on_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of events instead of times: no call was refused because of an open breaker, and each kill was followed
    by a success. `python -m tests.faults.kills` measures how soon."""
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    kills = await run(tmp_path / "data", callers=32, kills=3)
    assert len(kills) == 3
    for kill in kills:
        assert OPEN_BREAKER not in kill.refusals, kill.texts
        for text in kill.texts:
            assert "tart the backend" not in text
            assert "Bring the backend back" not in text
            assert "API URL" not in text
