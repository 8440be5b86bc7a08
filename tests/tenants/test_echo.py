"""Every tool, for two embedded clients in turns: each answer, receipt and question names its client and no other."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT
from tests.serving.product.everything import Caller, every_tool
from tests.serving.product.plain import Stdio, plain_client
from tests.tenants.test_served import end_backends
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.tenants.embedded import directory_of

pytestmark = pytest.mark.slow

SPECS = {spec.name: spec for spec in load().tools}
NAMES = {"acme": "Acme Capital", "sechpos": "Second Position"}
OTHER = {"acme": "sechpos", "sechpos": "acme"}


class ActingFor(Caller):
    """A caller that names one client in every call, and looks whose each answer is."""

    def __init__(self, stdio: Stdio, id: str, turn: asyncio.Lock) -> None:
        super().__init__()
        self.stdio = stdio
        self.turn = turn  # it is handed to whom waits for it longest, so calls of two alternate
        self.id = id
        self.signed: set[str] = set()
        self.receipts: set[str] = set()

    async def ask(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        async with self.turn:
            result = await self.stdio.ask(name, {"clientId": self.id, **arguments})
        self.check(name, result)
        return result

    def check(self, name: str, result: dict[str, Any]) -> None:
        meta = result["_meta"]
        assert meta["com.zorivest/client"] == {"id": self.id, "name": NAMES[self.id]}, name
        text = json.dumps(result)
        # of the other one nothing, but for the report that names all to a caller who may act for all
        if name != "zorivest_diagnose":
            assert OTHER[self.id] not in text, (name, text)
            assert NAMES[OTHER[self.id]] not in text, (name, text)
        if name == "get_confirmation_token":
            told = result["structuredContent"]["instruction"]
            assert told.startswith(f"For client {NAMES[self.id]}: "), told
        receipt = meta.get("com.zorivest/receipt")
        if receipt is not None:
            assert receipt["tenant"] == self.id, (name, receipt)
            self.receipts.add(name)
        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        words = f"(client {self.id})"
        if result.get("isError"):
            return
        if SPECS[name].reads_only:
            assert not any(each.endswith(words) for each in texts), (name, texts)
        else:
            assert texts[-1].endswith(words), (name, texts)
            self.signed.add(name)


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ZORIVEST_", "CLIENTS_"))}
    clients = {id: {"embedded": True, "name": name} for id, name in NAMES.items()}
    made = {"ZORIVEST_KEYRING": "off", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    yield {**kept, **made, "CLIENTS_CONFIG": json.dumps(clients)}
    end_backends(tmp_path / "data")


async def test_every_tool_says_for_whom_it_worked(environ: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [sys.executable, "-m", "zorivest_rpc", "stdio", "--data-dir", str(data), "--toolsets", "all"]
    async with plain_client(command, environ, tmp_path) as stdio:
        turn = asyncio.Lock()
        callers = [ActingFor(stdio, id, turn) for id in NAMES]
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                place = directory_of(data, caller.id) / "imports"
                place.mkdir(parents=True, mode=0o700)
                group.create_task(every_tool(caller, place, demo=False))
    for caller in callers:
        assert caller.called == set(SPECS)
        assert len(caller.signed) > 20
        assert {"create_trade", "update_settings", "update_policy_schedule"} <= caller.receipts
