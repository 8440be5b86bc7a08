"""Content of other servers as clients of ours get it: whatever its shape, what goes on is what its type says."""

from __future__ import annotations

from typing import Any

import pytest

from zorivest_rpc.gateway.links import pass_block

IMAGE = {"data": "aGk=", "mimeType": "image/png"}
LINK = {"uri": "file:///a", "name": "a"}


def publish(uri: str) -> str:
    return f"upstream:ops:{uri}"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "words", "annotations": {"priority": 1}, "_meta": {"a": 1}},
        {"type": "image", **IMAGE},
        {"type": "audio", "data": "", "mimeType": "audio/wav"},
    ],
)
def test_content_of_a_known_type_passes_unchanged(block: dict[str, Any]) -> None:
    assert pass_block(block, publish) == block


def test_links_become_ones_that_can_be_read_here() -> None:
    assert pass_block({"type": "resource_link", **LINK}, publish) == {
        "type": "resource_link",
        "uri": "upstream:ops:file:///a",
        "name": "a",
    }
    for content in ({"text": "t"}, {"blob": "aGk="}):
        block = {"type": "resource", "resource": {"uri": "file:///a", **content}}
        assert pass_block(block, publish)["resource"] == {"uri": "upstream:ops:file:///a", **content}


@pytest.mark.parametrize(
    "block",
    [
        *({"type": "text", **members} for members in ({}, {"text": None}, {"text": 7}, {"text": {"a": 1}})),
        *({"type": kind, **IMAGE, name: 7} for kind in ("image", "audio") for name in IMAGE),
        {"type": "image", "data": "aGk="},
        *({"type": "resource_link", **LINK, name: None} for name in LINK),
        *({"type": "resource", "resource": inner} for inner in (None, 7, "x", {}, {"uri": 7, "text": "t"})),
        {"type": "resource", "resource": {"uri": "file:///a"}},
        {"type": "resource", "resource": {"uri": "file:///a", "text": 7}},
        {"type": "resource"},
    ],
)
def test_what_is_no_block_of_its_type_is_told_as_a_note(block: dict[str, Any]) -> None:
    """A client would refuse the whole result for it."""
    assert pass_block(block, publish) == {"type": "text", "text": f"[content that is no {block['type']!r} left out]"}
