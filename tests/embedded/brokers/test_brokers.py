"""The list of brokers, who may set one up, and what a sync says that cannot be done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select, text

from tests.embedded.conftest import Caller
from tests.embedded.market.conftest import Time
from tests.embedded.upstream import Upstream
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.brokers.registry import BROKERS
from zorivest_rpc.embedded.database.schema.brokers import broker_configs
from zorivest_rpc.embedded.market.outbound import Outbound

SEEDED = {
    *("ibkr_pro", "ibkr_lite", "alpaca_paper", "alpaca_live", "tradier_sandbox", "tradier_live", "schwab", "webull"),
    *("tastytrade", "lightspeed", "thinkorswim", "ninjatrader", "etrade", "robinhood", "local_folder"),
}
KEY, SECRET = "PLANTED-broker-key", "PLANTED-broker-secret"


async def test_every_broker_is_listed_and_only_the_folder_is_ready(owner: Caller) -> None:
    listed = await owner.get("/brokers")
    assert {row["broker_id"] for row in listed} == SEEDED
    assert [row["broker_id"] for row in listed if row["configured"]] == ["local_folder"]
    assert {row["environment"] for row in listed} == {"live", "paper", "local"}
    assert {row["routing_type"] for row in listed} == {"pfof", "dma", "hybrid"}
    assert all(row["last_sync"] is None and row["account_ids"] == [] for row in listed)


@pytest.mark.parametrize(
    "broker", [one for one in BROKERS if one.broker_id != "local_folder"], ids=lambda b: b.broker_id
)
async def test_a_broker_that_is_not_set_up_says_what_to_do(broker: Any, owner: Caller, upstream: Upstream) -> None:
    for method, path in (("POST", "sync"), ("GET", "positions")):
        refused = await owner.expect(409, method, f"/brokers/{broker.broker_id}/{path}")
        assert refused["error"] == "broker_not_configured"
        if broker.adapter is None:
            assert "import_broker_csv" in refused["detail"]
        else:
            assert refused["missing"] == list(broker.needs)
    assert upstream.asked == []


async def test_secrets_are_encrypted_and_never_come_back(owner: Caller, backend: Embedded) -> None:
    for broker in BROKERS:
        if broker.adapter in (None, "local_folder"):
            continue
        body = {"api_key": KEY, "api_secret": SECRET, "account_id": "A-1", "query_id": "12"}
        assert await owner.expect(200, "PUT", f"/brokers/{broker.broker_id}", body) == {"status": "configured"}
    assert "PLANTED" not in str(await owner.get("/brokers"))

    def job(conn: Any) -> tuple[Any, str]:
        tables = conn.execute(text("SELECT name FROM sqlite_master WHERE type='table'")).scalars().all()
        everything = [tuple(row) for table in tables for row in conn.execute(text(f'SELECT * FROM "{table}"'))]
        return conn.execute(select(broker_configs)).all(), repr(everything)

    rows, everything = await backend.database().read(job)
    assert all(row.encrypted_api_key.startswith("ENC:") for row in rows)
    assert "PLANTED" not in everything
    summary = await owner.get("/mcp/state-summary")
    assert summary["counters"]["brokers_configured"] == len(rows) + 1


@pytest.mark.parametrize(
    ("broker_id", "body", "field"),
    [
        ("alpaca_live", {}, "body"),
        ("alpaca_live", {"environment": "paper"}, "environment"),
        ("alpaca_live", {"api_key": "a b"}, "api_key"),
        ("ibkr_pro", {"query_id": "abc"}, "query_id"),
        ("webull", {"api_key": "k"}, "broker_id"),
        ("alpaca_live", {"is_enabled": "maybe"}, "is_enabled"),
    ],
)
async def test_a_bad_configuration_is_refused(broker_id: str, body: dict[str, Any], field: str, owner: Caller) -> None:
    assert field in (await owner.expect(422, "PUT", f"/brokers/{broker_id}", body))["detail"]["errors"]


async def test_a_broker_switched_off_is_not_synced(owner: Caller) -> None:
    await owner.expect(200, "PUT", "/brokers/local_folder", {"is_enabled": False})
    refused = await owner.expect(409, "POST", "/brokers/local_folder/sync")
    assert "switched off" in refused["detail"]
    assert (await owner.get("/mcp/state-summary"))["counters"]["brokers_configured"] == 0


async def test_an_unknown_broker_is_404(owner: Caller) -> None:
    for method, path in (("POST", "/sync"), ("GET", "/positions"), ("PUT", "")):
        refused = await owner.expect(
            404, method, f"/brokers/nobody{path}", {"api_key": "k"} if method == "PUT" else None
        )
        assert "list_brokers" in refused["detail"]


@pytest.mark.parametrize("body", [{"start": "soon"}, {"start": "2026-03-02", "end": "2026-03-01"}, {"start": 7}])
async def test_a_period_that_cannot_be_is_refused(body: dict[str, Any], owner: Caller) -> None:
    assert "start" in (await owner.expect(422, "POST", "/brokers/local_folder/sync", body))["detail"]["errors"]


async def test_without_a_network_an_api_broker_is_503(owner: Caller, backend: Embedded, time: Time) -> None:
    import socket

    await owner.expect(200, "PUT", "/brokers/alpaca_live", {"api_key": KEY, "api_secret": SECRET})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    await backend.outbound.close()
    backend.outbound = Outbound(
        {"alpaca": f"http://127.0.0.1:{port}"}, clock=time.clock, sleep=time.sleep, now=time.now
    )
    refused = await owner.expect(503, "POST", "/brokers/alpaca_live/sync")
    assert (refused["error"], refused["reason"]) == ("offline", "connection_failed")
    await owner.expect(200, "PUT", "/settings", {"market.offline": True})
    refused = await owner.expect(503, "POST", "/brokers/alpaca_live/sync")
    assert refused["reason"] == "offline"


async def test_reading_writing_and_setting_up_need_their_roles(
    owner: Caller, with_role: Callable[[str], Awaitable[Caller]]
) -> None:
    reader, writer = await with_role("read-only"), await with_role("read-write")
    await reader.expect(200, "GET", "/brokers")
    await reader.expect(403, "POST", "/brokers/local_folder/sync")
    await writer.expect(200, "POST", "/brokers/local_folder/sync")
    await writer.expect(403, "PUT", "/brokers/local_folder", {"is_enabled": True})
