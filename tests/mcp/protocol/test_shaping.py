"""One result, as each revision may see it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.connect import Host

OLD = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
TEXT = {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.5}}
IMAGE = {"type": "image", "data": "cG5n", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "d2F2", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "test://one", "name": "one", "title": "The one"}
EMBEDDED = {"type": "resource", "resource": {"uri": "test://one", "mimeType": "text/plain", "text": "one"}}
AUDIO_AS_BLOB = {"type": "resource", "resource": {"uri": "data:audio/wav", "mimeType": "audio/wav", "blob": "d2F2"}}
LINK_AS_TEXT = {"type": "text", "text": "The one: test://one"}


async def host_for(memory: Host, memory_modern: Host, revision: str) -> Any:
    return await (memory_modern() if revision == "2026-07-28" else memory(revision))


@pytest.mark.parametrize(
    ("revision", "blocks"),
    [
        ("2024-11-05", [TEXT, IMAGE, AUDIO_AS_BLOB, LINK_AS_TEXT, EMBEDDED]),
        ("2025-03-26", [TEXT, IMAGE, AUDIO, LINK_AS_TEXT, EMBEDDED]),
        ("2025-06-18", [TEXT, IMAGE, AUDIO, LINK, EMBEDDED]),
        ("2025-11-25", [TEXT, IMAGE, AUDIO, LINK, EMBEDDED]),
        ("2026-07-28", [TEXT, IMAGE, AUDIO, LINK, EMBEDDED]),
    ],
)
async def test_content_blocks_that_a_revision_lacks_become_others(
    memory: Host, memory_modern: Host, revision: str, blocks: list[Any]
) -> None:
    client = await host_for(memory, memory_modern, revision)
    result = await client.call("blocks")
    assert result["content"] == blocks
    assert ("structuredContent" in result) is (revision not in OLD[:2])
    assert result["_meta"]["com.example/kept"] == 1


@pytest.mark.parametrize("revision", [*OLD, "2026-07-28"])
async def test_definitions_hold_what_their_revision_knows(memory: Host, memory_modern: Host, revision: str) -> None:
    client = await host_for(memory, memory_modern, revision)
    tools = {tool["name"]: tool for tool in (await client.result("tools/list"))["tools"]}
    assert ("outputSchema" in tools["echo"]) is (revision not in OLD[:2])
    assert ("outputSchema" in tools["list_output"]) is (revision == "2026-07-28")
    expected = {"taskSupport": "required"} if revision == "2025-11-25" else None
    assert tools["task_only"].get("execution") == expected
    expected = {"taskSupport": "optional"} if revision == "2025-11-25" else None
    assert tools["task_maybe"].get("execution") == expected
    assert "execution" not in tools["echo"]
    assert tools["mirrored"]["inputSchema"]["properties"]["text"]["x-mcp-header"] == "Text"


@pytest.mark.parametrize("revision", [*OLD, "2026-07-28"])
async def test_structure_that_is_no_object_is_for_the_newest_alone(
    memory: Host, memory_modern: Host, revision: str
) -> None:
    client = await host_for(memory, memory_modern, revision)
    result = await client.call("list_output")
    assert result.get("structuredContent") == ([1, 2] if revision == "2026-07-28" else None)
    assert result["content"] == [{"type": "text", "text": "[1,2]"}]


@pytest.mark.parametrize("revision", [*OLD, "2026-07-28"])
async def test_prompt_messages_are_shaped_too(memory: Host, memory_modern: Host, revision: str) -> None:
    client = await host_for(memory, memory_modern, revision)
    (message,) = (await client.result("prompts/get", {"name": "sound"}))["messages"]
    assert message["content"] == (AUDIO_AS_BLOB if revision == "2024-11-05" else AUDIO)
