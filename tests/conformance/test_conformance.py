"""The official conformance suite finds nothing to complain about, in scored and unscored scenarios alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.run import (
    ALWAYS_SKIPPED,
    CLIENT_SCENARIOS,
    Scenario,
    client_requirements,
    fixture_server,
    run_client,
    run_suite,
)

pytestmark = pytest.mark.slow

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCORED = {LEGACY: 30, MODERN: 37}
UNSCORED = {
    LEGACY: {"server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"},
    MODERN: {
        "json-schema-2020-12",
        "http-header-validation",
        "http-custom-header-server-validation",
        "tasks-lifecycle",
        "tasks-capability-negotiation",
        "tasks-wire-fields",
        "tasks-request-state-removal",
        "tasks-mrtr-input",
        "tasks-request-headers",
        "tasks-dispatch-and-envelope",
        "tasks-status-notifications",
        "tasks-required-task-error",
        "tasks-mrtr-composition",
    },
}

Reports = dict[str, list[Scenario]]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    results: Path = tmp_path_factory.mktemp("conformance")
    with fixture_server() as url:
        yield {revision: run_suite(url, revision, results / revision) for revision in SCORED}


def complaints(scenarios: list[Scenario]) -> list[str]:
    return [f"{scenario.name}: {complaint}" for scenario in scenarios for complaint in scenario.complaints]


@pytest.mark.parametrize("revision", SCORED)
def test_every_scored_scenario_passes_without_a_warning(reports: Reports, revision: str) -> None:
    scored = [scenario for scenario in reports[revision] if scenario.scored]
    assert complaints(scored) == []
    assert sum(scenario.clean for scenario in scored) == len(scored) == SCORED[revision]


@pytest.mark.parametrize("revision", SCORED)
def test_every_unscored_scenario_is_run_and_passes_without_a_warning(reports: Reports, revision: str) -> None:
    unscored = [scenario for scenario in reports[revision] if not scenario.scored]
    assert {scenario.name for scenario in unscored} == UNSCORED[revision]
    assert complaints(unscored) == []
    assert [scenario.name for scenario in unscored if not scenario.clean] == []


@pytest.mark.parametrize("revision", SCORED)
def test_only_the_scenario_the_suite_never_runs_is_skipped(reports: Reports, revision: str) -> None:
    skipped = {scenario.name for scenario in reports[revision] if scenario.states["SKIPPED"]}
    assert skipped <= ALWAYS_SKIPPED


# --- the other side: the gateway's client


@pytest.mark.parametrize(("revision", "name"), [(r, name) for r, names in CLIENT_SCENARIOS.items() for name in names])
def test_the_client_passes_without_a_warning(tmp_path: Path, revision: str, name: str) -> None:
    scenario = run_client(revision, name, tmp_path)
    assert complaints([scenario]) == []
    assert scenario.clean


@pytest.mark.parametrize(("revision", "left_out"), [(LEGACY, 14), (MODERN, 25)])
def test_the_only_client_scenarios_that_are_left_out_are_those_of_oauth(revision: str, left_out: int) -> None:
    wanted = client_requirements(revision)
    assert {name for name in wanted if not name.startswith("auth/")} == set(CLIENT_SCENARIOS[revision])
    assert sum(name.startswith("auth/") for name in wanted) == left_out
