"""What clients see does not change by accident: every tool in three modes and two eras, every family's opening."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.catalogue import ALL, DEFAULT
from tests.golden.record import (
    CLIENTS,
    ERAS,
    HERE,
    LISTS,
    STAMP,
    golden,
    handshakes,
    journal,
    meta,
    opening,
    record,
    text,
)
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient
from zorivest_rpc.serving.catalog.load import load

BEGINNINGS = {
    "anthropic": "Use tool_search to discover tools.",
    "dynamic": "Available categories: ",
    "static": f"You have {DEFAULT} tools from ",
}


async def test_every_golden_file_is_what_a_client_gets_today(tmp_path: Path) -> None:
    files = await record(str(tmp_path))
    there = {path for folder in ("tools", "handshakes") for path in (HERE / folder).glob("*.json")}
    assert there | {LISTS, STAMP} == set(files), "run make golden and read the diff"
    for path, value in files.items():
        assert path.read_text() == text(value), f"{path.name}: run make golden and read the diff"


def test_every_tool_has_a_definition_in_every_mode_and_era() -> None:
    definitions = load()
    tools = {spec.name for spec in (*definitions.tools, *definitions.meta_tools)}
    assert {path.stem for path in (HERE / "tools").glob("*.json")} == tools
    for name in tools:
        shown = json.loads((HERE / "tools" / f"{name}.json").read_text())
        assert set(shown) == {f"{mode} {era}" for mode in CLIENTS for era in ERAS}, name


@pytest.mark.parametrize("handshake", handshakes(), ids=lambda handshake: handshake["family"])
def test_every_family_is_served_in_the_mode_that_is_meant_for_it(handshake: dict[str, Any]) -> None:
    got, meant = json.loads(golden(handshake).read_text()), handshake["expect"]
    assert got["instructions"][0].startswith(BEGINNINGS[meant["mode"]])
    assert got["lists"] == meant["lists"]


def test_the_two_lists_are_every_tool_and_those_of_the_default_toolsets() -> None:
    kept = json.loads(LISTS.read_text())
    assert set(kept) == {"default", "all"}
    for name, listed in (("default", DEFAULT), ("all", ALL)):
        assert len(kept[name]) == len(set(kept[name])) == listed, name
    assert set(kept["default"]) < set(kept["all"])


def test_every_family_of_clients_has_a_recorded_opening() -> None:
    """At least one per entry of the table that is known for sure, and the openings that belong to no family."""
    recorded = {handshake["expect"]["client"] for handshake in handshakes()}
    assert recorded >= {client.id for client in load().clients.clients if client.confidence in ("A", "B")}
    habits = {
        habit for handshake in handshakes() for habit in ("probes", "asks_first", "subscribes") if habit in handshake
    }
    assert habits == {"probes", "asks_first", "subscribes"}
    assert {handshake["revision"] for handshake in handshakes() if "clientInfo" not in handshake} == {"2026-07-28"}


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_is_the_same_bytes_after_a_restart(era: str, tmp_path: Path) -> None:
    def frame() -> bytes:
        client = MemoryClient(Server(journal(str(tmp_path)).offer))
        info = {"name": "cline", "version": "1"}
        opening(client, era, info, {})
        params = {"_meta": meta(info, {})} if era == "2026-07-28" else {}
        client.send(orjson.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params}))
        (answer,) = client.take_frames()
        return answer

    assert frame() == frame()
