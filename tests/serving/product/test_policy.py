"""The operator's policy binds our own tools and other servers' alike: every cell of its table, through a whole server.

The oracle is written from the sentences of the contract. What a call came to is seen at the far end: the backend or the
other server was asked to do it, or was not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.serving.product.conftest import Client, refusal_of
from tests.serving.product.far import Far, opened, serve_far

MODES = ("never", "mcp-only", "always")
LISTS = (
    (), ("require",), ("approve",), ("approve*",), ("require", "approve"), ("require", "approve*"), ("deny",),
    ("deny", "approve"),
)  # fmt: skip
CLIENTS = {"cline": "plain", "claude-code": "asks by itself"}  # over stdio, where a client's name is believed
COMBINATIONS = [
    *product(MODES, LISTS, ("auto",), CLIENTS),
    *product(MODES, LISTS[:3], ("always", "never"), CLIENTS),
]
TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "list_trades": ("built-in", "R", {}),
    "enrich_trade_excursion": ("built-in", "W", {"trade_exec_id": "T1"}),
    "sync_broker": ("built-in", "D", {"broker_id": "b"}),
    "ops__read": ("upstream", "R", {}),
    "ops__write": ("upstream", "W", {}),
    "ops__destroy": ("upstream", "D", {}),
}


@pytest.fixture
async def far() -> AsyncIterator[Far]:
    async with serve_far() as found:
        yield found


def entries(name: str, lists: tuple[str, ...]) -> dict[str, list[str]]:
    star = f"{name[:-1]}*"
    return {
        "require_confirm_tool": [name] if "require" in lists else [],
        "approve_tool": [name] if "approve" in lists else [star] if "approve*" in lists else [],
        "deny_tool": [star] if "deny" in lists else [],
    }


def written(mode: str, lists: tuple[str, ...]) -> str:
    """The lists name each of the tools."""
    lines = [f'tool_confirmation_mode = "{mode}"']
    for key in ("require_confirm_tool", "approve_tool", "deny_tool"):
        named = [entry for name in TOOLS for entry in entries(name, lists)[key]]
        lines.append(f"{key} = {json.dumps(named)}")
    return "\n".join(lines)


def oracle(mode: str, lists: tuple[str, ...], confirm: str, client: str, provenance: str, kind: str) -> str:
    """What is denied never runs. What is approved runs, what destroys only by its exact name. Without that, one has to
    confirm: everything in mode always, other servers' tools in mode mcp-only, what is required, and what destroys.
    Only our own destructive tools, unlisted and below always, are left to --confirm and to a client that asks."""
    if "deny" in lists:
        return "denied"
    if "approve" in lists or ("approve*" in lists and kind != "D"):
        return "done"
    if mode == "always" or "require" in lists or (provenance == "upstream" and mode == "mcp-only"):
        return "confirmation_missing"
    if kind != "D":
        return "done"
    if provenance == "built-in" and (confirm == "never" or (confirm == "auto" and client == "asks by itself")):
        return "done"
    return "confirmation_missing"


async def outcome(far: Far, client: Client, name: str, arguments: dict[str, Any], through: str = "") -> str:
    """`done` where the far end was asked to do it, else the code of the refusal."""
    before = far.done
    answer = await (client.call(through, name=name, arguments=arguments) if through else client.call(name, **arguments))
    if far.done > before:
        return "done"
    return refusal_of(answer)["code"]


def test_there_are_enough_cells() -> None:
    assert len(COMBINATIONS) * len(TOOLS) >= 96


@pytest.mark.parametrize(("mode", "lists", "confirm", "name"), COMBINATIONS)
async def test_the_cells(far: Far, tmp_path: Path, mode: str, lists: tuple[str, ...], confirm: str, name: str) -> None:
    async with opened(far, tmp_path, written(mode, lists), "--confirm", confirm, name=name) as client:
        found = {tool: await outcome(far, client, tool, given) for tool, (_, _, given) in TOOLS.items()}
        assert found == {
            tool: oracle(mode, lists, confirm, CLIENTS[name], provenance, kind)
            for tool, (provenance, kind, _) in TOOLS.items()
        }
        listed = await client.names()
        assert [tool for tool in TOOLS if tool in listed and "deny" in lists] == []


@pytest.mark.parametrize("lists", [(), ("require",), ("approve",), ("deny",)])
async def test_the_dispatcher_confers_no_approval(far: Far, tmp_path: Path, lists: tuple[str, ...]) -> None:
    async with opened(far, tmp_path, written("always", lists)) as client:
        for tool, (provenance, kind, given) in TOOLS.items():
            found = await outcome(far, client, tool, given, through="call_tool")
            assert found == oracle("always", lists, "auto", "plain", provenance, kind)
