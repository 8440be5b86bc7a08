"""What surrounds every route: uploads, unexpected errors, error envelopes, the order of areas."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import FormData, web
from pytest_aiohttp import AiohttpClient
from sqlalchemy import text

from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.errors import Conflict, NotFound, Refusal, Unavailable
from zorivest_rpc.embedded.rest.routes import AREAS
from zorivest_rpc.embedded.rest.routing import READ, WRITE, RestCall, Route, reply

from .conftest import Caller


async def upload(ask: RestCall) -> web.StreamResponse:
    form = await ask.form(file_limit=1000)
    return reply(
        {
            "fields": form.fields,
            "files": {name: [file.filename, file.content_type, len(file.data)] for name, file in form.files.items()},
        }
    )


async def fail(ask: RestCall) -> web.StreamResponse:
    kind = ask.query["kind"]
    if kind == "bug":
        raise ZeroDivisionError("secret detail")
    if kind == "sql":
        await ask.db.write(lambda conn: conn.execute(text("SELECT * FROM no_such_table")))
    if kind == "conflict":
        raise Conflict("duplicate_trade", "It is there already.", exec_id="E-1", match="exec_id")
    if kind == "missing":
        raise NotFound("trade", "E-1", "list_trades gives the ids.")
    raise Unavailable("offline", "No network.")


ROUTES = (
    Route("POST", "/test/upload", WRITE, upload, max_body=5000),
    Route("GET", "/test/fail", READ, fail),
)


@pytest.fixture
async def caller(backend: Embedded, api_key: str, aiohttp_client: AiohttpClient) -> Caller:
    return await Caller(await aiohttp_client(create_app(backend, (*AREAS, ROUTES)))).unlock(api_key)


def form(*parts: tuple[str, str | bytes, str | None]) -> FormData:
    data = FormData(default_to_multipart=True)
    for name, value, filename in parts:
        data.add_field(name, value, filename=filename, content_type="image/png" if filename else None)
    return data


async def test_a_form_is_read_into_fields_and_files(caller: Caller) -> None:
    data = form(("caption", "Größe", None), ("file", b"x" * 900, "a.png"))
    answer = await caller.expect(200, "POST", "/test/upload", data=data)
    assert answer == {"fields": {"caption": "Größe"}, "files": {"file": ["a.png", "image/png", 900]}}


async def test_a_file_over_its_limit_and_a_body_over_the_routes_are_too_large(caller: Caller) -> None:
    one = await caller.expect(413, "POST", "/test/upload", data=form(("file", b"x" * 1001, "a.png")))
    assert one["detail"] == "The file is larger than 1000 bytes."
    many = form(*((f"file{number}", b"x" * 900, "a.png") for number in range(8)))
    assert (await caller.expect(413, "POST", "/test/upload", data=many))["error"] == "too_large"


PART = b"--x\r\nContent-Disposition: form-data"
MULTIPART = "multipart/form-data; boundary=x"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{}", "application/json"),
        (b"", MULTIPART),
        (PART + b"\r\n\r\nv\r\n--x--\r\n", MULTIPART),
        (b"--x\r\nno header at all", MULTIPART),
        (PART + b'; name="a"\r\n\r\n\xff\r\n--x--\r\n', MULTIPART),
        (PART + b'; name="a"\r\nContent-Transfer-Encoding: base64\r\n\r\neA==\r\n--x--\r\n', MULTIPART),
        (b"--x--", "multipart/form-data"),
    ],
)
async def test_a_body_that_is_no_form_is_refused(body: bytes, kind: str, caller: Caller) -> None:
    response = await caller.ask("POST", "/test/upload", data=body, headers={"Content-Type": kind})
    assert response.status in {200, 422}
    if response.status == 200:
        assert await response.json() == {"fields": {}, "files": {}}
        assert body == b""


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("bug", 500, "internal_error"),
        ("sql", 500, "database_error"),
        ("conflict", 409, "duplicate_trade"),
        ("missing", 404, "trade_not_found"),
        ("offline", 503, "offline"),
    ],
)
async def test_every_failure_leaves_as_the_envelope(kind: str, status: int, error: str, caller: Caller) -> None:
    response = await caller.ask("GET", f"/test/fail?kind={kind}")
    answer = await response.json()
    assert (response.status, answer["error"]) == (status, error)
    assert answer["request_id"] == response.headers["X-Request-ID"]
    assert "secret" not in str(answer)
    assert "no_such_table" not in str(answer)
    if kind == "conflict":
        assert (answer["exec_id"], answer["match"]) == ("E-1", "exec_id")


def test_every_refusal_has_a_status_of_its_own() -> None:
    def leaves(kind: type[Refusal]) -> list[type[Refusal]]:
        return [kind] + [leaf for child in kind.__subclasses__() for leaf in leaves(child)]

    own = [kind for kind in leaves(Refusal)[1:] if kind.__module__ == Refusal.__module__]  # others take one over
    statuses = [kind.status for kind in own]
    assert sorted(statuses) == [400, 401, 403, 404, 405, 409, 413, 422, 423, 429, 500, 502, 503]


def test_no_two_areas_claim_the_same_route() -> None:
    claimed = [(route.method, route.path) for area in AREAS for route in area]
    assert len(claimed) == len(set(claimed))
    assert all(path.startswith("/") and not path.endswith("/") for _, path in claimed)


async def test_a_fixed_path_is_not_swallowed_by_a_placeholder(caller: Caller) -> None:
    answer: Any = await caller.get("/settings/resolved")
    assert "ui.theme" in answer
