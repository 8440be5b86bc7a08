"""URIs of upstreams in what they answer, rewritten so that a client can read what it was given.

The same is done to a link in a tool's result, in a prompt and in the content of a resource; nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from zorivest_rpc.mcp.protocol.content import Block, text

__all__ = ["UNTRUSTED", "mark", "pass_block"]

UNTRUSTED: Final = "com.zorivest/untrusted"
_KNOWN: Final = frozenset(("text", "image", "audio", "resource", "resource_link"))


def pass_block(block: Mapping[str, Any], publish: Callable[[str], str]) -> Block:
    """A content block as our client gets it: links rewritten, an unknown type as a note."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _KNOWN:
        return text(f"[content of the unknown type {str(kind)[:40]!r} left out]")
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        return {**block, "uri": publish(block["uri"])}
    inner = block.get("resource")
    if kind == "resource" and isinstance(inner, Mapping) and isinstance(inner.get("uri"), str):
        return {**block, "resource": {**inner, "uri": publish(inner["uri"])}}
    return dict(block)


def mark(content: Mapping[str, Any]) -> Block:
    """With the note that it comes from elsewhere in place of what the upstream's own `_meta` says."""
    return {**{key: value for key, value in content.items() if key != "_meta"}, "_meta": {UNTRUSTED: True}}
