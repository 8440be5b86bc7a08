"""The runner's own verdicts: what counts as clean, and that silence is not success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.cache import once
from tests.conformance.run import Scenario, read_results, summary


def scenario(*states: str, name: str = "tools-list") -> Scenario:
    checks = tuple({"id": f"check-{number}", "status": state} for number, state in enumerate(states))
    return Scenario("2025-11-25", name, True, checks)


@pytest.mark.parametrize("states", [("SUCCESS", "FAILURE"), ("SUCCESS", "WARNING"), (), ("SKIPPED",), ("INFO",)])
def test_a_scenario_that_fails_warns_or_proves_nothing_is_not_clean(states: tuple[str, ...]) -> None:
    assert not scenario(*states).clean


@pytest.mark.parametrize("states", [("SUCCESS",), ("SUCCESS", "INFO"), ("SUCCESS", "SKIPPED")])
def test_a_scenario_whose_checks_succeed_is_clean(states: tuple[str, ...]) -> None:
    assert scenario(*states).clean


def test_the_scenario_that_the_suite_always_skips_is_clean_when_skipped() -> None:
    assert scenario("SKIPPED", name="tasks-status-notifications").clean


def test_a_scenario_without_a_report_has_a_complaint() -> None:
    assert scenario().complaints == ["the suite reported nothing for this scenario"]


def test_the_summary_counts_clean_scenarios_and_states() -> None:
    lines = summary([scenario("SUCCESS", "SUCCESS"), scenario("FAILURE")])
    assert "1/2 scenarios clean (2 SUCCESS, 1 FAILURE, 0 WARNING, 0 INFO, 0 SKIPPED)" in lines[0]


def test_results_are_found_by_scenario_name_whatever_digits_the_name_ends_in(tmp_path: Path) -> None:
    for name in ("json-schema-2020-12", "ping"):
        directory = tmp_path / f"server-{name}-2026-11-16T02-05-31-998Z"
        directory.mkdir()
        (directory / "checks.json").write_text(json.dumps([{"id": name, "status": "SUCCESS"}]))
    assert sorted(read_results(tmp_path)) == ["json-schema-2020-12", "ping"]


def test_an_interrupted_build_leaves_nothing_behind_and_is_done_again(tmp_path: Path) -> None:
    target = tmp_path / "environment"

    def interrupted(directory: Path) -> None:
        (directory / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        once(target, interrupted)
    assert list(tmp_path.iterdir()) == []

    def complete(directory: Path) -> None:
        (directory / "whole").touch()

    assert [file.name for file in once(target, complete).iterdir()] == ["whole"]
    assert once(target, interrupted) == target
