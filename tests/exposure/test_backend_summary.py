"""What is known of the journal: when it is asked, what its answers mean, and when what was known is not any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.exposure.clock import FakeClock
from zorivest_rpc.errors import BackendError, BackendUnreachable
from zorivest_rpc.exposure.backend_summary import JournalCounts
from zorivest_rpc.exposure.state import ExposureState, StateNames
from zorivest_rpc.serving.catalog.load import load

Json = Any
NAMES = StateNames(**load().state_names)
COUNTERS = {
    "trades": 3,
    "round_trips_closed": 1,
    "accounts": 2,
    "lots_open": 0,
    "lots": 1,
    "tax_profiles": 0,
    "mistakes": 0,
    "policies": 1,
    "brokers_configured": 1,
    "providers_configured": 2,
}
SUMMARY = {"version": "a", "counters": COUNTERS, "sets": {"account_ids": ["A-1", "A-2"]}}
ALL = tuple(f"backend.{name}" for name in COUNTERS)


class Backend:
    """Answers by path; an exception is raised, and a path that is not there is a 404."""

    def __init__(self, answers: dict[str, Json]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.hold: asyncio.Event | None = None

    async def __call__(self, path: str, query: Mapping[str, Json] | None) -> Json:
        self.asked.append(path + "".join(f"?{key}={value}" for key, value in (query or {}).items()))
        if self.hold is not None:
            await self.hold.wait()
        answer = self.answers.get(path, BackendError(404, "Not found."))
        if isinstance(answer, Exception):
            raise answer
        return answer


Settle = Callable[[], Awaitable[None]]


class Stage:
    def __init__(self, answers: dict[str, Json]) -> None:
        self.clock = FakeClock()
        self.state = ExposureState(NAMES)
        self.backend = Backend(answers)
        self.counts = JournalCounts(self.state, self.clock)

    def touch(self, *wanted: str) -> None:
        self.counts.touch(self.backend, wanted or ALL)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def passes(self, seconds: float) -> None:
        self.clock.pass_by(seconds)
        await self.settle()

    def known(self) -> dict[str, int | None]:
        return {name: self.state.counters[f"backend.{name}"] for name in COUNTERS}


async def test_the_first_use_asks_once_and_takes_the_counts_over() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.touch()
    stage.touch()
    await stage.settle()
    assert stage.backend.asked == ["/mcp/state-summary"]
    assert stage.known() == COUNTERS
    assert stage.state.sets["backend.account_ids"] == ("A-1", "A-2")
    await stage.counts.close()


async def test_accounts_that_are_not_all_named_make_no_set() -> None:
    """An account that is archived or beyond the backend's limit must not look as if it did not exist."""
    stage = Stage({"/mcp/state-summary": {**SUMMARY, "counters": {**COUNTERS, "accounts": 51}}})
    stage.touch()
    await stage.settle()
    assert stage.state.sets["backend.account_ids"] is None
    await stage.counts.close()


async def test_while_a_client_is_there_it_is_asked_every_minute_and_not_for_longer_than_five() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.touch()
    await stage.settle()
    for _ in range(20):
        await stage.passes(60)
    assert len(stage.backend.asked) == 6
    stage.touch()
    await stage.settle()
    assert len(stage.backend.asked) == 7
    await stage.counts.close()


async def test_after_writes_it_is_asked_once_half_a_second_after_the_last() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.touch()
    await stage.settle()
    stage.counts.wrote()
    await stage.passes(0.3)
    stage.counts.wrote()
    await stage.passes(0.4)
    assert len(stage.backend.asked) == 1
    await stage.passes(0.1)
    assert len(stage.backend.asked) == 2
    await stage.counts.close()


async def test_one_run_at_a_time_and_what_came_meanwhile_is_looked_at_again() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.backend.hold = asyncio.Event()
    stage.touch()
    await stage.settle()
    stage.counts.wrote()
    await stage.passes(1)
    assert len(stage.backend.asked) == 1
    stage.backend.hold.set()
    await stage.settle()
    assert len(stage.backend.asked) == 2
    await stage.counts.close()


async def test_a_failed_look_keeps_what_was_known_for_ten_minutes() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.touch()
    await stage.settle()
    stage.backend.answers["/mcp/state-summary"] = BackendUnreachable("gone")
    for _ in range(10):
        stage.touch()
        await stage.passes(60)
        assert stage.known() == COUNTERS
    stage.touch()
    await stage.passes(60)
    assert set(stage.known().values()) == {None}
    assert stage.state.sets["backend.account_ids"] is None
    await stage.counts.close()


async def test_a_client_that_comes_back_after_ten_minutes_is_shown_everything_until_it_is_known_again() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.touch()
    await stage.settle()
    for _ in range(6):
        await stage.passes(60)
    await stage.passes(700)
    stage.touch()
    assert set(stage.known().values()) == {None}
    await stage.settle()
    assert stage.known() == COUNTERS
    await stage.counts.close()


async def test_a_locked_database_makes_everything_unknown_at_once() -> None:
    stage = Stage({"/mcp/state-summary": SUMMARY})
    stage.touch()
    await stage.settle()
    stage.backend.answers["/mcp/state-summary"] = BackendError(403, "locked", reported="database_locked")
    await stage.passes(60)
    assert set(stage.known().values()) == {None}
    await stage.counts.close()


FOREIGN = {
    "/trades": {"items": [], "total": 7},
    "/accounts": [{"account_id": "A-1"}, {"account_id": "A-2"}],
    "/tax/lots": {"lots": [], "total_count": 0},
    "/scheduling/policies": {"policies": [], "total": 0},
    "/brokers": [{"broker_id": "a", "configured": True}, {"broker_id": "b", "configured": False}],
    "/market-data/providers": [
        {"name": "keyed", "has_api_key": True, "is_enabled": True, "requires_key": True},
        {"name": "bare", "has_api_key": False, "is_enabled": True, "requires_key": True},
        {"name": "free", "has_api_key": False, "is_enabled": True, "requires_key": False},
        {"name": "off", "has_api_key": True, "is_enabled": False, "requires_key": True},
    ],
}


async def test_a_backend_without_the_route_is_asked_for_what_the_rules_read() -> None:
    stage = Stage(dict(FOREIGN))
    stage.touch()
    await stage.settle()
    assert stage.backend.asked == [
        "/mcp/state-summary",
        "/trades?limit=1",
        "/accounts",
        "/tax/lots?status=all",
        "/scheduling/policies",
        "/brokers",
        "/market-data/providers",
    ]
    assert stage.known() == {
        "trades": 7,
        "round_trips_closed": None,
        "accounts": 2,
        "lots_open": 0,
        "lots": 0,
        "tax_profiles": None,
        "mistakes": None,
        "policies": 0,
        "brokers_configured": 1,
        "providers_configured": 2,
    }
    assert stage.state.sets["backend.account_ids"] == ("A-1", "A-2")
    await stage.passes(60)
    assert stage.backend.asked[7] == "/trades?limit=1", "the route that is not there is not asked for again"
    await stage.counts.close()


async def test_only_what_a_loaded_tool_needs_is_probed() -> None:
    stage = Stage(dict(FOREIGN))
    stage.touch("backend.trades", "backend.account_ids")
    await stage.settle()
    assert stage.backend.asked == ["/mcp/state-summary", "/trades?limit=1", "/accounts"]
    await stage.counts.close()


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/trades", []),
        ("/trades", {"total": "7"}),
        ("/trades", {"total": True}),
        ("/brokers", {"items": []}),
        ("/brokers", [{"broker_id": "a"}]),
        ("/brokers", ["a"]),
        ("/market-data/providers", [{"name": "x"}]),
        ("/tax/lots", None),
        ("/scheduling/policies", "none"),
        ("/accounts", {"accounts": []}),
    ],
)
async def test_an_answer_of_another_form_makes_it_unknown_and_breaks_nothing(path: str, answer: Json) -> None:
    stage = Stage({**FOREIGN, path: answer})
    stage.touch()
    await stage.settle()
    names = {
        "/trades": "trades",
        "/brokers": "brokers_configured",
        "/market-data/providers": "providers_configured",
        "/tax/lots": "lots",
        "/scheduling/policies": "policies",
        "/accounts": "accounts",
    }
    known = stage.known()
    assert known[names[path]] is None
    assert known["trades"] == (None if path == "/trades" else 7)
    await stage.counts.close()


async def test_a_page_of_accounts_counts_them_all_and_offers_none() -> None:
    stage = Stage(FOREIGN | {"/accounts": {"items": [{"account_id": "A-1"}, {"account_id": "A-2"}], "total": 9}})
    stage.touch()
    await stage.settle()
    assert stage.known()["accounts"] == 9
    assert stage.state.sets["backend.account_ids"] is None
    await stage.counts.close()


async def test_a_probe_that_fails_keeps_what_it_told_before() -> None:
    stage = Stage(dict(FOREIGN))
    stage.touch()
    await stage.settle()
    stage.backend.answers["/trades"] = BackendError(500, "oops")
    stage.backend.answers["/brokers"] = []
    await stage.passes(60)
    assert (stage.known()["trades"], stage.known()["brokers_configured"]) == (7, 0)
    await stage.counts.close()


@pytest.mark.parametrize(
    "failure", [TimeoutError(), BackendUnreachable("no answer within 1.5 s"), BackendError(500, "oops")], ids=repr
)
async def test_a_list_that_is_never_given_leaves_the_others_known_for_as_long_as_they_are_told(
    failure: Exception,
) -> None:
    stage = Stage(FOREIGN | {"/trades": failure})
    for _ in range(20):
        stage.touch()
        await stage.settle()
        known = stage.known()
        assert known["trades"] is None
        assert (known["accounts"], known["lots"], known["policies"]) == (2, 0, 0)
        await stage.passes(60)
    await stage.counts.close()


def test_ordinary_results_teach() -> None:
    stage = Stage({})
    stage.counts.learn("create_trade", {"exec_id": "a"})
    assert stage.known()["trades"] == 1
    stage.counts.learn("list_trades", {"items": [], "total": 12})
    stage.counts.learn("create_trade", {"exec_id": "b"})
    assert stage.known()["trades"] == 12
    others: tuple[Json, ...] = (None, {"items": []}, {"total": "13"}, {"total": -1})
    for value in others:
        stage.counts.learn("list_trades", value)
    assert stage.known()["trades"] == 12
