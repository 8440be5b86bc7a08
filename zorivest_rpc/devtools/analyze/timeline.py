"""What happened, in the order in which it happened: actions, requests, and what the console complained about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zorivest_rpc.devtools.entries import Entry
from zorivest_rpc.devtools.frames import Action, Log, Request
from zorivest_rpc.devtools.kit import iso
from zorivest_rpc.devtools.watch import Watch
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["make_timeline"]

MOST: Final = 200
_MESSAGE: Final = 200


def make_timeline(
    watch: Watch, *, url: str, include: Sequence[str] | None, last: int | None, page: str | None
) -> dict[str, Json]:
    wanted = ("actions", "network", "logs") if include is None else include
    buffers = watch.buffers
    actions = [entry for entry in buffers.actions if page in (None, entry.page) and url in entry.item.url]
    begins = float("-inf")
    if last is not None and actions:
        actions = actions[-last:]
        begins = actions[0].item.ts
    rows: list[tuple[float, int, dict[str, Json]]] = []
    if "actions" in wanted:
        rows += [(entry.item.ts, entry.number, _action(entry)) for entry in actions]
    if "network" in wanted:
        rows += [
            (entry.item.ts, entry.number, _request(entry))
            for entry in buffers.network
            if page in (None, entry.page)
            and url in entry.item.url
            and entry.item.ts >= begins
            and not watch.noise.hides(entry)
        ]
    if "logs" in wanted:
        rows += [
            (entry.item.ts, entry.number, _log(entry))
            for entry in buffers.logs
            if page in (None, entry.page)
            and entry.item.level in ("error", "warn")
            and entry.item.ts >= begins
            and not watch.noise.hides(entry)
        ]
    rows.sort(key=lambda row: row[:2])
    entries = [told for _, _, told in rows[-MOST:]]
    return {
        "entries": entries,
        "returned": len(entries),
        "total": len(rows),
        "hint": None if entries else "Nothing was recorded yet, or nothing that fits.",
    }


def _action(entry: Entry[Action]) -> dict[str, Json]:
    item = entry.item
    named = item.selectors
    told: dict[str, Json] = {"ts": iso(item.ts), "kind": "action", "type": item.type, "url": item.url}
    element = named.test_id or (named.role and f"{named.role.role} {named.role.name}") or named.label or named.text
    told["element"] = element or named.id or named.css or ""
    for name in ("value", "key", "to_url"):
        value = getattr(item, name)
        if value is not None:
            told[name] = value
    return told | {"page": entry.page}


def _request(entry: Entry[Request]) -> dict[str, Json]:
    item = entry.item
    return {
        "ts": iso(item.ts),
        "kind": "network",
        "method": item.method,
        "url": item.url,
        "status": item.status,
        "duration_ms": round(item.duration_ms, 1),
        "page": entry.page,
    }


def _log(entry: Entry[Log]) -> dict[str, Json]:
    item = entry.item
    return {
        "ts": iso(item.ts),
        "kind": "console",
        "level": item.level,
        "message": item.message[:_MESSAGE],
        "page": entry.page,
    }
