"""What is refused, with which status, before what is read; and that every refusal is JSON."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from tests.mcp.transports.http_served import Reply, Served, Wire, Work, call, head, hello, modern_call, serving
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.http import HttpOptions, HttpTransport, bearer_keys

KEY = "correct-horse-battery-staple"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def refusal(reply: Reply, status: int) -> str:
    """Its words, after checking that it is the JSON that a program can read."""
    assert reply.status == status, await reply.body()
    assert reply.headers["content-type"].startswith("application/json")
    found = await reply.json()
    assert found["jsonrpc"] == "2.0"
    assert "id" not in found
    return str(found["error"]["message"])


# --- Host and Origin


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1234", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:8766", "[::1]", "[::1]:8766"]
)
async def test_loopback_hosts_are_served(served: Served, host: str) -> None:
    assert (await served.post(hello(), Host=host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:8766",
        "[::2]",
        "[::1",
        "",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost/x",
        "localhost, evil.example",
        "127.1",
    ],
)
async def test_foreign_hosts_are_refused_before_the_body(served: Served, host: str) -> None:
    wire = await served.wire()
    wire.send(head("POST", "/mcp", {"Host": host, "Content-Type": "application/json"}, 1000))  # and no body
    reply = await wire.reply()
    assert reply.status in (400, 403)
    assert reply.headers["content-type"].startswith("application/json")
    assert "error" in await reply.json()


async def test_a_missing_host_is_refused(served: Served) -> None:
    wire = await served.wire()
    wire.send(b"POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    reply = await wire.reply()
    assert reply.status in (400, 403)
    assert "error" in await reply.json()


@pytest.mark.parametrize("origin", ["http://localhost", "https://127.0.0.1:5173", "http://[::1]:1"])
async def test_loopback_origins_may_call_and_are_named(served: Served, origin: str) -> None:
    reply = await served.post(hello(), Origin=origin)
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == origin
    assert "mcp-session-id" in reply.headers["access-control-expose-headers"].lower()
    assert "Origin" in reply.headers["vary"]


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "http://localhost.evil.example",
        "file://localhost",
        "localhost",
        "ftp://localhost",
    ],
)
async def test_foreign_origins_are_refused_before_the_body(served: Served, origin: str) -> None:
    wire = await served.wire()
    wire.send(head("POST", "/mcp", {"Origin": origin, "Content-Type": "application/json"}, 1000))
    reply = await wire.reply()
    assert "access-control-allow-origin" not in reply.headers
    assert "Origin" in await refusal(reply, 403)


async def test_more_names_can_be_allowed() -> None:
    async with serving(hosts=("box.lan",), origins=("ui.lan",)) as served:
        assert (await served.post(hello(), Host="box.lan:99", Origin="https://ui.lan")).status == 200
        await refusal(await served.post(hello(), Host="localhost"), 403)


# --- keys


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("PUT", "/mcp"),
        ("HEAD", "/mcp"),
        ("GET", "/sse"),
        ("POST", "/messages"),
        ("POST", "/messages/"),
        ("POST", "/messages?session_id=00"),
    ],
)
@pytest.mark.parametrize("given", [None, "Bearer wrong", f"Basic {KEY}", f"Bearer {KEY}x", KEY, "Bearer", "Bearer é"])
async def test_a_key_is_asked_for_everywhere_before_the_body(
    writer: str, method: str, path: str, given: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(authenticate=bearer_keys({KEY: "owner"}), plain_writer=writer == "plain") as served:
        wire = await served.wire()
        headers = {"Authorization": given, "Content-Type": "application/json"}
        wire.send(head(method, path, headers, 1000 if method == "POST" else None))
        reply = await wire.reply(method == "HEAD")
        assert reply.status == 401
        assert reply.headers["www-authenticate"] == "Bearer"
        text = (await reply.body()).decode()
    assert KEY not in text
    assert KEY not in caplog.text


async def test_the_right_key_opens_the_door_whatever_the_case_of_the_scheme() -> None:
    async with serving(authenticate=bearer_keys({"other": "b", KEY: "a"})) as served:
        for scheme in ("Bearer", "bearer", "BEARER"):
            assert (await served.post(hello(), Authorization=f"{scheme} {KEY}")).status == 200


async def test_a_key_may_be_looked_up_elsewhere() -> None:
    async def ask(header: str | None) -> str | None:
        await asyncio.sleep(0)
        return "somebody" if header == "Bearer yes" else None

    async with serving(authenticate=ask) as served:
        assert (await served.post(hello(), Authorization="Bearer yes")).status == 200
        await refusal(await served.post(hello(), Authorization="Bearer no"), 401)


async def test_there_is_no_metadata_without_an_authorization_server(served: Served) -> None:
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        await refusal(await served.request("GET", path), 404)
    await refusal(await served.request("GET", "/.well-known/oauth-authorization-server"), 404)


async def test_metadata_names_the_authorization_server_and_the_challenge_points_to_it() -> None:
    async with serving(
        authenticate=bearer_keys({KEY: "a"}), authorization_servers=("https://login.example",)
    ) as served:
        challenge = (await served.post(hello())).headers["www-authenticate"]
        url = "http://localhost/.well-known/oauth-protected-resource"
        assert f'resource_metadata="{url}"' in challenge
        for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
            found = await (await served.request("GET", path)).json()
            assert found["resource"] == "http://localhost/mcp"
            assert found["authorization_servers"] == ["https://login.example"]


# --- methods, types, sizes, times


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "BREW"])
async def test_other_methods_are_not_allowed(served: Served, method: str) -> None:
    reply = await served.request(method)
    assert reply.status in (400, 405)
    if reply.status == 405:
        assert {"POST", "GET", "DELETE", "OPTIONS"} == set(reply.headers["allow"].replace(" ", "").split(","))
    assert reply.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize(("method", "path", "allow"), [("POST", "/sse", "GET"), ("GET", "/messages", "POST")])
async def test_the_older_pair_names_its_methods_too(served: Served, method: str, path: str, allow: str) -> None:
    reply = await served.request(method, path)
    assert allow in reply.headers["allow"]
    await refusal(reply, 405)


async def test_modern_get_and_delete_do_not_exist(served: Served) -> None:
    for method in ("GET", "DELETE"):
        reply = await served.request(method, MCP_Protocol_Version="2026-07-28", Accept="text/event-stream")
        assert "POST" in reply.headers["allow"]
        await refusal(reply, 405)


async def test_a_get_without_events_is_not_allowed_rather_than_answered(served: Served) -> None:
    await refusal(await served.request("GET", Accept="text/html"), 405)
    await refusal(await served.request("GET"), 405)


@pytest.mark.parametrize("accept", ["text/html", "image/png, text/plain", "application/xml"])
async def test_an_accept_that_names_neither_form_is_406(served: Served, accept: str) -> None:
    await refusal(await served.post(hello(), Accept=accept), 406)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
async def test_another_content_type_is_415(served: Served, kind: str | None) -> None:
    await refusal(await served.post(hello(), Content_Type=kind), 415)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", " application/json ;x=y"])
async def test_parameters_and_case_of_the_content_type_do_not_matter(served: Served, kind: str) -> None:
    assert (await served.post(hello(), Content_Type=kind)).status == 200


async def test_a_body_above_the_limit_is_413_by_its_announced_length() -> None:
    async with serving(body_limit=1000) as served:
        wire = await served.wire()
        wire.send(head("POST", "/mcp", {"Content-Type": "application/json"}, 1001))  # refused before a byte of it
        assert "1000" in await refusal(await wire.reply(), 413)


async def test_a_body_above_the_limit_is_413_by_its_chunks(writer: str) -> None:
    async with serving(body_limit=1000, plain_writer=writer == "plain") as served:
        wire = await served.wire()
        wire.send(head("POST", "/mcp", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
        for _ in range(3):
            wire.send(b"190\r\n" + b" " * 400 + b"\r\n")
        await refusal(await wire.reply(), 413)


async def test_a_chunked_body_within_the_limit_is_taken(served: Served) -> None:
    wire = await served.wire()
    wire.send(head("POST", "/mcp", {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}))
    for byte in json.dumps(hello()).encode():
        wire.send(b"1\r\n%c\r\n" % byte)
    wire.send(b"0\r\n\r\n")
    assert (await wire.reply()).status == 200


async def test_ten_megabytes_pass_in_both_directions(served: Served) -> None:
    text = "t" * 10_000_000
    found = await (await served.modern(modern_call(1, "echo", text=text))).json()
    assert found["result"]["content"][0]["text"] == text


async def test_a_body_that_never_comes_is_408(writer: str) -> None:
    async with serving(body_seconds=0.05, plain_writer=writer == "plain") as served:
        wire = await served.wire()
        wire.send(head("POST", "/mcp", {"Content-Type": "application/json"}, 100) + b"{")
        await refusal(await wire.reply(), 408)


async def test_a_client_that_waits_for_permission_to_send_gets_it_after_the_checks(served: Served) -> None:
    body = json.dumps(hello()).encode()
    wire = await served.wire()
    headers: dict[str, str | None] = {"Content-Type": "application/json", "Expect": "100-continue"}
    wire.send(head("POST", "/mcp", headers, len(body)))
    async with asyncio.timeout(5):
        assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    wire.send(body)
    assert (await wire.reply()).status == 200
    refused = await served.wire()
    refused.send(head("POST", "/mcp", {**headers, "Host": "evil.example"}, len(body)))
    async with asyncio.timeout(5):
        assert (await refused.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize("body", [b"", b"   ", b"{", b"\xff\xfe", b"[]", b"42", b'"x"', b"null", b"[1]"])
async def test_what_is_no_message_is_400(served: Served, body: bytes) -> None:
    reply = await served.post(body)
    assert (await reply.json())["error"]["code"] in (-32700, -32600)
    assert reply.status == 400


# --- HTTP itself


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),  # a TLS client
        b"hello\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nBroken header\r\n\r\n",
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_json_and_a_closed_door(
    served: Served, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await served.wire()
    wire.send(garbage)
    reply = await wire.reply()
    assert 400 <= reply.status < 500
    assert reply.headers["content-type"].startswith("application/json")
    assert "error" in await reply.json()
    assert await wire.closed() == b""
    assert (await served.post(hello())).status == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_http_1_0_is_answered_and_closed(served: Served) -> None:
    wire = await served.wire()
    body = json.dumps(hello()).encode()
    wire.send(
        b"POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
    )
    reply = await wire.reply()
    assert reply.status == 200
    assert (await reply.json())["result"]["serverInfo"]["name"] == "faults"
    assert await wire.closed() == b""


async def test_http_1_0_gets_events_until_the_end_of_the_connection(served: Served) -> None:
    wire = await served.wire()
    body = json.dumps(modern_call(1, "big", "t", size=5, streams=True)).encode()
    wire.send(
        b"POST /mcp HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"MCP-Protocol-Version: 2026-07-28\r\n"
        b"Mcp-Method: tools/call\r\nMcp-Name: big\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    reply = await wire.reply()
    assert "transfer-encoding" not in reply.headers
    assert [event.json.get("id") for event in await reply.events()] == [None, 1]


async def test_a_connection_carries_many_requests_and_closes_when_asked(served: Served) -> None:
    session = await served.open()
    wire = await served.wire()
    for number in range(5):
        reply = await served.post(call(number, "echo", text="x"), wire, Mcp_Session_Id=session)
        assert (await reply.json())["id"] == number
    reply = await served.post(PING, wire, Mcp_Session_Id=session, Connection="close")
    assert reply.headers["connection"] == "close"
    await reply.body()
    assert await wire.closed() == b""


async def test_pipelined_requests_are_answered_in_their_order(served: Served) -> None:
    session = await served.open()
    wire = await served.wire()
    requests = b""
    for number in range(50):
        body = json.dumps(call(number, "echo", text="p" * number)).encode()
        requests += (
            head("POST", "/mcp", {"Content-Type": "application/json", "Mcp-Session-Id": session}, len(body)) + body
        )
    wire.send(requests)
    assert [(await (await wire.reply()).json())["id"] for _ in range(50)] == list(range(50))


async def test_events_between_two_answers_leave_the_connection_usable(served: Served) -> None:
    wire: Wire = await served.wire()
    first = await served.modern(modern_call(1, "big", "t", size=10, streams=True), wire)
    assert [event.json.get("id") for event in await first.events()] == [None, 1]
    assert (await (await served.modern(modern_call(2, "echo", text="x"), wire)).json())["id"] == 2


async def test_health_and_readiness_need_no_key_and_tell_nothing_else() -> None:
    async with serving(authenticate=bearer_keys({KEY: "a"})) as served:
        assert (await (await served.request("GET", "/health")).json())["status"] == "ok"
        assert await (await served.request("GET", "/ready")).json() == {"ready": True}
        reply = await served.request("HEAD", "/health")
        assert (reply.status, await reply.body()) == (200, b"")
        await refusal(await served.request("GET", "/health", Host="evil.example"), 403)


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
async def test_what_is_only_looked_at_answers_get_and_head_alone(path: str) -> None:
    async with serving(metrics=lambda principal: "calls 7") as served:
        shown = await served.request("GET", path)
        assert (shown.status, bool(await shown.body())) == (200, True)
        reply = await served.request("HEAD", path)
        assert (reply.status, await reply.body()) == (200, b"")
        for method in ("POST", "PUT", "DELETE"):
            await refusal(await served.request(method, path), 404)


async def test_metrics_need_a_key_and_are_not_there_where_nobody_counts() -> None:
    async with serving(authenticate=bearer_keys({KEY: "a"}), metrics=lambda principal: "calls 7") as served:
        await refusal(await served.request("GET", "/metrics"), 401)
        shown = await served.request("GET", "/metrics", Authorization=f"Bearer {KEY}")
        assert (await shown.body(), shown.headers["content-type"]) == (
            b"calls 7",
            "text/plain; version=0.0.4; charset=utf-8",
        )
    async with serving() as served:
        await refusal(await served.request("GET", "/metrics"), 404)


async def test_other_paths_are_404_in_json(served: Served) -> None:
    for path in ("/", "/mcp/", "/mcpx", "/favicon.ico", "/%2e%2e/mcp", "/console"):
        await refusal(await served.request("GET", path), 404)


# --- browsers


async def test_a_preflight_needs_no_key_and_names_what_may_be_sent(writer: str) -> None:
    async with serving(authenticate=bearer_keys({KEY: "a"}), plain_writer=writer == "plain") as served:
        for path in ("/mcp", "/sse", "/messages"):
            reply = await served.request(
                "OPTIONS",
                path,
                Origin="http://localhost:3000",
                Access_Control_Request_Method="POST",
                Access_Control_Request_Headers="authorization, mcp-method, mcp-param-region",
            )
            assert reply.status == 204
            assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
            assert "POST" in reply.headers["access-control-allow-methods"]
            assert "mcp-param-region" in reply.headers["access-control-allow-headers"]
        refused = await served.request("OPTIONS", Origin="http://evil.example", Access_Control_Request_Method="POST")
        assert "access-control-allow-origin" not in refused.headers
        await refusal(refused, 403)


async def test_refusals_can_be_read_by_an_allowed_page() -> None:
    async with serving(authenticate=bearer_keys({KEY: "a"})) as served:
        reply = await served.post(hello(), Origin="http://localhost:3000")
        assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "www-authenticate" in reply.headers["access-control-expose-headers"].lower()
        await refusal(reply, 401)


async def test_a_post_without_a_length_has_no_body_and_says_so(served: Served) -> None:
    wire = await served.wire()
    wire.send(head("POST", "/mcp", {"Content-Type": "application/json"}))
    assert "empty" in await refusal(await wire.reply(), 400)


async def test_two_answers_to_one_wrong_request_never_come(served: Served) -> None:
    """A refusal before the body leaves the connection closed or in step, never ahead."""
    body = json.dumps(hello()).encode()
    wire = await served.wire()
    wire.send(head("POST", "/mcp", {"Content-Type": "text/plain"}, len(body)) + body)
    await refusal(await wire.reply(), 415)
    wire.send(head("POST", "/mcp", {"Content-Type": "application/json"}, len(body)) + body)
    assert (await (await wire.reply()).json())["id"] == 0


# --- headers that are no text

UNDECODABLE = [b"\xff\xfe", b"\xed\xa0\x80", b"\x80abc", b"\xc3\xa9", "\u2028é".encode()]


async def _raw(served: Served, method: bytes, lines: bytes, body: bytes = b"") -> Reply:
    wire = await served.wire()
    wire.send(
        b"%b /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
        % (method, lines, len(body), body)
    )
    return await wire.reply()


@pytest.mark.parametrize("value", UNDECODABLE)
async def test_a_header_that_is_no_text_is_refused_as_what_it_stands_for(value: bytes) -> None:
    async with serving(authenticate=bearer_keys({"a": "alice"})) as keyed:
        await refusal(await _raw(keyed, b"POST", b"Authorization: Bearer %b\r\n" % value, b"{}"), 401)
        await refusal(await _raw(keyed, b"GET", b"Authorization: %b\r\n" % value), 401)
        for origin in (b"http://localhost/%b", b"http://localhost%b", b"%b"):
            await refusal(await _raw(keyed, b"POST", b"Origin: " + origin % value + b"\r\n", b"{}"), 403)
        for lines in (b"Origin: http://localhost\r\n", b""):
            asked = lines + b"Access-Control-Request-Headers: %b\r\n" % value
            await refusal(await _raw(keyed, b"OPTIONS", asked), 403)


@pytest.mark.parametrize("value", UNDECODABLE)
@pytest.mark.parametrize("name", [b"User-Agent", b"X-MCP-Toolsets", b"X-MCP-Exclude-Tools"])
async def test_a_session_opens_whatever_its_other_headers_hold(served: Served, name: bytes, value: bytes) -> None:
    reply = await _raw(served, b"POST", b"%b: %b\r\n" % (name, value), json.dumps(hello()).encode())
    assert reply.status == 200
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await served.post(ping, Mcp_Session_Id=reply.headers["mcp-session-id"])).status == 200


OAUTH = [
    *("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"),
    *("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/authorize", "/token"),
    *("/register", "/.well-known/oauth-authorization-server/mcp"),
]


@pytest.mark.parametrize("path", OAUTH)
async def test_who_looks_for_oauth_is_told_how_to_send_a_key(served: Served, path: str) -> None:
    async with serving(authenticate=bearer_keys({"a": "alice"})) as keyed:
        for method in ("GET", "POST"):
            assert "send a key as Authorization: Bearer" in await refusal(await keyed.request(method, path), 404)
    assert "no key is needed" in await refusal(await served.request("GET", path), 404)


async def test_a_key_that_is_refused_with_a_reason_is_told_the_reason() -> None:
    def refuse(header: str | None) -> str | None:
        raise ToolError("Auth failed (403): this key was revoked.")

    async with serving(authenticate=refuse) as served:
        for path in ("/mcp", "/sse"):
            reply = await served.request("GET", path, Authorization="Bearer x", Accept="text/event-stream")
            assert await refusal(reply, 401) == "Auth failed (403): this key was revoked."
            assert reply.headers["www-authenticate"] == "Bearer"


async def test_a_defect_is_told_by_the_log_and_not_by_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    def fail(header: str | None) -> str | None:
        raise RuntimeError("secret words of a failure")

    async with serving(authenticate=fail) as served:
        words = await refusal(await served.post(PING), 500)
    assert words == "internal error; the server's log has the details"
    (record,) = [each for each in caplog.records if each.message == "HTTP request failed"]
    assert (record.levelname, str(record.exc_info and record.exc_info[1])) == ("ERROR", "secret words of a failure")


async def test_a_server_that_never_listened_can_be_stopped() -> None:
    """As where the port was taken."""
    transport = HttpTransport(Server(Work().offer), HttpOptions(port=0))
    await transport.stop()
    assert transport.open_streams == 0
