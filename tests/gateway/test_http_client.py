"""An upstream over Streamable HTTP: eras, statuses, sessions, streams, and what leaves this machine."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import (
    IDENTITY,
    TOOL,
    VERSION,
    Fake,
    Noted,
    Seen,
    calling,
    connected,
    event,
    serving,
    speaking,
)
from zorivest_rpc.gateway.errors import (
    AuthRejected,
    CallTimeout,
    ConnectFailed,
    InputRequiredUnsupported,
    NoAnswer,
    ProtocolBroken,
    RedirectRefused,
    TooLarge,
    ToolingError,
    UpstreamError,
)
from zorivest_rpc.gateway.http_client import HttpUpstream, StatusFailed, origin_of
from zorivest_rpc.gateway.upstream import FRAME_LIMIT, Happening, Result, Talk
from zorivest_rpc.mcp.client.caller import Changed, Touched
from zorivest_rpc.mcp.client.forms import Form
from zorivest_rpc.mcp.protocol.revisions import Era


def text_of(result: Result) -> str:
    return str(json.loads(bytes(result.raw))["content"][0]["text"])


def answering(status: int, body: Any = None, **headers: str) -> Any:
    async def handle(seen: Seen) -> web.StreamResponse:
        if isinstance(body, dict):
            return web.json_response({"jsonrpc": "2.0", "id": seen.id, **body}, status=status, headers=headers)
        return web.Response(status=status, body=body, headers=headers)

    return handle


async def attempt(fake: Fake, **options: Any) -> ToolingError:
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY, **options)
        try:
            with pytest.raises(ToolingError) as failed:
                await client.connect()
        finally:
            await client.close()
    return failed.value


# --- eras


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_of_either_era_is_opened_listed_and_called(era: str) -> None:
    fake = Fake(era)
    async with connected(fake) as client:
        listing = await client.list_tools()
        assert [(item.name, item.definition) for item in listing.items] == [("echo", TOOL)]
        assert text_of(await client.call(calling("grüße"))) == "grüße"
        assert client.era_found is Era(era)
    opening = ["server/discover"] if era == "modern" else ["server/discover", "initialize", "notifications/initialized"]
    closing = ["DELETE"] if era == "legacy" else []
    assert fake.methods == [*opening, "tools/list", "tools/call", *closing]


OPENING_ROWS = [
    (answering(400), True),
    (answering(404, b"not here"), True),
    (answering(405), True),
    (answering(406), True),
    (answering(415), True),
    (answering(404, {"error": {"code": -32601, "message": "m"}}), True),
    (answering(200, {"error": {"code": -32600, "message": "m"}}), True),
    (answering(400, {"id": None, "error": {"code": -32000, "message": "m"}}), True),
    (answering(400, {"error": {"code": -32022, "message": "m", "data": {"supported": ["2025-11-25"]}}}), True),
    (answering(401), False),
    (answering(403), False),
    (answering(401, {"error": {"code": -32601, "message": "m"}}), False),
    (answering(301, None, Location="/other"), False),
    (answering(302, None, Location="https://evil.example/x"), False),
    (answering(307, None, Location="//evil.example"), False),
    (answering(308), False),
    (answering(500), False),
    (answering(502), False),
    (answering(503), False),
    (answering(429), False),
    (answering(200, {"result": {"supportedVersions": ["2030-01-01"], "capabilities": {}}}), False),
    (answering(200, b"<html>"), False),
    (answering(202), False),
]


@pytest.mark.parametrize(("discover", "leads_to_initialize"), OPENING_ROWS, ids=range(len(OPENING_ROWS)))
async def test_only_some_answers_lead_to_initialize(discover: Any, leads_to_initialize: bool) -> None:
    fake = Fake("legacy", server_discover=discover)
    if leads_to_initialize:
        async with connected(fake) as client:
            assert client.era_found is Era.LEGACY
    else:
        await attempt(fake)
    assert ("initialize" in fake.methods) is leads_to_initialize
    assert "https://evil.example" not in str(fake.methods)


@pytest.mark.parametrize(
    ("discover", "kind", "words"),
    [
        (answering(401), AuthRejected, "rejected the credentials (HTTP 401)"),
        (answering(403), AuthRejected, "rejected the credentials (HTTP 403)"),
        (answering(302, None, Location="https://u:p@a.example:8/x?y=1"), RedirectRefused, "to https://a.example:8;"),
        (answering(500), StatusFailed, "HTTP 500"),
        (answering(200, {"result": {"supportedVersions": ["2030-01-01"]}}), ProtocolBroken, "offers 2030-01-01"),
        (answering(200, b"<html>"), ProtocolBroken, "without a JSON-RPC message"),
        (answering(400, {"error": {"code": -32022, "message": "m", "data": {}}}), ProtocolBroken, "no common protocol"),
    ],
)
async def test_each_failure_of_the_opening_has_its_class(discover: Any, kind: type[ToolingError], words: str) -> None:
    error = await attempt(Fake("legacy", server_discover=discover))
    assert type(error) is kind
    assert words in error.problem


async def test_a_handshake_that_is_refused_or_of_another_version_is_told() -> None:
    refused = await attempt(
        Fake(
            "legacy",
            server_discover=answering(400),
            initialize=answering(200, {"error": {"code": 5, "message": "x\ny"}}),
        )
    )
    assert isinstance(refused, UpstreamError)
    assert "x y (code 5)" in refused.problem
    old = Fake("legacy", server_discover=answering(400))
    old.version = "2024-11-05"
    assert "not supported" in (await attempt(old)).problem
    for status, kind in ((401, AuthRejected), (503, StatusFailed), (302, RedirectRefused)):
        error = await attempt(Fake("legacy", server_discover=answering(400), initialize=answering(status)))
        assert type(error) is kind


async def test_a_server_that_takes_too_long_is_told_with_its_time() -> None:
    waiting = asyncio.Event()

    async def wait(seen: Seen) -> web.StreamResponse:
        await waiting.wait()
        return web.Response()

    error = await attempt(Fake(server_discover=wait), seconds=0.2)
    waiting.set()
    assert isinstance(error, NoAnswer)


async def test_nobody_there_is_a_failure_before_anything_was_sent() -> None:
    async with serving(Fake().handle) as url:
        pass
    client = HttpUpstream("ops", url, IDENTITY)
    with pytest.raises(ConnectFailed) as failed:
        await client.connect()
    await client.close()
    assert failed.value.sent is False
    assert "/mcp" not in failed.value.problem
    assert failed.value.problem.endswith(": connection refused.")


async def test_a_remembered_era_saves_the_probe_and_is_probed_again_when_it_fails() -> None:
    fake = Fake("legacy")
    async with connected(fake) as client:
        await client.connect()
        assert fake.methods.count("server/discover") == 1
        fake.era = "modern"
        fake.handlers["initialize"] = answering(400, {"error": {"code": -32022, "message": "m"}})
        await client.connect()
        assert client.era_found is Era.MODERN
        assert fake.methods[-2:] == ["initialize", "server/discover"]


# --- what leaves this machine


async def test_a_modern_request_has_its_headers_and_describes_itself() -> None:
    fake = Fake()
    async with connected(fake, credentials=lambda: {"Authorization": "Bearer t", "X-Key": "k"}) as client:
        await client.call(calling(meta=b'"traceparent":"00-1"', log_level="warning", on_progress=lambda _: None))
    seen = fake.of("tools/call")[0]
    names = ("Accept", "Content-Type", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Authorization", "X-Key")
    assert [seen.headers.get(name) for name in names] == [
        "application/json, text/event-stream",
        "application/json",
        VERSION,
        "tools/call",
        "echo",
        "Bearer t",
        "k",
    ]
    assert "Mcp-Session-Id" not in seen.headers
    assert "Cookie" not in seen.headers
    meta = seen.params["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == VERSION
    assert meta["io.modelcontextprotocol/clientInfo"] == {"name": "zorivest-rpc", "version": "1.2.3"}
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert (meta["traceparent"], meta["io.modelcontextprotocol/logLevel"]) == ("00-1", "warning")
    assert meta["progressToken"] == seen.id


async def test_cookies_are_not_kept_and_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    fake = Fake(server_discover=answering(200, {"result": {"supportedVersions": [VERSION]}}, **{"Set-Cookie": "a=b"}))
    async with connected(fake) as client:
        await client.call(calling())
    assert "Cookie" not in fake.of("tools/call")[0].headers


async def test_a_token_is_in_no_error_and_in_no_repr() -> None:
    fake = Fake(any=answering(401))
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", f"{url}?key=s3cret", IDENTITY, credentials=lambda: {"Authorization": "s3cret"})
        with pytest.raises(AuthRejected) as failed:
            await client.connect()
        await client.close()
    assert "s3cret" not in f"{client!r}{failed.value!r}{failed.value.text}"
    assert fake.seen[0].headers["Authorization"] == "s3cret"


async def test_annotated_arguments_are_mirrored_and_a_mismatch_is_mended_by_one_more_list() -> None:
    annotated = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}

    async def judge(seen: Seen) -> web.StreamResponse:
        if "Mcp-Param-Text" not in seen.headers:
            fake.tools = [{**annotated, "inputSchema": schema}]
            return seen.error(-32020, status=400)
        return seen.result(content=[{"type": "text", "text": seen.headers["Mcp-Param-Text"]}])

    schema = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}
    fake = Fake(tools_call=judge)
    fake.tools = [annotated]
    async with connected(fake) as client:
        await client.list_tools()
        assert text_of(await client.call(calling("zwölf"))) == "=?base64?enfDtmxm?="
        assert fake.methods[1:] == ["tools/list", "tools/call", "tools/list", "tools/call"]
        assert text_of(await client.call(calling("ten"))) == "ten"
        fake.handlers["tools/call"] = answering(400, {"error": {"code": -32020, "message": "still"}})
        with pytest.raises(UpstreamError, match="still"):
            await client.call(calling())
    assert fake.methods[-3:] == ["tools/call", "tools/list", "tools/call"]


# --- answers


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthRejected),
        (403, AuthRejected),
        (302, RedirectRefused),
        (429, StatusFailed),
        (500, StatusFailed),
        (502, StatusFailed),
        (503, StatusFailed),
        (202, ProtocolBroken),
        (400, StatusFailed),
    ],
)
async def test_a_call_that_a_status_answers_is_sent_once(era: str, status: int, kind: type[ToolingError]) -> None:
    fake = Fake(era, tools_call=answering(status, None, **{"Retry-After": "7"}))
    async with connected(fake) as client:
        with pytest.raises(ToolingError) as failed:
            await client.call(calling())
    assert type(failed.value) is kind
    assert len(fake.of("tools/call")) == 1
    if isinstance(failed.value, StatusFailed):
        assert (failed.value.status, failed.value.retry_after, failed.value.sent) == (status, 7.0, True)


@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_an_error_of_the_server_is_told_whatever_its_status(status: int) -> None:
    fake = Fake(tools_call=answering(status, {"error": {"code": -32602, "message": "Unknown tool"}}))
    async with connected(fake) as client:
        with pytest.raises(UpstreamError) as failed:
            await client.call(calling())
    assert (failed.value.number, failed.value.retryable) == (-32602, False)


async def test_what_needs_input_that_was_not_declared_is_told() -> None:
    fake = Fake(tools_call=answering(400, {"error": {"code": -32021, "message": "m"}}))
    async with connected(fake) as client:
        with pytest.raises(InputRequiredUnsupported, match="ops__echo"):
            await client.call(calling())
        fake.handlers["tools/call"] = answering(400, {"error": {"code": -32022, "message": "m"}})
        with pytest.raises(ProtocolBroken, match="no longer speaks 2026-07-28"):
            await client.call(calling())


@pytest.mark.parametrize("id", [None, "1", 999, 0])
async def test_an_answer_with_another_id_is_none(id: Any) -> None:
    fake = Fake(tools_call=answering(200, {"id": id, "error": {"code": 1, "message": "m"}}))
    async with connected(fake) as client:
        with pytest.raises(ProtocolBroken, match="another id"):
            await client.call(calling())
        assert client.caller.strays == 1
        assert client.caller.pending == {}


async def test_an_answer_to_another_call_that_is_open_does_not_end_that_one() -> None:
    first = asyncio.Event()
    ids: list[int] = []

    async def cross(seen: Seen) -> web.StreamResponse:
        ids.append(seen.id)
        if len(ids) == 1:
            first.set()
            await release.wait()
            return seen.result(content=[{"type": "text", "text": "mine"}])
        return web.json_response({"jsonrpc": "2.0", "id": ids[0], "result": {"content": []}})

    release = asyncio.Event()
    async with connected(Fake(tools_call=cross)) as client:
        waiting = asyncio.create_task(client.call(calling()))
        await first.wait()
        with pytest.raises(ProtocolBroken, match="another id"):
            await client.call(calling())
        release.set()
        assert text_of(await waiting) == "mine"


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"jsonrpc":"2.0","id":2,"result":[]}', b'{"jsonrpc":"2.0","id":2}']
)
async def test_what_is_no_message_breaks_the_protocol(body: bytes) -> None:
    async with connected(Fake(tools_call=answering(200, body, **{"Content-Type": "application/json"}))) as client:
        with pytest.raises(ProtocolBroken):
            await client.call(calling())
        assert client.caller.pending == {}


@pytest.mark.parametrize("has_length", [True, False])
async def test_a_result_above_its_limit_is_refused_and_one_at_the_limit_is_not(has_length: bool) -> None:
    async def give(seen: Seen) -> web.StreamResponse:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":"%b"}}' % (seen.id, b"x" * size)
        if has_length:
            return web.Response(body=body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(seen.request)
        await response.write(body)
        return response

    overhead = len('{"content":""}')
    async with connected(Fake(tools_call=give)) as client:
        for size in (2048 - overhead, 2049 - overhead, 200_000):
            if size == 2048 - overhead:
                assert len(bytes((await client.call(calling(max_bytes=2048))).raw)) == 2048
                continue
            with pytest.raises(TooLarge, match="more than 2048 bytes"):
                await client.call(calling(max_bytes=2048))


async def test_a_modern_result_of_an_unknown_type_is_broken_and_a_legacy_one_has_none() -> None:
    give = answering(200, {"result": {"resultType": "surprise", "content": []}})
    async with connected(Fake(tools_call=give)) as client:
        with pytest.raises(ProtocolBroken, match="surprise"):
            await client.call(calling())
    async with connected(Fake("legacy", tools_call=give)) as client:
        assert json.loads(bytes((await client.call(calling())).raw))["resultType"] == "surprise"


# --- bytes that come late, cut, or not at all

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
DISCOVER = b'{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}'
CALLED = b'{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"slow"}]}}'


def http(body: bytes) -> bytes:
    return HEAD % len(body) + body


async def test_answers_that_come_byte_by_byte_are_read() -> None:
    async with speaking(http(DISCOVER), http(CALLED)) as (url, _):
        client = HttpUpstream("ops", url, IDENTITY)
        await client.connect()
        assert text_of(await client.call(calling())) == "slow"
        await client.close()


@pytest.mark.parametrize("kept", [0, 5, 20, len(HEAD) + 3, len(http(CALLED)) - 40, len(http(CALLED)) - 1])
async def test_an_answer_that_is_cut_is_a_failure_after_sending(kept: int) -> None:
    async with speaking(http(DISCOVER), http(CALLED)[:kept]) as (url, got):
        client = HttpUpstream("ops", url, IDENTITY)
        await client.connect()
        with pytest.raises(ConnectFailed) as failed:
            await client.call(calling())
        await client.close()
        assert failed.value.sent
        assert len(got) == 2, "a call is never sent twice"


@pytest.mark.parametrize("kept", [1, 30, len(http(DISCOVER)) - 1])
async def test_an_opening_that_is_cut_is_a_failure(kept: int) -> None:
    async with speaking(http(DISCOVER)[:kept]) as (url, _):
        client = HttpUpstream("ops", url, IDENTITY)
        with pytest.raises(ConnectFailed):
            await client.connect()
        await client.close()


async def test_what_is_not_http_is_a_failure() -> None:
    async with speaking(b"SSH-2.0-OpenSSH\r\n") as (url, _):
        client = HttpUpstream("ops", url, IDENTITY)
        with pytest.raises(ConnectFailed):
            await client.connect()
        await client.close()


# --- event streams


def streaming(*pieces: Any, cut: bool = False) -> Any:
    async def handle(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        for piece in pieces:
            message = piece(seen) if callable(piece) else piece
            await response.write(message if isinstance(message, bytes) else event(message))
        if cut:
            assert seen.request.transport is not None
            seen.request.transport.abort()
        return response

    return handle


def done(text: str = "done") -> Any:
    return lambda seen: {"jsonrpc": "2.0", "id": seen.id, "result": {"content": [{"type": "text", "text": text}]}}


def note(method: str, **params: Any) -> Any:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_stream_gives_progress_and_log_messages_and_then_the_answer(era: str) -> None:
    fake = Fake(
        era,
        tools_call=streaming(
            b": keep-alive\n\n",
            lambda seen: note("progress", progressToken=seen.id, progress=1, total=2, message="half"),
            note("progress", progressToken="other", progress=9),
            note("message", level="info", data="words"),
            note("tools/list_changed"),
            {"jsonrpc": "2.0", "id": 999, "result": {}},
            done(),
        ),
    )
    progress: list[Any] = []
    logs: list[Any] = []
    happenings: list[Happening] = []
    async with connected(fake, happenings) as client:
        call = calling(on_progress=lambda p: progress.append((p.progress, p.total, p.message)), on_log=logs.append)
        assert text_of(await client.call(call)) == "done"
        assert client.caller.strays == 1
    assert progress == [(1, 2, "half")]
    assert [(told.level, bytes(told.data)) for told in logs] == [("info", b'"words"')]
    assert happenings == [Changed("tools")]


async def test_a_modern_stream_that_ends_without_an_answer_is_lost_and_not_taken_up() -> None:
    for cut in (False, True):
        fake = Fake(tools_call=streaming(event(note("message", level="info", data=1), "7"), cut=cut))
        async with connected(fake) as client:
            with pytest.raises(ConnectFailed) as failed:
                await client.call(calling())
        assert failed.value.sent
        assert fake.methods == ["server/discover", "tools/call"]


async def test_an_event_above_the_limit_ends_the_call() -> None:
    fake = Fake(tools_call=streaming(b"data: " + b"x" * FRAME_LIMIT, b"x\n\n", done()))
    async with connected(fake) as client:
        with pytest.raises(TooLarge):
            await client.call(calling())


class Pauses:
    """Waits that are only noted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


@pytest.mark.parametrize(("retry", "waits"), [(None, 1.0), (250, 0.25), (0, 0.0)])
@pytest.mark.parametrize("cut", [False, True])
async def test_a_legacy_stream_that_ends_early_is_taken_up_after_its_time(
    retry: int | None, waits: float, cut: bool
) -> None:
    async def resume(seen: Seen) -> web.StreamResponse:
        if "Last-Event-ID" not in seen.headers:
            return web.Response(status=405)
        response = await seen.stream()
        if len(fake.of("GET")) == 1:
            await response.write(event(note("message", level="info", data=2), "e2"))
        else:
            called = fake.of("tools/call")[0]
            await response.write(event(done()(called), "e3"))
        return response

    first = event(note("message", level="info", data=1), "e1", retry)
    fake = Fake("legacy", tools_call=streaming(first, cut=cut), GET=resume)
    pauses = Pauses()
    async with connected(fake, pause=pauses) as client:
        assert text_of(await client.call(calling())) == "done"
    assert pauses.seconds == [waits, waits]
    assert [seen.headers["Last-Event-ID"] for seen in fake.of("GET")] == ["e1", "e2"]
    assert {seen.headers["Mcp-Session-Id"] for seen in fake.of("GET")} == {"session-0"}
    assert len(fake.of("tools/call")) == 1


async def test_a_legacy_stream_without_ids_or_that_cannot_be_taken_up_is_lost() -> None:
    fake = Fake("legacy", tools_call=streaming(note("message", level="info", data=1)))
    async with connected(fake) as client:
        with pytest.raises(ConnectFailed):
            await client.call(calling())
    assert fake.of("GET") == []
    fake = Fake("legacy", tools_call=streaming(event(note("message", level="info", data=1), "e1")))
    pauses = Pauses()
    async with connected(fake, pause=pauses) as client:
        with pytest.raises(ConnectFailed) as failed:
            await client.call(calling())
    assert failed.value.sent
    assert len(fake.of("GET")) == 4
    assert len(fake.of("tools/call")) == 1


async def test_the_deadline_bounds_a_resumption() -> None:
    async def never(seconds: float) -> None:
        await asyncio.Event().wait()

    fake = Fake("legacy", tools_call=streaming(event(note("message", level="info", data=1), "e1")))
    async with connected(fake, pause=never) as client:
        with pytest.raises(CallTimeout):
            await client.call(calling(seconds=0.2))


# --- sessions


async def test_a_session_is_kept_and_ended() -> None:
    fake = Fake("legacy")
    async with connected(fake) as client:
        await client.call(calling())
    later = [seen for seen in fake.seen if seen.method not in ("server/discover", "initialize")]
    assert {seen.headers.get("Mcp-Session-Id") for seen in later} == {"session-0"}
    assert {seen.headers.get("MCP-Protocol-Version") for seen in later} == {"2025-11-25"}
    assert fake.methods[-1] == "DELETE"
    assert all("Mcp-Session-Id" not in seen.headers for seen in fake.of("initialize"))


async def test_a_lost_session_is_opened_anew_once_and_the_calls_are_posted_again() -> None:
    lost = {"session-0"}

    async def judge(seen: Seen) -> web.StreamResponse:
        if seen.headers["Mcp-Session-Id"] in lost:
            return web.Response(status=404)
        return fake.answer(seen)

    fake = Fake("legacy", tools_call=judge)
    async with connected(fake) as client:
        results = await asyncio.gather(*(client.call(calling(str(number))) for number in range(6)))
        assert [text_of(result) for result in results] == [str(number) for number in range(6)]
        assert len(fake.of("initialize")) == 2
        assert fake.methods.count("server/discover") == 1
        lost.add("session-1")
        lost.add("session-2")
        with pytest.raises(StatusFailed):
            await client.call(calling())
    assert len(fake.of("initialize")) == 3


async def test_404_without_a_session_is_no_lost_session() -> None:
    fake = Fake(tools_call=answering(404))
    async with connected(fake) as client:
        with pytest.raises(StatusFailed):
            await client.call(calling())
    assert fake.methods == ["server/discover", "tools/call"]


@pytest.mark.parametrize("id", ["a b", "ü", "x" * 5000])
async def test_a_session_id_that_is_none_is_refused(id: str) -> None:
    async def open_(seen: Seen) -> web.StreamResponse:
        return seen.result(headers={"Mcp-Session-Id": id}, protocolVersion="2025-11-25", capabilities={})

    error = await attempt(Fake("legacy", initialize=open_))
    assert isinstance(error, ProtocolBroken)


async def test_closing_a_session_whose_server_is_gone_is_quiet() -> None:
    fake = Fake("legacy")
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY)
        await client.connect()
    await client.close()
    with pytest.raises(ConnectFailed):
        await client.call(calling())


# --- cancellation


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("is_streaming", [True, False])
async def test_a_withdrawn_call_is_closed_or_told(era: str, is_streaming: bool) -> None:
    began, ended, told = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hang(seen: Seen) -> web.StreamResponse:
        try:
            response = await seen.stream() if is_streaming else web.StreamResponse()
            began.set()
            await asyncio.Event().wait()
            return response
        finally:
            ended.set()

    async def hear(seen: Seen) -> web.StreamResponse:
        told.set()
        return web.Response(status=202)

    fake = Fake(era, tools_call=hang, notifications_cancelled=hear)
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY)
        await client.connect()
        task = asyncio.create_task(client.call(calling()))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(10):
            await ended.wait()
            if era == "legacy":
                await told.wait()
        assert client.caller.pending == {}
        await client.close()
    cancelled = fake.of("notifications/cancelled")
    assert [seen.params["requestId"] for seen in cancelled] == (
        [fake.of("tools/call")[0].id] if era == "legacy" else []
    )


async def test_a_call_ends_at_its_deadline_whatever_comes_meanwhile() -> None:
    async def babble(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        for number in range(1, 10_000):
            await response.write(event(note("progress", progressToken=seen.id, progress=number)))
            await asyncio.sleep(0.02)
        return response

    async with connected(Fake(tools_call=babble)) as client:
        with pytest.raises(CallTimeout) as failed:
            await client.call(calling(seconds=0.3, on_progress=lambda _: None))
    assert failed.value.retryable is False
    assert "ops__echo" in failed.value.problem


# --- questions

ASKED = {
    "message": "Which branch?",
    "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string", "default": "main"}}},
}


def elicit(id: Any = "q1", **params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {**ASKED, **params}}


async def accept(form: Form) -> dict[str, Any]:
    return {"action": "accept", "content": {}}


class Asking:
    """A legacy server that asks while it works, and gives back what it was answered."""

    def __init__(self, *questions: Any) -> None:
        self.questions = questions
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.heard = Noted()
        self.fake = Fake("legacy", tools_call=self.call)
        self.fake.handlers[""] = self.hear
        self.fake.handlers["POST"] = self.hear

    async def hear(self, seen: Seen) -> web.StreamResponse:
        self.answers.put_nowait(seen.message)
        self.heard.append(seen.message)
        return web.Response(status=202)

    async def call(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        for question in self.questions:
            await response.write(event(question))
        got = [await self.answers.get() for _ in self.questions]
        await response.write(event(done(json.dumps(got))(seen)))
        return response


async def test_a_legacy_question_on_the_stream_of_a_call_goes_to_its_caller() -> None:
    asking = Asking(elicit())
    seen: list[Form] = []

    async def ask(form: Form) -> dict[str, Any]:
        seen.append(form)
        return {"action": "accept", "content": {"extra": 1}}

    async with connected(asking.fake) as client:
        answers = json.loads(text_of(await client.call(calling(ask=ask))))
    assert [form.message for form in seen] == ["[ops] Which branch?"]
    assert answers == [
        {"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {"extra": 1, "branch": "main"}}}
    ]


async def test_a_question_for_a_caller_who_cannot_be_asked_is_cancelled() -> None:
    asking = Asking(elicit())
    async with connected(asking.fake) as client:
        answers = json.loads(text_of(await client.call(calling())))
    assert [answer["result"] for answer in answers] == [{"action": "cancel"}]


async def test_what_was_not_declared_is_refused_and_a_ping_is_answered() -> None:
    sampling = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
    roots = {"jsonrpc": "2.0", "id": 2, "method": "roots/list"}
    ping = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    secret = elicit(4, requestedSchema={"type": "object", "properties": {"password": {"type": "string"}}})
    url = elicit(5, mode="url", url="https://a.example")
    asking = Asking(sampling, roots, ping, secret, url)
    async with connected(asking.fake) as client:
        answers = {answer["id"]: answer for answer in json.loads(text_of(await client.call(calling(ask=accept))))}
    assert [answers[id]["error"]["code"] for id in (1, 2, 5)] == [-32601] * 3
    assert (answers[3]["result"], answers[4]["result"]) == ({}, {"action": "cancel"})


async def test_the_deadline_stands_still_while_a_person_thinks() -> None:
    clock = asyncio.get_running_loop().time
    talk = Talk(calling())

    async def think(form: Form) -> dict[str, Any]:
        assert talk.scope is not None
        assert talk.scope.when() is None
        if form.message == "first":  # two questions at once: the clock starts again after the last
            await talk.ask(Form("second", {}))
            assert talk.scope.when() is None
        return {"action": "decline"}

    assert talk.call is not None
    talk.call.ask = think
    async with asyncio.timeout(60) as talk.scope:
        before = talk.scope.when()
        assert await talk.ask(Form("first", {})) == {"action": "decline"}
        after = talk.scope.when()
        assert before is not None
        assert after is not None
        assert before <= after <= clock() + 60


async def test_a_cancelled_call_withdraws_its_question() -> None:
    asking = Asking(elicit())
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def ask(form: Form) -> dict[str, Any]:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            withdrawn.set()
            raise
        return {}

    async with connected(asking.fake) as client:
        task = asyncio.create_task(client.call(calling(ask=ask)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            await withdrawn.wait()
        await asking.heard.reach(1)
        assert (asking.heard[0]["id"], asking.heard[0]["result"]) == ("q1", {"action": "cancel"})


def modern_asking(rounds: int) -> Fake:
    async def call(seen: Seen) -> web.StreamResponse:
        number = len(fake.of("tools/call"))
        if number <= rounds:
            request = {"method": "elicitation/create", "params": ASKED}
            return seen.result(resultType="input_required", inputRequests={"k": request}, requestState=f"s{number}")
        return seen.result(resultType="complete", content=[{"type": "text", "text": json.dumps(seen.params)}])

    fake = Fake(tools_call=call)
    return fake


async def test_a_modern_question_is_asked_and_the_request_repeated_with_the_answer() -> None:
    fake = modern_asking(2)
    async with connected(fake) as client:
        params = json.loads(text_of(await client.call(calling(ask=accept, can_ask=True))))
    assert params["requestState"] == "s2"
    assert params["inputResponses"] == {"k": {"action": "accept", "content": {"branch": "main"}}}
    assert (params["name"], params["arguments"]) == ("echo", {"text": "hi"})
    calls = fake.of("tools/call")
    assert len({seen.id for seen in calls}) == 3
    assert "requestState" not in calls[0].params
    declared = [seen.params["_meta"]["io.modelcontextprotocol/clientCapabilities"] for seen in calls]
    assert declared == [{"elicitation": {"form": {}}}] * 3


async def test_a_modern_question_can_be_handed_on_and_answered_later() -> None:
    fake = modern_asking(1)
    async with connected(fake) as client:
        call = calling(can_ask=True)
        result = await client.call(call)
        assert result.round is not None
        assert result.round.forms["k"].message == "[ops] Which branch?"
        again = call.repeat(result.round, {"k": {"action": "decline"}})
        params = json.loads(text_of(await client.call(again)))
    assert (params["inputResponses"], params["requestState"]) == ({"k": {"action": "decline"}}, "s1")


async def test_a_modern_question_for_a_caller_who_cannot_be_asked_is_unsupported() -> None:
    fake = modern_asking(1)
    async with connected(fake) as client:
        with pytest.raises(InputRequiredUnsupported):
            await client.call(calling())
    assert len(fake.of("tools/call")) == 1


async def test_rounds_without_an_end_are_broken() -> None:
    fake = modern_asking(1000)
    async with connected(fake) as client:
        with pytest.raises(ProtocolBroken, match="without an end"):
            await client.call(calling(ask=accept, can_ask=True))
    assert len(fake.of("tools/call")) == 16


# --- changes between calls


class Changing:
    """A server with a stream of changes, fed by the test."""

    def __init__(self, era: str, capabilities: Any) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.opened = Noted()
        handlers: dict[str, Any] = {"subscriptions_listen": self.listen} if era == "modern" else {"GET": self.listen}
        self.fake = Fake(era, capabilities, **handlers)

    async def listen(self, seen: Seen) -> web.StreamResponse:
        self.opened.append(seen)
        response = await seen.stream()
        if seen.verb == "POST":
            await response.write(event(note("subscriptions/acknowledged", notifications=seen.params["notifications"])))
        while (message := await self.messages.get()) is not None:
            await response.write(event(message))
        return response


CHANGES = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"subscribe": True}}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_changes_are_told_and_a_stream_that_ends_is_opened_again_with_a_new_look(era: str) -> None:
    changing = Changing(era, CHANGES)
    happenings = Noted()
    pauses = Pauses()
    async with connected(changing.fake, happenings, pause=pauses) as client:
        assert client.is_following
        assert client.watched.tools_list_changed
        assert not client.watched.resources_list_changed
        changing.messages.put_nowait(note("tools/list_changed"))
        changing.messages.put_nowait(note("resources/updated", uri="a:b"))
        await happenings.reach(2)
        assert happenings == [Changed("tools"), Touched("a:b")]
        changing.messages.put_nowait(None)
        await happenings.reach(4)
        assert happenings[2:] == [Changed("tools"), Changed("prompts")]
        assert len(changing.opened) == 2
        changing.messages.put_nowait(None)
        await changing.opened.reach(3)
    assert pauses.seconds[:2] == [1.0, 2.0]


async def test_the_filter_names_what_is_offered_and_what_was_subscribed_to() -> None:
    changing = Changing("modern", CHANGES)
    happenings: list[Happening] = []
    async with connected(changing.fake, happenings) as client:
        await client.subscribe("a:b")
        await client.subscribe("a:b")
        await client.unsubscribe("a:b")
    filters = [seen.params["notifications"] for seen in changing.fake.of("subscriptions/listen")]
    assert filters == [
        {"toolsListChanged": True, "promptsListChanged": True},
        {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["a:b"]},
        {"toolsListChanged": True, "promptsListChanged": True},
    ]


async def test_legacy_subscriptions_are_requests() -> None:
    ok = answering(200, {"result": {}})
    fake = Fake("legacy", CHANGES, resources_subscribe=ok, resources_unsubscribe=ok)
    async with connected(fake) as client:
        await client.subscribe("a:b")
        await client.subscribe("a:b")
        await client.unsubscribe("a:b")
        await client.unsubscribe("a:b")
    assert [seen.method for seen in fake.seen if "subscribe" in seen.method] == [
        "resources/subscribe",
        "resources/unsubscribe",
    ]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_without_a_stream_is_asked_for_none(era: str) -> None:
    fake = Fake(era)
    async with connected(fake) as client:
        assert not client.is_following
    assert not {"GET", "subscriptions/listen"} & {*fake.methods}
    refusing = Fake(era, CHANGES)
    async with connected(refusing) as client:
        assert not client.is_following
        await client.call(calling())
    assert sum(method in ("GET", "subscriptions/listen") for method in refusing.methods) == 1


async def test_an_acknowledgement_without_tools_promises_nothing() -> None:
    async def listen(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        await response.write(event(note("subscriptions/acknowledged", notifications={})))
        await asyncio.Event().wait()
        return response

    async with connected(Fake("modern", CHANGES, subscriptions_listen=listen)) as client:
        assert client.is_following
        assert not client.watched.tools_list_changed


async def test_health_is_one_question() -> None:
    for era, method in (("modern", "server/discover"), ("legacy", "ping")):
        fake = Fake(era)
        async with connected(fake) as client:
            await client.check_health()
            assert fake.methods[-1] == method


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("/x", "http://a.example:8"),
        ("https://b.example/x?y", "https://b.example"),
        ("//b.example:9/x", "http://b.example:9"),
        ("https://[::1]:9/", "https://[::1]:9"),
        ("", "http://a.example:8"),
        ("http://b.example:port/", "an address that cannot be read"),
    ],
)
def test_of_a_redirect_only_the_origin_is_told(location: str, origin: str) -> None:
    assert origin_of("http://a.example:8/mcp?key=1", location) == origin


async def test_eight_calls_run_at_once_and_more_wait_for_a_connection() -> None:
    running, most = 0, 0
    gate = asyncio.Event()

    async def count(seen: Seen) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            gate.set()
        await gate.wait()
        running -= 1
        return fake.answer(seen)

    fake = Fake(tools_call=count)
    async with connected(fake) as client:
        results = await asyncio.gather(*(client.call(calling(str(number))) for number in range(20)))
    assert [text_of(result) for result in results] == [str(number) for number in range(20)]
    assert most == 8


@pytest.mark.parametrize("size", [10, 70_000, 3_000_000])
async def test_a_request_of_any_size_is_sent_whole_and_with_the_same_headers(size: int) -> None:
    fake = Fake()
    async with connected(fake, credentials=lambda: {"Authorization": "Bearer t"}) as client:
        assert len(text_of(await client.call(calling("x" * size)))) == size
    names = ("Host", "User-Agent", "Accept", "Accept-Encoding", "Content-Type", "Mcp-Name", "Authorization")
    sent = [[seen.headers.getall(name) for name in names] for seen in (fake.of("tools/call")[0],)]
    assert [len(values) for values in sent[0]] == [1] * len(names)
    assert sent[0][1:4] == [["zorivest-rpc/1.2.3"], ["application/json, text/event-stream"], ["identity"]]


async def test_a_credential_that_would_be_a_line_of_its_own_is_not_sent() -> None:
    fake = Fake()
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY, credentials=lambda: {"X-Key": "a\r\nX-Evil: 1"})
        with pytest.raises(ConnectFailed, match="no header can carry") as failed:
            await client.connect()
        await client.close()
    assert fake.seen == []
    assert "X-Evil" not in failed.value.text


async def test_a_server_that_asks_without_end_is_answered_a_bounded_number_of_times_at_once() -> None:
    gate = asyncio.Event()
    heard = 0

    async def hear(seen: Seen) -> web.StreamResponse:
        nonlocal heard
        heard += 1
        await gate.wait()
        return web.Response(status=202)

    pings = [event({"jsonrpc": "2.0", "id": number, "method": "ping"}) for number in range(1000)]
    fake = Fake("legacy", tools_call=streaming(b"".join(pings), done()), POST=hear)
    async with connected(fake) as client:
        assert text_of(await client.call(calling())) == "done"
        assert client.caller.strays >= 1000 - 64
        gate.set()
    assert heard <= 64


async def test_a_list_that_is_too_large_breaks_the_protocol() -> None:
    fake = Fake(tools_list=answering(200, b" " * (FRAME_LIMIT + 1), **{"Content-Type": "application/json"}))
    async with connected(fake) as client:
        with pytest.raises(ProtocolBroken, match="more than"):
            await client.list_tools()


async def test_a_packed_answer_is_bounded_by_what_it_unpacks_to() -> None:
    async def pack(seen: Seen) -> web.StreamResponse:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":"%b"}}' % (seen.id, b"x" * 50_000_000)
        return web.Response(
            body=zlib.compress(body), headers={"Content-Encoding": "deflate"}, content_type="application/json"
        )

    async with connected(Fake(tools_call=pack)) as client:
        with pytest.raises(TooLarge):
            await client.call(calling())
