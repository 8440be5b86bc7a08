"""Adding a tool is adding one file: it is listed, found, presented, validated, guarded and run like any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue import ALL, count
from tests.places import ROOT
from tests.serving.product.conftest import Client, refusal_of, text_of
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse

SCHEMAS = ROOT / "schemas"
TOOL: dict[str, Any] = {
    "name": "read_one_setting",
    "title": "Read one setting",
    "description": {
        "minimal": "Read a single setting by its exact key, as a lighthouse keeper would.",
        "rich": (
            "Read a single setting by its exact key, as a lighthouse keeper would. Use when the key is known and "
            "nothing else is wanted. Not for several settings at once, which get_settings gives, nor for "
            'writing, which update_settings does. Example: {"key":"ui.theme"}.'
        ),
    },
    "inputSchema": {
        "type": "object",
        "properties": {"key": {"type": "string", "minLength": 1, "description": "Key of the setting."}},
        "required": ["key"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    "rest": "GET /settings/{key}",
}


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    copy = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, copy)
    (copy / "tools" / "behavioral" / "read_one_setting.json").write_text(json.dumps(TOOL, indent=2) + "\n")
    return copy


@pytest.fixture
async def client(schemas: Path, data_dir: Path) -> AsyncIterator[Client]:
    settings = parse("stdio", ["--data-dir", str(data_dir)], {"HOME": str(data_dir), "ZORIVEST_KEYRING": "off"})
    client = Client(Journal(settings, str(schemas)), "claude-code", {}, "2025-11-25")
    await client.open()
    yield client
    await client.close()


async def test_a_dropped_in_tool_is_listed_found_described_and_called(client: Client) -> None:
    tools = {tool["name"]: tool for tool in await client.tools()}
    assert len(tools) == ALL + 1
    assert tools["read_one_setting"]["description"] == TOOL["description"]["rich"]
    assert tools["read_one_setting"]["_meta"]["defer_loading"] is True
    found = (await client.call("tool_search", query="lighthouse keeper"))["structuredContent"]["matches"]
    assert [match["name"] for match in found] == ["read_one_setting"]
    described = (await client.call("describe_toolset", toolset_name="behavioral"))["structuredContent"]
    assert len(described["tools"]) == count("behavioral") + 1
    await client.call("update_settings", settings={"ui.theme": "dark"})
    result = await client.call("read_one_setting", key="ui.theme")
    assert not result.get("isError"), result
    assert "dark" in text_of(result)
    through = await client.call("call_tool", name="read_one_setting", arguments={"key": "ui.theme"})
    assert text_of(through) == text_of(result)


async def test_a_dropped_in_tool_is_validated_guarded_and_measured(client: Client) -> None:
    assert refusal_of(await client.call("read_one_setting"))["code"] == "invalid_arguments"
    await client.call("zorivest_emergency_stop", reason="test")
    try:
        assert "MCP guard blocked" in text_of(await client.call("read_one_setting", key="ui.theme"))
    finally:
        await client.call("zorivest_emergency_unlock", confirm="UNLOCK")
    metrics = (await client.call("zorivest_diagnose", verbose=True))["structuredContent"]["metrics"]
    assert metrics["per_tool"]["read_one_setting"]["error_count"] == 1


def test_a_file_that_is_wrong_stops_the_start_with_every_problem(schemas: Path, data_dir: Path) -> None:
    broken = schemas / "tools" / "behavioral" / "read_one_setting.json"
    broken.write_text(json.dumps({**TOOL, "name": "another", "guardd": True}))
    (schemas / "tools" / "tax" / "estimate_tax.json").write_text("{")
    settings = parse("stdio", ["--data-dir", str(data_dir)], {"HOME": str(data_dir)})
    with pytest.raises(ExceptionGroup) as refused:
        Journal(settings, str(schemas))
    told = "\n".join(map(str, refused.value.exceptions))
    assert "read_one_setting.json" in told
    assert "guardd" in told
    assert "estimate_tax.json" in told
