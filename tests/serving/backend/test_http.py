"""One request: what goes out, what comes back, and what becomes of an answer that is none."""

from __future__ import annotations

import gzip
import subprocess
import sys
from typing import Any

import aiohttp
import pytest
from aioresponses import aioresponses

from tests.serving.backend.conftest import Clock, Make
from tests.serving.backend.misbehaving import Misbehaving, answer
from zorivest_rpc.errors import BackendError, BackendUnreachable, ConfigError, GuardLocked, ToolError
from zorivest_rpc.serving.backend.http import HttpBackend, normalise
from zorivest_rpc.serving.backend.interface import FilePart, MultipartBody, Request
from zorivest_rpc.serving.backend.limits import BackendLimits

URL = "http://backend.test:8765/api/v1"


def test_the_module_does_not_import_aiohttp() -> None:
    code = "import sys; from zorivest_rpc.serving.backend import http, pool; assert 'aiohttp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "given",
    [
        "http://localhost:8765",
        "http://localhost:8765/",
        "http://localhost:8765/api/v1",
        "http://localhost:8765/api/v1/",
        " http://localhost:8765/api/v1// ",
    ],
)
def test_an_address_may_have_the_prefix_or_not(given: str) -> None:
    assert normalise(given) == "http://localhost:8765/api/v1"


def test_a_backend_may_live_below_a_path() -> None:
    assert normalise("https://example.test/zorivest/api/v1") == "https://example.test/zorivest/api/v1"


@pytest.mark.parametrize(
    "given", ["", "localhost:8765", "ftp://x", "http://", "http://u:p@host", "http://h?x=1", "http://h:0", "http://h:x"]
)
def test_an_address_that_cannot_be_one_is_refused(given: str) -> None:
    with pytest.raises(ConfigError):
        normalise(given)


async def test_a_reply_has_status_json_and_the_id_of_its_request(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/trades?limit=2&flag=true", payload={"items": []})
    reply = await make(URL).ask(Request("GET", "/trades", query={"limit": 2, "flag": True, "absent": None}))
    assert (reply.status, reply.value) == (200, {"items": []})
    (sent,) = next(iter(replies.requests.values()))
    assert sent.kwargs["headers"]["X-Request-ID"] == reply.request_id


async def test_every_request_has_an_id_of_its_own(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/x", payload={}, repeat=True)
    backend = make(URL)
    assert len({(await backend.ask(Request("GET", "/x"))).request_id for _ in range(5)}) == 5


async def test_an_id_that_the_backend_gives_is_the_one_to_look_for_in_its_log(server: Misbehaving, make: Make) -> None:
    server.script = [answer({}, X_Request_ID="theirs-1"), answer({"detail": "x"}, 500, X_Request_ID="theirs-2")]
    backend = make(server.url)
    assert (await backend.ask(Request("GET", "/x"))).request_id == "theirs-1"
    with pytest.raises(BackendError, match="request theirs-2"):
        await backend.ask(Request("GET", "/x"))


async def test_values_reach_the_server_as_they_were_given(server: Misbehaving, make: Make) -> None:
    await make(server.url).ask(Request("GET", "/a%2Fb", query={"q": "a&b=c d/é", "many": ["x", 1], "off": False}))
    assert server.seen[0].path == "/api/v1/a%2Fb?q=a%26b%3Dc%20d%2F%C3%A9&many=x&many=1&off=false"


async def test_a_body_is_json(server: Misbehaving, make: Make) -> None:
    await make(server.url).ask(Request("POST", "/x", body={"a": [1, "é"]}, key="k1"))
    seen = server.seen[0]
    assert (seen.json, seen.headers["content-type"]) == ({"a": [1, "é"]}, "application/json")
    assert seen.headers["idempotency-key"] == "k1"


async def test_a_request_without_a_body_sends_none(server: Misbehaving, make: Make) -> None:
    await make(server.url).ask(Request("POST", "/x"))
    assert server.seen[0].body == b""


async def test_a_form_is_multipart_and_names_cannot_break_out(server: Misbehaving, make: Make) -> None:
    upload = FilePart("file", 'a"\r\nX: y.csv', "text/csv\r\nX: y", b"1,2\r\n3")
    await make(server.url).ask(Request("POST", "/x", form=MultipartBody({"account_id": "A 1"}, upload)))
    seen = server.seen[0]
    boundary = seen.headers["content-type"].partition("boundary=")[2]
    parts = seen.body.split(b"--" + boundary.encode())
    assert parts[1] == b'\r\nContent-Disposition: form-data; name="account_id"\r\n\r\nA 1\r\n'
    head, _, data = parts[2].partition(b"\r\n\r\n")
    assert head.splitlines()[1:] == [
        b'Content-Disposition: form-data; name="file"; filename="a%22%0D%0AX: y.csv"',
        b"Content-Type: text/csvX: y",
    ]
    assert data == b"1,2\r\n3\r\n"
    assert parts[3] == b"--\r\n"


async def test_raw_bytes_are_handed_on(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/images/1/full", body=b"\x00\x01", content_type="image/webp")
    reply = await make(URL).ask(Request("GET", "/images/1/full", raw=True))
    assert (reply.body, reply.content_type, reply.value) == (b"\x00\x01", "image/webp", None)


async def test_an_empty_answer_is_no_failure(replies: aioresponses, make: Make) -> None:
    replies.delete(f"{URL}/x", status=204, body=b"")
    assert (await make(URL).ask(Request("DELETE", "/x"))).value is None


@pytest.mark.parametrize(
    ("status", "answered", "code", "words"),
    [
        (400, {"error": "not_approved", "detail": "The policy is not approved."}, "bad_request", "not approved"),
        (401, {"detail": "expired"}, "unauthorized", "API key"),
        (402, {"detail": "costs 40 cents"}, "budget_exceeded", "cap"),
        (403, {"error": "role_too_low", "detail": "read-only"}, "forbidden", "role"),
        (404, {"detail": "no trade"}, "not_found", "list tool"),
        (409, {"detail": "exists"}, "conflict", "exists"),
        (413, {"detail": "over 10 MB"}, "too_large", "smaller"),
        (422, {"detail": {"errors": {"quantity": ["must be positive"]}}}, "invalid", "quantity: must be positive"),
        (422, {"detail": {"validation_errors": ["step 1 has no id"]}}, "invalid", "step 1 has no id"),
        (422, {"detail": {"errors": "none fits"}}, "invalid", ": none fits."),
        (422, {"detail": {"errors": 5}}, "invalid", ": 5."),
        (422, {"detail": [{"loc": ["body", "price"], "msg": "not a number"}]}, "invalid", "price: not a number"),
        (423, {"detail": "held"}, "database_busy", "another program"),
        (429, {"detail": "slow down"}, "rate_limited", "Wait"),
        (500, {"detail": "boom"}, "backend_failed", "zorivest_diagnose"),
        (502, {"error": "bad_upstream", "detail": "garbage"}, "bad_upstream", "provider"),
        (503, {"error": "no_provider", "detail": "none is configured"}, "unavailable", "none is configured"),
        (418, {"detail": "teapot"}, "refused", "teapot"),
    ],
)
async def test_a_refusal_says_what_happened_and_what_to_do(
    replies: aioresponses, make: Make, status: int, answered: Any, code: str, words: str
) -> None:
    replies.post(f"{URL}/x", status=status, payload=answered)
    with pytest.raises(BackendError) as refused:
        await make(URL).ask(Request("POST", "/x"))
    error = refused.value
    assert (error.status, error.code) == (status, code)
    assert words in error.text
    assert str(status) in error.text
    assert error.next
    assert error.next in error.text


async def test_a_rate_limit_passes_on_how_long_to_wait(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/x", status=429, payload={"detail": "x"}, headers={"Retry-After": "17"})
    with pytest.raises(BackendError, match="Wait 17 s"):
        await make(URL).ask(Request("GET", "/x"))
    dates = {"Date": "Mon, 02 Jan 2023 10:00:00 GMT", "Retry-After": "Mon, 02 Jan 2023 10:01:30 GMT"}
    replies.get(f"{URL}/x", status=429, payload={"detail": "x"}, headers=dates)
    with pytest.raises(BackendError, match="Wait 90 s"):
        await make(URL).ask(Request("GET", "/x"))
    replies.get(f"{URL}/x", status=429, payload={"detail": "x"}, headers={"Retry-After": "9" * 5000})
    with pytest.raises(BackendError, match="Wait before"):
        await make(URL).ask(Request("GET", "/x"))


async def test_a_path_that_nobody_serves_is_told_from_a_thing_that_does_not_exist(
    replies: aioresponses, make: Make
) -> None:
    replies.get(f"{URL}/x", status=404, body="<html>", content_type="text/html")
    replies.get(f"{URL}/x", status=404, payload={"error": "route_not_found", "detail": "No route."})
    for _ in range(2):
        with pytest.raises(BackendError, match="Nothing is served at GET /x") as refused:
            await make(URL).ask(Request("GET", "/x"))
        assert refused.value.code == "unknown_route"


async def test_the_guards_refusal_has_its_own_phrase(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/x", status=403, payload={"error": "guard_blocked", "detail": {"reason": "manual"}})
    with pytest.raises(GuardLocked, match="MCP guard blocked this call: manual"):
        await make(URL).ask(Request("GET", "/x"))


async def test_a_secret_in_a_backends_answer_does_not_reach_a_text(replies: aioresponses, make: Make) -> None:
    told = "key zrv_sk_PLANTED0123 and tok_PLANTED and Bearer PLANTED.x are bad"
    replies.get(f"{URL}/x", status=500, payload={"detail": told})
    with pytest.raises(BackendError) as refused:
        await make(URL).ask(Request("GET", "/x"))
    assert "PLANTED" not in refused.value.text


async def test_a_page_instead_of_json_is_refused(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/x", body="<html>hello</html>", content_type="text/html")
    with pytest.raises(BackendError, match="text/html instead of JSON") as refused:
        await make(URL).ask(Request("GET", "/x"))
    assert refused.value.code == "not_json"


async def test_broken_json_is_refused(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/x", body='{"half":')
    with pytest.raises(BackendError, match="broken JSON"):
        await make(URL).ask(Request("GET", "/x"))


@pytest.mark.parametrize(
    "told",
    [
        "a" + " " * 8184 + "zrv_sk_planted_and_long",
        " " * 8180 + "zrv_sk_planted_and_long",
        "b " * 4094 + "zrv_sk_planted_and_long",
        "c" * 8185 + "zrv_sk_planted_and_long",
    ],
    ids=["after blanks", "after blanks alone", "after words", "within a word"],
)
async def test_no_part_of_a_secret_is_told_where_a_long_detail_is_cut(
    replies: aioresponses, make: Make, told: str
) -> None:
    replies.get(f"{URL}/x", status=500, payload={"detail": told})
    with pytest.raises(BackendError) as refused:
        await make("http://backend.test:8765").ask(Request("GET", "/x"))
    assert "zrv" not in refused.value.text.replace("zrv_sk_…", "")
    assert len(refused.value.text) < 800


async def test_of_a_failure_of_more_than_a_mebibyte_the_status_is_told(server: Misbehaving, make: Make) -> None:
    server.script = [answer({"detail": "a " * 600_000}, 500)]
    with pytest.raises(BackendError, match=r"^The backend failed \(500, request [^)]*\)\. Check whether"):
        await make(server.url).ask(Request("POST", "/x"))


async def test_a_long_detail_is_cut(replies: aioresponses, make: Make) -> None:
    replies.get(f"{URL}/x", status=400, payload={"detail": "y" * 100_000})
    with pytest.raises(BackendError) as refused:
        await make(URL).ask(Request("GET", "/x"))
    assert len(refused.value.text) < 1000


async def test_compressed_answers_are_read(server: Misbehaving, make: Make) -> None:
    server.script = [answer(gzip.compress(b'{"a":1}'), Content_Encoding="gzip")]
    assert (await make(server.url).ask(Request("GET", "/x"))).value == {"a": 1}


async def test_a_small_answer_that_unpacks_to_a_huge_one_is_refused(server: Misbehaving, make: Make) -> None:
    bomb = gzip.compress(b'"' + b"a" * 5_000_000 + b'"')
    assert len(bomb) < 50_000
    server.script = [answer(bomb, Content_Encoding="gzip")]
    with pytest.raises(BackendError, match="larger than 1000000 bytes"):
        await make(server.url, limits=BackendLimits(body=1_000_000)).ask(Request("GET", "/x"))


async def test_a_redirect_to_the_same_server_is_followed_with_its_body(server: Misbehaving, make: Make) -> None:
    server.script = [answer(status=307, Location="/api/v1/trades/"), answer({"status": "created"}, 201)]
    reply = await make(server.url).ask(Request("POST", "/trades", body={"a": 1}))
    assert reply.status == 201
    assert [(seen.path, seen.json) for seen in server.seen] == [
        ("/api/v1/trades", {"a": 1}),
        ("/api/v1/trades/", {"a": 1}),
    ]


async def test_a_write_is_never_turned_into_a_read_by_a_redirect(server: Misbehaving, make: Make) -> None:
    server.script = [answer(status=302, Location="/api/v1/trades/")]
    with pytest.raises(BackendError) as refused:
        await make(server.url).ask(Request("POST", "/trades", body={}))
    assert (refused.value.status, len(server.seen)) == (302, 1)


async def test_a_redirect_to_another_server_is_not_followed(server: Misbehaving, make: Make) -> None:
    server.script = [answer(status=307, Location="http://127.0.0.1:9/api/v1/x")]
    with pytest.raises(BackendError, match="another server") as refused:
        await make(server.url).ask(Request("GET", "/x"))
    assert refused.value.problem.endswith("redirects to another server, which is not followed.")


async def test_redirects_in_circles_end(server: Misbehaving, make: Make) -> None:
    server.otherwise = answer(status=307, Location="/api/v1/x")
    with pytest.raises(BackendError, match="circles") as refused:
        await make(server.url).ask(Request("GET", "/x"))
    assert refused.value.problem.endswith("redirects in circles.")
    assert len(server.seen) < 10


async def test_cookies_are_not_kept(server: Misbehaving, make: Make) -> None:
    server.script = [answer({}, Set_Cookie="session=stolen")]
    backend = make(server.url)
    await backend.ask(Request("GET", "/x"))
    await backend.ask(Request("GET", "/x"))
    assert "cookie" not in server.seen[1].headers


async def test_the_backend_is_looked_for_once_and_again_after_it_is_gone(server: Misbehaving, clock: Clock) -> None:
    places = ["http://127.0.0.1:9", server.url]
    looked = 0

    async def where() -> str:
        nonlocal looked
        looked += 1
        return places.pop(0)

    backend = HttpBackend(where, clock=clock, sleep=clock.sleep)
    try:
        assert (await backend.ask(Request("GET", "/x"))).value == {"ok": True}
        await backend.ask(Request("GET", "/x"))
        assert (looked, backend.base_url) == (2, server.url + "/api/v1")
    finally:
        await backend.close()


async def test_a_backend_that_cannot_be_found_is_explained(make: Make) -> None:
    async def where() -> str:
        raise ToolError("The embedded backend did not start: disk full.")

    with pytest.raises(BackendUnreachable, match="disk full"):
        await make(where).ask(Request("POST", "/x"))


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (aiohttp.ClientConnectorDNSError, "host name is unknown"),
        (aiohttp.ClientConnectorError, "connection refused"),
        (aiohttp.ConnectionTimeoutError, "timed out"),
    ],
)
async def test_a_failed_connection_says_that_nothing_was_sent(
    replies: aioresponses, make: Make, raised: type[Exception], words: str
) -> None:
    arguments: tuple[Any, ...] = ()
    if issubclass(raised, aiohttp.ClientConnectorError):
        key: Any = type("Key", (), {"host": "h", "port": 1, "ssl": True, "is_ssl": False})()
        arguments = (key, OSError(111, "Connection refused"))
    replies.post(f"{URL}/x", exception=raised(*arguments))
    with pytest.raises(BackendUnreachable, match="nothing was sent") as failed:
        await make(URL).ask(Request("POST", "/x"))
    assert words in failed.value.text


async def test_few_paths_are_remembered_and_none_with_values(server: Misbehaving, make: Make) -> None:
    """A path with an id, or a query, is as many paths as there are values."""
    backend = make(server.url)
    server.otherwise = answer({})
    await backend.ask(Request("GET", "/x", query={"page": "1"}))
    assert not backend._urls
    for number in range(300):
        await backend.ask(Request("GET", f"/trades/{number}"))
    await backend.ask(Request("GET", "/x", query={"page": "2"}))
    assert len(backend._urls) == 256
    assert not any("?" in path for path in backend._urls)
