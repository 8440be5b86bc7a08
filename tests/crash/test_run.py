"""The crash run itself: a few kills come out clean, and what it looks for it finds."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.lives import Life
from tests.crash.run import GUARD, Run, _compare, _settle, check, crash
from zorivest_rpc.embedded.disk.paths import DataDir


def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    run = crash(tmp_path, kills=3, seed=5)
    assert run.clean, (run.lost, run.duplicated, run.problems)
    assert (run.kills, run.checks) == (3, 4 - run.early)
    assert len(run.acknowledged) >= 1
    assert set(threading.enumerate()) <= before
    assert set(run.guard) == set(GUARD)


def test_an_acknowledged_trade_that_is_gone_is_lost_and_one_that_is_there_twice_is_duplicated() -> None:
    run = Run(acknowledged={"A", "B"}, unanswered={"C": {}})
    _compare(run, Counter({"B": 2, "C": 1, "D": 1}))
    assert (run.lost, run.duplicated, run.problems) == ({"A"}, {"B"}, ["D was never sent"])
    assert not run.clean


def test_a_repeated_trade_may_be_its_own_duplicate_and_a_new_one_may_not() -> None:
    run = Run(unanswered={"A": {}, "B": {}})
    refusal = {"error": "duplicate_trade"}
    _settle(run, "A", True, 409, refusal)
    assert (run.acknowledged, run.kept_unanswered, run.clean) == ({"A"}, 1, True)
    _settle(run, "B", False, 409, refusal)
    assert not run.clean
    assert "B" not in run.acknowledged


def test_a_guard_that_came_back_different_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = DataDir(tmp_path / "data")
    run = crash(tmp_path, kills=1, seed=2)
    assert run.clean
    shown = {**run.guard, "is_locked": not run.guard["is_locked"]}
    monkeypatch.setattr(Life, "ask", lambda *_: (200, shown))
    monkeypatch.setattr("tests.crash.run._stored", lambda *_: Counter(run.acknowledged))
    check(run, Life.__new__(Life), directory, b"")
    assert any("the guard is" in problem for problem in run.problems)
