"""One upstream over time, by a clock that the test moves: lists, eras, restarts, and what does not spread."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen, calling, serving
from tests.gateway.gate import QUICK, faked, gate
from tests.gateway.lives import Life, broken, life, living
from tests.gateway.stdio_server import __file__ as CHILD
from tests.serving.middleware.fake import NoWire
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.eras import Eras
from zorivest_rpc.gateway.errors import ToolingError, Withdrawn
from zorivest_rpc.gateway.talk import Call as Forwarded
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.mcp.protocol.session import Session

# --- lists


async def test_a_list_with_a_time_is_read_again_at_its_end_but_not_within_half_a_minute(tmp_path: Path) -> None:
    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=10_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        await one.clock.move(29.0)
        assert len(fake.of("tools/list")) == 1
        fake.tools = [TOOL, {**TOOL, "name": "more"}]
        await one.clock.move(1.0)
        assert len(fake.of("tools/list")) == 2
        assert len(one.member.offered.listing.items) == 2


async def test_a_time_says_nothing_while_a_stream_tells_of_changes(tmp_path: Path) -> None:
    fake = Fake(capabilities={"tools": {"listChanged": True}})
    hold = asyncio.Event()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    async def listen(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        told = {"notifications": {"toolsListChanged": True}}
        note = {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told}
        await response.write(f"data: {json.dumps(note)}\n\n".encode())
        await hold.wait()
        return response

    fake.handlers |= {"tools/list": listed, "subscriptions/listen": listen}
    async with living(tmp_path, fake) as one:
        await one.clock.move(45.0)
        assert len(fake.of("tools/list")) == 1
        hold.set()


async def test_a_list_that_cannot_be_read_again_leaves_the_last_good_one(tmp_path: Path) -> None:
    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        fake.handlers["tools/list"] = broken(500)
        await one.clock.move(31.0)
        assert one.state == ("degraded", True)
        assert len(one.member.offered.listing.items) == 1
        assert (await one.member.call(calling("x"), repeatable=False))[1] == 1


# --- eras


async def test_the_era_is_remembered_in_the_state_file_and_probed_anew_when_it_fails(tmp_path: Path) -> None:
    fake = Fake("legacy")
    async with serving(fake.handle) as url:
        server = Server(name="ops", endpoint=url)
        async with life(tmp_path, server):
            assert fake.methods[:2] == ["server/discover", "initialize"]
        fake.seen.clear()
        async with life(tmp_path, server) as one:
            assert fake.methods[0] == "initialize"  # no probe
            assert one.member.link.era == "legacy"
        fake.seen.clear()
        fake.era = "modern"
        async with life(tmp_path, server) as one:
            assert fake.methods[:2] == ["initialize", "server/discover"]
            assert one.state == ("ready", True)
        fake.seen.clear()
        async with life(tmp_path, server):
            assert "initialize" not in fake.methods
        profile = Profile(mcp_servers=(server,))
        assert Eras(str(tmp_path)).known(profile, server) is Era.MODERN
        elsewhere = Server(name="ops", endpoint=url + "/other")
        assert Eras(str(tmp_path)).known(Profile(mcp_servers=(elsewhere,)), elsewhere) is None


async def test_a_state_file_that_cannot_be_read_costs_a_probe_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "mcp-state.json").write_text('{"eras": {"x": 5}}')
    async with living(tmp_path, Fake("legacy")) as one:
        assert one.state == ("ready", True)
    assert (tmp_path / "mcp-state.json").stat().st_mode & 0o077 == 0


# --- children


def child(**keys: Any) -> Server:
    return Server(name="ops", command=sys.executable, args=("-I", CHILD, "modern"), timeout_secs=60, **keys)


async def end_child(one: Life) -> None:
    params = json.dumps({"name": "echo", "arguments": {"do": "exit", "kept": 0}}).encode()
    one.clock.idle.clear()  # it has something to do now
    with pytest.raises(ToolingError) as failed:
        await one.member.call(Forwarded("tools/call", params, "echo", shown="ops__echo"), repeatable=False)
    assert failed.value.code == "stdio_exited"


async def test_a_child_that_ends_is_started_again_later_and_later_and_five_times(tmp_path: Path) -> None:
    async with life(tmp_path, child()) as one:
        for _ in range(20):  # so that its ends are no half of its calls
            await one.member.call(calling("x"), repeatable=False)
        for seconds in (0.5, 1.0, 2.0, 4.0, 8.0):
            await end_child(one)
            await one.clock.settle()
            assert await one.fail(1) == ["stdio_exited"]  # not yet: nothing was sent
            await one.clock.move(seconds)
            assert one.state == ("ready", True)
            assert (await one.member.call(calling("x"), repeatable=False))[1] == 1
        await end_child(one)
        await one.clock.settle()
        assert one.state == ("unavailable", False)
        assert await one.fail(1) == ["stdio_exited"]
        await one.clock.move(300.0)
        assert one.state == ("ready", True)


async def test_a_child_that_ended_too_often_is_unavailable_though_its_circuit_opened_as_well(tmp_path: Path) -> None:
    async with life(tmp_path, child()) as one:
        await end_child(one)
        await one.clock.settle()  # the member has seen the end, and waits until the child may start again
        one.clock.time += 0.5
        await one.member.call(calling("x"), repeatable=False)
        for seconds in (0.0, 1.0, 2.0, 4.0, 8.0):
            one.clock.time += seconds  # the call starts it: the member is not woken
            await end_child(one)
            await one.clock.settle()
        assert one.member.circuit == "open"
        assert one.state == ("unavailable", False)
        await one.clock.move(300.0)
        assert one.state == ("ready", True)
        assert one.member.circuit == "closed"


async def test_one_end_of_a_child_is_one_failure_however_many_calls_it_cut_off(tmp_path: Path) -> None:
    async with life(tmp_path, child()) as one:
        await one.member.call(calling("x"), repeatable=False)
        wait = json.dumps({"name": "echo", "arguments": {"do": "wait"}}).encode()
        cut_off = [
            asyncio.create_task(one.member.call(Forwarded("tools/call", wait, "echo"), repeatable=False))
            for _ in range(8)
        ]
        await end_child(one)
        ends = await asyncio.gather(*cut_off, return_exceptions=True)
        assert {getattr(end, "code", end) for end in ends} == {"stdio_exited"}
        assert one.member.circuit == "closed"
        await one.clock.move(0.5)
        assert (await one.member.call(calling("x"), repeatable=False))[1] == 1


# --- what is gone


async def test_a_tool_that_its_server_dropped_is_told_as_withdrawn_whatever_it_was_called(tmp_path: Path) -> None:
    fake = Fake()
    fake.tools = [TOOL, {**TOOL, "name": "old"}]
    async with faked(fake, prefix=False) as server, gate(tmp_path, server, timing=QUICK) as between:
        assert "old" in between.gateway.catalogue.table
        fake.tools = [TOOL]
        await between.member().discover()
        definitions = between.gateway.catalogue.definitions
        assert "old" not in [spec.name for spec in definitions.tools]
        assert "old" in [spec.name for spec in definitions.withheld]
        with pytest.raises(Withdrawn) as withdrawn:
            await between.gateway.forward(Call("old", {}, Session(), NoWire()))
        assert withdrawn.value.problem == '"old" is no longer offered by MCP server "up".'
        fake.tools = [TOOL, {**TOOL, "name": "old"}]
        await between.member().discover()
        assert not (await between.gateway.forward(Call("old", {}, Session(), NoWire()))).is_error


# --- one failure does not spread


async def test_a_list_that_fails_cuts_no_call_that_is_under_way(tmp_path: Path) -> None:
    fake, release, arrived = Fake(), asyncio.Event(), asyncio.Event()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    async def slow(seen: Seen) -> web.StreamResponse:
        arrived.set()
        await release.wait()
        return fake.answer(seen)

    fake.handlers |= {"tools/list": listed, "tools/call": slow}
    async with living(tmp_path, fake) as one:
        running = asyncio.create_task(one.member.call(calling("still here"), repeatable=False))
        await arrived.wait()
        fake.handlers["tools/list"] = broken(500)
        await one.clock.move(31.0)
        assert one.state == ("degraded", True)
        fake.handlers["tools/list"] = listed
        await one.clock.move(60.0)
        assert one.state == ("ready", True)  # over another connection
        release.set()
        assert b"still here" in bytes((await running)[0].raw)
        await one.clock.move(60.0)
        assert not one.member.link.has_retired


async def test_pins_that_cannot_be_written_are_told_and_tried_again(tmp_path: Path) -> None:
    def full(server: Server, listing: Any) -> Any:
        raise OSError(28, "No space left on device")

    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        judge, one.member._judge = one.member._judge, full
        await one.clock.move(31.0)
        assert one.state[0] == "unavailable"
        assert "No space left" in str(one.member.offered.error)
        one.member._judge = judge
        await one.clock.move(60.0)
        assert one.state == ("ready", True)


async def test_a_defect_is_shown_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fake = Fake()

    async def listed(seen: Seen) -> web.StreamResponse:
        return seen.result(tools=fake.tools, ttlMs=30_000)

    fake.handlers["tools/list"] = listed
    async with living(tmp_path, fake) as one:
        judge, one.member._judge = one.member._judge, lambda server, listing: {}[0]  # type: ignore[index,unused-ignore]
        await one.clock.move(31.0)
        assert one.state[0] == "unavailable"
        assert "internal error" in caplog.text
        one.member._judge = judge
        await one.clock.move(60.0)
        assert one.state == ("ready", True)


async def test_a_server_that_changes_its_era_while_it_is_connected_is_opened_anew(tmp_path: Path) -> None:
    fake = Fake("legacy")
    async with living(tmp_path, fake) as one:
        assert one.member.link.era == "legacy"
        fake.era = "modern"

        async def unknown(seen: Seen) -> web.StreamResponse:
            return seen.error(-32600, "no _meta") if "Mcp-Session-Id" in seen.headers else fake.answer(seen)

        fake.handlers |= {"tools/list": unknown, "ping": unknown}
        with pytest.raises(ToolingError):
            await one.member.discover()
        await one.clock.move(60.0)
        assert one.member.link.era == "modern"
        assert one.state == ("ready", True)
