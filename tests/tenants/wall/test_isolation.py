"""What belongs to one tenant serves no other: pools, tokens, locks, confirmations, limits, failures and figures."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.tenants.wall.stage import LEGACY, MODERN, Stage, mark, stage

IDS = ["acme", "sechpos"]
PAIR = {"acme": "sechpos", "sechpos": "acme"}
TRADE = {
    "exec_id": "E1",
    "instrument": "QQQ STK",
    "action": "BOT",
    "quantity": 1,
    "price": 1,
    "account_id": "A",
}


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    async with stage(monkeypatch, tmp_path, IDS) as made:
        yield made


def about(result: dict[str, Any]) -> tuple[str, str, str]:
    assert result["isError"] is True
    told = result["_meta"]["com.zorivest/error"]
    return result["content"][0]["text"], told["class"], told["code"]


async def test_four_hundred_calls_at_once_each_reach_their_own(place: Stage) -> None:
    client = await place.client()
    names = [IDS[number % 2] for number in range(400)]
    results = await asyncio.gather(*(client.call("list_trades", clientId=name) for name in names))
    for name, result in zip(names, results, strict=True):
        assert mark(name) in json.dumps(result)
        assert mark(PAIR[name]) not in json.dumps(result)
    for name in IDS:
        seen = place.backends.seen[name]
        assert {each.client for each in seen} == {f"header-{name}"}
        assert {each.authorization for each in seen if each.authorization} == {f"Bearer tok_{name}_{_token(seen)}"}
        assert sum(each.path == "/auth/unlock" for each in seen) == 1, "first calls that come together share the work"


def _token(seen: list[Any]) -> str:
    return str(next(each.authorization for each in seen if each.authorization)).rpartition("_")[2]


async def test_a_session_that_ends_is_renewed_for_its_tenant_alone(place: Stage) -> None:
    client = await place.client()
    for name in IDS:
        await client.call("list_trades", clientId=name)
    place.backends.gone.add("acme")
    for name in IDS:
        assert not (await client.call("list_trades", clientId=name)).get("isError")
    unlocks = {name: sum(each.path == "/auth/unlock" for each in place.backends.seen[name]) for name in IDS}
    assert unlocks == {"acme": 2, "sechpos": 1}


async def test_a_locked_guard_stops_its_own_tenant(place: Stage) -> None:
    client = await place.client(able={"elicitation": {}})
    client.reply = lambda question: {"action": "accept", "content": {"confirm": True}}
    stopped = await client.call("zorivest_emergency_stop", clientId="acme")
    assert stopped["structuredContent"]["locked"] is True
    assert stopped["content"][-1]["text"].endswith("(client acme)")
    assert place.backends.locked == {"acme"}
    assert client.asked[0]["params"]["message"].startswith("For client Desk of acme: ")
    assert about(await client.call("list_trades", clientId="acme"))[2] == "guard_blocked"
    assert not (await client.call("list_trades", clientId="sechpos")).get("isError")


async def test_a_stop_for_every_client_says_which_are_locked(place: Stage) -> None:
    client = await place.client(able={"elicitation": {}})
    client.reply = lambda question: {"action": "accept", "content": {"confirm": True}}
    result = await client.call("zorivest_emergency_stop", clientId="*")
    assert place.backends.locked == {"acme", "sechpos"}
    assert [(each["id"], each["locked"]) for each in result["structuredContent"]["clients"]] == [
        ("acme", True),
        ("sechpos", True),
    ]
    place.backends.locked.clear()
    place.backends.down.add("acme")
    result = await client.call("zorivest_emergency_stop", clientId="*")
    assert about(result)[2] == "partly_locked"
    assert place.backends.locked == {"sechpos"}
    first, second = (
        result["structuredContent"]["clients"]
        if "structuredContent" in result
        else json.loads(result["content"][0]["text"])["clients"]
    )
    assert (first["id"], first["locked"], second["id"], second["locked"]) == ("acme", False, "sechpos", True)


async def test_the_address_of_a_server_of_one_journal_is_not_used_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage(monkeypatch, tmp_path, IDS, environ={"ZORIVEST_API_URL": "http://127.0.0.1:9"}) as made:
        made.backends.locked.add("acme")
        told = about(await (await made.client()).call("list_trades", clientId="acme"))[0]
        assert told.startswith("⛔ MCP guard blocked this call: book-of-acme.locked.")
    async with stage(monkeypatch, tmp_path, IDS) as made:
        made.backends.locked.add("acme")
        assert about(await (await made.client()).call("list_trades", clientId="acme"))[0] == told
    assert "--api-url (ZORIVEST_API_URL) is not used" in caplog.text


async def test_a_text_names_the_desktop_application_where_a_client_has_a_backend_with_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An embedded backend has none; what is said of it would be wrong of an installation, and the other way round."""
    async with stage(monkeypatch, tmp_path, IDS, "--confirm", "never") as made:
        client = await made.client()
        stopped = await client.call("zorivest_emergency_stop", clientId="acme")
        assert "in the desktop app" in stopped["content"][0]["text"], stopped
        assert "GUI → Settings → MCP Guard" in about(await client.call("list_trades", clientId="acme"))[0]


async def test_a_loaded_toolset_is_told_of_the_one_list_that_was_said_to_change(place: Stage) -> None:
    client = await place.client()
    assert not (await client.call("enable_toolset", clientId="acme", toolset_name="tax")).get("isError")
    await client.request("ping", {})
    await client.request("ping", {})
    assert [each["method"] for each in client.notes] == ["notifications/tools/list_changed"]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_token_of_one_tenant_confirms_nothing_for_another(place: Stage, revision: str) -> None:
    client = await place.client(revision)
    wanted = {"action": "create_trade", "params_summary": "one share"}
    given = (await client.call("get_confirmation_token", clientId="acme", **wanted))["structuredContent"]
    assert given["instruction"].startswith("For client Desk of acme: ")
    text, _, code = about(await client.call("create_trade", clientId="sechpos", **TRADE))
    assert code == "confirmation_missing"
    assert text.startswith("For client Desk of sechpos: ")
    refused = await client.call("create_trade", clientId="sechpos", **TRADE, confirmation_token=given["token"])
    assert about(refused)[2] == "confirmation_other_session"
    assert not any(each.method == "POST" and each.path == "/trades" for each in place.backends.seen["sechpos"])
    done = await client.call("create_trade", clientId="acme", **TRADE, confirmation_token=given["token"])
    assert not done.get("isError"), done
    assert done["content"][-1]["text"].endswith("(client acme)")
    assert done["_meta"]["com.zorivest/receipt"]["tenant"] == "acme"


async def test_a_token_may_be_bound_to_arguments_that_repeat_their_client_and_to_no_other_client(place: Stage) -> None:
    client = await place.client()
    wanted = {"action": "create_trade", "params_summary": "one share", "clientId": "acme"}

    async def ask(**arguments: Any) -> dict[str, Any]:
        return await client.call("get_confirmation_token", **wanted, arguments={**TRADE, **arguments})

    for repeated in ("acme", " ACME ", None):
        token = (await ask(clientId=repeated))["structuredContent"]["token"]
        done = await client.call("create_trade", clientId="acme", **TRADE, confirmation_token=token)
        assert not done.get("isError"), done
    for other in ("sechpos", "nobody", 5, "*"):
        text, kind, code = about(await ask(clientId=other))
        assert (kind, code) == ("INPUT", "client_conflict")
        assert text == f'clientId "acme" and inner clientId "{other}" differ. Send only clientId.'
    token = (await ask())["structuredContent"]["token"]
    refused = await client.call("create_trade", clientId="acme", **{**TRADE, "quantity": 2}, confirmation_token=token)
    assert about(refused)[2] == "confirmation_other_arguments"
    every = {**wanted, "action": "zorivest_emergency_stop", "arguments": {"clientId": "*", "reason": "enough"}}
    token = (await client.call("get_confirmation_token", **every))["structuredContent"]["token"]
    stopped = await client.call("zorivest_emergency_stop", clientId="*", reason="enough", confirmation_token=token)
    assert not stopped.get("isError"), stopped
    assert place.backends.locked == {"acme", "sechpos"}


async def test_sealed_state_of_one_tenant_answers_no_question_of_another(place: Stage) -> None:
    client = await place.client(MODERN, able={"elicitation": {"form": {}}})
    params = {"name": "sync_broker", "arguments": {"clientId": "acme", "broker_id": "b"}}
    asked = (await client.request("tools/call", params))["result"]
    assert asked["resultType"] == "input_required"
    assert asked["_meta"]["com.zorivest/client"]["id"] == "acme"
    ((key, question),) = asked["inputRequests"].items()
    assert question["params"]["message"].startswith("For client Desk of acme: ")
    answers = {key: {"action": "accept", "content": {"confirm": True}}}
    other = {"name": "sync_broker", "arguments": {"clientId": "sechpos", "broker_id": "b"}}
    again = {**other, "inputResponses": answers, "requestState": asked["requestState"]}
    assert (await client.request("tools/call", again))["error"]["code"] == -32602
    unsealed = (await client.request("tools/call", {**other, "inputResponses": answers}))["result"]
    assert unsealed["resultType"] == "input_required", "an answer that was given for one tenant is none for another"
    assert not any("sync" in each.path for each in place.backends.seen["sechpos"])


async def test_a_slow_tenant_ends_in_its_own_time_and_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, Any] = {"acme": {"httpTimeoutMs": 200}}
    async with stage(monkeypatch, tmp_path, IDS, **limits) as place:
        client = await place.client()
        for name in IDS:
            await client.call("list_trades", clientId=name)
        place.backends.slow["acme"] = 1.0
        slow = asyncio.ensure_future(client.call("list_trades", clientId="acme"))
        for _ in range(5):
            assert not (await client.call("list_trades", clientId="sechpos")).get("isError")
        assert not slow.done()
        words = 'Client "acme": the backend gave no answer within 200 ms.'
        assert about(await slow) == (words, "BACKEND", "client_timeout")


async def test_no_more_requests_run_than_a_tenant_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage(monkeypatch, tmp_path, ["acme"], acme={"maxConcurrency": 1, "httpTimeoutMs": 300}) as place:
        client = await place.client()
        await client.call("list_trades", clientId="acme")
        place.backends.slow["acme"] = 0.2
        results = await asyncio.gather(*(client.call("list_trades", clientId="acme") for _ in range(3)))
        assert {about(each)[2] for each in results if each.get("isError")} == {"client_timeout"}


async def test_bounds_of_a_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, dict[str, Any]] = {
        "acme": {"readOnly": True},
        "sechpos": {"toolsets": ["tax"]},
        "third": {"callsPerMinute": 2},
        "fourth": {"apiKeyEnv": "NOWHERE"},
    }
    async with stage(monkeypatch, tmp_path, ["acme", "sechpos", "third", "fourth"], **limits) as place:
        monkeypatch.delenv("NOWHERE")
        client = await place.client()
        words = 'Client "acme" is read-only; "create_trade" changes data.'
        assert about(await client.call("create_trade", clientId="acme", **TRADE)) == (
            words,
            "POLICY",
            "client_readonly",
        )
        words = '"list_trades" is not enabled for client "sechpos".'
        assert about(await client.call("list_trades", clientId="sechpos")) == (words, "POLICY", "client_toolset")
        inner = {"name": "list_trades", "arguments": {}}
        assert about(await client.call("call_tool", clientId="sechpos", **inner))[2] == "client_toolset"
        there = (await client.call("list_available_toolsets", clientId="sechpos"))["structuredContent"]["toolsets"]
        assert [entry["name"] for entry in there] == ["core", "discovery", "tax"]
        refused = await client.call("describe_toolset", clientId="sechpos", toolset_name="trade-analytics")
        assert about(refused)[2] == "unknown_toolset"
        for _ in range(2):
            assert not (await client.call("list_trades", clientId="third")).get("isError")
        text, kind, code = about(await client.call("list_trades", clientId="third"))
        assert (kind, code) == ("POLICY", "client_rate")
        assert text.startswith('Client "third" is limited to 2 calls per minute; try again in ')
        words = (
            'Client "fourth" is not usable: its credential is not configured on the server. '
            "Other clients: acme, sechpos, third."
        )
        assert about(await client.call("list_trades", clientId="fourth")) == (words, "BACKEND", "client_unconfigured")
        assert place.backends.seen["fourth"] == []
        names = {tool["name"] for tool in (await client.request("tools/list", {}))["result"]["tools"]}
        assert {"list_trades", "create_trade"} <= names, "what one of them has is listed"


async def test_the_role_of_its_key_makes_a_tenant_read_only(place: Stage) -> None:
    place.backends.role = "read-only"
    client = await place.client()
    assert about(await client.call("create_trade", clientId="acme", **TRADE))[2] == "client_readonly"
    clients = (await client.call("list_clients"))["structuredContent"]["clients"]
    assert [entry["readOnly"] for entry in clients] == [True, False]


async def test_a_redirect_is_not_followed_and_a_failure_names_its_tenant(place: Stage) -> None:
    client = await place.client()
    await client.call("list_trades", clientId="acme")
    place.backends.redirects.add("acme")
    text, _, _ = about(await client.call("get_settings", clientId="acme"))
    assert 'Client "acme": ' in text
    assert not place.backends.seen.get("elsewhere")


async def test_what_a_backend_says_of_a_failure_is_cut(place: Stage) -> None:
    client = await place.client()
    await client.call("list_trades", clientId="acme")
    place.backends.down.add("acme")
    place.backends.said = "x" * 2000
    text, _, _ = about(await client.call("get_settings", clientId="acme"))
    said = f"{mark('acme')} is out of order " + "x" * 2000
    assert said[:500] in text
    assert said[:501] not in text


async def test_a_subscription_is_silent_for_another_tenants_change(place: Stage) -> None:
    client = await place.client(able={"elicitation": {}})
    client.reply = lambda question: {"action": "accept", "content": {"confirm": True}}
    assert "result" in await client.request("resources/subscribe", {"uri": "zorivest://guard?clientId=sechpos"})
    bare = await client.request("resources/subscribe", {"uri": "zorivest://guard"})
    assert bare["error"]["data"]["code"] == "client_missing"
    await client.call("zorivest_emergency_stop", clientId="acme")
    await client.call("zorivest_emergency_stop", clientId="sechpos")
    async with asyncio.timeout(20):
        while not client.notes:
            client.heard.clear()
            await client.heard.wait()
    uris = {note["params"]["uri"] for note in client.notes if note["method"] == "notifications/resources/updated"}
    assert uris == {"zorivest://guard?clientId=sechpos"}


async def test_every_answer_names_the_tenant_that_it_is_of(place: Stage) -> None:
    client = await place.client()
    for number, (name, spec) in enumerate(place.journal.audience.specs.items()):
        if spec.tenancy or spec.python is not None:
            continue
        own = IDS[number % 2]
        result = await client.call(name, clientId=own)
        assert result["_meta"]["com.zorivest/client"] == {"id": own, "name": f"Desk of {own}"}, name
        assert PAIR[own] not in json.dumps(result), name


async def test_no_secret_is_told_anywhere(
    place: Stage, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    client = await place.client()
    told = [repr(place.journal.tenancy.tenants), repr(place.journal.tenancy.contexts.of("acme").tenant)]  # type: ignore[union-attr]
    asked = ("list_trades", "zorivest_diagnose", "list_clients", "get_settings")
    told += [json.dumps(await client.call(name, clientId="acme")) for name in asked]
    place.backends.down.add("acme")
    told.append(json.dumps(await client.call("list_trades", clientId="acme")))
    told.append(place.journal.prometheus(""))
    out = capfd.readouterr()
    everything = "".join((*told, out.out, out.err, caplog.text))
    for secret in ("zrv_sk_", "tok_acme", "header-acme"):
        assert secret not in everything


async def test_figures_are_kept_apart_and_added_up(place: Stage) -> None:
    client = await place.client()
    for name, times in (("acme", 2), ("sechpos", 3)):
        for _ in range(times):
            await client.call("list_trades", clientId=name)
    await client.call("list_trades")
    metrics = (await client.call("zorivest_diagnose", clientId="acme"))["structuredContent"]["metrics"]
    assert (metrics["total_tool_calls"], metrics["unresolved"]) == (5, 1)
    text = place.journal.pipeline().metrics.prometheus(["sechpos"])
    assert 'zorivest_tool_calls_total{tool="list_trades",tenant="sechpos"} 3' in text
    assert "acme" not in text


async def test_what_is_idle_closes_and_begins_anew(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await place.client()
    await client.call("list_trades", clientId="acme")
    tenancy = place.journal.tenancy
    assert tenancy is not None
    context = tenancy.contexts.of("acme")
    assert context.is_open
    assert not context.is_idle(time.monotonic())
    assert context.is_idle(time.monotonic() + 901)
    await context.rest()
    assert not context.is_open
    assert not (await client.call("list_trades", clientId="acme")).get("isError")
    assert sum(each.path == "/auth/unlock" for each in place.backends.seen["acme"]) == 2
