"""What is counted, what is not, and how the numbers are put."""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serving.middleware.conftest import Clock
from tests.serving.middleware.fake import FakeBackend, Notes, Ran, make_call
from zorivest_rpc.errors import GuardLocked, ProtocolError, ToolError
from zorivest_rpc.mcp.call import BecomeTask, Call, InputRequired, Outcome, chain, form
from zorivest_rpc.mcp.protocol.types import LEVELS
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.middleware.guard import GuardLayer
from zorivest_rpc.serving.middleware.metrics import Metrics


def test_latencies_are_recorded_and_percentiles_computed() -> None:
    metrics = Metrics()
    for latency in range(1, 101):
        metrics.record("test_tool", latency, 500, False)
    tool = metrics.summary(verbose=True)["per_tool"]["test_tool"]
    assert tool["latency"] == {"avg": 51, "min": 1, "max": 100, "p50": 50, "p95": 95, "p99": 99}
    assert tool["avg_payload_bytes"] == 500


def test_errors_are_counted_and_become_a_rate() -> None:
    metrics = Metrics()
    for number in range(10):
        metrics.record("test_tool", 10, 100, number < 2)
    tool = metrics.summary(verbose=True)["per_tool"]["test_tool"]
    assert (tool["call_count"], tool["error_count"], tool["error_rate"]) == (10, 2, 0.2)


def test_an_error_rate_above_a_tenth_is_warned_of() -> None:
    metrics = Metrics()
    for number in range(20):
        metrics.record("X", 10, 100, number < 3)
        metrics.record("at_the_limit", 10, 100, number < 2)
    assert metrics.summary()["warnings"] == ["Tool 'X' has 15% error rate (3/20 calls)"]


def test_a_slow_tool_is_warned_of() -> None:
    metrics = Metrics()
    metrics.record("X", 2500, 100, False)
    metrics.record("at_the_limit", 2000, 100, False)
    assert metrics.summary()["warnings"] == ["Tool 'X' p95 latency is 2500ms"]


def test_network_tools_are_exempt_from_slow_warnings_alone() -> None:
    bound = [spec.name for spec in load().tools if spec.network_bound]
    assert sorted(bound) == ["get_market_news", "get_sec_filings", "get_stock_quote", "search_ticker"]
    metrics = Metrics(is_network_bound=bound.__contains__)
    for name in bound:
        metrics.record(name, 5000, 100, False)
    assert metrics.summary()["warnings"] == []
    metrics.record("get_stock_quote", 5000, 100, True)
    assert metrics.summary()["warnings"] == ["Tool 'get_stock_quote' has 50% error rate (1/2 calls)"]


def test_the_ring_bounds_memory_and_old_latencies_age_out() -> None:
    metrics = Metrics()
    for latency in range(2000):
        metrics.record("test_tool", latency, latency, latency < 500)
    tool = metrics.summary(verbose=True)["per_tool"]["test_tool"]
    assert (tool["latency"]["min"], tool["latency"]["max"]) == (1000, 1999)
    assert tool["avg_payload_bytes"] == 1500
    assert (tool["call_count"], tool["error_count"]) == (2000, 500)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_the_nearest_rank(latencies: list[int], rank: int) -> None:
    metrics = Metrics()
    for latency in latencies:
        metrics.record("t", latency, 0, False)
    found = metrics.summary(verbose=True)["per_tool"]["t"]["latency"][f"p{rank}"]
    at_most = [latency for latency in latencies if latency <= found]
    below = [latency for latency in latencies if latency < found]
    assert found in latencies
    assert len(at_most) * 100 >= rank * len(latencies)
    assert len(below) * 100 < rank * len(latencies)


def test_the_session_is_summed_up(clock: Clock) -> None:
    metrics = Metrics(clock)
    assert metrics.summary() == {
        "session_uptime_minutes": 0,
        "total_tool_calls": 0,
        "overall_error_rate": 0,
        "calls_per_minute": 0,
        "slowest_tool": None,
        "most_errored_tool": None,
        "warnings": [],
    }
    for name, latency, failed in (("a", 10, False), ("b", 40, False), ("c", 20, True)):
        metrics.record(name, latency, 1, failed)
    clock.now += 29
    assert metrics.summary()["calls_per_minute"] == 0  # still minute 0, rounded
    clock.now += 7 * 60 - 29
    summary = metrics.summary()
    assert summary["session_uptime_minutes"] == 7
    assert summary["calls_per_minute"] == 0.43
    assert summary["overall_error_rate"] == 0.3333
    assert (summary["slowest_tool"], summary["most_errored_tool"]) == ("b", "c")
    assert "per_tool" not in summary


async def test_a_successful_call_is_recorded_with_its_duration_and_size(clock: Clock) -> None:
    metrics = Metrics(clock)

    async def inner(call: Call) -> Outcome:
        clock.now += 0.25
        return Outcome([{"type": "text", "text": "né"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}])

    await metrics(make_call(), inner)
    tool = metrics.summary(verbose=True)["per_tool"]["test_tool"]
    assert (tool["call_count"], tool["error_count"]) == (1, 0)
    assert (tool["latency"]["avg"], tool["avg_payload_bytes"]) == (250, 7)


@pytest.mark.parametrize("raised", [RuntimeError("fail"), ToolError("fail"), asyncio.CancelledError()])
async def test_a_failed_call_is_recorded_and_the_failure_goes_on(raised: BaseException) -> None:
    metrics = Metrics()

    async def inner(call: Call) -> Outcome:
        raise raised

    wire = Notes()
    with pytest.raises(type(raised)):
        await metrics(make_call(wire=wire), inner)
    assert metrics.summary()["overall_error_rate"] == 1
    assert len(wire.told) == isinstance(raised, RuntimeError), "a defect is told at the usual level, a refusal is not"


LOGGED: list[tuple[BaseException | None, str, str, str | None]] = [
    (None, "debug", "done", None),
    (ToolError("no such trade", code="not_found"), "debug", "refused", "not_found"),
    (ProtocolError(-32602, "secret words"), "debug", "refused", "-32602"),
    (RuntimeError("secret words"), "error", "failed", None),
]


@pytest.mark.parametrize(("raised", "level", "outcome", "code"), LOGGED)
@pytest.mark.parametrize("wanted", list(LEVELS))
async def test_the_client_s_log_holds_figures_from_its_level_on(
    raised: BaseException | None, level: str, outcome: str, code: str | None, wanted: str, clock: Clock
) -> None:
    async def inner(call: Call) -> Outcome:
        clock.now += 0.25
        if raised is not None:
            raise raised
        return Outcome([{"type": "text", "text": "answer"}])

    wire = Notes()
    with pytest.raises(type(raised)) if raised is not None else nullcontext():
        await Metrics(clock)(make_call(wire=wire, log_level=wanted, key="secret words"), inner)
    if LEVELS[level] < LEVELS[wanted]:
        assert wire.told == []
        return
    size = {"done": 6, "failed": 0}.get(outcome, len("no such trade") if code == "not_found" else 0)
    data = {"tool": "test_tool", "outcome": outcome, "ms": 250, "bytes": size} | (
        {} if code is None else {"code": code}
    )
    assert wire.told == [("notifications/message", {"level": level, "logger": "zorivest.calls", "data": data})]


async def test_an_outcome_that_is_an_error_counts_as_one() -> None:
    metrics = Metrics()
    await metrics(make_call(), Ran(Outcome([{"type": "text", "text": "no"}], is_error=True)))
    assert metrics.summary()["most_errored_tool"] == "test_tool"


@pytest.mark.parametrize("raised", [InputRequired({"q": form("?", {})}), BecomeTask()])
async def test_a_round_that_only_asks_is_neither_a_call_nor_an_error(raised: Exception) -> None:
    metrics = Metrics()
    with pytest.raises(type(raised)):
        await metrics(make_call(), Ran(raised))
    assert metrics.summary()["total_tool_calls"] == 0


async def test_metrics_around_the_guard_count_a_refusal_as_an_error() -> None:
    backend = FakeBackend({"POST /mcp-guard/check": {"allowed": False, "reason": "manual"}})
    spec = next(spec for spec in load().tools if spec.name == "list_trades")
    metrics, ran = Metrics(), Ran()
    handler = chain(ran, metrics, GuardLayer(lambda call: backend).layer(spec))
    with pytest.raises(GuardLocked):
        await handler(make_call("list_trades"))
    assert ran.times == 0
    assert metrics.summary(verbose=True)["per_tool"]["list_trades"]["error_count"] == 1


def test_scrapers_read_the_same_numbers(clock: Clock) -> None:
    metrics = Metrics(clock)
    for latency in range(1, 101):
        metrics.record("a", latency, 10, latency == 1)
    metrics.record('we"ird\\\n', 1, 1, False)
    clock.now += 2
    text = metrics.prometheus()
    for line in (
        "zorivest_uptime_seconds 2.000",
        'zorivest_tool_calls_total{tool="a"} 100',
        'zorivest_tool_errors_total{tool="a"} 1',
        'zorivest_tool_latency_seconds{tool="a",quantile="0.95"} 0.095000',
        'zorivest_tool_latency_seconds_sum{tool="a"} 5.050000',
        'zorivest_tool_latency_seconds_count{tool="a"} 100',
        'zorivest_tool_payload_bytes_total{tool="a"} 1000',
        r'zorivest_tool_calls_total{tool="we\"ird\\\n"} 1',
    ):
        assert line in text.splitlines()
    sample = re.compile(r'(# (HELP|TYPE) \w+ .+|\w+(\{\w+="([^"\\\n]|\\.)*"(,\w+="[^"]*")*\})? [0-9.]+)\Z')
    assert all(sample.match(line) for line in text.splitlines())
    assert text.endswith("\n")
