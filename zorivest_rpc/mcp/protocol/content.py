"""Content blocks: how to make one, and what becomes of it in a revision that does not know its type."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import TypeAlias

from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.revisions import Revision

__all__ = ["Block", "audio", "embed", "image", "link", "shape_blocks", "text"]

Block: TypeAlias = dict[str, Json]


def text(value: str, **extra: Json) -> Block:
    """`extra` on every block: `annotations`, `_meta`."""
    return {"type": "text", "text": value, **extra}


def image(data: bytes, mime_type: str, **extra: Json) -> Block:
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": mime_type, **extra}


def audio(data: bytes, mime_type: str, **extra: Json) -> Block:
    return {"type": "audio", "data": b64encode(data).decode(), "mimeType": mime_type, **extra}


def embed(resource: Block, **extra: Json) -> Block:
    """`resource` is one entry of a `resources/read` answer: uri, mimeType, text or blob."""
    return {"type": "resource", "resource": resource, **extra}


def link(uri: str, name: str, **extra: Json) -> Block:
    """`extra` also: title, description, mimeType, size."""
    return {"type": "resource_link", "uri": uri, "name": name, **extra}


def shape_blocks(blocks: list[Block], revision: Revision) -> list[Block]:
    """The same list where the revision knows every type, which is the common case."""
    if revision.links and revision.audio:
        return blocks
    return list(_shape(blocks, revision))


def _shape(blocks: Iterable[Block], revision: Revision) -> Iterable[Block]:
    for block in blocks:
        kind = block.get("type")
        if kind == "resource_link" and not revision.links:
            yield text(f"{block.get('title') or block['name']}: {block['uri']}")
        elif kind == "audio" and not revision.audio:
            blob = {"uri": "data:" + block["mimeType"], "mimeType": block["mimeType"], "blob": block["data"]}
            yield embed(blob)
        else:
            yield block
