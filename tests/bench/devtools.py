"""`python -m tests.bench.devtools`: what pages send, from the bytes of a batch into the buffers, on one core.

Batches of 100 events as a busy page sends them: console calls, requests with headers and JSON bodies, actions, sockets
and metrics; a tenth of the texts carry secrets, and addresses and bodies have encoded characters. Decoding, redaction,
cutting, eviction and counting are included, the limiter is lifted. Each round also decodes the same bytes alone, as a
floor that the machine gives.

Exit code 0: measured, whatever the verdict; 2: misused.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from tests.bench.page import Section
from tests.places import ROOT

SECTION = Section(
    "<!-- devtools:begin (written by python -m tests.bench.devtools; do not edit) -->",
    "<!-- devtools:end -->",
    "## What pages send",
)
BAR = 20_000  # events a second
EVENTS, BATCHES = 100, 60
HEADERS = {
    "Content-Type": "application/json; charset=utf-8",
    "Cache-Control": "no-store",
    "Date": "Wed, 18 Nov 2026 20:00:00 GMT",
    "Server": "nginx",
    "ETag": 'W/"a3f"',
}
ROWS = [{"id": number, "name": f"Row {number}", "price": 12.5 * number, "open": True} for number in range(12)]


def event(number: int) -> dict[str, Any]:
    """One of a hundred: 40 console calls, 30 requests, 15 actions, 14 socket events, one measurement."""
    ts, secret = 1.8e12 + number, number % 10 == 0
    if number % 100 < 40:
        text = f"user {number} logged in with token={number}abc" if secret else f"rendered {number} rows in 3.5 ms"
        return {"kind": "log", "ts": ts, "level": ("info", "debug", "warn", "error")[number % 4], "message": text}
    if number % 100 < 70:
        body = {"rows": ROWS, "note": "naïve"} | ({"access_token": "abc"} if secret else {})
        return {
            "kind": "request",
            "ts": ts,
            "method": "GET",
            "url": f"https://shop.example/api/items/{number}?page={number % 7}&filter=name%3A%22Row%20{number}%22",
            "status": 200,
            "duration_ms": 42.5,
            "response_body": json.dumps(body),
            "content_type": "application/json",
            "request_headers": {"Accept": "application/json", "X-Request-Id": str(number)},
            "response_headers": HEADERS,
        }
    if number % 100 < 85:
        selectors = {"test_id": f"row-{number % 50}", "role": {"role": "button", "name": "Add"}, "css": "main > button"}
        return {"kind": "action", "ts": ts, "type": "click", "url": "https://shop.example/", "selectors": selectors}
    if number % 100 < 99:
        data = json.dumps({"price": number, "session": "x"})
        about = {"direction": "incoming", "data": data, "size": len(data), "connection_id": "c1"}
        return {"kind": "ws", "ts": ts, "event": "message", "url": "wss://shop.example/feed", **about}
    return {"kind": "perf", "ts": ts, "url": "https://shop.example/", "lcp": 1200.0, "load": 900.0, "requests": 40}


def batches() -> list[bytes]:
    return [
        json.dumps(
            {"frame": "events", "seq": seq + 1, "dropped": 0, "items": [event(seq * 17 + n) for n in range(EVENTS)]}
        ).encode()
        for seq in range(BATCHES)
    ]


def ingest(frames: list[bytes]) -> float:
    """Events a second of processor time."""
    from zorivest_rpc.devtools.frames import Settings
    from zorivest_rpc.devtools.limiter import Limiter
    from zorivest_rpc.devtools.visit import Visit
    from zorivest_rpc.devtools.watch import Watch
    from zorivest_rpc.exposure.state import Atoms, ExposureState, StateNames

    names = StateNames(counters={f"devtools.{name}": "" for name in COUNTERS})
    watch = Watch("default", "zdk_bench", ExposureState(names, Atoms()), time.time)
    watch.intake.settings = Settings(ws_mode="messages")
    watch.limiter = Limiter(time.time, rate=sys.maxsize)
    visit = Visit(watch, Link(), lambda seconds, work: None)
    hello = {
        "v": 1,
        "page": "a" * 16,
        "tab": "b" * 16,
        "url": "https://shop.example/",
        "title": "Shop",
        "visible": True,
    }
    visit.receive(json.dumps({"frame": "hello", **hello}).encode())
    started = time.process_time()
    for frame in frames:
        visit.receive(frame)
    return len(frames) * EVENTS / (time.process_time() - started)


def decode(frames: list[bytes]) -> float:
    """The floor: the same bytes as values, and nothing done with them."""
    import msgspec

    from zorivest_rpc.devtools.frames import Up

    decoder = msgspec.json.Decoder(Up)
    started = time.process_time()
    for frame in frames:
        decoder.decode(frame)
    return len(frames) * EVENTS / (time.process_time() - started)


COUNTERS = ("logs", "errors", "network", "ws_events", "ws_open", "actions", "perf", "endpoints")


class Link:
    def send(self, frame: object) -> None:
        return

    def close(self) -> None:
        return


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.devtools", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--no-page", action="store_true", help="print the figures and leave docs/benchmarks.md alone")
    chosen = parser.parse_args(argv)
    if chosen.rounds < 1:
        parser.error("--rounds must be positive")
    frames = batches()
    rates, floors = [], []
    for _ in range(chosen.rounds):
        rates.append(ingest(frames))
        floors.append(decode(frames))
    rate, floor = statistics.median(rates), statistics.median(floors)
    verdict = "pass" if rate >= BAR else "**miss**"
    size = sum(map(len, frames)) / len(frames) / EVENTS
    lines = [
        f"{EVENTS} events a batch, {size:.0f} bytes an event, median of {chosen.rounds} rounds, processor time of one "
        "core. Decoded, redacted, cut, stored, counted; the limiter of 1000 events a second is lifted.",
        "",
        "| what | bar | measured | verdict |",
        "|---|---|---|---|",
        f"| events taken a second | ≥ {BAR} | {rate:.0f} | {verdict} |",
        f"| the same bytes decoded alone, a second |  | {floor:.0f} |  |",
    ]
    print("\n".join(lines))
    if not chosen.no_page:
        SECTION.write(ROOT / "docs" / "benchmarks.md", "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
