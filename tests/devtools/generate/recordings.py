"""Entries as the buffers keep them."""

from __future__ import annotations

from typing import Any, TypeVar

from zorivest_rpc.devtools.entries import Audit, Entry, Measured, PageName, Recording
from zorivest_rpc.devtools.frames import Action, Log, Performance, Request, Selectors

Kept = TypeVar("Kept")
PAGE = "a" * 16
TAB = "b" * 16
URL = "http://shop.test/orders"
NOW = 1_790_000_000_000.0


def entry(item: Kept, number: int = 1, page: str = PAGE, tab: str = TAB) -> Entry[Kept]:
    return Entry(item, page, tab, number, NOW, 100)


def act(type: str, ms: float = 0.0, **members: Any) -> Action:
    members.setdefault("selectors", Selectors(test_id="it"))
    return Action(ts=NOW + ms, type=type, url=members.pop("url", URL), **members)  # type: ignore[arg-type]


def ask(ms: float = 0.0, path: str = "/api/a", method: str = "GET", status: int = 200, **members: Any) -> Request:
    url = f"http://shop.test{path}"
    return Request(ts=NOW + ms, method=method, url=url, status=status, duration_ms=members.pop("took", 12.5), **members)


def fail(message: str, ms: float = 0.0) -> Log:
    return Log(ts=NOW + ms, level="error", message=message, source=f"{URL}:1:2")


def measured(first: dict[str, Any], latest: dict[str, Any] | None = None, number: int = 5) -> Measured:
    one = entry(Performance(ts=NOW, url=URL, **first), number)
    two = one if latest is None else entry(Performance(ts=NOW + 9, url=URL, **latest), number + 10)
    return Measured(URL, one, two, None, 1 if latest is None else 2)


def record(
    *items: Action | Request | Log, measured: tuple[Measured, ...] = (), audit: dict[str, Any] | None = None
) -> Recording:
    """Entries numbered in the order in which they are given."""
    entries = [(item, number) for number, item in enumerate(items, start=1)]
    return Recording(
        page=PageName(PAGE, URL, "Orders"),
        at=NOW,
        version="1.2.3",
        logs=tuple(entry(item, n) for item, n in entries if isinstance(item, Log)),
        network=tuple(entry(item, n) for item, n in entries if isinstance(item, Request)),
        actions=tuple(entry(item, n) for item, n in entries if isinstance(item, Action)),
        measured=measured,
        audit=None if audit is None else Audit(audit, NOW),
    )
