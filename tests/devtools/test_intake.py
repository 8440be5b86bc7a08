"""What a page may send: limits, settings that bind it, batches with a wrong item, and floods."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.devtools.stage import TAB, Desk, click, encode, log, perf, request, socket
from zorivest_rpc.devtools.frames import Ack, Settings, SettingsFrame, Slow, Welcome
from zorivest_rpc.devtools.limiter import Limiter
from zorivest_rpc.devtools.visit import Refused


def test_hello_is_welcomed_with_settings_limits_and_the_newest_batch() -> None:
    desk = Desk()
    visit, link = desk.visit()
    assert link.frames == [Welcome(Settings(), desk.watch.limits, 0)]
    desk.send(visit, log(), seq=1)
    desk.send(visit, log(), seq=2)
    assert desk.visit()[1].frames[0] == Welcome(Settings(), desk.watch.limits, 2)


def test_a_batch_that_was_stored_is_acknowledged_again_and_not_stored_again() -> None:
    desk = Desk()
    visit, link = desk.visit()
    for seq in (2, 1, 2, 1, 3):
        desk.send(visit, log(f"of {seq}"), seq=seq, dropped=5)
    assert [entry.item.message for entry in desk.buffers.logs] == ["of 2", "of 1", "of 3"]
    assert link.frames[1:] == [Ack(2), Ack(1), Ack(2), Ack(1), Ack(3)]
    assert desk.buffers.dropped == 15


def test_entries_carry_the_page_and_tab_of_their_connection() -> None:
    desk = Desk()
    visit, _ = desk.visit("c" * 16, "d" * 16)
    desk.send(visit, log(page="e" * 16, tab="f" * 16))
    (entry,) = desk.buffers.logs
    assert (entry.page, entry.tab) == ("c" * 16, "d" * 16)


def test_a_wrong_item_costs_itself_alone() -> None:
    desk = Desk()
    visit, link = desk.visit()
    desk.send(visit, log("first"), {"kind": "log"}, {"kind": "spy"}, 7, None, log("last"), seq=1)
    assert [entry.item.message for entry in desk.buffers.logs] == ["first", "last"]
    assert desk.buffers.dropped == 4
    assert link.frames[-1] == Ack(1)


def test_half_of_a_pair_as_cutting_leaves_it_is_read() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    item = b'{"kind":"log","ts":1,"level":"info","message":"cut \\ud83d, \\ud83d\\ude00"}'
    visit.receive(b'{"frame":"events","seq":1,"items":[' + item + b"]}")
    assert [entry.item.message for entry in desk.buffers.logs] == ["cut �, 😀"]


def test_texts_are_cut_at_their_limits_after_they_are_redacted() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.watch.configure(Settings(ws_mode="messages"))
    secret = '{"a":"' + "x" * 8_180 + '","password":"hunter2hunter2"}'
    desk.send(visit, log("é" * 9_000, stack="s" * 20_000), request(request_body=secret, response_body="r" * 20_000))
    desk.send(visit, socket("message", data="m" * 9_000, size=9_000), click(value="v" * 300))
    (entry,) = desk.buffers.logs
    assert len(entry.item.message.encode()) == 10 << 10
    assert len(entry.item.stack or "") == 10 << 10
    (asked,) = desk.buffers.network
    assert len((asked.item.request_body or "").encode()) <= 8 << 10
    assert "hunter" not in (asked.item.request_body or "")
    assert len(asked.item.response_body or "") == 16 << 10
    assert (asked.item.request_truncated, asked.item.response_truncated) == (True, True)
    (event,) = desk.buffers.ws_events
    assert len(event.item.data or "") == 4 << 10
    (action,) = desk.buffers.actions
    assert len(action.item.value or "") == 100


def test_settings_bind_a_page_that_does_not_listen() -> None:
    desk = Desk()
    visit, link = desk.visit()
    desk.watch.configure(Settings("warn", "off", network_bodies=False, actions=False))
    assert link.frames[-1] == SettingsFrame("warn", "off", network_bodies=False, actions=False)
    items = [log(level=level) for level in ("error", "warn", "info", "debug")]
    desk.send(visit, *items, request(response_body="x"), socket(), click(), perf())
    assert [entry.item.level for entry in desk.buffers.logs] == ["error", "warn"]
    assert [entry.item.response_body for entry in desk.buffers.network] == [None]
    assert (len(desk.buffers.ws_events), len(desk.buffers.actions), len(desk.buffers.measured)) == (0, 0, 1)


def test_messages_of_sockets_are_kept_only_where_they_were_asked_for() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, socket("open"), *[socket("message", data="x")] * 100)
    assert [entry.item.event for entry in desk.buffers.ws_events] == ["open"]


def test_what_is_typed_into_a_secret_field_is_no_value() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(
        visit,
        click(type="input", value="hunter2", input_type="password"),
        click(type="input", value="hunter2", selectors={"label": "Card number"}),
        click(type="input", value="Ann", selectors={"label": "Name"}),
        click(type="key", key="a"),
        click(type="key", key="Enter"),
    )
    assert [entry.item.value for entry in desk.buffers.actions][:3] == ["[redacted]", "[redacted]", "Ann"]
    assert [entry.item.key for entry in desk.buffers.actions][3:] == [None, "Enter"]


def test_times_and_durations_that_are_none_are_replaced() -> None:
    desk = Desk()
    visit, _ = desk.visit()
    desk.send(visit, log(ts=-1), log(ts=1e300), request(duration_ms=-5, wait_ms=1e308))
    assert {entry.item.ts for entry in desk.buffers.logs} == {desk.clock.now * 1000}
    (asked,) = desk.buffers.network
    assert (asked.item.duration_ms, asked.item.wait_ms) == (0, 0)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"frame": "events", "seq": 1, "items": [log()] * 501}, 1009),
        ({"frame": "events", "seq": 1, "items": [log("x" * (1 << 20))]}, 1009),
        ({"frame": "events", "seq": -1, "items": []}, 1008),
        ({"frame": "events", "items": []}, 1008),
        ({"frame": "hello", "v": 2, "page": "a" * 16, "tab": TAB, "url": ""}, 1008),
        ({"frame": "hello", "v": 1, "page": "2" * 16, "tab": TAB, "url": ""}, 1008),
        ({"frame": "hello", "v": 1, "page": "not hex", "tab": TAB, "url": ""}, 1008),
        ({"frame": "ack", "seq": 1}, 1008),
        ([], 1008),
        (7, 1008),
    ],
)
def test_a_frame_beyond_the_limits_ends_the_connection(frame: object, code: int) -> None:
    desk = Desk()
    visit, _ = desk.visit()
    with pytest.raises(Refused) as refused:
        visit.receive(encode(frame))
    assert refused.value.code == code
    assert desk.counters.of("logs") == 0


def test_nothing_comes_before_hello() -> None:
    from tests.devtools.stage import PageLink
    from zorivest_rpc.devtools.visit import Visit

    visit = Visit(Desk().watch, PageLink(), lambda seconds, work: None)
    with pytest.raises(Refused, match="hello comes first"):
        visit.receive(encode({"frame": "events", "seq": 1, "items": []}))


def test_a_flood_is_refused_after_five_seconds_until_ten_were_calm() -> None:
    desk = Desk()
    visit, link = desk.visit()
    stored = 0
    for second in range(8):
        desk.clock.now += 1
        for _ in range(3):
            desk.send(visit, *[log()] * 400)
        taken = sum(isinstance(frame, Ack) for frame in link.frames) - stored
        stored += taken
        assert taken == (3 if second < 4 else 2 if second == 4 else 0)
    assert link.frames[-1] == Slow(1000)
    for second in range(1, 12):
        desk.clock.now += 1
        desk.send(visit, log())
        assert isinstance(link.frames[-1], Ack if second > 10 else Slow), second


STATE = {"frame": "state", "url": "http://localhost/", "title": "", "visible": True, "focused": True}


@pytest.mark.parametrize(
    "frame",
    [STATE, {"frame": "result", "q": "nobody asked", "ok": True}, {"frame": "events", "seq": 1, "items": []}],
    ids=lambda frame: frame["frame"],
)
def test_frames_without_events_are_a_flood_too(frame: dict[str, object]) -> None:
    desk = Desk()
    visit, link = desk.visit()
    told = ""
    for number in range(8 * 1_100):
        desk.clock.now += 1 if number % 1_100 == 0 else 0
        try:
            visit.receive(encode(frame))
        except Refused as refused:
            told = refused.reason
            break
        if Slow(1000) in link.frames:
            told = "slow"
            break
        link.frames.clear()
    assert told == ("slow" if frame["frame"] == "events" else "too many frames")


def test_five_hot_seconds_have_to_be_in_a_row() -> None:
    now = [100.0]
    limiter = Limiter(lambda: now[0])
    for second in range(40):
        now[0] += 1
        assert limiter.take(5_000 if second % 5 else 1_000)


FRAGMENTS = st.sampled_from(
    (
        *(b'{"frame":"', b"hello", b"events", b"state", b"result", b'","', b'seq":', b'items":[', b'kind":"', b"log"),
        *(b"]", b"}", b"{", b"1e999", b"-1", b"null", b'"', b"\\ud800", b"\xff", b",", b":", b"[" * 2_000),
    )
)


@given(st.lists(FRAGMENTS | st.binary(max_size=12), max_size=30).map(b"".join))
def test_no_bytes_break_it(data: bytes) -> None:
    desk = Desk()
    visit, _ = desk.visit()
    for frame in (data, b'{"frame":"events","seq":1,"items":[' + data + b"]}", b'{"frame":"state","url":"' + data):
        with suppress(Refused):
            visit.receive(frame)
    assert desk.counters.all() == desk.buffers.counts()
