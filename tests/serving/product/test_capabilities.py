"""What the journal advertises works, over stdio and over HTTP, in every revision that advertises it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.connect import PREFIX, Client, HttpWire, StdioWire
from tests.places import ROOT
from tests.serving.product.http import serving

MODERN = "2026-07-28"
EXTENSION = "io.modelcontextprotocol/tasks"
EVERY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN)
ERAS = ("2025-11-25", MODERN)
WAYS = ("stdio", "http")

# Each capability, the revisions that advertise it, and the test that uses it end to end.
ADVERTISED: dict[str, tuple[tuple[str, ...], str]] = {
    "logging": (EVERY, "test_the_log_of_a_client_follows_its_level"),
    "tools": (EVERY, "test_every_list_is_walked_by_its_cursors"),
    "tools.listChanged": (EVERY[:-1], "test_a_loaded_toolset_is_announced_and_listed"),
    "prompts": (EVERY, "test_every_prompt_is_given_with_its_arguments"),
    "resources": (EVERY, "test_every_resource_is_read"),
    "resources.subscribe": (EVERY, "test_a_subscriber_hears_of_the_guard"),
    "completions": (EVERY[1:], "test_every_advertised_argument_is_completed"),
    "tasks.list": (("2025-11-25",), "test_a_task_is_listed_followed_and_cancelled"),
    "tasks.cancel": (("2025-11-25",), "test_a_task_is_listed_followed_and_cancelled"),
    "tasks.requests.tools.call": (("2025-11-25",), "test_a_task_is_listed_followed_and_cancelled"),
    f"extensions.{EXTENSION}": ((MODERN,), "test_a_task_is_listed_followed_and_cancelled"),
}
ABLE: dict[str, Any] = {"tools": {"listChanged": True}, "extensions": {EXTENSION: {}}}
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@asynccontextmanager
async def over_stdio(data_dir: Path, client: Client, *options: str) -> AsyncIterator[Client]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zorivest_rpc", "stdio", "--data-dir", str(data_dir), *options),
        env={**kept, "HOME": str(data_dir), "ZORIVEST_KEYRING": "off", "PYTHONPATH": str(ROOT)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=64 << 20,
    )
    client.wire = StdioWire(process, client)
    await client.open()
    await connect_to_backend(client)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def over_http(
    data_dir: Path, client: Client, state: Path, *options: str, page_size: int | None = None
) -> AsyncIterator[Client]:
    async with serving(data_dir, *options, state=state) as served:
        if page_size is not None:
            served.journal.offer.page_size = page_size
        client.wire = HttpWire(served.url + "/mcp", client)
        await client.open()
        try:
            yield client
        finally:
            await client.close()


async def connect_to_backend(client: Client) -> None:
    """The first call of a new process imports what it needs; on a busy machine that takes longer than an answer may."""
    id = await client.start_call("get_settings")
    for _ in range(6):
        try:
            await client.answer(id)
            return
        except TimeoutError:
            pass
    pytest.fail("the first call was never answered")


Connect = Callable[..., Any]


@pytest.fixture
def connect(data_dir: Path, tmp_path: Path) -> Connect:
    """`async with connect("stdio", revision) as client`: the real journal, as a client meets it."""

    def connected(way: str, revision: str, **more: Any) -> Any:
        client = Client(way, revision, ABLE)
        if way == "stdio":
            return over_stdio(data_dir, client, "--confirm", "never")
        return over_http(data_dir, client, tmp_path, "--confirm", "never", **more)

    return connected


def paths_of(capabilities: dict[str, Any], before: str = "") -> Iterator[str]:
    """The capabilities as dotted names; one that only holds others is not named itself."""
    for name, value in capabilities.items():
        inner = list(paths_of(value, f"{before}{name}.")) if isinstance(value, dict) else []
        if not inner or (not before and name in ("tools", "prompts", "resources")):
            yield before + name
        yield from inner


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_advertised_is_what_a_test_here_uses(connect: Connect, way: str, revision: str) -> None:
    async with connect(way, revision) as client:
        opened = await client.result("server/discover") if client.modern else client.greeting
    assert set(paths_of(opened["capabilities"])) == {
        name for name, (revisions, _) in ADVERTISED.items() if revision in revisions
    }
    assert {test for _, test in ADVERTISED.values()} <= set(globals())


# --- logging


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("way", WAYS)
async def test_the_log_of_a_client_follows_its_level(connect: Connect, way: str, revision: str) -> None:
    def about(level: str) -> dict[str, Any]:
        return {PREFIX + "logLevel": level} if revision == MODERN else {}

    async with connect(way, revision) as client:
        if not client.modern:
            refused = await client.error("logging/setLevel", {"level": "loud"})
            assert refused["code"] == -32602
        for level in ("info", "emergency"):
            if not client.modern:
                assert await client.result("logging/setLevel", {"level": level}) == {}
            await client.result("tools/call", {"name": "get_settings", "arguments": {}}, **about(level))
        assert client.notes_of("notifications/message") == []
        if not client.modern:
            assert await client.result("logging/setLevel", {"level": "debug"}) == {}
        await client.result("tools/call", {"name": "get_settings", "arguments": {}}, **about("debug"))
        done = (await client.note("notifications/message"))["params"]
        none = {"name": "get_trade_screenshots", "arguments": {"trade_id": "sk_secret_none"}}
        await client.result("tools/call", none, **about("debug"))
        refused = (await client.note("notifications/message", 2))["params"]
        silent = {"name": "call_tool", "arguments": {"name": "list_brokers"}}
        await client.result("tools/call", silent, **about("notice")) if client.modern else None
        await client.result("tools/call", silent, **about("debug"))
        through = (await client.note("notifications/message", 3))["params"]
    assert (done["level"], done["logger"]) == ("debug", "zorivest.calls")
    assert (done["data"]["tool"], done["data"]["outcome"]) == ("get_settings", "done")
    assert done["data"]["ms"] > 0
    assert done["data"]["bytes"] > 100
    assert (refused["data"]["tool"], refused["data"]["outcome"]) == ("get_trade_screenshots", "refused")
    assert refused["data"]["code"]
    assert "sk_secret_none" not in json.dumps(refused), "what was sent stays out of the log"
    assert through["data"]["tool"] == "list_brokers"
    assert len(client.notes_of("notifications/message")) == 3


# --- lists, prompts, resources


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(
            "tools/list", marks=pytest.mark.one_journal("list_clients takes one of the places that are counted")
        ),
        *(method for method in LISTS if method != "tools/list"),
    ],
)
async def test_every_list_is_walked_by_its_cursors(connect: Connect, revision: str, method: str) -> None:
    key = LISTS[method]
    async with connect("stdio", revision) as client:
        whole = await client.result(method)
        assert "nextCursor" not in whole
        assert (await client.error(method, {"cursor": "none of ours"}))["code"] == -32602
    entries: list[Any] = []
    async with connect("http", revision, page_size=3) as client:
        page = await client.result(method)
        pages = 1
        entries += page[key]
        while "nextCursor" in page:
            assert len(page[key]) == 3
            page = await client.result(method, {"cursor": page["nextCursor"]})
            pages += 1
            entries += page[key]
        assert (await client.error(method, {"cursor": "none of ours"}))["code"] == -32602
    assert pages == -(-len(whole[key]) // 3)
    assert entries == whole[key]


@pytest.mark.parametrize("revision", EVERY[:-1])
@pytest.mark.parametrize("way", WAYS)
async def test_a_loaded_toolset_is_announced_and_listed(connect: Connect, way: str, revision: str) -> None:
    async with connect(way, revision) as client:
        before = {tool["name"] for tool in (await client.result("tools/list"))["tools"]}
        assert not (await client.call("enable_toolset", {"toolset_name": "tax"})).get("isError")
        await client.note("notifications/tools/list_changed")
        after = {tool["name"] for tool in (await client.result("tools/list"))["tools"]}
    assert "estimate_tax" in after - before


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("way", WAYS)
async def test_every_prompt_is_given_with_its_arguments(connect: Connect, way: str, revision: str) -> None:
    async with connect(way, revision) as client:
        prompts = (await client.result("prompts/list"))["prompts"]
        assert len(prompts) == 4
        for prompt in prompts:
            given = {each["name"]: "2025" for each in prompt["arguments"]}
            (message,) = (await client.result("prompts/get", {"name": prompt["name"], "arguments": given}))["messages"]
            assert message["role"] == "user"
            assert "2025" in message["content"]["text"]
            if any(each["required"] for each in prompt["arguments"]):
                assert (await client.error("prompts/get", {"name": prompt["name"]}))["code"] == -32602
        assert (await client.error("prompts/get", {"name": "no_such_prompt"}))["code"] == -32602


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("way", WAYS)
async def test_every_resource_is_read(connect: Connect, way: str, revision: str) -> None:
    async with connect(way, revision) as client:
        listed = (await client.result("resources/list"))["resources"]
        uris = [each["uri"] for each in listed]
        templates = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert {each["uriTemplate"] for each in templates} == {
            "zorivest://toolsets/{toolset}",
            "zorivest://images/{image_id}",
        }
        for uri in (*uris, "zorivest://toolsets/tax"):
            (content,) = (await client.result("resources/read", {"uri": uri}))["contents"]
            assert content["uri"] == uri
            assert json.loads(content["text"])
        missing = await client.error("resources/read", {"uri": "zorivest://none"})
    assert len(uris) == 4
    assert missing["code"] == (-32602 if revision == MODERN else -32002)


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize("way", WAYS)
async def test_a_subscriber_hears_of_the_guard(connect: Connect, way: str, revision: str) -> None:
    uri = "zorivest://guard"
    async with connect(way, revision) as client:
        if client.modern:
            await client.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
            await client.note("notifications/subscriptions/acknowledged")
        else:
            assert await client.result("resources/subscribe", {"uri": uri}) == {}
        try:
            for number, (tool, given) in enumerate(
                (("stop", {"reason": "test"}), ("unlock", {"confirm": "UNLOCK"})), 1
            ):
                assert not (await client.call(f"zorivest_emergency_{tool}", given)).get("isError")
                told = await client.note("notifications/resources/updated", number)
                assert told["params"]["uri"] == uri
        finally:
            await client.call("zorivest_emergency_unlock", {"confirm": "UNLOCK"})


# --- completion

TRADE = {
    "exec_id": "CAPABLE-1",
    "instrument": "CAPQ STK",
    "action": "BOT",
    "quantity": 5,
    "price": 100.5,
    "account_id": "CAPABLE",
}
ACCOUNT = ("CAP", ["CAPABLE"])
COMPLETED: dict[tuple[str, str], tuple[str, list[str]]] = {
    ("weekly_review", "period"): ("", []),
    ("weekly_review", "account_id"): ACCOUNT,
    ("pre_trade_check", "ticker"): ("capq", ["CAPQ"]),
    ("pre_trade_check", "direction"): ("s", ["SHORT"]),
    ("pre_trade_check", "entry"): ("", []),  # a price is the person's own
    ("pre_trade_check", "stop"): ("", []),
    ("pre_trade_check", "target"): ("", []),
    ("pre_trade_check", "account_id"): ACCOUNT,
    ("tax_year_end", "tax_year"): ("", []),
    ("tax_year_end", "account_id"): ACCOUNT,
    ("trade_post_mortem", "exec_id"): ("CAPABLE", ["CAPABLE-1"]),
    ("zorivest://toolsets/{toolset}", "toolset"): ("tr", ["trade-analytics", "trade-planning"]),
    ("zorivest://images/{image_id}", "image_id"): ("", []),
}


@pytest.mark.parametrize("revision", EVERY[1:])
@pytest.mark.parametrize("way", WAYS)
async def test_every_advertised_argument_is_completed(connect: Connect, way: str, revision: str) -> None:
    async with connect(way, revision) as client:
        await client.call("create_trade", TRADE)  # the second time it is there already
        found: dict[tuple[str, str], tuple[str, list[str]]] = {}
        for ref, name in [key async for key in advertised_arguments(client)]:
            kind = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
            typed = COMPLETED[ref, name][0]
            params = {"ref": kind, "argument": {"name": name, "value": typed}}
            found[ref, name] = (typed, (await client.result("completion/complete", params))["completion"]["values"])
    assert found == COMPLETED


async def advertised_arguments(client: Client) -> AsyncIterator[tuple[str, str]]:
    for prompt in (await client.result("prompts/list"))["prompts"]:
        for argument in prompt["arguments"]:
            yield prompt["name"], argument["name"]
    for template in (await client.result("resources/templates/list"))["resourceTemplates"]:
        uri = template["uriTemplate"]
        yield uri, uri.partition("{")[2].rstrip("}")


# --- tasks


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_task_is_listed_followed_and_cancelled(connect: Connect, way: str, revision: str) -> None:
    long = {"name": "simulate_drawdown", "arguments": {"simulations": 200}}
    async with connect(way, revision) as client:
        if client.modern:
            made = await client.result("tools/call", long)
            assert made["resultType"] == "task"
        else:
            made = (await client.result("tools/call", {**long, "task": {"ttl": 60_000}}))["task"]
            listed = (await client.result("tasks/list"))["tasks"]
            assert [each["taskId"] for each in listed] == [made["taskId"]]
            assert (await client.result("tasks/result", {"taskId": made["taskId"]}))["structuredContent"]
        async with asyncio.timeout(60):
            while (task := await client.result("tasks/get", {"taskId": made["taskId"]}))["status"] == "working":
                pass
        assert task["status"] == "completed"
        again = await client.result("tools/call", long if client.modern else {**long, "task": {}})
        second = (again if client.modern else again["task"])["taskId"]
        await client.ask("tasks/cancel", {"taskId": second})
        async with asyncio.timeout(60):
            while (task := await client.result("tasks/get", {"taskId": second}))["status"] == "working":
                pass
        assert task["status"] in ("cancelled", "completed"), "cancelled unless it was over before"
        assert (await client.error("tasks/cancel", {"taskId": "none"}))["code"] == -32602
