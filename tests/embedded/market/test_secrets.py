"""Keys go in and never come out: not in answers, errors, logs, the audit log or the database file's own columns."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select, text

from tests.embedded.conftest import Caller
from tests.embedded.upstream import Upstream, raw, status
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.market import market_providers
from zorivest_rpc.embedded.market.providers import PROVIDERS

KEY = "PLANTED+key/with=signs"
SECRET = "PLANTED-second-half"
PATHS = (
    "/market-data/quote?ticker=AAPL",
    "/market-data/news?ticker=AAPL",
    "/market-data/sec-filings?ticker=AAPL",
    "/market-data/ohlcv?ticker=AAPL",
    "/market-data/search?query=nothing-like-it",
)


def leaks(found: Any) -> bool:
    shown = found if isinstance(found, str) else json.dumps(found)
    return "PLANTED" in shown


@pytest.fixture
async def planted(market: Caller) -> Caller:
    for provider in PROVIDERS:
        body = {"api_key": KEY, "api_secret": SECRET}
        answer = await market.expect(200, "PUT", f"/market-data/providers/{provider.slug}", body)
        assert answer == {"status": "configured"}
    return market


ECHO = {"message": f"key {KEY} is not valid, nor is {KEY.replace('+', '%2B').replace('/', '%2F').replace('=', '%3D')}"}


@pytest.mark.parametrize(
    "answer",
    [
        status(401, ECHO),
        status(403, {"error": {"message": f"not {KEY} {SECRET}"}}),
        status(400, {"Error Message": f"apikey {KEY}"}),
        status(500, ECHO),
        status(429, ECHO),
        {"Information": f"your key {KEY}", "Error Message": KEY, "error": KEY},
        raw(KEY.encode()),
    ],
    ids=["401", "403", "400", "500", "429", "200", "text"],
)
async def test_a_planted_key_is_in_no_answer_error_or_log(
    answer: Any, planted: Caller, upstream: Upstream, backend: Embedded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    class Everywhere(dict[str, Any]):
        def get(self, path: str, default: Any = None) -> Any:
            return answer

    upstream.answers = Everywhere()
    for path in PATHS:
        response = await planted.ask("GET", path)
        assert not leaks(await response.text()), path
    for provider in PROVIDERS:
        answered = await planted.expect(200, "POST", f"/market-data/providers/{provider.slug}/test")
        assert not leaks(answered)
    body = {"identifiers": [{"id_type": "cusip", "id_value": "17275R102"}]}
    assert not leaks(await planted.expect(200, "POST", "/identifiers/resolve", body))
    assert not leaks(await planted.get("/market-data/providers"))
    assert any(KEY in asked.query.values() for asked in upstream.asked)  # the keys were really used
    assert any(KEY in value for asked in upstream.asked for value in asked.headers.values())
    assert not leaks("\n".join(record.getMessage() + str(record.exc_info) for record in caplog.records))


async def test_a_key_is_encrypted_at_rest_and_told_to_nobody(planted: Caller, backend: Embedded) -> None:
    def job(conn: Any) -> tuple[list[Any], str]:
        rows = conn.execute(select(market_providers)).all()
        tables = conn.execute(text("SELECT name FROM sqlite_master WHERE type='table'")).scalars().all()
        everything = [tuple(row) for table in tables for row in conn.execute(text(f'SELECT * FROM "{table}"'))]
        return list(rows), repr(everything)

    rows, everything = await backend.database().read(job)
    assert len(rows) == len(PROVIDERS)
    assert all(row.encrypted_api_key.startswith("ENC:") for row in rows)
    assert all(row.encrypted_api_secret.startswith("ENC:") for row in rows)
    assert not leaks(everything)
    listed = await planted.get("/market-data/providers")
    assert all(row["has_api_key"] and row["has_key"] and row["is_enabled"] for row in listed)


async def test_disconnecting_deletes_the_key_and_can_be_done_twice(planted: Caller, backend: Embedded) -> None:
    for _ in range(2):
        answer = await planted.expect(200, "DELETE", "/market-data/providers/alpha vantage/key")
        assert answer == {"status": "removed", "provider_name": "Alpha Vantage", "is_enabled": False}
    listed = {row["slug"]: row for row in await planted.get("/market-data/providers")}
    shown = listed["alpha_vantage"]
    assert (shown["has_key"], shown["is_enabled"], shown["last_test_status"]) == (False, False, "untested")
    row = await backend.database().read(
        lambda conn: conn.execute(
            select(market_providers).where(market_providers.c.provider_name == "Alpha Vantage")
        ).one()
    )
    assert (row.encrypted_api_key, row.encrypted_api_secret) == (None, None)


async def test_what_is_left_out_stays_as_it_was(market: Caller) -> None:
    await market.expect(200, "PUT", "/market-data/providers/finnhub", {"api_key": "k", "rate_limit": 7})
    await market.expect(200, "PUT", "/market-data/providers/finnhub", {"timeout": 9})
    shown = next(row for row in await market.get("/market-data/providers") if row["slug"] == "finnhub")
    assert (shown["rate_limit"], shown["timeout"], shown["has_key"], shown["is_enabled"]) == (7, 9, True, True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"api_key": ""},
        {"api_key": "two\nlines"},
        {"api_key": "schlüssel"},
        {"api_key": "with space"},
        {"api_key": "ENC:forged"},
        {"api_key": 7},
        {"rate_limit": 0},
        {"timeout": 0},
        {"is_enabled": "perhaps"},
    ],
)
async def test_a_bad_configuration_is_refused_without_repeating_it(body: dict[str, Any], market: Caller) -> None:
    response = await market.ask("PUT", "/market-data/providers/finnhub", body)
    assert response.status == 422
    shown = await response.text()
    assert all(not isinstance(value, str) or len(value) < 4 or value not in shown for value in body.values())


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", ""), ("POST", "/test"), ("DELETE", "/key")],
)
async def test_an_unknown_provider_is_404(method: str, path: str, market: Caller) -> None:
    refused = await market.expect(404, method, f"/market-data/providers/nobody{path}", {"api_key": "k"})
    assert "list_market_providers" in refused["detail"]


async def test_only_an_admin_enters_keys_and_only_a_writer_removes_them(
    with_role: Callable[[str], Awaitable[Caller]],
) -> None:
    reader, writer = await with_role("read-only"), await with_role("read-write")
    await reader.expect(200, "GET", "/market-data/providers")
    await reader.expect(403, "DELETE", "/market-data/providers/finnhub/key")
    await writer.expect(403, "PUT", "/market-data/providers/finnhub", {"api_key": "k"})
    await writer.expect(200, "DELETE", "/market-data/providers/finnhub/key")
