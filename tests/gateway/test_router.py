"""Upstreams behind one gateway: what they offer is adopted, calls reach them once, failures stay their own."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import TOOL, Fake, Seen, serving
from tests.serving.middleware.fake import NoWire
from zorivest_rpc.errors import ConfirmationRequired, ProtocolError
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.errors import ToolingError
from zorivest_rpc.gateway.member import Timing
from zorivest_rpc.gateway.pins import Pins
from zorivest_rpc.gateway.reach import make_upstream
from zorivest_rpc.gateway.router import Gateway
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry, secret_values
from zorivest_rpc.mcp.call import Call, Outcome
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Definitions

OURS = load()
QUICK = Timing(merged=0.0, between_lists=0.0, retried=3600.0, idle=3600.0, shortest_ttl=3600.0)


class House:
    """A gateway on fakes, and what it adopted and told."""

    def __init__(self, directory: Path, profile: Profile, environ: Mapping[str, str]) -> None:
        self.adopted: list[Definitions] = []
        self.has_adopted = asyncio.Event()
        self.path = directory / "telemetry.jsonl"
        self.gateway = Gateway(
            OURS,
            profile,
            pins=Pins(str(directory)),
            telemetry=Telemetry(str(self.path), Redactor(secret_values(profile, environ))),
            make=lambda server, note: make_upstream(server, environ, on_happening=note),
            adopt=self._adopt,
            timing=QUICK,
        )

    def _adopt(self, definitions: Definitions) -> None:
        self.adopted.append(definitions)
        self.has_adopted.set()

    @property
    def tools(self) -> list[str]:
        return [spec.name for spec in self.gateway.catalogue.definitions.tools if spec.upstream]

    def state(self, name: str = "ops") -> str:
        toolsets = self.gateway.catalogue.definitions.toolsets
        return next(each.status for each in toolsets if each.upstream == name)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    async def call(self, name: str, **arguments: Any) -> Outcome:
        return await self.gateway.forward(Call(name, arguments, Session(), NoWire()))

    async def until(self, true: Callable[[], bool]) -> None:
        while not true():
            self.has_adopted.clear()
            await self.has_adopted.wait()


@asynccontextmanager
async def house(
    directory: Path, *fakes: tuple[str, Fake], environ: Mapping[str, str] | None = None, **keys: Any
) -> AsyncIterator[House]:
    """Servers named and serving; `server_<key>` goes to each entry, the rest to the profile."""
    entry = {name.removeprefix("server_"): keys.pop(name) for name in list(keys) if name.startswith("server_")}
    profile = {"tool_retry_delay_ms": 0, **keys}
    async with serving_all([fake for _, fake in fakes]) as urls:
        servers = tuple(Server(name=name, endpoint=url, **entry) for (name, _), url in zip(fakes, urls, strict=True))
        found = House(directory, Profile(mcp_servers=servers, **profile), environ or {})
        found.gateway.start()
        try:
            await found.gateway.settle(30)
            yield found
        finally:
            await found.gateway.close()


@asynccontextmanager
async def serving_all(fakes: list[Fake]) -> AsyncIterator[list[str]]:
    if not fakes:
        yield []
        return
    async with serving(fakes[0].handle) as url, serving_all(fakes[1:]) as others:
        yield [url, *others]


def text_of(outcome: Outcome) -> str:
    return "".join(block.get("text", "") for block in outcome.content)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_reaches_the_tool_it_names_under_its_own_name(tmp_path: Path, era: str) -> None:
    fake = Fake(era)
    async with house(tmp_path, ("ops", fake)) as found:
        assert found.tools == ["ops__echo"]
        assert found.state() == "ready"
        outcome = await found.call("ops__echo", text="hello", confirmation_token="ctk_x")
    assert (text_of(outcome), outcome.is_error) == ("hello", False)
    assert fake.of("tools/call")[0].params["name"] == "echo"
    assert fake.of("tools/call")[0].params["arguments"] == {"text": "hello"}


async def test_every_request_has_exactly_one_end_in_the_telemetry(tmp_path: Path) -> None:
    async def answer(seen: Seen) -> web.StreamResponse:
        if seen.params["arguments"].get("text") == "break":
            return web.Response(text="nonsense", content_type="application/json")
        return seen.result(content=[])

    async with house(tmp_path, ("ops", Fake(tools_call=answer))) as found:
        await found.call("ops__echo", text="a secret text")
        with pytest.raises(ToolingError):
            await found.call("ops__echo", text="break")
        with pytest.raises(ProtocolError, match="Unknown tool: ops__gone"):
            await found.call("ops__gone")
        events = found.events()
    ends = [event["event"] for event in events if event["event"].startswith("tool.")]
    assert ends == ["tool.requested", "tool.succeeded", *["tool.requested", "tool.failed"] * 2]
    assert "a secret text" not in found.path.read_text()
    assert [event["event"] for event in events[:4]] == [
        "mcp.discovery.started",
        "mcp.state",
        "mcp.list_changed",
        "mcp.discovery.succeeded",
    ]


async def test_a_server_that_fails_is_skipped_and_seen(tmp_path: Path) -> None:
    async def refuse(seen: Seen) -> web.StreamResponse:
        return web.Response(status=401)

    async with house(tmp_path, ("bad", Fake(any=refuse)), ("ops", Fake())) as found:
        assert found.tools == ["ops__echo"]
        assert (found.state("bad"), found.state("ops")) == ("auth_failed", "ready")
        error = next(each.error for each in found.gateway.catalogue.definitions.toolsets if each.upstream == "bad")
        assert error is not None
        assert error.startswith('MCP server "bad" rejected the credentials (HTTP 401).')
        assert text_of(await found.call("ops__echo", text="still here")) == "still here"


async def test_one_that_never_answers_delays_no_other(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def hang(seen: Seen) -> web.StreamResponse:
        await release.wait()
        return web.Response(status=500)

    ready = Fake()
    async with serving(Fake(any=hang).handle) as slow, serving(ready.handle) as url:
        servers = (Server(name="slow", endpoint=slow, timeout_secs=300), Server(name="ops", endpoint=url))
        found = House(tmp_path, Profile(mcp_servers=servers), {})
        found.gateway.start()
        try:
            await found.until(lambda: found.tools == ["ops__echo"])
            assert found.state("slow") == "connecting"
            assert text_of(await found.call("ops__echo", text="x")) == "x"
        finally:
            await found.gateway.close()
            release.set()


async def test_a_changed_list_is_read_again_and_what_is_new_is_held(tmp_path: Path) -> None:
    fake = Fake("legacy", {"tools": {"listChanged": True}})
    tell: asyncio.Queue[Any] = asyncio.Queue()

    async def stream(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        while True:
            message = await tell.get()
            await response.write(f"data: {json.dumps(message)}\n\n".encode())

    fake.handlers["GET"] = stream
    async with house(tmp_path, ("ops", fake)) as found:
        assert found.tools == ["ops__echo"]
        fake.tools = [TOOL, {**TOOL, "name": "more"}]
        tell.put_nowait({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await found.until(lambda: len(found.gateway.catalogue.table) == 2)
        assert found.tools == ["ops__echo"]
        with pytest.raises(ToolingError) as held:
            await found.call("ops__more")
        assert held.value.code == "quarantined"
        fake.tools = [{**TOOL, "description": "Something else"}]
        tell.put_nowait({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await found.until(lambda: found.tools == [])
        assert found.state() == "quarantined"
        states = [(event["from"], event["to"]) for event in found.events() if event["event"] == "mcp.state"]
        assert states == [("connecting", "ready"), ("ready", "quarantined")]
        with pytest.raises(ToolingError) as changed:
            await found.call("ops__echo", text="x")
        assert changed.value.code == "quarantined"
        assert len(fake.of("tools/call")) == 0


# --- no second delivery


@pytest.mark.parametrize(
    ("number", "trusts", "deliveries"), [(503, False, 1), (503, True, 3), (502, False, 1), (500, True, 1)]
)
async def test_a_call_is_delivered_again_only_where_that_does_no_harm(
    tmp_path: Path, number: int, trusts: bool, deliveries: int
) -> None:
    async def fail(seen: Seen) -> web.StreamResponse:
        return web.Response(status=number)

    fake = Fake(tools_call=fail)
    fake.tools = [{**TOOL, "annotations": {"readOnlyHint": True}}]
    keys: dict[str, Any] = {"server_trust_annotations": trusts, "tool_retry_attempts": 3}
    async with house(tmp_path, ("ops", fake), **keys) as found:
        with pytest.raises(ToolingError) as failed:
            await found.call("ops__echo", text="x")
    assert len(fake.of("tools/call")) == deliveries
    assert failed.value.code == ("retry_exhausted" if deliveries > 1 else "connect_failed")


async def test_a_server_that_asks_for_patience_gets_it_for_any_call(tmp_path: Path) -> None:
    fake = Fake()

    async def busy_once(seen: Seen) -> web.StreamResponse:
        if len(fake.of("tools/call")) == 1:
            return web.Response(status=429, headers={"Retry-After": "0"})
        return fake.answer(seen)

    fake.handlers["tools/call"] = busy_once
    async with house(tmp_path, ("ops", fake)) as found:
        assert text_of(await found.call("ops__echo", text="x")) == "x"
    assert len(fake.of("tools/call")) == 2


async def test_after_five_failures_calls_are_refused_without_being_sent(tmp_path: Path) -> None:
    async def fail(seen: Seen) -> web.StreamResponse:
        return web.Response(status=503)

    fake = Fake(tools_call=fail)
    async with house(tmp_path, ("ops", fake), tool_retry_attempts=1) as found:
        codes = []
        for _ in range(7):
            with pytest.raises(ToolingError) as failed:
                await found.call("ops__echo", text="x")
            codes.append(failed.value.code)
    assert codes == ["connect_failed"] * 5 + ["circuit_open"] * 2
    assert len(fake.of("tools/call")) == 5


async def test_a_refusal_of_the_tool_itself_opens_no_circuit(tmp_path: Path) -> None:
    async def refuse(seen: Seen) -> web.StreamResponse:
        return seen.error(-32000, "not today")

    fake = Fake(tools_call=refuse)
    async with house(tmp_path, ("ops", fake)) as found:
        for _ in range(12):
            with pytest.raises(ToolingError) as failed:
                await found.call("ops__echo", text="x")
            assert failed.value.code == "upstream_error"
            assert failed.value.problem == 'MCP server "ops" reported: not today (code -32000).'
    assert len(fake.of("tools/call")) == 12


# --- results


def answering(**members: Any) -> Callable[[Seen], Awaitable[web.StreamResponse]]:
    async def answer(seen: Seen) -> web.StreamResponse:
        return seen.result(**members)

    return answer


async def test_known_content_passes_and_the_unknown_is_told(tmp_path: Path) -> None:
    blocks = [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
        {"type": "hologram", "secret": "x"},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
    ]
    fake = Fake(tools_call=answering(content=blocks, isError=True, _meta={"evil": 1}))
    async with house(tmp_path, ("ops", fake)) as found:
        outcome = await found.call("ops__echo", text="x")
    assert outcome.is_error
    assert outcome.meta is None
    assert [block["type"] for block in outcome.content] == ["text", "image", "text", "resource_link"]
    assert outcome.content[2]["text"] == "[content of the unknown type 'hologram' left out]"


@pytest.mark.parametrize(
    ("structured", "code"), [({"n": 1}, None), ({"n": "x"}, "output_invalid"), (None, "output_invalid")]
)
async def test_structure_is_held_against_the_schema_of_the_tool(
    tmp_path: Path, structured: Any, code: str | None
) -> None:
    members = {"content": []} if structured is None else {"content": [], "structuredContent": structured}
    fake = Fake(tools_call=answering(**members))
    fake.tools = [{**TOOL, "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
    async with house(tmp_path, ("ops", fake)) as found:
        if code is None:
            assert (await found.call("ops__echo", text="x")).structured == structured
            return
        with pytest.raises(ToolingError) as failed:
            await found.call("ops__echo", text="x")
        assert failed.value.code == code


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "^a"}, "a" * 1_000_000),
        ({"pattern": "(?=a)^a"}, "a" * 1_000),
        ({"pattern": "(?=.*b)c"}, "a" * 200_000),
        ({"pattern": "(a{20}){20}b"}, "a" * 2_000_000),
    ],
)
async def test_a_result_that_would_take_too_long_to_judge_does_not_fit(tmp_path: Path, schema: Any, text: str) -> None:
    fake = Fake(tools_call=answering(content=[], structuredContent={"n": text}))
    fake.tools = [{**TOOL, "outputSchema": {"type": "object", "properties": {"n": schema}}}]
    async with house(tmp_path, ("ops", fake)) as found:
        if schema["pattern"].endswith("^a"):
            assert (await found.call("ops__echo", text="x")).structured == {"n": text}
            return
        with pytest.raises(ToolingError) as failed:
            await found.call("ops__echo", text="x")
    assert failed.value.code == "output_invalid"


async def test_a_result_above_the_limit_is_an_error(tmp_path: Path) -> None:
    fake = Fake(tools_call=answering(content=[{"type": "text", "text": "x" * 2000}]))
    async with house(tmp_path, ("ops", fake), server_max_result_bytes=1024) as found:
        with pytest.raises(ToolingError) as failed:
            await found.call("ops__echo", text="x")
    assert failed.value.code == "too_large"
    assert failed.value.problem == '"ops__echo" returned more than 1024 bytes.'


# --- policy and credentials


async def test_a_denied_tool_is_never_sent(tmp_path: Path) -> None:
    fake = Fake()
    async with house(tmp_path, ("ops", fake), deny_tool=("ops__*",)) as found:
        assert found.tools == []
        with pytest.raises(ConfirmationRequired, match="blocked by deny_tool"):
            await found.call("ops__echo", text="x")
        assert [event["event"] for event in found.events()][-2:] == ["tool.requested", "tool.denied"]
    assert fake.of("tools/call") == []


async def test_renamed_arguments_arrive_under_their_own_names(tmp_path: Path) -> None:
    fake = Fake()
    schema = {"type": "object", "properties": {"clientId": {"type": "string"}, "text": {"type": "string"}}}
    fake.tools = [{"name": "echo", "inputSchema": schema}]
    async with house(tmp_path, ("ops", fake), server_argument_renames={"clientId": "customer"}) as found:
        await found.call("ops__echo", customer="acme", text="x")
    assert fake.of("tools/call")[0].params["arguments"] == {"clientId": "acme", "text": "x"}


async def test_a_token_comes_from_the_environment_and_reaches_no_log(tmp_path: Path) -> None:
    fake, environ = Fake(), {"OPS_TOKEN": " s3cret-value ", "OPS_KEY": "k3y-value"}
    keys = {"server_auth_bearer_env": "OPS_TOKEN", "server_headers_env": {"X-Ops-Key": "OPS_KEY"}}
    async with house(tmp_path, ("ops", fake), environ=environ, **keys) as found:
        await found.call("ops__echo", text="x")
    for seen in fake.seen:
        assert seen.headers["Authorization"] == "Bearer s3cret-value"
        assert seen.headers["X-Ops-Key"] == "k3y-value"
    assert "s3cret" not in found.path.read_text()


@pytest.mark.parametrize(
    ("environ", "code"), [({}, "auth_env_missing"), ({"T": ""}, "auth_env_empty"), ({"T": "  "}, "auth_env_empty")]
)
async def test_without_its_variable_a_server_is_not_contacted(
    tmp_path: Path, environ: dict[str, str], code: str
) -> None:
    fake = Fake()
    async with house(tmp_path, ("ops", fake), environ=environ, server_auth_bearer_env="T") as found:
        assert found.state() == "auth_failed"
        with pytest.raises(ToolingError) as missing:
            await found.gateway.members["ops"].discover()
        assert missing.value.code == code
    assert fake.seen == []


async def test_a_server_that_repeats_our_token_does_not_get_it_to_a_client(tmp_path: Path) -> None:
    async def echo(seen: Seen) -> web.StreamResponse:
        return seen.error(-32000, f"bad credentials: {seen.headers['Authorization']}")

    token = "s3cret-value-of-ours"
    for fake in (Fake(tools_call=echo), Fake(tools_list=echo)):
        async with house(tmp_path, ("ops", fake), environ={"T": token}, server_auth_bearer_env="T") as found:
            if found.tools:
                with pytest.raises(ToolingError) as failed:
                    await found.call("ops__echo", text="x")
                assert token not in failed.value.text + failed.value.problem + str(failed.value)
                assert "bad credentials" in failed.value.text
            told = [each.error or "" for each in found.gateway.catalogue.definitions.toolsets if each.upstream]
            assert token not in str(told)
            assert bool(found.tools) is not any("bad credentials" in each for each in told)


async def test_pins_that_cannot_be_read_publish_nothing_and_say_why(tmp_path: Path) -> None:
    (tmp_path / "mcp-pins.json").write_text("{damaged")
    async with house(tmp_path, ("ops", Fake())) as found:
        await found.until(lambda: found.state() == "unavailable")
        assert found.tools == []
        error = next(each.error for each in found.gateway.catalogue.definitions.toolsets if each.upstream)
        assert error is not None
        assert "mcp-pins.json" in error
        assert "zorivest-rpc mcp pin" in error


async def test_on_a_full_disk_nothing_is_published_and_the_server_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("zorivest_rpc.gateway.pins.write_private", refuse)
    async with house(tmp_path, ("ops", Fake())) as found:
        await found.until(lambda: found.state() == "unavailable")
        assert found.tools == []
        error = next(each.error for each in found.gateway.catalogue.definitions.toolsets if each.upstream)
        assert error == f"{tmp_path}/mcp-pins.json: cannot be written: No space left on device"


async def test_a_key_that_is_refused_during_a_call_stops_the_calls_that_follow(tmp_path: Path) -> None:
    async def refuse(seen: Seen) -> web.StreamResponse:
        return web.Response(status=401)

    fake = Fake(tools_call=refuse)
    async with house(tmp_path, ("ops", fake)) as found:
        with pytest.raises(ToolingError) as failed:
            await found.call("ops__echo", text="x")
        assert failed.value.code == "auth_rejected"
        assert (found.state(), found.gateway.members["ops"].failure) == ("auth_failed", failed.value)
