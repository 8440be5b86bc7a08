"""One list: its bytes agree with the state at every moment, what it costs, and what it never does."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.exposure.observing import MODES, TOOLS, make_journal
from zorivest_rpc.exposure.engine import Engine
from zorivest_rpc.exposure.state import ExposureState, StateNames
from zorivest_rpc.exposure.view import ExposedView, Manner
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.protocol.jsonrpc import dumps
from zorivest_rpc.mcp.protocol.revisions import BY_NAME

Json = Any
SHAPE = BY_NAME["2025-11-25"].shape
FILTER = Manner(filters=True, gates=True, meta=True, hints=False)
ADVISORY = Manner(filters=False, gates=False, meta=True, hints=True)
OFF = Manner(filters=False, gates=False, meta=False, hints=False)
COUNTERS = ("errors", "logs", "network", "ws_events", "ws_open", "actions", "perf", "endpoints")


class Stage:
    """The five tools among others, in one list; every call of the encoder is counted."""

    def __init__(self, manner: Manner = FILTER, *, others: int = 6, size: int = 200, tenants: int = 1) -> None:
        journal = make_journal("--exposure", "filter")
        engine = journal.exposure
        assert engine is not None
        self.engine: Engine = engine
        self.states = [engine.state(f"tenant-{number}") for number in range(tenants)]
        specs = journal.audience.specs
        observers = [Tool(name, "What a page sends.", specs[name].input_schema) for name in TOOLS]
        plain = [Tool(f"plain_{number}", "x" * size) for number in range(others)]
        self.tools = [*plain[: others // 2], *observers, *plain[others // 2 :]]
        self.encoded = 0

        def encode(value: Json) -> bytes:
            self.encoded += 1
            return dumps(value)

        self.view = ExposedView(self.tools, (), engine.rules, self.states, manner, SHAPE, encode=encode)

    @property
    def state(self) -> ExposureState:
        return self.states[0]

    def page(self) -> bytes:
        self.view.refresh()
        return self.view.page(SHAPE, 0, 1_000)

    def tools_now(self) -> list[Json]:
        return json.loads(b"{%b}" % self.page())["tools"]  # type: ignore[no-any-return]

    def by_name(self) -> dict[str, Json]:
        return {tool["name"]: tool for tool in self.tools_now()}


def enum_of(tool: Json) -> list[str]:
    return tool["inputSchema"]["properties"][MODES[tool["name"]][0]]["enum"]  # type: ignore[no-any-return]


def test_fifty_thousand_events_and_two_thousand_lists_agree_with_a_recount() -> None:
    """Rings as the buffers are: what falls out is counted down by the ring, and every list is right when it is made."""
    stage, random = Stage(), Random(7)
    limits = {"errors": 1000, "logs": 1000, "network": 200, "ws_events": 500, "actions": 1000, "perf": 20}
    rings: dict[str, list[int]] = {name: [] for name in limits}
    observed = False
    for event in range(50_000):
        name = random.choice(list(limits))
        ring = rings[name]
        if random.random() < 0.001:
            stage.state.add(f"devtools.{name}", -len(ring))
            ring.clear()
        else:
            ring.append(event)
            gone = max(0, len(ring) - limits[name])
            del ring[:gone]
            if gone != 1:
                stage.state.add(f"devtools.{name}", 1 - gone)
        if event == 20_000:
            stage.state.raise_flag("devtools.observed")
            observed = True
        if event % 25 == 0:
            tools = stage.by_name()
            counts = tools["observe"]["_meta"]["data_counts"]
            named = {"errors": "errors", "logs": "logs", "network": "network", "websocket_events": "ws_events"}
            named |= {"actions": "actions", "vitals": "perf"}
            always = ("errors", "logs")
            wanted = {mode: len(rings[ring]) for mode, ring in named.items() if rings[ring] or mode in always}
            assert counts == wanted
            assert list(tools["observe"]["_meta"]["available_modes"]) == enum_of(tools["observe"])
            assert ("analyze" in tools) == observed


@pytest.mark.parametrize("seed", range(4))
def test_published_modes_are_some_of_the_callable_ones_and_the_order_never_changes(seed: int) -> None:
    stage, random = Stage(), Random(seed)
    order = [tool.name for tool in stage.tools]
    for _ in range(300):
        stage.state.set(f"devtools.{random.choice(COUNTERS)}", random.choice((None, 0, 1, 9)))
        if random.random() < 0.02:
            stage.state.raise_flag("devtools.observed")
        tools = stage.tools_now()
        assert [tool["name"] for tool in tools] == [name for name in order if name in {tool["name"] for tool in tools}]
        assert [tool.name for tool in stage.view.listed] == [tool["name"] for tool in tools]
        for tool in tools:
            if tool["name"] in MODES:
                full = MODES[tool["name"]][1]
                assert enum_of(tool) == [mode for mode in full if mode in enum_of(tool)]
                assert stage.view.definition(tool["name"]) == tool
                found = stage.view.find(tool["name"])
                assert found is not None
                for mode in full:
                    stage.view.check(found, {MODES[tool["name"]][0]: mode})


def test_a_list_costs_few_calls_of_the_encoder_whatever_its_size() -> None:
    stage = Stage(others=75, size=1_000)
    stage.state.raise_flag("devtools.observed")
    stage.state.set("devtools.logs", 1)
    assert len(stage.page()) > 75_000
    stage.encoded = 0
    stage.page()
    assert stage.encoded == 0, "nothing changed, so the last bytes are used"
    stage.state.add("devtools.logs")
    stage.page()
    assert stage.encoded == 3, "one for the counts of each tool that has some"
    stage.encoded = 0
    stage.state.set("devtools.network", 1)
    stage.page()
    assert stage.encoded <= 3 + 2 * 3, "and two for each tool that is left with other modes than ever before"
    stage.encoded = 0
    stage.state.set("devtools.network", 0)
    stage.page()
    assert stage.encoded == 3, "what was left of a tool once is remembered"


def test_the_remembered_fragments_are_limited() -> None:
    stage = Stage()
    for number in range(1 << 6):
        for place, name in enumerate(("network", "ws_events", "ws_open", "actions", "perf", "logs")):
            stage.state.set(f"devtools.{name}", number >> place & 1)
        stage.page()
    sizes = [len(part.fragments) for part in stage.view._parts.values()]
    assert max(sizes) <= 64


def test_the_fresh_list_is_much_smaller_than_the_full_one() -> None:
    stage = Stage(others=0)
    fresh = len(stage.page())
    stage.state.raise_flag("devtools.observed")
    for name in COUNTERS:
        stage.state.set(f"devtools.{name}", 1)
    assert fresh <= 0.6 * len(stage.page())


def test_the_digest_knows_names_modes_and_sets_and_no_counts() -> None:
    stage = Stage()
    first = stage.view.digest(SHAPE)
    stage.state.set("devtools.logs", 5)
    assert stage.view.digest(SHAPE) == first, "a mode that is always there got data"
    stage.state.set("devtools.network", 1)
    second = stage.view.digest(SHAPE)
    assert second != first
    stage.state.set("devtools.network", 7)
    assert stage.view.digest(SHAPE) == second
    stage.state.raise_flag("devtools.observed")
    assert stage.view.digest(SHAPE) not in (first, second)
    assert Stage().view.digest(SHAPE) == first, "equal lists of two processes have one digest"
    assert Stage(others=7).view.digest(SHAPE) != first


def test_several_tenants_show_what_any_of_them_has_and_the_sum_of_what_all_have() -> None:
    stage = Stage(tenants=2)
    one, two = stage.states
    one.set("devtools.network", 2)
    two.set("devtools.network", 3)
    two.set("devtools.actions", 1)
    two.raise_flag("devtools.observed")
    tools = stage.by_name()
    assert list(tools["observe"]["_meta"]["available_modes"]) == ["errors", "logs", "network", "actions", "page"]
    assert tools["observe"]["_meta"]["data_counts"] == {"errors": 0, "logs": 0, "network": 5, "actions": 1}
    assert "analyze" in tools
    one.set("devtools.network", None)
    assert "network" not in stage.by_name()["observe"]["_meta"]["data_counts"], "a sum without a part is another figure"


def test_advisory_keeps_everything_and_tells_what_to_do() -> None:
    stage = Stage(ADVISORY)
    tools = stage.by_name()
    assert [name for name in tools if name in TOOLS] == list(TOOLS)
    assert enum_of(tools["observe"]) == MODES["observe"][1]
    assert list(tools["observe"]["_meta"]) == ["available_modes", "data_counts", "hint"]
    assert set(tools["observe"]["_meta"]["data_counts"].values()) == {0}
    before = stage.view.digest(SHAPE)
    stage.state.set("devtools.network", 4)
    tools = stage.by_name()
    assert tools["observe"]["_meta"]["data_counts"]["network"] == 4
    assert "hint" not in tools["observe"]["_meta"]
    assert "hint" not in tools["generate"]["_meta"]
    assert "hint" in tools["analyze"]["_meta"]
    assert stage.view.digest(SHAPE) == before, "a list that never changes is never announced"


def test_off_tells_nothing_and_hides_nothing() -> None:
    stage = Stage(OFF)
    tools = stage.by_name()
    assert [name for name in tools if name in TOOLS] == list(TOOLS)
    assert not any("_meta" in tool for tool in tools.values())
    page = stage.page()
    stage.state.set("devtools.network", 4)
    assert stage.page() == page


NAMES = StateNames(counters={"backend.n": ""}, sets={"backend.ids": ""})
ACCOUNTS = {
    "v": 1,
    "counts": {"n": "backend.n"},
    "enum_from": {"account_id": {"set": "backend.ids", "max": 3}},
}


def accounts_view(manner: Manner = FILTER, tenants: int = 1) -> tuple[ExposedView, list[ExposureState]]:
    engine = Engine({"counters": NAMES.counters, "sets": NAMES.sets}, {"accounts": ACCOUNTS})
    schema = {"type": "object", "properties": {"account_id": {"type": "string", "description": "Which."}}}
    states = [engine.state(str(number)) for number in range(tenants)]
    view = ExposedView([Tool("accounts", "About accounts.", schema)], (), engine.rules, states, manner, SHAPE)
    return view, states


def account_schema(view: ExposedView) -> Json:
    tool = json.loads(b"{%b}" % view.page(SHAPE, 0, 10))["tools"][0]
    return tool["inputSchema"]["properties"]["account_id"]


PLAIN = {"type": "string", "description": "Which."}


@pytest.mark.parametrize(
    ("values", "enum"),
    [
        (None, None),
        ((), None),
        (("A-1",), ["A-1"]),
        (("B", "A"), ["B", "A"]),
        (("a", "b", "c"), ["a", "b", "c"]),
        (("a", "b", "c", "d"), None),
        (("a b",), None),
        (('a"},{"name":"evil',), None),
        (("a\n",), None),
        (("",), None),
        (("x" * 64,), ["x" * 64]),
        (("x" * 65,), None),
        (("ok", "not ok"), None),
    ],
)
def test_values_of_a_set_become_an_enum_only_while_they_are_few_and_harmless(
    values: tuple[str, ...] | None, enum: list[str] | None
) -> None:
    view, (state,) = accounts_view()
    state.set_values("backend.ids", values)
    assert account_schema(view) == (PLAIN if enum is None else {**PLAIN, "enum": enum})


def test_values_of_several_tenants_are_never_shown_and_advisory_lists_stay_as_they_are() -> None:
    view, states = accounts_view(tenants=2)
    for number, state in enumerate(states):
        state.set_values("backend.ids", [f"A-{number}"])
    assert account_schema(view) == PLAIN
    view, (state,) = accounts_view(ADVISORY)
    state.set_values("backend.ids", ["A-1"])
    assert account_schema(view) == PLAIN


def test_a_count_that_is_unknown_is_left_out() -> None:
    view, (state,) = accounts_view()
    tool = json.loads(b"{%b}" % view.page(SHAPE, 0, 10))["tools"][0]
    assert tool["_meta"] == {"data_counts": {}}
    state.set("backend.n", 4)
    tool = json.loads(b"{%b}" % view.page(SHAPE, 0, 10))["tools"][0]
    assert tool["_meta"] == {"data_counts": {"n": 4}}


def test_a_new_view_lists_at_once_what_there_is_and_says_for_how_long() -> None:
    stage = Stage()
    assert [tool.name for tool in stage.view.listed if tool.name in TOOLS] == ["observe", "query_dom"]
    assert (stage.view.ttl_ms, Stage(ADVISORY).view.ttl_ms) == (5_000, 300_000)
    plain = ExposedView(stage.tools[:2], (), stage.engine.rules, stage.states, FILTER, SHAPE)
    assert plain.ttl_ms == 300_000, "no tool of it has a rule"


def test_what_is_hidden_can_be_named() -> None:
    stage = Stage()
    assert stage.view.hidden_modes("observe") == [
        *("network", "websocket_events", "websocket_status", "actions", "vitals"),
    ]
    assert stage.view.is_hidden("analyze")
    assert stage.view.definition("analyze") is None
    assert not stage.view.is_hidden("query_dom")
    stage.state.set("devtools.network", 1)
    stage.view.refresh()
    assert "network" not in stage.view.hidden_modes("observe")
    assert Stage(ADVISORY).view.hidden_modes("observe") == []
    assert stage.view.hidden_modes("query_dom") == []


def test_a_page_of_a_list_is_made_of_the_same_pieces() -> None:
    stage = Stage()
    stage.state.raise_flag("devtools.observed")
    whole, count = stage.tools_now(), len(stage.view.listed)
    parts = [json.loads(b"{%b}" % stage.view.page(SHAPE, start, 3))["tools"] for start in range(0, count, 3)]
    assert [tool for part in parts for tool in part] == whole
