"""What an attacker or a broken client sends: answered, refused, and without effect on anything else."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from sqlalchemy import text
from yarl import URL

from tests.embedded.driver import Journal
from tests.embedded.journal.pictures import form, picture
from zorivest_rpc.embedded.backend import Embedded

INJECTIONS = (
    "'; DROP TABLE trades; --",
    "' OR 1=1 --",
    '" UNION SELECT key FROM settings --',
    "%' OR '1'='1",
    "\\'; DELETE FROM trades; --",
    "1); ATTACH DATABASE '/tmp/x' AS x; --",
)


async def counts(backend: Embedded) -> dict[str, int]:
    tables = ("trades", "accounts", "round_trips", "images", "settings", "journal_entries")
    return await backend.database().read(
        lambda conn: {name: conn.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in tables}
    )


async def test_sql_in_any_place_is_only_text(journal: Journal, backend: Embedded) -> None:
    await journal.buy(1, 1)
    for word in INJECTIONS:
        await inject(journal, backend, word)


async def inject(journal: Journal, backend: Embedded, word: str) -> None:
    before = await counts(backend)
    quoted = URL.build(path=word).raw_path.replace("/", "%2F")
    for path in ("/trades/{}", "/trades/{}/report", "/round-trips/{}", "/journal/{}", "/accounts/{}", "/images/{}"):
        response = await journal.caller.client.get(
            URL("/api/v1" + path.format(quoted), encoded=True),
            headers={"Authorization": f"Bearer {journal.caller.token}"},
        )
        assert response.status == 404
    for name in ("search", "account_id"):
        assert (await journal.get("/trades", params={name: word}))["items"] == []
    assert (await journal.get("/analytics/expectancy", params={"account_id": word}))["trade_count"] == 0
    await journal.refused(422, "GET", "/trades", params={"sort": word})
    await journal.refused(422, "GET", "/fees/summary", params={"period": word})
    await journal.refused(404, "GET", "/analytics/execution-quality", params={"trade_id": word})
    assert await counts(backend) == before
    trade = await journal.buy(1, 1, exec_id=word, notes=word, account_id=word, instrument="SPY")
    assert (trade["exec_id"], trade["notes"], trade["account_id"]) == (word, word, word)
    assert [item["exec_id"] for item in (await journal.get("/trades", params={"search": word}))["items"]] == [word]


MALFORMED = (
    b"",
    b"{",
    b"[]",
    b'"text"',
    b"null",
    b"\xff\xfe",
    b'{"exec_id": "\\ud800", "instrument": "SPY"}',
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"quantity": 1e999999999}',
    b'{"quantity": 1e999999999, "setup_quality": 1e999999999, "limit": 1e999999999}',
    b'{"quantity": ' + b"9" * 5_000 + b"}",
    b'{"exec_id": NaN}',
)


@pytest.mark.parametrize("path", ["/trades", "/mistakes", "/analytics/options-strategy", "/market-data/bars"])
async def test_a_malformed_body_is_a_422_everywhere(journal: Journal, path: str) -> None:
    for body in MALFORMED:
        response = await journal.ask("POST", path, data=body, headers={"Content-Type": "application/json"})
        assert response.status == 422, body[:50]
        assert (await response.json())["error"] in ("invalid_json", "validation_error")


async def test_an_oversized_body_is_refused(journal: Journal) -> None:
    body = json.dumps({"exec_id": "x", "notes": "y" * 2_000_000}).encode()
    for path in ("/trades", "/journal", "/trade-plans", "/calculator/position-size"):
        response = await journal.ask("POST", path, data=io.BytesIO(body), headers={"Content-Type": "application/json"})
        assert response.status == 413
    await journal.refused(422, "POST", "/journal", {"title": "t", "body": "b" * 100_001})


async def test_paths_that_climb_find_nothing(journal: Journal) -> None:
    for path in ("/images/..%2F..%2Fbootstrap.json/full", "/images/%2e%2e/full", "/trades/..%2F..%2F/images"):
        response = await journal.caller.client.get(
            URL("/api/v1" + path, encoded=True), headers={"Authorization": f"Bearer {journal.caller.token}"}
        )
        assert response.status == 404
        assert b"wrapped_dek" not in await response.read()


async def test_a_session_ends_with_a_lock(journal: Journal, api_key: str) -> None:
    await journal.buy(1, 1)
    await journal.expect(200, "POST", "/auth/lock")
    for method, path in (("GET", "/trades"), ("GET", "/round-trips"), ("DELETE", "/trades/E0001")):
        await journal.refused(403, method, path)
    await journal.caller.unlock(api_key)
    await journal.refused(401, "GET", "/trades")  # the old token stays dead


async def test_a_guard_that_is_locked_stops_a_journal_call_before_it_acts(journal: Journal) -> None:
    await journal.expect(200, "POST", "/mcp-guard/lock", {"reason": "test"})
    body = {"exec_id": "x", "instrument": "SPY", "action": "BOT", "quantity": 1, "price": 1, "account_id": "A1"}
    refused = await journal.refused(403, "POST", "/trades", body, headers={"X-MCP-Guard": "check"})
    assert (refused["error"], refused["detail"]) == ("guard_blocked", {"reason": "test", "locked_by": "tool"})
    assert (await journal.get("/trades"))["total"] == 0


async def test_secrets_of_the_journal_do_not_reach_the_log(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    secret = "PLANTED-8d1f"
    await journal.buy(1, 1, notes=secret)
    await journal.refused(422, "POST", "/trades", {"notes": secret})
    await journal.refused(409, "POST", "/trades", {
        "exec_id": "E0001", "instrument": "SPY", "action": "BOT", "quantity": 1, "price": 1, "account_id": secret,
    })  # fmt: skip
    assert secret not in caplog.text


async def test_a_storm_of_everything_never_meets_a_locked_database(journal: Journal) -> None:
    await journal.result(5)
    data = picture(size=(40, 40))

    async def one(number: int) -> int:
        kind = number % 6
        if kind == 0:
            return (await journal.ask("POST", "/trades/E0001/images", data=form(data))).status
        if kind == 1:
            return (await journal.ask("POST", "/journal", {"title": "t", "body": "b"})).status
        if kind == 2:
            return (await journal.ask("PUT", "/trades/E0002", {"price": 1000 + number})).status
        if kind == 3:
            return (await journal.ask("GET", "/analytics/expectancy")).status
        if kind == 4:
            return (await journal.ask("POST", "/mistakes", {"trade_id": "E0001", "category": "other"})).status
        return (await journal.ask("PUT", "/settings", {"ui.theme": "dark"})).status

    statuses = await asyncio.gather(*(one(number) for number in range(180)))
    assert set(statuses) == {200, 201}
    counters: dict[str, Any] = (await journal.get("/mcp/state-summary"))["counters"]
    assert (counters["images"], counters["mistakes"]) == (30, 30)
