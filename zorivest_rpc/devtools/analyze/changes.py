"""What is new since a mark: entries of each kind, requests that fail now, new endpoints, and those that are slower."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final, TypeVar

from zorivest_rpc.devtools.entries import Entry
from zorivest_rpc.devtools.frames import Action, Log, Request, Socket
from zorivest_rpc.devtools.intake import LEVELS
from zorivest_rpc.devtools.kit import iso
from zorivest_rpc.devtools.marks import Mark
from zorivest_rpc.devtools.watch import Watch
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["find_changes"]

Kept = TypeVar("Kept", Log, Request, Socket, Action)
KINDS: Final = ("logs", "network", "websocket", "actions", "performance")
MOST: Final = 50  # merged entries of one kind
_MESSAGE: Final = 200
_SLOWER: Final = 3.0
_LEVELS: Final = {"all": "debug", "warnings": "warn", "errors_only": "error"}


def find_changes(
    watch: Watch,
    *,
    checkpoint: str | None,
    mark: str | None,
    include: Sequence[str] | None,
    severity: str,
    url: str,
    page: str | None,
) -> dict[str, Json]:
    """Also moves the automatic mark here, and sets the named one that is asked for."""
    since = watch.marks.find(checkpoint)
    here = Mark(watch.buffers.newest, watch.now() * 1000.0)
    kinds = KINDS if include is None else tuple(kind for kind in KINDS if kind in include)
    changes: dict[str, Json] = {}
    finders = {
        "logs": lambda: _logs(watch, since, severity, url, page),
        "network": lambda: _network(watch, since, severity, url, page),
        "websocket": lambda: _sockets(watch, since, severity, url, page),
        "actions": lambda: _actions(watch, since, severity, url, page),
        "performance": lambda: _performance(watch, since, severity, url, page),
    }
    for kind in kinds:
        changes[kind] = finders[kind]()
    if not checkpoint:
        watch.marks.last = here
    if mark:
        watch.marks.set(mark, here)
    counts = {kind: found["new"] for kind, found in changes.items()}
    failures = len(changes.get("network", {}).get("new_failures", ()))
    errors = changes.get("logs", {}).get("errors", 0)
    return {
        "since": iso(since.at) if since.at else None,
        "until": iso(here.at),
        "severity": "error" if errors or failures else "clean" if not any(counts.values()) else "info",
        "summary": _summarize(counts, errors, failures),
        "changes": changes,
        "marks": list(watch.marks.describe()),
        "hint": None if any(counts.values()) else "Nothing changed since then.",
    }


def _summarize(counts: dict[str, int], errors: int, failures: int) -> str:
    parts = [f"{count} new in {kind}" for kind, count in counts.items() if count]
    parts += [f"{errors} errors"] if errors else []
    parts += [f"{failures} requests that fail now"] if failures else []
    return ", ".join(parts) or "no changes"


def _new(ring: Iterable[Entry[Kept]], since: Mark, page: str | None) -> list[Entry[Kept]]:
    return [
        entry
        for entry in ring
        if (entry.number > since.number if since.number else entry.at > since.at) and page in (None, entry.page)
    ]


def _merge(told: Iterable[tuple[tuple[str, ...], dict[str, Json]]]) -> list[dict[str, Json]]:
    """Equal ones become one with a count; the newest 50 of them."""
    merged: dict[tuple[str, ...], dict[str, Json]] = {}
    for key, entry in told:
        known = merged.pop(key, None)
        merged[key] = {**entry, "count": (known["count"] if known else 0) + entry.get("count", 1)}
    return list(merged.values())[-MOST:]


def _logs(watch: Watch, since: Mark, severity: str, url: str, page: str | None) -> dict[str, Json]:
    worst = LEVELS.index(_LEVELS[severity])
    new = [
        entry
        for entry in _new(watch.buffers.logs, since, page)
        if LEVELS.index(entry.item.level) <= worst and url in entry.item.source and not watch.noise.hides(entry)
    ]
    entries = _merge(
        (
            (entry.item.level, entry.item.message[:_MESSAGE]),
            {
                "ts": iso(entry.item.ts),
                "level": entry.item.level,
                "message": entry.item.message[:_MESSAGE],
                "source": entry.item.source,
                "count": entry.item.count,
            },
        )
        for entry in new
    )
    return {"new": len(new), "errors": sum(entry.item.level == "error" for entry in new), "entries": entries}


def _fails(item: Request) -> bool:
    return item.status == 0 or item.status >= 400


def _network(watch: Watch, since: Mark, severity: str, url: str, page: str | None) -> dict[str, Json]:
    shown = [entry for entry in watch.buffers.network if url in entry.item.url and not watch.noise.hides(entry)]
    new = _new(shown, since, page)
    numbers = {entry.number for entry in new}
    by_endpoint: dict[tuple[str, str], tuple[list[Request], list[Request]]] = {}
    for entry in shown:
        endpoint = watch.buffers.endpoints.find(entry.item)
        if endpoint is not None and page in (None, entry.page):
            before_and_after = by_endpoint.setdefault((endpoint.method, endpoint.origin + endpoint.path), ([], []))
            before_and_after[entry.number in numbers].append(entry.item)
    failures, slower = [], []
    for (method, path), (before, after) in by_endpoint.items():
        failing = [item for item in after if _fails(item)]
        if failing and not any(_fails(item) for item in before):
            failures.append({"method": method, "url": path, "status": failing[-1].status, "count": len(failing)})
        if before and after and severity != "errors_only":
            was = median(item.duration_ms for item in before)
            now = median(item.duration_ms for item in after)
            if was > 0 and now >= _SLOWER * was:
                slower.append({"method": method, "url": path, "before_ms": round(was, 1), "now_ms": round(now, 1)})
    wanted = new if severity == "all" else [entry for entry in new if _fails(entry.item)]
    endpoints = [
        {"method": endpoint.method, "url": endpoint.origin + endpoint.path}
        for endpoint in watch.buffers.endpoints.all()
        if (endpoint.first > since.number if since.number else endpoint.first_at > since.at)
        and url in endpoint.origin + endpoint.path
    ]
    entries = _merge(
        (
            (entry.item.method, entry.item.url, str(entry.item.status)),
            {
                "ts": iso(entry.item.ts),
                "method": entry.item.method,
                "url": entry.item.url[:_MESSAGE],
                "status": entry.item.status,
            },
        )
        for entry in wanted
    )
    return {
        "new": len(wanted),
        "entries": entries,
        "new_failures": failures[:MOST],
        "new_endpoints": endpoints[:MOST] if severity == "all" else [],
        "slower": slower[:MOST],
    }


def _sockets(watch: Watch, since: Mark, severity: str, url: str, page: str | None) -> dict[str, Json]:
    wanted = ("error",) if severity == "errors_only" else ("error", "close")
    new = [
        entry
        for entry in _new(watch.buffers.ws_events, since, page)
        if url in entry.item.url and (severity == "all" or entry.item.event in wanted) and not watch.noise.hides(entry)
    ]
    entries = _merge(
        (
            (entry.item.event, entry.item.url, entry.item.direction or ""),
            {
                "ts": iso(entry.item.ts),
                "event": entry.item.event,
                "url": entry.item.url[:_MESSAGE],
                **({"direction": entry.item.direction} if entry.item.direction else {}),
            },
        )
        for entry in new
    )
    return {"new": len(new), "entries": entries}


def _actions(watch: Watch, since: Mark, severity: str, url: str, page: str | None) -> dict[str, Json]:
    if severity != "all":
        return {"new": 0, "entries": []}
    new = [entry for entry in _new(watch.buffers.actions, since, page) if url in entry.item.url]
    entries = _merge(
        (
            (entry.item.type, entry.item.url, repr(entry.item.selectors)),
            {
                "ts": iso(entry.item.ts),
                "type": entry.item.type,
                "url": entry.item.url[:_MESSAGE],
                "element": (entry.item.selectors.text or entry.item.selectors.css or "")[:_MESSAGE],
            },
        )
        for entry in new
    )
    return {"new": len(new), "entries": entries}


def _performance(watch: Watch, since: Mark, severity: str, url: str, page: str | None) -> dict[str, Json]:
    from zorivest_rpc.devtools.analyze.performance import judge_performance

    new = [
        each
        for each in watch.buffers.measured
        if url in each.url
        and page in (None, each.latest.page)
        and (each.latest.number > since.number if since.number else each.latest.at > since.at)
    ]
    entries = []
    for each in new:
        judged = judge_performance([each], each.url)
        if severity == "all" or judged["regressions"]:
            entries.append({"url": each.url, "verdict": judged["verdict"], "regressions": judged["regressions"]})
    return {"new": len(entries), "entries": entries}
