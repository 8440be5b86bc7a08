"""Session ids: whose they are, when they end, and what comes back after a restart."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

from tests.mcp.transports.http_served import Served, Work, call, hello, serving, until
from zorivest_rpc.mcp.protocol.revisions import LATEST_LEGACY
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import bearer_keys
from zorivest_rpc.mcp.transports.session_journal import SessionJournal
from zorivest_rpc.mcp.transports.sessions import SessionStore, load_key

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
KEY = bytes(range(32))
DAY = 24 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def status(served: Served, id: str, **headers: Any) -> int:
    wire = await served.wire()
    reply = await served.post(PING, wire, Mcp_Session_Id=id, **headers)
    await reply.body()
    await wire.close()
    return reply.status


async def end(served: Served, id: str, **headers: Any) -> int:
    return (await served.request("DELETE", Mcp_Session_Id=id, **headers)).status


def only(served: Served) -> Any:
    (live,) = served.transport.sessions.live
    return live.session


# --- ids


async def test_ids_are_long_unique_and_survive_being_lowered(served: Served) -> None:
    ids = {(await served.post(hello())).headers["mcp-session-id"] for _ in range(20)}
    assert len(ids) == 20
    for id in ids:
        assert id == id.lower()
        assert id.isalnum()
        assert len(id) >= 64
    prefixes = {id[:32] for id in ids}
    assert len(prefixes) == 20


async def test_a_rejected_initialize_opens_no_session(served: Served) -> None:
    broken = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 7}}
    for reply in (await served.post(broken), await served.post(hello(), Origin="http://evil.example")):
        assert "mcp-session-id" not in reply.headers


async def test_calls_without_an_id_are_400_and_with_a_made_up_one_404(served: Served) -> None:
    reply = await served.post(PING)
    assert (reply.status, (await reply.json())["error"]["code"]) == (400, -32600)
    for id in ("x", "00" * 60, "é", "a" * 4000, "7b" * 32):
        assert await status(served, id) == 404
    assert (await served.request("GET", Accept="text/event-stream")).status == 400
    assert (await served.request("DELETE")).status == 400


async def test_an_unknown_version_header_is_400_whatever_the_session(served: Served) -> None:
    session = await served.open()
    assert await status(served, session, MCP_Protocol_Version="2025-11-25") == 200
    assert await status(served, session, MCP_Protocol_Version="1999-01-01") == 400


async def test_an_id_has_room_for_2048_characters_of_narrowing_headers(served: Served) -> None:
    names: dict[str, Any] = {"X_MCP_Toolsets": "t" * 1000, "X_MCP_Tools": "n" * 1000, "X_MCP_Exclude_Tools": "e" * 44}
    session = await served.open(**names, X_MCP_Readonly="true")
    assert await status(served, session) == 200
    assert sum(map(len, only(served).asked)) == 2048
    refused = await served.post(hello(), **names, X_MCP_Readonly="false")
    assert (refused.status, "mcp-session-id" in refused.headers) == (400, False)
    assert "2049 characters and a session keeps 2048" in (await refused.json())["error"]["message"]


async def test_an_id_keeps_the_beginning_of_a_long_client_name_and_version(served: Served) -> None:
    message = hello()
    message["params"]["clientInfo"] = {"name": "n" * 60 + "abcdef", "version": "1" * 30 + ".23"}
    session = (await served.post(message, User_Agent="a" * 60 + "ghijkl")).headers["mcp-session-id"]
    assert await status(served, session) == 200
    found = only(served)
    assert (found.client.name, found.client.version) == ("n" * 60 + "abcd", "1" * 30 + ".2")
    assert found.agent == "a" * 60 + "ghij"


async def test_a_tampered_id_is_404_wherever_it_was_changed() -> None:
    async with serving() as served:
        session = await served.open()
        assert await status(served, session) == 200
        for position in range(0, len(session), 9):
            other = session[:position] + ("0" if session[position] != "0" else "1") + session[position + 1 :]
            assert await status(served, other) == 404, position
        for other in (session[:-2], session + "00", session.upper(), session[2:], session[::-1]):
            assert await status(served, other) == 404
        assert len(served.transport.sessions) == 1


async def test_an_id_belongs_to_its_principal() -> None:
    async with serving(authenticate=bearer_keys({"a": "alice", "b": "bob"})) as served:
        session = await served.open(Authorization="Bearer a")
        for wanted, key in ((200, "a"), (404, "b"), (401, "c"), (200, "a")):
            assert await status(served, session, Authorization=f"Bearer {key}") == wanted
        assert await end(served, session, Authorization="Bearer b") == 404
        stream = await served.request(
            "GET", Accept="text/event-stream", Mcp_Session_Id=session, Authorization="Bearer b"
        )
        assert stream.status == 404
        assert await status(served, session, Authorization="Bearer a") == 200


async def test_an_id_that_nobody_holds_in_memory_still_belongs_to_its_principal() -> None:
    keys = bearer_keys({"a": "alice", "b": "bob"})
    async with serving(authenticate=keys, key=KEY) as served:
        session = await served.open(Authorization="Bearer a")
    async with serving(authenticate=keys, key=KEY) as served:
        assert await status(served, session, Authorization="Bearer b") == 404
        assert await status(served, session, Authorization="Bearer a") == 200


# --- ends


async def test_delete_ends_it_now_and_after_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with serving(key=KEY, journal=journal) as served:
        ended, kept = await served.open(), await served.open()
        assert await end(served, ended) == 204
        assert await status(served, ended) == 404
        assert await end(served, ended) == 404
    async with serving(key=KEY, journal=journal) as served:
        assert await status(served, ended) == 404
        assert await status(served, kept) == 200


async def test_delete_cancels_calls_and_closes_streams(served: Served) -> None:
    session = await served.open()
    stream = await served.request("GET", Accept="text/event-stream", Mcp_Session_Id=session)
    waiting = asyncio.create_task(served.post(call(1, "gate"), Mcp_Session_Id=session))
    await served.started()
    assert await end(served, session) == 204
    await served.ended()
    assert (await (await waiting).json())["error"]["code"] == -32800
    assert all(not event.data for event in await stream.events())
    assert served.work.cancelled == 1
    await until(lambda: served.transport.open_streams == 0 and not served.transport.sessions.live)


async def test_an_id_ends_with_its_life() -> None:
    clock = Clock()
    async with serving(now=clock) as served:
        session, forgotten = await served.open(), (await served.post(hello())).headers["mcp-session-id"]
        clock.now += DAY
        assert await status(served, session) == 200
        assert await status(served, forgotten) == 200
        clock.now += 1
        assert await status(served, session) == 404
        served.transport.sessions.sweep()
        assert len(served.transport.sessions) == 0
        assert await status(served, session) == 404


async def test_a_new_key_ends_all() -> None:
    async with serving(key=KEY) as served:
        session = await served.open()
    async with serving(key=bytes(32)) as served:
        assert await status(served, session) == 404


async def test_an_idle_session_is_forgotten_and_revives_as_it_was() -> None:
    clock = Clock()
    async with serving(now=clock) as served:
        session = await served.open()
        level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "error"}}
        uri = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "test://watched"}}
        for message in (level, uri, call(4, "toggle")):
            assert (await served.post(message, Mcp_Session_Id=session)).status == 200
        clock.now += 3600
        served.transport.sessions.sweep()
        assert len(served.transport.sessions) == 0
        assert await status(served, session) == 200
        found = only(served)
        assert (found.log_level, found.subscriptions, found.toolsets) == ("error", {"test://watched"}, {"extra"})
        assert found.client.name == "t"


async def test_a_session_with_an_open_stream_or_a_running_call_is_not_idle() -> None:
    async with serving(session_idle=0.0) as quick:
        streaming, calling = await quick.open(), await quick.open()
        await quick.request("GET", Accept="text/event-stream", Mcp_Session_Id=streaming)
        waiting = asyncio.create_task(quick.post(call(1, "gate"), Mcp_Session_Id=calling))
        await quick.started()
        await quick.open()
        quick.transport.sessions.sweep()
        assert len(quick.transport.sessions) == 2
        quick.work.go.set()
        assert (await waiting).status == 200


async def test_more_sessions_than_the_limit_are_forgotten_not_refused() -> None:
    async with serving(most_sessions=10) as served:
        ids = [await served.open() for _ in range(40)]
        assert len(served.transport.sessions) <= 10
        assert {await status(served, id) for id in ids} == {200}
        assert len(served.transport.sessions) <= 10


def store_of(clock: Clock, **limits: Any) -> SessionStore:
    server = Server(Work().offer, key=KEY, now=clock)
    return SessionStore(server.seal, server.announcer, SessionJournal(None, clock), clock, server.epoch, **limits)


def opened(store: SessionStore) -> str:
    """The id of a session that was used once."""
    id = store.mint(Session(LATEST_LEGACY))
    assert store.find(id, "") is not None
    return id


async def test_a_tenth_makes_room_at_once_the_longest_unused_first() -> None:
    clock = Clock()
    store = store_of(clock, most=20)
    ids = []
    for _ in range(20):
        clock.now += 1
        ids.append(opened(store))
    clock.now += 1
    assert store.find(ids[0], "") is not None
    ids.append(opened(store))
    kept = {live.id for live in store.live}
    assert [id for id in ids if id not in kept] == ids[1:3]


async def test_idle_sessions_are_looked_for_once_a_minute() -> None:
    clock = Clock()
    store = store_of(clock, idle=0.0)
    first = opened(store)  # looks, and finds nothing
    clock.now += 60
    second = opened(store)
    assert [live.id for live in store.live] == [first, second]
    clock.now += 1
    third = opened(store)
    assert [live.id for live in store.live] == [third]


async def test_more_busy_sessions_than_the_limit_are_refused_for_now() -> None:
    async with serving(most_sessions=3) as served:
        streams = []
        for _ in range(3):
            wire = await served.wire()
            id = await served.open()
            streams.append(wire)
            assert (await served.request("GET", wire=wire, Accept="text/event-stream", Mcp_Session_Id=id)).status == 200
        extra = (await served.post(hello())).headers["mcp-session-id"]
        reply = await served.post(PING, Mcp_Session_Id=extra)
        assert reply.status == 503
        assert reply.headers["retry-after"] == "1"
        assert "error" in await reply.json()
        streams[0].reset()
        await until(lambda: served.transport.open_streams == 2)
        assert await status(served, extra) == 200


# --- the journal


async def test_what_a_session_changed_survives_a_restart(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with serving(key=KEY, journal=journal) as served:
        session = await served.open("2025-06-18", {"elicitation": {}})
        level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": "critical"}}
        assert (await served.post(level, Mcp_Session_Id=session)).status == 200
        assert (await served.post(call(4, "toggle"), Mcp_Session_Id=session)).status == 200
    async with serving(key=KEY, journal=journal) as served:
        assert await status(served, session) == 200
        found = only(served)
        assert (found.log_level, found.toolsets, found.revision.name) == ("critical", {"extra"}, "2025-06-18")
        assert found.capabilities.allows("elicitation/create", {"requestedSchema": {}})


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "session.key"
    key = load_key(path)
    assert load_key(path) == key
    assert len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_bytes(b"short")
    assert load_key(path) != key
