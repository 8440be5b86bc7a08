"""URIs of upstreams in what they answer, rewritten so that a client can read what it was given.

The same is done to a link in a tool's result, in a prompt and in the content of a resource; nothing is ever fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from zorivest_rpc.mcp.protocol.content import Block, text

__all__ = ["UNTRUSTED", "mark", "pass_block"]

UNTRUSTED: Final = "com.zorivest/untrusted"
_MEMBERS: Final = {  # what a block of each type has to have, and clients refuse the whole result for
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": (),
    "resource_link": ("uri", "name"),
}


def pass_block(block: Mapping[str, Any], publish: Callable[[str], str]) -> Block:
    """A content block as our client gets it: links rewritten, an unknown type and what is no block of its type as a
    note."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _MEMBERS:
        return text(f"[content of the unknown type {str(kind)[:40]!r} left out]")
    if not _has_texts(block, _MEMBERS[kind]):
        return _leave_out(kind)
    if kind == "resource_link":
        return {**block, "uri": publish(block["uri"])}
    if kind == "resource" and not _is_resource(block.get("resource")):
        return _leave_out(kind)
    if kind == "resource":
        return {**block, "resource": {**block["resource"], "uri": publish(block["resource"]["uri"])}}
    return dict(block)


def _leave_out(kind: str) -> Block:
    return text(f"[content that is no {kind!r} left out]")


def _has_texts(members: Mapping[str, Any], names: Iterable[str]) -> bool:
    return all(isinstance(members.get(name), str) for name in names)


def _is_resource(inner: Any) -> bool:
    return (
        isinstance(inner, Mapping)
        and _has_texts(inner, ("uri",))
        and (_has_texts(inner, ("text",)) or _has_texts(inner, ("blob",)))
    )


def mark(content: Mapping[str, Any]) -> Block:
    """With the note that it comes from elsewhere in place of what the upstream's own `_meta` says."""
    return {**{key: value for key, value in content.items() if key != "_meta"}, "_meta": {UNTRUSTED: True}}
