"""The official clients, unmodified, act for two embedded clients of one server: list, choose, write, correct a name."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cache import REPOSITORY
from tests.conformance.run import free_port, stop, wait_for_port
from tests.interop.hands import Hands, hands, our_environment
from tests.interop.test_interop import LEGACY, MODERN, Case, server_command
from tests.interop.test_journal import refusal, stop_backend, trade, typed
from zorivest_rpc.tenants.embedded import directory_of

pytestmark = pytest.mark.slow

CASES = [
    *(Case(client, "http", LEGACY) for client in ("mcp-1.30.0", "sdk-1.32.2", "mcp-2.3.0", "client-2.4.0")),
    *(Case(client, "http", MODERN) for client in ("mcp-2.3.0", "client-2.4.0")),
    Case("client-2.4.0", "stdio", MODERN),
    Case("mcp-1.30.0", "stdio", LEGACY),
]
NAMES = {"acme": "Acme Capital", "sechpos": "Second Position"}
_numbers = itertools.count(1)
_offered = re.compile(r"Available clients: ([a-z0-9_, -]+)\.")


@dataclass(frozen=True)
class Office:
    """One server in front of two embedded clients, an access key for both and one for the first alone."""

    data: Path
    file: Path
    url: str
    both: str
    first: str

    def config(self, case: Case, key: str) -> dict[str, Any]:
        if case.transport == "stdio":
            command = [*server_command(), "stdio", "--data-dir", str(self.data), "--tenants-file", str(self.file)]
            return {"command": command, "env": our_environment()}
        return {"url": self.url + "/mcp", "headers": {"Authorization": f"Bearer {key}"}}


def run(*words: str, file: Path, environ: dict[str, str]) -> str:
    command = [*server_command(), *words, "--tenants-file", str(file)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """As an operator makes it, with the commands."""
    place = tmp_path_factory.mktemp("office")
    data, file = place / "data", place / "clients.toml"
    environ = os.environ | {"ZORIVEST_KEYRING": "off"}
    for id, name in NAMES.items():
        run("tenants", "add", id, "--embedded", "--name", name, file=file, environ=environ)
    keys = [
        json.loads(
            run("tenants", "grant", "--clients", ids, "--name", f"desk-{ids}", "--json", file=file, environ=environ)
        )["key"]
        for ids in ("acme,sechpos", "acme")
    ]
    port = free_port()
    serving = subprocess.Popen(
        [*server_command(), "serve", "--data-dir", str(data), "--port", str(port), "--tenants-file", str(file)],
        cwd=REPOSITORY,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, serving)
        yield Office(data, file, f"http://127.0.0.1:{port}", *keys)
    finally:
        stop(serving)
        for id in NAMES:
            stop_backend(directory_of(data, id))


@contextlib.asynccontextmanager
async def connected(case: Case, office: Office, key: str, place: Path) -> AsyncIterator[Hands]:
    config = office.config(case, key) | {"name": "Cline", "asks": True}
    async with hands(case, config, place / f"client-{next(_numbers)}") as client:
        assert client.revision == case.revision
        yield client


async def check_list(client: Hands, ids: list[str]) -> None:
    """Every tool but one asks first for the client; that one tells whom there is."""
    schemas = await client.do("schemas")
    assert schemas.pop("list_clients").get("required", []) == []
    assert len(schemas) > 20
    for name, schema in schemas.items():
        assert next(iter(schema["properties"])) == "clientId", name
        assert schema["required"][0] == "clientId", name
        every = ["*"] if name == "zorivest_emergency_stop" else []  # a stop alone may be for all at once
        assert schema["properties"]["clientId"]["enum"] == [*ids, *every], name
    told = await client.works("list_clients")
    assert [(entry["id"], entry["name"]) for entry in told["clients"]] == [(id, NAMES[id]) for id in ids]
    assert told["usage"] == "Pass one of these client IDs as the clientId parameter to other tools"


async def recorded(client: Hands, id: str) -> dict[str, str]:
    """The trades of one client, after a look at whose they say they are."""
    result = await client.call("list_trades", clientId=id, limit=100)
    assert not result.get("isError"), result
    assert result["_meta"]["com.zorivest/client"] == {"id": id, "name": NAMES[id]}
    return {each["exec_id"]: each["instrument"] for each in result["structuredContent"]["items"]}


async def write(client: Hands, id: str, wanted: dict[str, Any]) -> None:
    """A trade that the user confirms, told for whom it is."""
    before = len(await client.do("asked"))
    await client.do("answer", [typed(wanted)])
    result = await client.call("create_trade", clientId=id, **wanted)
    assert not result.get("isError"), result
    assert result["content"][-1]["text"].endswith(f"(client {id})")
    assert result["_meta"]["com.zorivest/client"]["id"] == id
    assert result["_meta"]["com.zorivest/receipt"]["tenant"] == id
    asked = (await client.do("asked"))[before:]
    assert [question["message"].startswith(f"For client {NAMES[id]}: ") for question in asked] == [True]


async def take_turns(client: Hands) -> None:
    """One execution id, two clients: what is written for one is not there for the other."""
    wanted = trade(instrument="FIRST")
    exec_id, other = wanted["exec_id"], {**wanted, "instrument": "SECOND"}
    await write(client, "acme", wanted)
    for _ in range(2):
        assert (await recorded(client, "acme"))[exec_id] == "FIRST"
        assert exec_id not in await recorded(client, "sechpos")
    await write(client, "sechpos", other)
    for _ in range(2):
        assert (await recorded(client, "sechpos"))[exec_id] == "SECOND"
        assert (await recorded(client, "acme"))[exec_id] == "FIRST"


async def corrected(client: Hands, given: dict[str, Any]) -> str:
    """What a model does that knows nothing but the refusal: take the offered id that looks most like the wrong one."""
    refused = await client.call("get_settings", **given)
    assert refusal(refused).startswith("client_")
    offered = _offered.search(refused["content"][0]["text"])
    assert offered, refused
    ids = offered[1].split(", ")
    near = difflib.get_close_matches(given["clientId"].lower(), ids, 1, 0.0) if given else ids
    result = await client.call("get_settings", clientId=near[0])
    assert not result.get("isError"), result
    assert result["_meta"]["com.zorivest/client"]["id"] == near[0]
    return near[0]


async def correct_a_wrong_name(client: Hands) -> None:
    assert await corrected(client, {}) == "acme"
    assert await corrected(client, {"clientId": "ACME Capital"}) == "acme"
    assert await corrected(client, {"clientId": "sech-pos"}) == "sechpos"
    assert await corrected(client, {"clientId": "sechpos;acme"}) == "sechpos"


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_client_acts_for_two_in_turns(case: Case, office: Office, tmp_path: Path) -> None:
    async with connected(case, office, office.both, tmp_path) as client:
        await check_list(client, list(NAMES))
        await take_turns(client)
        await correct_a_wrong_name(client)


@pytest.mark.parametrize("case", [case for case in CASES if case.transport == "http"], ids=str)
async def test_a_key_for_one_client_opens_no_other(case: Case, office: Office, tmp_path: Path) -> None:
    async with connected(case, office, office.first, tmp_path) as client:
        await check_list(client, ["acme"])
        await recorded(client, "acme")
        for unseen in ("sechpos", "globex"):
            refused = await client.call("list_trades", clientId=unseen)
            assert refused["content"] == [
                {"type": "text", "text": f'Unknown client ID: "{unseen}". Available clients: acme.'}
            ]
            assert refusal(refused) == "client_unknown"
        through = {"name": "list_trades", "arguments": {"clientId": "sechpos"}}
        assert refusal(await client.call("call_tool", clientId="acme", **through)) == "client_conflict"
