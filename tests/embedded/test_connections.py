"""`/connections` says what a person can enter and what is missing, in the names that the routes take, and no value."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from zorivest_rpc.embedded.brokers.registry import BROKERS
from zorivest_rpc.embedded.market.providers import PROVIDERS

from .conftest import Caller

PLANTED = "planted-value-51b0"


async def test_it_names_what_each_takes_and_never_what_was_entered(admin: Caller) -> None:
    await admin.expect(200, "PUT", "/market-data/providers/alpaca", {"api_key": PLANTED, "api_secret": PLANTED})
    await admin.expect(200, "PUT", "/brokers/ibkr_pro", {"api_key": PLANTED, "query_id": "1"})
    account = {"preset": "gmail", "username": "me", "password": PLANTED, "from_email": "me@example.com"}
    await admin.expect(200, "PUT", "/scheduling/email", account)
    found = await admin.get("/connections")
    assert PLANTED not in json.dumps(found)
    entries = {entry["name"]: entry for entry in (*found["brokers"], *found["providers"])}
    assert entries["alpaca"]["connected"] is True
    assert (entries["ibkr_pro"]["connected"], entries["ibkr_pro"]["missing"]) == (False, ["account_id"])
    assert [one["secret"] for one in entries["ibkr_pro"]["credentials"]] == [True, False, False]
    assert (found["mail"]["connected"], found["mail"]["server"]["has_password"]) == (True, True)


async def test_what_it_names_is_what_the_routes_take_and_connects_every_one(admin: Caller) -> None:
    values = {"api_key": "k", "api_secret": "s", "account_id": "A1", "query_id": "1"}
    found = await admin.get("/connections")
    connectable = [("/market-data/providers", entry) for entry in found["providers"]]
    connectable += [("/brokers", entry) for entry in found["brokers"] if not entry["files_only"]]
    for root, entry in connectable:
        body = {one["name"]: values[one["name"]] for one in entry["credentials"] if one["required"]}
        await admin.expect(200, "PUT", f"{root}/{entry['name']}", {"is_enabled": True, **body})
    after = await admin.get("/connections")
    entries = [*after["providers"], *(entry for entry in after["brokers"] if not entry["files_only"])]
    assert [entry["name"] for entry in entries if not entry["connected"]] == []
    assert len(entries) == len(PROVIDERS) + sum(broker.adapter is not None for broker in BROKERS)


async def test_a_provider_that_cannot_work_without_a_key_asks_for_one() -> None:
    for provider in PROVIDERS:
        required = [one.name for one in provider.credentials if one.required]
        assert ("api_key" in required) >= provider.requires_key, provider.name
        assert set(required) <= {"api_key", "api_secret"}


async def test_a_broker_s_credentials_are_deleted_for_good_by_an_admin_alone(
    admin: Caller, with_role: Callable[[str], Awaitable[Caller]]
) -> None:
    await admin.expect(200, "PUT", "/brokers/tradier_live", {"api_key": PLANTED, "account_id": "T1"})
    writer = await with_role("read-write")
    await writer.expect(403, "DELETE", "/brokers/tradier_live/key")
    answer = await admin.expect(200, "DELETE", "/brokers/tradier_live/key")
    assert answer == {"status": "removed", "broker_id": "tradier_live"}
    brokers = {entry["broker_id"]: entry for entry in await admin.get("/brokers")}
    assert (brokers["tradier_live"]["configured"], brokers["tradier_live"]["account_ids"]) == (False, [])
    refused = await admin.expect(409, "POST", "/brokers/tradier_live/sync", {})
    assert "zorivest-rpc connect broker tradier_live" in refused["detail"]
    await admin.expect(404, "DELETE", "/brokers/no_such/key")


async def test_a_folder_that_takes_nothing_is_switched_off_and_on_again(admin: Caller) -> None:
    await admin.expect(200, "DELETE", "/brokers/local_folder/key")
    refused = await admin.expect(409, "POST", "/brokers/local_folder/sync", {})
    assert "zorivest-rpc connect broker local_folder" in refused["detail"]
    await admin.expect(200, "PUT", "/brokers/local_folder", {"is_enabled": True})
    assert (await admin.expect(200, "POST", "/brokers/local_folder/sync", {}))["status"] == "success"
