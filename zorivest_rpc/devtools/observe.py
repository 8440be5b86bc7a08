"""The tools that look: `observe` reads buffers, or asks the page for its outline; `query_dom` asks for elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeVar

import msgspec

from zorivest_rpc.devtools.answers import clean_dom, clean_page
from zorivest_rpc.devtools.entries import Entry
from zorivest_rpc.devtools.frames import Action, Level, Log, Performance, Request, Socket
from zorivest_rpc.devtools.intake import LEVELS
from zorivest_rpc.devtools.kit import iso, named
from zorivest_rpc.devtools.pages import NO_PAGE
from zorivest_rpc.devtools.sockets import describe
from zorivest_rpc.devtools.watch import Watch
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["ObserveArguments", "QueryArguments", "action_entry", "log_entry", "observe", "query_dom", "request_entry"]

Kept = TypeVar("Kept", Log, Request, Socket, Action)
What = Literal["errors", "logs", "network", "websocket_events", "websocket_status", "actions", "vitals", "page"]
# good below the first, poor from the second on (web.dev/articles/vitals)
VITALS: Final = {
    "fcp": (1800.0, 3000.0),
    "lcp": (2500.0, 4000.0),
    "cls": (0.1, 0.25),
    "inp": (200.0, 500.0),
    "ttfb": (800.0, 1800.0),
    "load": None,
}


class ObserveArguments(msgspec.Struct, frozen=True):
    what: What
    limit: int = 50
    url: str = ""
    method: str = ""
    status_min: int = 0
    status_max: int = 999
    connection_id: str = ""
    direction: Literal["incoming", "outgoing"] | None = None
    level: Level = "debug"
    last_n: int | None = None
    page: str | None = None


class QueryArguments(msgspec.Struct, frozen=True):
    selector: str
    include_styles: bool = False
    properties: list[str] = []
    include_children: bool = False
    max_depth: int = 3
    limit: int = 20
    page: str | None = None


async def observe(watch: Watch, arguments: ObserveArguments) -> dict[str, Json]:
    """The result of `observe`; of the page itself where what is asked for is the page."""
    if arguments.what == "page":
        page = watch.pages.target(arguments.page)
        answer = clean_page(await watch.live.ask(page, "page", {}))
        return _result(watch, arguments, [answer], 1, None)
    hidden, entries = 0, list[dict[str, Json]]()
    if arguments.what in ("errors", "logs"):
        wanted = 0 if arguments.what == "errors" else LEVELS.index(arguments.level)
        hidden, logs = _pick(watch, watch.buffers.logs, arguments, lambda item: _is_log(item, wanted, arguments.url))
        entries = [log_entry(each) for each in logs]
    elif arguments.what == "network":
        hidden, network = _pick(watch, watch.buffers.network, arguments, lambda item: _is_request(item, arguments))
        entries = [request_entry(each) for each in network]
    elif arguments.what == "websocket_events":
        hidden, events = _pick(watch, watch.buffers.ws_events, arguments, lambda item: _is_event(item, arguments))
        entries = [_socket_entry(each) for each in events]
    elif arguments.what == "actions":
        hidden, actions = _pick(watch, watch.buffers.actions, arguments, lambda item: arguments.url in item.url)
        entries = [action_entry(each) for each in actions]
    elif arguments.what == "vitals":
        measured = [each for each in watch.buffers.measured if arguments.url in each.url]
        entries = [_vitals(each.url, each.latest) for each in measured if arguments.page in (None, each.latest.page)]
    else:
        entries = [_status(watch, arguments)]
        return _result(watch, arguments, entries, 1, _hint(watch, entries[0]["connections"], 0))
    return _result(watch, arguments, entries[-arguments.limit :], len(entries), _hint(watch, entries, hidden))


async def query_dom(watch: Watch, arguments: QueryArguments) -> dict[str, Json]:
    page = watch.pages.target(arguments.page)
    asked: dict[str, Json] = {
        "selector": arguments.selector,
        "include_styles": arguments.include_styles,
        "properties": arguments.properties,
        "include_children": arguments.include_children,
        "max_depth": arguments.max_depth,
        "limit": arguments.limit,
    }
    answer = await watch.live.ask(page, "dom", asked)
    return clean_dom(answer, limit=arguments.limit, max_depth=arguments.max_depth)


def _result(
    watch: Watch, arguments: ObserveArguments, entries: list[dict[str, Json]], total: int, hint: str | None
) -> dict[str, Json]:
    return {
        "what": arguments.what,
        "entries": entries,
        "returned": len(entries),
        "total": total,
        "dropped": watch.buffers.dropped,
        "page": named(watch.pages.name_of_target(arguments.page)),
        "hint": hint,
    }


def _hint(watch: Watch, entries: list[Json], hidden: int) -> str | None:
    if hidden:
        return f"{hidden} entries are hidden by noise rules; configure(noise_rule, list) shows the rules."
    if entries:
        return None
    if not watch.pages.connected():
        return NO_PAGE
    return "Nothing of this kind was collected yet, or nothing that fits."


def _pick(
    watch: Watch, ring: Iterable[Entry[Kept]], arguments: ObserveArguments, fits: Callable[[Kept], bool]
) -> tuple[int, list[Entry[Kept]]]:
    """How many entries that fit are hidden by noise rules, and the others, oldest first."""
    entries = list(ring)
    if arguments.last_n is not None:
        entries = entries[-arguments.last_n :]
    if arguments.page is not None:
        entries = [entry for entry in entries if entry.page == arguments.page]
    fitting = [entry for entry in entries if fits(entry.item)]
    shown = [entry for entry in fitting if isinstance(entry.item, Action) or not watch.noise.hides(entry)]
    return len(fitting) - len(shown), shown


def _is_log(item: Log, wanted: int, source: str) -> bool:
    return LEVELS.index(item.level) <= wanted and source in item.source


def _is_request(item: Request, arguments: ObserveArguments) -> bool:
    return (
        arguments.url in item.url
        and arguments.method.upper() in ("", item.method)
        and arguments.status_min <= item.status <= arguments.status_max
    )


def _is_event(item: Socket, arguments: ObserveArguments) -> bool:
    return (
        arguments.url in item.url
        and arguments.connection_id in ("", item.connection_id)
        and arguments.direction in (None, item.direction)
    )


def log_entry(entry: Entry[Log]) -> dict[str, Json]:
    item = entry.item
    told: dict[str, Json] = {
        "ts": iso(item.ts),
        "level": item.level,
        "message": item.message,
        "source": item.source,
        "count": item.count,
        "page": entry.page,
    }
    if item.stack is not None:
        told["stack"] = item.stack
    return told


def request_entry(entry: Entry[Request]) -> dict[str, Json]:
    item = entry.item
    told: dict[str, Json] = {
        "ts": iso(item.ts),
        "method": item.method,
        "url": item.url,
        "status": item.status,
        "duration_ms": round(item.duration_ms, 1),
    }
    if item.request_body is not None:
        told["request_body"] = item.request_body
    if item.response_body is not None:
        told["response_body"] = item.response_body
    return told | {
        "request_truncated": item.request_truncated,
        "response_truncated": item.response_truncated,
        "content_type": item.content_type,
        "response_headers": item.response_headers,
        "page": entry.page,
    }


def _socket_entry(entry: Entry[Socket]) -> dict[str, Json]:
    item = entry.item
    told: dict[str, Json] = {
        "ts": iso(item.ts),
        "event": item.event,
        "connection_id": item.connection_id,
        "url": item.url,
        "page": entry.page,
    }
    for name in ("direction", "data", "size", "code", "reason"):
        value = getattr(item, name)
        if value is not None:
            told[name] = value
    return told


def action_entry(entry: Entry[Action]) -> dict[str, Json]:
    item = entry.item
    told: dict[str, Json] = {
        "ts": iso(item.ts),
        "type": item.type,
        "url": item.url,
        "selectors": msgspec.to_builtins(item.selectors),
        "page": entry.page,
    }
    for name in ("value", "key", "to_url"):
        value = getattr(item, name)
        if value is not None:
            told[name] = value
    return told


def _vitals(url: str, entry: Entry[Performance]) -> dict[str, Json]:
    told: dict[str, Json] = {"ts": iso(entry.item.ts), "url": url, "page": entry.page}
    for name, bounds in VITALS.items():
        value = getattr(entry.item, name)
        if value is not None:
            told[name] = {"value": round(value, 4), "rating": _rate(value, bounds)}
    return told


def _rate(value: float, bounds: tuple[float, float] | None) -> str | None:
    """None of what has no agreed bounds: the load event."""
    if bounds is None:
        return None
    good, poor = bounds
    return "good" if value < good else "poor" if value >= poor else "needs-improvement"


def _status(watch: Watch, arguments: ObserveArguments) -> dict[str, Json]:
    now = watch.now()

    def told(connections: Iterable[Json]) -> list[dict[str, Json]]:
        return [
            describe(each, now, lambda seconds: iso(seconds * 1000.0))
            for each in connections
            if arguments.url in each.url
            and arguments.connection_id in ("", each.id)
            and arguments.page in (None, each.page)
        ]

    return {"connections": told(watch.buffers.sockets.open()), "closed": told(watch.buffers.sockets.closed())}
