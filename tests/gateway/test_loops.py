"""Circles of gateways are found, with their path, and no call goes round in one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from tests.gateway.fake import Fake
from tests.gateway.gate import OURS, QUICK, faked, gate, in_front, words_of
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import LoopFound
from zorivest_rpc.gateway.loops import LOOP, MOST_PASSED, VIA, Passage, read_loop, read_via
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.router import Gateway
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry
from zorivest_rpc.mcp.call import Call, Outcome, say
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.offer import Offer, ToolShelf
from zorivest_rpc.mcp.protocol.types import Meta
from zorivest_rpc.mcp.server import Server as McpServer
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, accept_everyone
from zorivest_rpc.mcp.transports.memory import MemoryClient


def raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def via_of(members: bytes) -> list[str]:
    return list(json.loads(b"{%b}" % members)[VIA])


# --- the way of one request


def test_a_request_carries_the_gateways_so_far_ours_last() -> None:
    passage = Passage("me")
    assert via_of(passage.onward(UNSET)) == ["me"]
    assert via_of(passage.onward(Meta(via=raw(["a", "b"])))) == ["a", "b", "me"]
    trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    assert json.loads(b"{%b}" % passage.onward(Meta(traceparent=raw(trace)))) == {VIA: ["me"], "traceparent": trace}
    for wrong in ("00-1", 5, [trace], trace.upper(), trace + "\n"):
        assert json.loads(b"{%b}" % passage.onward(Meta(traceparent=raw(wrong)))) == {VIA: ["me"]}


def test_what_has_been_here_is_refused_with_its_path_and_what_came_too_far_as_well() -> None:
    passage = Passage("me")
    assert passage.admit(raw(["a", "b"])) is None
    refusal = passage.admit(raw(["a", "me", "b"]))
    assert refusal is not None
    assert refusal.data == {LOOP: ["me", "b", "me"]}
    assert read_loop(refusal.data) == ("me", "b", "me")
    assert MOST_PASSED == 8
    assert passage.admit(raw([str(number) for number in range(MOST_PASSED)])) is None
    too_far = passage.admit(raw([str(number) for number in range(MOST_PASSED + 1)]))
    assert too_far is not None
    assert too_far.data[LOOP][-1] == "me"


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda x: st.lists(x, max_size=12))
)
def test_whatever_a_list_holds_it_is_read_or_refused(value: Any) -> None:
    passage = Passage("me")
    refusal = passage.admit(raw(value))
    if isinstance(value, list) and all(isinstance(id, str) for id in value) and len(value) > MOST_PASSED:
        assert refusal is not None
    assert all(isinstance(id, str) for id in via_of(passage.opening()))


def test_a_list_that_is_too_long_to_be_read_came_too_far() -> None:
    longest = 4_096 - len('[""]')
    assert Passage("me").admit(raw(["x" * longest])) is None
    assert Passage("me").admit(raw(["x" * (longest + 1)])) is not None
    assert len(read_via(raw(["x" * 100]))[0]) == 64


def test_an_opening_names_who_reached_us_of_late_and_the_longest_way_whole() -> None:
    now = 0.0
    passage = Passage("me", clock=lambda: now)
    assert via_of(passage.opening()) == ["me"]
    passage.admit(raw(["a", "b"]))
    passage.admit(raw(["c"]))
    assert via_of(passage.opening()) == ["c", "a", "b", "me"]
    for number in range(100):
        passage.admit(raw([f"editor-{number}"]))
    named = via_of(passage.opening())
    assert len(named) == MOST_PASSED  # many clients are no long way
    assert named[-1] == "me"
    now = 299.0
    passage.admit(raw(["c"]))
    now = 300.0
    assert via_of(passage.opening()) == ["c", "me"]  # five minutes are over
    assert via_of(passage.opening()) == ["c", "me"]
    passage.admit(raw([str(number) for number in range(MOST_PASSED)]))
    assert len(via_of(passage.opening())) == MOST_PASSED + 1  # this one the next server refuses


def test_of_a_thousand_callers_the_latest_are_remembered() -> None:
    now = 0.0
    passage = Passage("me", clock=lambda: now)
    passage.admit(raw(["first"]))
    for number in range(63):
        passage.admit(raw([str(number)]))
    assert "first" in passage._callers
    passage.admit(raw(["one", "too", "many"]))
    assert "first" not in passage._callers
    assert len(passage._callers) == 64


# --- servers that name each other


class Station:
    """A gateway and the server in front of it, over HTTP; its list is what its gateway knows now."""

    def __init__(self, name: str, directory: Path, remembered: float) -> None:
        self.name = name
        self.calls = 0
        self.passage = Passage(name, remembered=remembered)
        self.shelf = ToolShelf()
        self.offer = Offer(name, "1", tools=self.shelf, passage=self.passage.admit)
        self.server = McpServer(self.offer)
        self.transport = HttpTransport(self.server, HttpOptions(port=0, grace=0.0), authenticate=accept_everyone)
        self.directory = directory / name
        self.directory.mkdir()
        self.gateway: Gateway
        self.shelf.add(Tool("own", "Its own tool"), self.run)
        self.shelf.add(Tool("other", "Not there yet"), self.run)
        self.shelf.remove("other")

    async def run(self, call: Call) -> Outcome:
        self.calls += 1
        return say(self.name)

    async def follow(self, *others: Station) -> None:
        """Name these servers, and serve what they have."""
        servers = tuple(Server(name=other.name, endpoint=other.url, timeout_secs=60) for other in others)
        self.gateway = Gateway(
            OURS,
            Profile(mcp_servers=servers, pin="off", tool_confirmation_mode="never"),
            pins=Pins(str(self.directory)),
            telemetry=Telemetry(None, Redactor()),
            make=lambda server, note: make_upstream(server, {}, meta=self.passage.opening, on_happening=note),
            timing=QUICK,
            passage=self.passage,
        )
        await self.look()

    async def look(self) -> None:
        """Read the lists of the others as they are now."""
        for member in self.gateway.members.values():
            try:
                await member.discover()
            except LoopFound:
                continue
        self.serve()

    def serve(self) -> None:
        for spec in self.gateway.catalogue.definitions.tools:
            if spec.upstream and spec.name not in self.shelf._tools:
                self.shelf.add(Tool(spec.name, spec.title, spec.input_schema), self.gateway.forward)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.transport.port}/mcp"

    def error(self, of: str) -> str:
        return str(self.gateway.members[of].offered.error)


@asynccontextmanager
async def stations(directory: Path, names: str, remembered: float = 300.0) -> AsyncIterator[list[Station]]:
    found = [Station(name, directory, remembered) for name in names]
    for station in found:
        await station.transport.start()
    try:
        yield found
    finally:
        for station in found:
            if hasattr(station, "gateway"):
                await station.gateway.close()
        for station in found:
            await station.transport.stop()


async def test_of_two_servers_that_name_each_other_the_second_finds_the_circle(tmp_path: Path) -> None:
    async with stations(tmp_path, "ab") as (a, b):
        await a.follow(b)
        await b.follow(a)
        assert "b__own" in a.gateway.catalogue.table
        assert b.gateway.members["a"].offered.status == "unavailable"
        assert b.error("a").startswith('MCP server "a" leads back to this server (a → b → a).')


async def test_in_a_ring_of_three_the_last_finds_the_circle(tmp_path: Path) -> None:
    async with stations(tmp_path, "abc") as (a, b, c):
        await a.follow(b)
        await b.follow(c)
        await c.follow(a)
        assert c.error("a").startswith('MCP server "a" leads back to this server (a → b → c → a).')
    (tmp_path / "again").mkdir()
    async with stations(tmp_path / "again", "abc") as (a, b, c):  # in another order
        await c.follow(a)
        await a.follow(b)
        await b.follow(c)
        assert b.error("c").startswith('MCP server "c" leads back to this server (c → a → b → c).')


async def test_a_server_that_names_itself_is_told_so(tmp_path: Path) -> None:
    async with stations(tmp_path, "a") as (a,):
        await a.follow(a)
        assert a.error("a").startswith('MCP server "a" leads back to this server (a → a).')
        assert not a.gateway.catalogue.table


async def test_a_circle_that_came_together_at_once_is_found_when_health_is_asked_for(tmp_path: Path) -> None:
    async with stations(tmp_path, "ab") as (a, b):
        await a.follow(b)
        a.passage._callers.clear()
        b.passage._callers.clear()
        await b.follow(a)
        upstream = a.gateway.members["b"].link.current
        assert upstream is not None
        with pytest.raises(LoopFound) as found:
            await upstream.check_health()
        assert found.value.path == ("b", "a", "b")


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
async def test_no_call_goes_round_and_none_is_delivered_twice(tmp_path: Path, names: str) -> None:
    """Servers that know nothing of each other's way, as if all had been connected at the same moment."""
    async with stations(tmp_path, names, remembered=0.0) as ring:
        if len(ring) == 1:
            await meet_itself(ring[0])
        else:
            for station, behind in pairwise([*ring, ring[0]]):
                await station.follow(behind)
            for _ in names:  # until the list of the first has a tool that goes all the way round
                for station in reversed(ring):
                    await station.look()
        client = MemoryClient(ring[0].server)
        path = "__".join((*names[1:], names[0]))
        name = next((tool for tool in ring[0].shelf._tools if tool.startswith(path) and tool.endswith("own")), None)
        assert name is not None, list(ring[0].shelf._tools)
        result = await ask(client, "tools/call", {"name": name, "arguments": {}})
        client.close()
        circle = " → ".join((*names, names[0]))
        assert result["result"]["isError"]
        assert f"leads back to this server ({circle})" in words_of(result["result"])
        assert [station.calls for station in ring] == [0] * len(ring)


async def meet_itself(station: Station) -> None:
    """It was let through to itself, as if its opening had named nobody."""
    opening, station.passage.opening = station.passage.opening, bytes  # type: ignore[method-assign]
    await station.follow(station)
    station.passage.opening = opening  # type: ignore[method-assign]


async def ask(client: MemoryClient, method: str, params: Any) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": method,
        "params": {**params, "_meta": {**meta, **params.get("_meta", {})}},
    }
    client.send(json.dumps(message).encode())
    return json.loads(await client.receive())


@pytest.mark.parametrize("kind", ["memory", "memory-modern", "streamable", "streamable-modern"])
async def test_a_request_of_a_circle_is_refused_in_every_era(tmp_path: Path, kind: str) -> None:
    async with faked(Fake()) as server, gate(tmp_path, server) as between, in_front(kind, between) as client:
        between.server.dispatcher._passage = Passage("me").admit
        error = await client.error("tools/call", {"name": "up__echo", "arguments": {}}, **{VIA: ["me", "other"]})
        assert error["data"] == {LOOP: ["me", "other", "me"]}
        assert (await client.result("tools/list", **{VIA: ["other"]}))["tools"]


async def test_an_initialize_that_has_been_here_is_refused() -> None:
    server = McpServer(Offer("me", "1", tools=ToolShelf(), passage=Passage("me").admit))
    client = MemoryClient(server)
    info = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info, "_meta": {VIA: ["me"]}}
    client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode())
    assert json.loads(await client.receive())["error"]["data"] == {LOOP: ["me", "me"]}
    client.close()


async def test_what_goes_to_a_server_names_the_way_and_nothing_else_of_the_clients_meta(tmp_path: Path) -> None:
    trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    fake = Fake()
    async with faked(fake) as server, gate(tmp_path, server) as between, in_front("memory", between) as client:
        given = {VIA: ["first"], "traceparent": trace, "com.example/secret": "x", "progressToken": "theirs"}
        await client.result("tools/call", {"name": "up__echo", "arguments": {}}, **given)
    meta = fake.of("tools/call")[0].params["_meta"]
    own = {key: value for key, value in meta.items() if not key.startswith("io.modelcontextprotocol/")}
    assert own["traceparent"] == trace
    assert own[VIA][0] == "first"
    assert len(own[VIA]) == 2
    assert own["progressToken"] != "theirs"
    assert own.keys() == {VIA, "traceparent", "progressToken"}
