"""The official clients, unmodified, in front of the real journal: list, search, enable, call, confirm, be refused."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.catalogue import DEFAULT
from tests.conformance.cache import REPOSITORY
from tests.conformance.run import free_port, stop, wait_for_port
from tests.interop.hands import Hands, hands, our_environment
from tests.interop.test_interop import LEGACY, MODERN, Case, server_command
from tests.serving.product.everything import every_tool
from zorivest_rpc.embedded.locate import find, stored_key
from zorivest_rpc.serving.catalog.load import load

pytestmark = pytest.mark.slow

CASES = [
    *(Case(client, transport, LEGACY) for client in ("mcp-1.30.0", "sdk-1.32.2") for transport in ("stdio", "http")),
    *(Case(client, "stdio", LEGACY) for client in ("mcp-2.3.0", "client-2.4.0")),
    *(Case(client, transport, MODERN) for client in ("mcp-2.3.0", "client-2.4.0") for transport in ("stdio", "http")),
]
TWICE = ("mcp-2.3.0-stdio-2025-11-25", "client-2.4.0-stdio-2025-11-25")  # a library and a transport, in another era too
INSPECTOR = Case("inspector-2.12.0", "stdio", LEGACY)
YES, NO = {"action": "accept", "content": {"confirm": True}}, {"action": "decline"}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class World:
    """A journal with demo data, and the server that shares it over HTTP."""

    data: Path
    url: str
    key: str

    def config(self, case: Case, *options: str, **headers: str) -> dict[str, Any]:
        if case.transport == "stdio":
            command = [*server_command(), "stdio", "--data-dir", str(self.data), *options]
            return {"command": command, "env": our_environment()}
        return {"url": self.url + "/mcp", "headers": {"Authorization": f"Bearer {self.key}", **headers}}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    data = tmp_path_factory.mktemp("journal")
    environment = os.environ | {"ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0"}
    load_demo(data, environment)
    port = free_port()
    serving = subprocess.Popen(
        [*server_command(), "serve", "--data-dir", str(data), "--port", str(port)],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, serving)
        key = stored_key(data, environment)
        assert key
        yield World(data, f"http://127.0.0.1:{port}", key)
    finally:
        stop(serving)
        stop_backend(data)


def load_demo(data: Path, environment: dict[str, str]) -> None:
    command = [*server_command(), "demo", "load", "--data-dir", str(data)]
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, timeout=60)


def stop_backend(data: Path) -> None:
    if (located := find(data)) is not None:
        process = psutil.Process(located.pid)
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def trade(**given: Any) -> dict[str, Any]:
    """The arguments of a trade that nobody has recorded yet."""
    number = next(_numbers)
    made = {"exec_id": f"TOUR-{os.getpid()}-{number}", "instrument": "TOUR", "action": "BOT"}
    return {**made, "quantity": number, "price": 10.5, "account_id": "TOUR", **given}


def typed(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a user types to confirm that trade."""
    return {"action": "accept", "content": {name: wanted[name] for name in ("instrument", "quantity")}}


async def recorded(client: Hands, wanted: dict[str, Any]) -> bool:
    trades = (await client.works("list_trades", limit=100))["items"]
    return wanted["exec_id"] in [each["exec_id"] for each in trades]


def refusal(result: dict[str, Any]) -> str:
    assert result.get("isError") is True, result
    code: str = result["_meta"]["com.zorivest/error"]["code"]
    return code


@contextlib.asynccontextmanager
async def connected(
    case: Case, world: World, place: Path, name: str, *options: str, asks: bool = False, **headers: str
) -> AsyncIterator[Hands]:
    config = world.config(case, *options, **headers) | {"name": name, "asks": asks}
    async with hands(case, config, place / f"client-{next(_numbers)}") as client:
        if case.client != INSPECTOR.client:
            assert client.revision == case.revision
        yield client


async def look_around(client: Hands, modern: bool) -> None:
    """What is listed, what a search finds, and what happens to the list when a toolset is enabled."""
    listed = await client.tools()
    assert len(listed) == len(set(listed)) == DEFAULT
    found = (await client.works("tool_search", query="wash sale"))["matches"]
    assert (found[0]["name"], found[0]["listed"]) == ("find_wash_sales", False)

    toolsets = {each["name"]: each for each in (await client.works("list_available_toolsets"))["toolsets"]}
    assert len(toolsets) == 9
    assert (toolsets["tax"]["loaded"], toolsets["tax"]["tool_count"]) == (False, 8)
    described = await client.works("describe_toolset", toolset_name="tax")
    inside = [tool["name"] for tool in described["tools"]]
    assert "find_wash_sales" in inside

    await client.do("watch")
    enabled = await client.works("enable_toolset", toolset_name="tax")
    assert [tool["name"] for tool in enabled["tools"]] == inside
    if modern:  # a list does not change because of a request; what was enabled is called through call_tool
        assert await client.tools() == listed
        through = await client.works("call_tool", name="get_ytd_tax_summary", arguments={"tax_year": 2026})
        assert through["tax_year"] == 2026
    else:
        assert await client.do("changes", 1) == 1
        assert set(await client.tools()) == {*listed, *inside}
        assert (await client.works("list_available_toolsets"))["toolsets"] != list(toolsets.values())
    assert (await client.works("get_ytd_tax_summary", tax_year=2026))["tax_year"] == 2026
    assert "zorivest://guard" in await client.do("resources")
    assert "locked" in await client.do("read", "zorivest://guard")
    assert len(await client.do("prompts")) == 4


async def confirm_with_a_form(client: Hands) -> None:
    wanted, unwanted = trade(), trade()
    await client.do("answer", [NO, typed(wanted), typed(wanted)])
    assert refusal(await client.call("create_trade", **unwanted)) == "confirmation_declined"
    await client.works("create_trade", **wanted)
    assert (
        refusal(await client.call("create_trade", **unwanted)) == "confirmation_declined"
    )  # that was typed for another
    assert (await recorded(client, wanted), await recorded(client, unwanted)) == (True, False)
    asked = await client.do("asked")
    assert len(asked) == 3
    assert "TOUR" in asked[0]["message"]
    assert list(asked[0]["properties"]) == ["instrument", "quantity"]


async def confirm_with_a_token(client: Hands) -> None:
    wanted = trade()
    assert refusal(await client.call("create_trade", **wanted)) == "confirmation_missing"
    request = {"action": "create_trade", "params_summary": "Buy a little TOUR", "arguments": wanted}
    token = (await client.works("get_confirmation_token", **request))["token"]
    other = await client.call("create_trade", **{**wanted, "quantity": 10**6}, confirmation_token=token)
    assert refusal(other) == "confirmation_other_arguments"
    assert await recorded(client, wanted) is False
    await client.works("create_trade", **wanted, confirmation_token=token)
    assert await recorded(client, wanted) is True
    again = await client.call("create_trade", **wanted, confirmation_token=token)
    assert refusal(again) == "confirmation_used"
    assert await client.do("asked") == []


async def write_and_read_back(client: Hands, theme: str) -> None:
    result = await client.call("update_settings", settings={"ui.theme": theme})
    receipt = result["_meta"]["com.zorivest/receipt"]
    assert receipt["idempotency_key"]
    assert receipt["changed"] == "PUT /settings"
    assert (await client.works("get_settings", key="ui.theme"))["value"] == theme


async def wrong_arguments(client: Hands) -> None:
    wrong = await client.call("list_trades", limit="many")
    assert refusal(wrong) == "invalid_arguments"
    assert "limit" in wrong["content"][0]["text"]
    unknown = await client.do("call", "list_tradez", {})
    assert "list_tradez" in str(unknown)
    assert "refused" in unknown or unknown["isError"]


async def stop_everything(client: Hands) -> None:
    """The user confirms the stop and its release; until the guard is unlocked nothing guarded runs."""
    await client.do("answer", [YES, YES])
    assert (await client.works("zorivest_emergency_stop", reason="tour"))["locked"] is True
    try:
        blocked = await client.call("list_trades")
        assert "MCP guard blocked" in blocked["content"][0]["text"]
        assert refusal(blocked) == "guard_blocked"
        assert (await client.works("zorivest_diagnose"))["guard"]["locked"] is True
    finally:
        assert (await client.works("zorivest_emergency_unlock", confirm="UNLOCK"))["locked"] is False
    await client.works("list_trades")


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_client_that_can_ask_its_user_takes_the_whole_tour(case: Case, world: World, tmp_path: Path) -> None:
    async with connected(case, world, tmp_path, "Cline", asks=True) as client:
        await look_around(client, modern=case.era == MODERN)
        await write_and_read_back(client, "dark" if case.transport == "stdio" else "light")
        await confirm_with_a_form(client)
        await wrong_arguments(client)
        await stop_everything(client)


@pytest.mark.parametrize("case", [case for case in CASES if str(case) not in TWICE], ids=str)
async def test_a_client_that_cannot_ask_confirms_with_a_token(case: Case, world: World, tmp_path: Path) -> None:
    async with connected(case, world, tmp_path, "Roo Code") as client:
        await confirm_with_a_token(client)


READ_ONLY = [Case("mcp-2.3.0", "http", MODERN), Case("sdk-1.32.2", "http", LEGACY), Case("mcp-1.30.0", "stdio", LEGACY)]


@pytest.mark.parametrize("case", READ_ONLY, ids=str)
async def test_a_client_that_is_read_only_reads_and_is_refused_to_write(
    case: Case, world: World, tmp_path: Path
) -> None:
    narrowed = {"X-MCP-Readonly": "true"} if case.transport == "http" else {}
    async with connected(case, world, tmp_path, "Cline", "--read-only", asks=True, **narrowed) as client:
        assert "update_settings" not in await client.tools()
        assert (await client.works("list_trades"))["items"]
        assert refusal(await client.call("update_settings", settings={"ui.theme": "dark"})) == "read_only"
        through = {"name": "create_trade", "arguments": trade()}
        assert refusal(await client.call("call_tool", **through)) == "read_only"


async def test_the_inspector_takes_the_tour(world: World, tmp_path: Path) -> None:
    async with connected(INSPECTOR, world, tmp_path, "", asks=True) as client:
        assert len(await client.tools()) == DEFAULT
        assert (await client.works("tool_search", query="wash sale"))["matches"][0]["name"] == "find_wash_sales"
        await client.works("enable_toolset", toolset_name="tax")
        assert "find_wash_sales" in await client.tools()
        wanted = trade()
        await client.do("answer", [NO, typed(wanted)])
        assert refusal(await client.call("create_trade", **wanted)) == "confirmation_declined"
        await client.works("create_trade", **wanted)
        assert await recorded(client, wanted) is True
        # The Inspector turns words for numbers into null, and null counts as absent: a number out of range is refused.
        assert refusal(await client.call("list_trades", limit=0)) == "invalid_arguments"


EVERYTHING = [("mcp-2.3.0", MODERN, "demo"), ("mcp-1.30.0", LEGACY, "empty")]


@pytest.mark.parametrize(("library", "era", "journal"), EVERYTHING)
async def test_every_tool_works_through_an_official_client(
    library: str, era: str, journal: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    environment = os.environ | {"ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0"}
    if journal == "demo":
        load_demo(data, environment)
    options = ["--data-dir", str(data), "--toolsets", "all", "--import-root", str(tmp_path)]
    config = {
        "command": [*server_command(), "stdio", *options],
        "env": our_environment() | {"ZORIVEST_BACKEND_PORT": "0"},
        "name": "claude-code",
        "asks": False,
    }
    try:
        async with hands(Case(library, "stdio", era), config, tmp_path / "client") as client:
            assert set(await client.tools()) > {spec.name for spec in load().tools}
            await every_tool(client, tmp_path, demo=journal == "demo")
            assert client.called == {spec.name for spec in load().tools}
    finally:
        stop_backend(data)
