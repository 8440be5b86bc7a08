"""An upstream over Streamable HTTP: eras, statuses, answers, and what leaves this machine."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import (
    IDENTITY,
    TOOL,
    VERSION,
    Fake,
    Seen,
    answering,
    attempt,
    calling,
    connected,
    serving,
    speaking,
    text_of,
)
from zorivest_rpc.gateway.errors import (
    AuthRejected,
    ConnectFailed,
    InputRequiredUnsupported,
    NoAnswer,
    ProtocolBroken,
    RedirectRefused,
    TooLarge,
    ToolingError,
    UpstreamError,
)
from zorivest_rpc.gateway.http_client import HttpUpstream, StatusFailed
from zorivest_rpc.mcp.protocol.revisions import Era

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


async def unknown(host: str, port: int) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://nowhere.example:{}/mcp", "the host name is unknown"), ("https://127.0.0.1:{}/mcp", "")],
)
async def test_a_name_that_is_not_known_and_a_server_without_tls_fail_before_anything_was_sent(
    url: str, reason: str
) -> None:
    fake = Fake()
    async with serving(fake.handle) as here:
        port = here.rpartition(":")[2].removesuffix("/mcp")
        client = HttpUpstream("ops", url.format(port), IDENTITY, lookup=unknown)
        for _ in range(2):  # the second time as a call would find it
            with pytest.raises(ConnectFailed) as failed:
                await client.connect()
            assert failed.value.sent is False
            assert reason in failed.value.reason
        await client.close()
    assert fake.seen == []


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


async def test_an_answer_of_another_media_type_is_told_as_such() -> None:
    async def page(seen: Seen) -> web.StreamResponse:
        return web.Response(text=json.dumps({"jsonrpc": "2.0", "id": seen.id, "result": {}}), content_type="text/html")

    async with connected(Fake(tools_call=page)) as client:
        with pytest.raises(ProtocolBroken, match="tools/call was answered with 'text/html', which is no JSON"):
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
