"""Buffers keep the newest within their limits, and counters are exact at any moment."""

from __future__ import annotations

from random import Random

import pytest

from tests.devtools.stage import Desk, click, log, perf, request, socket
from zorivest_rpc.devtools.buffers import LIMITS


def recount(desk: Desk) -> dict[str, int]:
    buffers = desk.buffers
    return {
        "logs": len(list(buffers.logs)),
        "errors": sum(entry.item.level == "error" for entry in buffers.logs),
        "network": len(list(buffers.network)),
        "ws_events": len(list(buffers.ws_events)),
        "ws_open": len(buffers.sockets.open()),
        "actions": len(list(buffers.actions)),
        "perf": len(buffers.measured),
        "endpoints": len(buffers.endpoints.all()),
    }


@pytest.mark.parametrize("seed", range(3))
def test_counters_equal_a_recount_after_each_of_many_operations(seed: int) -> None:
    desk, random = Desk(), Random(seed)
    visit, _ = desk.visit()
    for number in range(3_500):
        desk.clock.now += 1
        what = random.randrange(100)
        if what < 30:
            desk.send(visit, log("x" * random.choice((1, 9_000)), random.choice(("error", "warn", "info", "debug"))))
        elif what < 55:
            desk.send(visit, request(f"http://x/{random.choice('abcdefghij')}/{'z' * (number % 300)}"))
        elif what < 75:
            desk.send(visit, socket(random.choice(("open", "close", "error")), f"c{random.randrange(30)}"))
        elif what < 90:
            desk.send(visit, click())
        elif what < 99:
            desk.send(visit, perf(f"http://x/{random.randrange(30)}"))
        else:
            desk.buffers.clear(random.choice(("all", "logs", "network", "websocket", "actions", "performance")))
        counted = recount(desk)
        assert desk.counters.all() == counted
        assert desk.buffers.counts() == counted


def test_seven_of_the_contract() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, *[log(level="error")] * 3, *[log()] * 44, *[request()] * 12, *[click()] * 8)
    assert (desk.counters.of("errors"), desk.counters.of("logs"), desk.counters.of("network")) == (3, 47, 12)
    desk.send(visit, log(level="error"))
    assert (desk.counters.of("errors"), desk.counters.of("logs")) == (4, 48)
    for _ in range(2):
        desk.clock.now += 10
        desk.send(visit, *[log()] * 500)
    assert (desk.counters.of("errors"), desk.counters.of("logs")) == (0, 1000)
    desk.send(visit, *[request()] * 300)
    assert desk.counters.of("network") == 200


def test_bytes_evict_the_oldest_first() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    for number in range(900):
        desk.clock.now += 1
        desk.send(visit, log(f"{number} " + "x" * 10_000))
    assert desk.buffers.logs.bytes <= LIMITS["logs"].bytes
    kept = [int(entry.item.message.partition(" ")[0]) for entry in desk.buffers.logs]
    assert kept == list(range(900 - len(kept), 900))
    assert 300 < len(kept) < 900


def test_at_most_twenty_connections_are_open_and_ten_closed_ones_remembered() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    for number in range(35):
        desk.send(visit, socket("open", f"c{number}"))
    assert desk.counters.of("ws_open") == 20
    assert [connection.id for connection in desk.buffers.sockets.open()] == [f"c{number}" for number in range(15, 35)]
    assert [connection.id for connection in desk.buffers.sockets.closed()] == [f"c{number}" for number in range(5, 15)]
    assert {connection.reason for connection in desk.buffers.sockets.closed()} == {
        "not followed any more: more than 20 are open"
    }


def test_rates_are_of_the_last_five_seconds() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, socket("open"))
    for _ in range(10):
        desk.clock.now += 1
        rate = {"kind": "ws_rate", "ts": 1, "connection_id": "c1", "incoming": 10, "incoming_bytes": 100}
        desk.send(visit, rate)
    (connection,) = desk.buffers.sockets.open()
    assert connection.totals == {"incoming": 100, "outgoing": 0, "incoming_bytes": 1000, "outgoing_bytes": 0}
    assert connection.rates(desk.clock.now)["incoming"] == 10
    assert connection.rates(desk.clock.now + 20)["incoming"] == 0


def test_a_document_that_is_gone_leaves_no_open_connection() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, socket("open"))
    visit.end()
    assert desk.counters.of("ws_open") == 1  # it may come back
    ((seconds, work),) = desk.later
    assert seconds == 60
    work()
    assert desk.counters.of("ws_open") == 0
    assert [each.reason for each in desk.buffers.sockets.closed()] == ["the page went away"]


@pytest.mark.parametrize("order", ["leaves, then the other says hello", "the other says hello, then it leaves"])
def test_another_document_in_the_tab_closes_the_connections_of_the_one_before(order: str) -> None:
    desk = Desk()
    visit, _ = desk.visit("1" * 16)
    desk.send(visit, socket("open"))
    if order.startswith("leaves"):
        visit.end()
    desk.visit("2" * 16)
    visit.end()
    assert desk.counters.of("ws_open") == 0


def test_a_frame_and_a_window_that_share_a_tabs_name_leave_the_connections_of_a_page_open() -> None:
    desk = Desk()
    page, _ = desk.visit("1" * 16)
    desk.send(page, socket("open"))
    frame, _ = desk.visit("2" * 16)
    desk.send(frame, socket("open", "c2"))
    assert desk.counters.of("ws_open") == 2
    frame.end()
    desk.visit("3" * 16)  # the frame shows another document
    assert [each.page for each in desk.buffers.sockets.open()] == ["1" * 16]


def test_the_baseline_is_the_mean_of_four_and_then_moves_by_a_fifth() -> None:
    desk = Desk()
    loads = [100.0, 200.0, 300.0, 400.0, 1000.0, 0.0]
    for number, load in enumerate(loads):
        visit, _ = desk.visit(f"{number:016x}", f"{number:016x}")
        desk.send(visit, perf("http://x/a?q=1#f", load=9999.0))
        desk.send(visit, perf("http://x/a?q=2", load=load), seq=10_000 + number)  # the same document again
        (measured,) = desk.buffers.measured
        assert measured.documents == number + 1
        before = measured.baseline
        expected = [None, 100.0, 150.0, 200.0, 250.0, 400.0][number]
        assert (None if before is None else before.load) == expected
    assert measured.first.item.load == 100.0
    assert measured.latest.item.load == 0.0


def test_twenty_addresses_are_measured_and_the_least_recent_goes() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    for number in (*range(20), 0, 20):
        desk.send(visit, perf(f"http://x/{number}"))
    assert [measured.url for measured in desk.buffers.measured][:2] == ["http://x/2", "http://x/3"]
    assert desk.counters.of("perf") == 20


def test_endpoints_are_known_by_the_form_of_their_path() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    uuid, digest = "01234567-89ab-cdef-0123-456789abcdef", "0123456789abcdef"
    for part in ("17", "18", uuid, digest):
        desk.send(
            visit, request(f"http://x/t/{part}?a=1&b=2", response_body='{"n":1}', content_type="application/json")
        )
    found = {endpoint.path: endpoint for endpoint in desk.buffers.endpoints.all()}
    assert list(found) == ["/t/{id}", "/t/{uuid}", "/t/{hash}"]
    assert found["/t/{id}"].seen == 2
    assert found["/t/{id}"].parameters == {"a": 2, "b": 2}
    names = ["zeta", "page", "size", "b", "a", "order", "since", "until"]
    desk.send(visit, request(f"http://x/list?{'&'.join(f'{name}=1' for name in (*names, 'a'))}"))
    assert list(desk.buffers.endpoints.all()[-1].parameters.items()) == [(name, 1) for name in names]
    assert found["/t/{id}"].shape("response", 200) == {"n": "integer"}
    for number in range(300):
        desk.send(visit, request(f"http://x/{'y' * number}-"))
    assert desk.counters.of("endpoints") == 200
