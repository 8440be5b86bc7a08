"""What the tools were promised to do, sentence by sentence, and the test that can fail for each."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from tests.catalogue import count
from tests.places import ROOT
from tests.serving.product.conftest import Connect, text_of

LISTS, SAFETY, WHOLE = (
    "tests/serving/product/test_lists.py",
    "tests/serving/product/test_safety.py",
    "tests/serving/product/test_whole.py",
)
GUARD, METRICS = "tests/serving/middleware/test_guard.py", "tests/serving/middleware/test_metrics.py"
TOOLS = "tests/serving/tools/test_"

CRITERIA = {
    # when the whole is done
    "arguments are checked": f"{LISTS}::test_arguments_that_do_not_fit_name_the_field_and_what_is_allowed",
    "results fit their schema": f"{WHOLE}::test_every_tool_answers_with_a_result_that_fits_or_a_refusal_that_helps",
    "the inspector shows the registered tools": "tests/interop/test_journal.py::test_the_inspector_takes_the_tour",
    "the guard blocks": f"{SAFETY}::test_a_locked_guard_refuses_every_guarded_tool_and_still_answers_diagnose",
    "diagnose reports with the backend up": f"{TOOLS}diagnostics.py::test_a_reachable_backend_gives_a_full_report",
    "diagnose reports without a backend": (
        f"{TOOLS}diagnostics.py::test_a_backend_that_is_down_is_reported_as_unreachable"
    ),
    "diagnose reveals no key": f"{TOOLS}diagnostics.py::test_a_planted_secret_never_reaches_the_report",
    "diagnose reveals no key of a provider": (
        f"{TOOLS}diagnostics.py::test_every_answer_being_the_provider_list_reveals_no_key"
    ),
    "the desktop application is found in each place": f"{TOOLS}desktop.py::test_each_platform_has_its_places",
    "it is launched from each place": f"{TOOLS}desktop.py::test_it_is_started_wherever_it_is_found",
    "without it instructions come and a page opens": (
        f"{TOOLS}desktop.py::test_without_an_application_instructions_come_back_and_the_page_opens"
    ),
    "percentiles are right": f"{METRICS}::test_latencies_are_recorded_and_percentiles_computed",
    "error rates are right": f"{METRICS}::test_errors_are_counted_and_become_a_rate",
    "metrics go around the guard": f"{METRICS}::test_metrics_around_the_guard_count_a_refusal_as_an_error",
    "tools send the agreed request": f"{TOOLS}rest.py::test_a_tool_sends_the_request_that_was_agreed",
    "service status shows health and vitals": f"{TOOLS}service.py::test_a_running_backend_shows_its_vitals",
    "a restart waits for a new instance": f"{TOOLS}service.py::test_a_restart_is_done_when_another_instance_answers",
    "service logs list the folder": f"{TOOLS}service.py::test_only_names_that_end_in_jsonl_are_listed_and_in_order",
    "every tool has annotations": f"{LISTS}::test_every_tool_has_annotations",
    "at most 40 tools by default": f"{LISTS}::test_by_default_at_most_forty_tools_are_listed",
    "--toolsets filters": f"{LISTS}::test_toolsets_choose_what_is_listed",
    "the mode follows the client": f"{LISTS}::test_the_mode_follows_the_client_name_and_diagnose_says_why",
    "the meta-tools tell the true state": (
        "tests/serving/product/test_openings.py::test_describing_a_toolset_shows_names_texts_and_hints"
    ),
    "the list of toolsets tells the true state": (f"{LISTS}::test_the_toolsets_are_nine_with_their_counts_and_sizes"),
    "a token is good for 60 s": f"{TOOLS}tokens.py::test_a_token_is_good_for_sixty_seconds",
    "enabling notifies a dynamic client": (
        f"{LISTS}::test_loading_a_toolset_changes_the_list_and_tells_the_client_once_after_the_answer"
    ),
    "enabling notifies that session only": f"{LISTS}::test_a_list_that_one_session_changed_is_only_that_sessions",
    "enabling guides a static client": f"{LISTS}::test_a_static_client_is_told_to_restart_and_how_to_do_without",
    # discovery
    "all toolsets are listed with their total": f"{LISTS}::test_the_toolsets_are_nine_with_their_counts_and_sizes",
    "an unknown toolset is guided": f"{LISTS}::test_an_unknown_toolset_is_named_and_the_nearest_offered",
    "a loaded toolset is not loaded again": (
        "tests/serving/product/test_criteria.py::test_a_toolset_that_is_loaded_is_said_so_and_nothing_changes"
    ),
    "a token is asked of the backend": f"{TOOLS}tokens.py::test_the_backend_is_asked_with_action_and_summary",
    # guard
    "a call runs when the guard is off": f"{GUARD}::test_a_call_runs_when_the_guard_is_off_or_content",
    "a locked guard and a reached limit block": f"{GUARD}::test_a_locked_guard_blocks_the_call",
    # metrics
    "an error rate above 10 % is warned of": f"{METRICS}::test_an_error_rate_above_a_tenth_is_warned_of",
    "network tools are not called slow": f"{METRICS}::test_network_tools_are_exempt_from_slow_warnings_alone",
    "diagnose carries the warnings": (
        "tests/serving/product/test_criteria.py::"
        "test_diagnose_warns_of_slow_and_failing_tools_but_not_of_those_that_wait_for_others"
    ),
    "the ring bounds memory": f"{METRICS}::test_the_ring_bounds_memory_and_old_latencies_age_out",
    "a success is recorded": f"{METRICS}::test_a_successful_call_is_recorded_with_its_duration_and_size",
    "a failure is recorded and goes on": f"{METRICS}::test_a_failed_call_is_recorded_and_the_failure_goes_on",
    # the desktop application
    "an installed application is started": f"{TOOLS}desktop.py::test_an_installed_application_is_started",
    "a checkout is started with npm run dev": f"{TOOLS}desktop.py::test_a_checkout_is_started_with_npm",
    # registration
    "unguarded tools stay outside the guard": (
        f"{TOOLS}registration.py::test_emergency_diagnosis_desktop_and_discovery_are_outside_the_guard"
    ),
    "a deferred toolset is marked for anthropic clients": (
        f"{LISTS}::test_an_anthropic_client_lists_everything_and_defers_what_is_not_core"
    ),
    "a tool in two toolsets is registered once": (
        "tests/serving/catalog/test_contract.py::test_create_trade_is_in_two_toolsets_and_registered_once"
    ),
}


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_has_a_test_by_name(criterion: str) -> None:
    file, _, name = CRITERIA[criterion].partition("::")
    assert name in named_in(file), f"{criterion}: {CRITERIA[criterion]}"


async def test_a_toolset_that_is_loaded_is_said_so_and_nothing_changes(connect: Connect) -> None:
    client = await connect("cline")
    before = await client.names()
    result = await client.call("enable_toolset", toolset_name="trade-analytics")
    assert not result.get("isError")
    assert (
        f'Toolset "trade-analytics" is already loaded ({count("trade-analytics")} tools).'
        in result["structuredContent"]["message"]
    )
    assert await client.names() == before
    assert client.notifications == []


async def test_a_name_that_nobody_knows_is_answered_with_the_nearest(connect: Connect) -> None:
    client = await connect("cline")
    error = (await client.request("tools/call", {"name": "get_tax_lot", "arguments": {}}))["error"]
    assert "get_tax_lots" in error["message"]
    assert "tool_search" in text_of(await client.call("call_tool", name="xyzzy", arguments={}))


async def test_diagnose_warns_of_slow_and_failing_tools_but_not_of_those_that_wait_for_others(connect: Connect) -> None:
    client = await connect("cline")
    metrics = client.journal.pipeline().metrics
    for name in ("list_trades", "get_stock_quote", "get_market_news", "get_sec_filings", "search_ticker"):
        metrics.record(name, 2500, 100, False)
    for number in range(20):
        metrics.record("get_settings", 1, 100, number < 3)
    report = (await client.call("zorivest_diagnose"))["structuredContent"]
    assert report["metrics"]["warnings"] == [
        "Tool 'list_trades' p95 latency is 2500ms",
        "Tool 'get_settings' has 15% error rate (3/20 calls)",
    ]
