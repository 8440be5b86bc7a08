"""The file of the tenants is read again while the server runs: what is gone ends, what stayed goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.tenants.wall.stage import MODERN, Stage, backends, config_of, environ_of, mark
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse


async def test_a_tenant_that_is_gone_ends_and_one_that_stays_keeps_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backends() as made:
        both = config_of(made.port, ["acme", "sechpos"])
        for name, value in environ_of(both).items():
            if name != "CLIENTS_CONFIG":
                monkeypatch.setenv(name, value)
        file = tmp_path / "clients.json"

        def write(config: Any) -> None:
            file.write_text(config if isinstance(config, str) else json.dumps(config))
            file.chmod(0o600)

        write(both)
        words = ["--data-dir", str(tmp_path), "--tenants-file", str(file)]
        place = Stage(Journal(parse("stdio", words, {"HOME": str(tmp_path)})), made)
        client = await place.client()
        modern = await place.client(revision=MODERN)
        able = (await modern.open())["result"]["capabilities"]
        assert [able[kind].get("listChanged") for kind in ("tools", "resources", "prompts")] == [True, True, None]
        for id in both:
            assert mark(id) in json.dumps(await client.call("list_trades", clientId=id))
        made.slow["sechpos"] = 0.3
        running = asyncio.ensure_future(client.call("list_trades", clientId="sechpos"))
        await asyncio.sleep(0)
        write("{")
        place.journal.reload_tenants()
        assert len((await client.call("list_clients"))["structuredContent"]["clients"]) == 2
        write({"acme": both["acme"], "third": {**both["acme"], "name": "New"}})
        place.journal.reload_tenants()
        assert [each["id"] for each in (await client.call("list_clients"))["structuredContent"]["clients"]] == [
            "acme",
            "third",
        ]
        refused = await client.call("list_trades", clientId="sechpos")
        assert refused["_meta"]["com.zorivest/error"]["code"] == "client_unknown"
        assert mark("sechpos") in json.dumps(await running), "a call that runs is ended by no reload"
        assert mark("acme") in json.dumps(await client.call("list_trades", clientId="acme"))
        assert sum(each.path == "/auth/unlock" for each in made.seen["acme"]) == 1
        await place.close()
