"""One tenant's watch with a clock of the test, and pages that are made of frames."""

from __future__ import annotations

from typing import Any

import msgspec

from zorivest_rpc.devtools.buffers import COUNTERS, Buffers
from zorivest_rpc.devtools.frames import Down, Query
from zorivest_rpc.devtools.pages import Page
from zorivest_rpc.devtools.visit import Visit
from zorivest_rpc.devtools.watch import Watch

__all__ = ["Clock", "Counters", "Desk", "PageLink", "answer", "click", "encode", "log", "perf", "request", "socket"]

Json = Any
KEY = "zdk_" + "k" * 32
TAB = "b" * 16


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Counters:
    """The counters alone, as exact as what writes them."""

    def __init__(self) -> None:
        self.values: dict[str, int | None] = {}

    def add(self, counter: str, n: int) -> None:
        value = self.values[counter]
        assert value is not None, counter
        assert value + n >= 0, counter
        self.values[counter] = value + n

    def set(self, counter: str, value: int | None) -> None:
        self.values[counter] = value

    def of(self, name: str) -> int | None:
        return self.values[f"devtools.{name}"]

    def all(self) -> dict[str, int | None]:
        return {name: self.of(name) for name in COUNTERS}


class PageLink:
    """What the server sends to one page."""

    def __init__(self) -> None:
        self.frames: list[Down] = []
        self.closed = False

    def send(self, frame: Down) -> None:
        self.frames.append(frame)

    def close(self) -> None:
        self.closed = True

    def queries(self) -> list[Query]:
        return [frame for frame in self.frames if isinstance(frame, Query)]


class Desk:
    def __init__(self) -> None:
        self.clock = Clock()
        self.counters = Counters()
        self.watch = Watch("default", KEY, self.counters, self.clock)
        self.later: list[tuple[float, Any]] = []
        self._seq = 0

    @property
    def buffers(self) -> Buffers:
        return self.watch.buffers

    def visit(self, page: str = "a" * 16, tab: str = TAB, **hello: Json) -> tuple[Visit, PageLink]:
        """A page that said hello."""
        link = PageLink()
        visit = Visit(self.watch, link, lambda seconds, work: self.later.append((seconds, work)))
        given = {
            "v": 1,
            "page": page,
            "tab": tab,
            "url": "http://localhost/",
            "title": "Page",
            "visible": True,
            **hello,
        }
        visit.receive(encode({"frame": "hello", **given}))
        return visit, link

    def send(self, visit: Visit, *items: Json, seq: int | None = None, dropped: int = 0) -> None:
        self._seq += 1
        frame = {"frame": "events", "seq": seq or self._seq, "dropped": dropped, "items": list(items)}
        visit.receive(encode(frame))

    def page(self, id: str = "a" * 16) -> Page:
        page = self.watch.pages.find(id)
        assert page is not None
        return page


def encode(frame: Json) -> bytes:
    return msgspec.json.encode(frame)


def answer(visit: Visit, query: Query, data: Json = None, **error: Json) -> None:
    result = {"frame": "result", "q": query.q, "ok": not error, "data": data}
    visit.receive(encode(result | ({"error": error} if error else {})))


def log(message: str = "hello", level: str = "info", **more: Json) -> Json:
    return {"kind": "log", "ts": 1.8e12, "level": level, "message": message, **more}


def request(url: str = "http://localhost/api/a", **more: Json) -> Json:
    return {"kind": "request", "ts": 1.8e12, "method": "GET", "url": url, "status": 200, "duration_ms": 10, **more}


def socket(event: str = "open", connection_id: str = "c1", **more: Json) -> Json:
    return {"kind": "ws", "ts": 1.8e12, "event": event, "connection_id": connection_id, "url": "ws://x/", **more}


def click(**more: Json) -> Json:
    return {"kind": "action", "ts": 1.8e12, "type": "click", "url": "http://localhost/", "selectors": {}, **more}


def perf(url: str = "http://localhost/", **more: Json) -> Json:
    return {"kind": "perf", "ts": 1.8e12, "url": url, **more}
