"""Who may call over HTTP: real keys of the embedded backend, each on its own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.docs.examples import stored
from tests.serving.product.conftest import Connect, refusal_of, text_of
from tests.serving.product.http import Served, make_key, revoke_key, serving
from zorivest_rpc.serving.backend.auth import principal_of
from zorivest_rpc.serving.backend.http import HttpBackend

pytestmark = pytest.mark.one_journal(
    "a caller shows a key of the backend; with clients it is an access key of the server"
)


@pytest.fixture(scope="module")
def keys(data_dir: Path) -> Iterator[list[tuple[str, str]]]:
    made = [make_key(data_dir, label) for label in ("one", "other")]
    yield made
    for key_id, _ in made:
        revoke_key(data_dir, key_id)


def backend_of(served: Served, key: str) -> HttpBackend:
    return served.journal.backends()._known[principal_of(key)]


async def test_without_a_key_or_with_a_wrong_one_nothing_is_answered(data_dir: Path) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    async with serving(data_dir, auth=True) as served:
        for header in ({}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer zrv_sk_" + "w" * 43}):
            status, answer, given = await served.post("initialize", params, **header)
            assert status == 401
            assert given["WWW-Authenticate"].startswith("Bearer")
            assert "result" not in answer
            assert (await served.get("/metrics", **header))[0] == 401
        assert len(served.journal.backends()) == 0, "no room is kept for strangers"


async def test_two_keys_share_neither_session_nor_token_nor_pool(data_dir: Path, keys: list[tuple[str, str]]) -> None:
    one, other = (f"Bearer {key}" for _, key in keys)
    async with serving(data_dir, auth=True) as served:
        mine, theirs = await served.open(Authorization=one), await served.open(Authorization=other)
        for session in (mine, theirs):
            assert not (await session.call("get_settings")).get("isError")
        status, _, _ = await served.post("tools/list", {}, **{**mine.headers, "Authorization": other})
        assert status == 404, "a session belongs to the key that opened it"
        first, second = (backend_of(served, key) for _, key in keys)
        assert first is not second
        assert first._wire is not second._wire
        assert first._sessions.current.header != second._sessions.current.header  # type: ignore[union-attr]


@pytest.mark.parametrize(("writer", "expected"), [("direct", 0), ("plain", 2)])  # plain: the unlock and the question
async def test_the_backend_is_asked_the_way_that_was_chosen(
    data_dir: Path, keys: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, writer: str, expected: int
) -> None:
    async with serving(data_dir, "--backend-writer", writer, auth=True) as served:
        session = await served.open(Authorization=f"Bearer {keys[0][1]}")
        asked, by_aiohttp = [], aiohttp.ClientSession._request

        async def watched(self: aiohttp.ClientSession, method: str, url: Any, **more: Any) -> aiohttp.ClientResponse:
            if "/api/v1/" in str(url):
                asked.append(url)
            return await by_aiohttp(self, method, url, **more)

        monkeypatch.setattr(aiohttp.ClientSession, "_request", watched)
        backend_of(served, keys[0][1]).lock()
        assert not (await session.call("get_settings")).get("isError")
    assert len(asked) == expected


async def test_a_key_never_acts_with_the_rights_of_another(data_dir: Path, keys: list[tuple[str, str]]) -> None:
    reader_id, reader = make_key(data_dir, "reader", "read-only")
    wish = {"settings": {"ui.theme": "light"}}
    try:
        async with serving(data_dir, auth=True) as served:
            writing = await served.open(Authorization=f"Bearer {keys[0][1]}")
            reading = await served.open(Authorization=f"Bearer {reader}")
            for _ in range(3):
                assert not (await writing.call("update_settings", **wish)).get("isError")
                refused = await reading.call("update_settings", **wish)
                assert refused["isError"] is True
                assert "403" in text_of(refused)
                assert not (await reading.call("get_settings")).get("isError")
    finally:
        revoke_key(data_dir, reader_id)


async def test_a_token_of_one_key_confirms_nothing_for_another(data_dir: Path, keys: list[tuple[str, str]]) -> None:
    one, other = (f"Bearer {key}" for _, key in keys)
    wanted = {"name": "get_confirmation_token", "arguments": {"action": "sync_broker", "params_summary": "x"}}
    async with serving(data_dir, auth=True) as served:
        given = await served.modern("tools/call", wanted, Authorization=one)
        arguments = {"broker_id": "b", "confirmation_token": given["structuredContent"]["token"]}
        result = await served.modern("tools/call", {"name": "sync_broker", "arguments": arguments}, Authorization=other)
        assert result["_meta"]["com.zorivest/error"]["code"] == "confirmation_other_session"


async def test_the_raw_key_is_gone_when_its_request_is(
    data_dir: Path, tmp_path: Path, keys: list[tuple[str, str]]
) -> None:
    key = keys[0][1]
    async with serving(data_dir, auth=True, state=tmp_path) as served:
        session = await served.open(Authorization=f"Bearer {key}")
        assert not (await session.call("get_settings")).get("isError")
        await session.call("enable_toolset", toolset_name="tax")
        keyring = served.journal.callers.keyring
        assert keyring is not None
        assert keyring._held == {}
        backend = backend_of(served, key)
        gc.collect()
        held = [repr(value) for value in (vars(backend) if hasattr(backend, "__dict__") else {}).values()]
        assert key not in "".join(held)
    for name in ("session.key", "sessions.journal"):
        assert key.encode() not in (tmp_path / name).read_bytes()


async def test_a_key_that_is_revoked_stops_working(data_dir: Path) -> None:
    key_id, key = make_key(data_dir, "short-lived")
    async with serving(data_dir, auth=True) as served:
        session = await served.open(Authorization=f"Bearer {key}")
        assert not (await session.call("get_settings")).get("isError")
        revoke_key(data_dir, key_id)
        calling = {"name": "get_settings", "arguments": {}}
        status, answer, _ = await served.post("tools/call", calling, **session.headers)
        assert status == 200
        assert answer["result"]["isError"] is True
        assert "was revoked" in text_of(answer["result"])
        assert "create another one" in text_of(answer["result"])
        status, answer, _ = await served.post("tools/call", calling, **session.headers)
        assert status == 401
        fresh = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        assert (await served.post("initialize", fresh, Authorization=f"Bearer {key}"))[0] == 401


async def test_a_key_that_cannot_be_checked_is_not_let_in(data_dir: Path, keys: list[tuple[str, str]]) -> None:
    """With the backend away nobody new gets in: tools that need no backend would run for anybody."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    async with serving(data_dir, "--api-url", "http://127.0.0.1:9", auth=True) as served:
        header = {"Authorization": f"Bearer {keys[0][1]}"}
        status, answer, given = await served.post("initialize", params, **header)
        assert status == 503
        assert given["Retry-After"]
        assert keys[0][1] not in str(answer)


async def test_who_was_let_in_stays_when_the_backend_goes(
    data_dir: Path, keys: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from zorivest_rpc.errors import BackendUnreachable

    async with serving(data_dir, auth=True) as served:
        session = await served.open("claude-code", Authorization=f"Bearer {keys[0][1]}")

        async def away(self: HttpBackend) -> None:
            raise BackendUnreachable("gone")

        monkeypatch.setattr(HttpBackend, "unlock", away)
        assert not (await session.call("zorivest_diagnose")).get("isError")


async def test_the_uptime_counts_from_the_start_and_not_from_the_first_look(data_dir: Path) -> None:
    async with serving(data_dir) as served:
        served.journal.started -= 100
        _, text = await served.get("/metrics")
        assert float(text.partition("\nzorivest_uptime_seconds ")[2].split("\n")[0]) >= 100


async def test_metrics_are_for_those_with_a_key_and_count_what_was_called(
    data_dir: Path, keys: list[tuple[str, str]]
) -> None:
    header = {"Authorization": f"Bearer {keys[0][1]}"}
    async with serving(data_dir, auth=True) as served:
        session = await served.open(**header)
        await session.call("get_settings")
        await session.call("get_settings", key="no.such.key")
        await session.call("call_tool", name="get_settings", arguments={})
        status, text = await served.get("/metrics", **header)
        assert status == 200
        assert 'zorivest_tool_calls_total{tool="get_settings"} 3' in text
        assert 'zorivest_tool_errors_total{tool="get_settings"} 1' in text
        assert 'zorivest_tool_latency_seconds{tool="get_settings",quantile="0.95"}' in text
        assert "call_tool" not in text
        assert keys[0][1] not in text


async def test_the_key_of_a_task_is_there_until_the_task_is_over(data_dir: Path, keys: list[tuple[str, str]]) -> None:
    """A task outlives its request; a backend that wants to be unlocked again meanwhile gets the key all the same."""
    key = keys[0][1]
    able: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
    async with serving(data_dir, "--confirm", "always", auth=True) as served:

        async def ask(method: str, params: dict[str, Any], **headers: str) -> Any:
            return await served.modern(method, params, able=able, Authorization=f"Bearer {key}", **headers)

        async def look() -> Any:
            return await ask("tasks/get", {"taskId": made["taskId"]}, Mcp_Name=made["taskId"])

        made = await ask("tools/call", {"name": "sync_broker", "arguments": {"broker_id": "local_folder"}})
        while (task := await look())["status"] == "working":
            pass
        ring = served.journal.callers.keyring
        assert ring is not None
        assert ring.key_of(principal_of(key)) == key
        backend_of(served, key).lock()
        replies = {name: {"action": "accept", "content": {"confirm": True}} for name in task["inputRequests"]}
        params = {"taskId": made["taskId"], "inputResponses": replies}
        await ask("tasks/update", params, Mcp_Name=made["taskId"])
        while (task := await look())["status"] in ("working", "input_required"):
            pass
        assert task["result"]["structuredContent"]["status"] == "success", text_of(task["result"])
        assert ring.key_of(principal_of(key)) is None


async def test_a_wrong_key_and_a_revoked_one_are_told_as_such_over_http(data_dir: Path) -> None:
    """Not as a guard that could not be asked, and not as a key that was not sent."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    async with serving(data_dir, auth=True) as served:
        key_id, key = make_key(data_dir, "to revoke")
        wrong = "zrv_sk_" + "w" * 32
        revoke_key(data_dir, key_id)
        for given, words in ((wrong, "Auth failed (401): "), (key, "Auth failed (403): ")):
            status, answer, headers = await served.post("initialize", hello, Authorization=f"Bearer {given}")
            assert (status, headers["WWW-Authenticate"].startswith("Bearer")) == (401, True)
            assert answer["error"]["message"].startswith(words)
            assert given not in str(answer)
        status, answer, _ = await served.post("initialize", hello)
        assert (status, "a key is needed" in answer["error"]["message"]) == (401, True)


@pytest.mark.parametrize("tool", ["get_settings", "create_trade", "zorivest_service_logs", "get_confirmation_token"])
async def test_a_wrong_key_and_a_revoked_one_are_told_as_such_over_stdio(
    connect: Connect, data_dir: Path, tool: str
) -> None:
    key_id, key = make_key(data_dir, "to revoke")
    arguments = dict(stored()[tool]["arguments"])
    for given, status, revoked in (("zrv_sk_" + "w" * 32, 401, False), (key, 403, True)):
        client = await connect("claude-code", "--confirm", "never", environ={"ZORIVEST_API_KEY": given})
        if revoked:
            assert not (await client.call("get_settings")).get("isError")
            revoke_key(data_dir, key_id)
        refused = await client.call(tool, **arguments)
        assert text_of(refused).startswith(f"Auth failed ({status}): ")
        assert refusal_of(refused)["code"] == "auth_failed"
        assert given not in str(refused)
