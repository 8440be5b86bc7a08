"""The client half of headers and framing: values into headers, event streams into events."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.framing import EventReader, SseEvent, sse_event
from zorivest_rpc.mcp.protocol.headers import check_params, decode_value, encode_value, mirror_params


@pytest.mark.parametrize(
    "text", ["a", "us west 1", "a=b;c", "file:///path%20x?q=1", "", "~!", "=?BASE64?x?=", "a=?base64?"]
)
def test_plain_text_is_sent_as_it_is(text: str) -> None:
    assert encode_value(text) == text


@pytest.mark.parametrize(
    "text", [" a", "a ", "\ta", "a\tb", "a\nb", "a\r\nb", "ü", "世界", "\x7f", "\x00", "=?base64?YQ==?=", "=?base64?"]
)
def test_other_text_is_sent_in_the_sentinel(text: str) -> None:
    assert encode_value(text) == f"=?base64?{b64encode(text.encode()).decode()}?="


@given(st.text())
def test_whatever_is_encoded_is_read_back_and_fits_a_header(text: str) -> None:
    encoded = encode_value(text)
    assert all(" " <= char <= "~" for char in encoded)
    assert encoded == encoded.strip()
    if max(text, default="") >= "\ud800" and any("\ud800" <= char <= "\udfff" for char in text):
        return  # halves of surrogate pairs are not text
    assert decode_value(encoded, "Mcp-Name", None) == text


MIRRORED = {"Region": ("region",), "Deep": ("a", "b")}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": None}, {}),
        ({"region": "eu"}, {"Mcp-Param-Region": "eu"}),
        ({"region": ""}, {"Mcp-Param-Region": ""}),
        ({"region": 42}, {"Mcp-Param-Region": "42"}),
        ({"region": 42.0}, {"Mcp-Param-Region": "42"}),
        ({"region": True}, {"Mcp-Param-Region": "true"}),
        ({"region": False}, {"Mcp-Param-Region": "false"}),
        ({"region": "ü"}, {"Mcp-Param-Region": "=?base64?w7w=?="}),
        ({"region": ["eu"]}, {}),
        ({"a": {"b": "x"}}, {"Mcp-Param-Deep": "x"}),
        ({"a": "b"}, {}),
        ({"a": {"b": "x"}, "region": 0}, {"Mcp-Param-Region": "0", "Mcp-Param-Deep": "x"}),
    ],
)
def test_annotated_arguments_are_mirrored(arguments: Any, headers: dict[str, str]) -> None:
    assert mirror_params(MIRRORED, arguments) == headers


@given(
    st.dictionaries(
        st.sampled_from(["region", "other"]),
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    )
)
def test_what_the_client_mirrors_the_server_accepts(arguments: dict[str, Any]) -> None:
    headers = {name.lower(): value for name, value in mirror_params({"Region": ("region",)}, arguments).items()}

    def get(name: str, default: list[str]) -> list[str]:
        return [headers[name.lower()]] if name.lower() in headers else default

    check_params(get, {"Region": ("region",)}, arguments, None)


# --- event streams

STREAM = (
    b":keep-alive\n\n"
    b"id: 1\nretry: 500\ndata: \n\n"
    b'id: 2\ndata: {"a":1}\n\n'
    b'event: message\r\ndata:{"b":\r\ndata: 2}\r\n\r\n'
    b"id\ndata: three\rid: 4\r\r"
    b"unknown: x\nid: nu\0ll\ndata: four\n\n"
    b"data: unfinished"
)
EVENTS = [
    SseEvent(b'{"a":1}', "2"),
    SseEvent(b'{"b":\n2}', "2", "message"),
    SseEvent(b"three", "4"),
    SseEvent(b"four", "4"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_events_are_read_however_the_bytes_were_cut(size: int) -> None:
    reader = EventReader()
    found = [event for at in range(0, len(STREAM), size) for event in reader.feed(STREAM[at : at + size])]
    assert found == EVENTS
    assert (reader.retry, reader.last_id) == (500, "4")


def test_an_event_without_data_still_names_its_id_and_the_time_to_wait() -> None:
    reader = EventReader()
    assert reader.feed(b"id: a\nretry: 20\n\nretry: soon\n\n") == []
    assert (reader.last_id, reader.retry) == ("a", 20)


def test_a_mark_in_front_of_a_stream_is_no_part_of_it_and_a_long_id_is_none() -> None:
    reader = EventReader()
    stream = b"\xef\xbb\xbfdata: a\nid: 1\n\nid: " + b"2" * 5_000 + b"\ndata: \xef\xbb\xbfb\n\n"
    assert [event.data for event in reader.feed(stream)] == [b"a", b"\xef\xbb\xbfb"]
    assert reader.last_id == "1"


@given(st.lists(st.binary(max_size=30).filter(lambda data: not {10, 13} & {*data} and data.strip()), max_size=6))
def test_what_the_server_writes_the_client_reads(frames: list[bytes]) -> None:
    written = b"".join(sse_event(frame, b"7") for frame in frames)
    reader = EventReader()
    found = [event for at in range(len(written)) for event in reader.feed(written[at : at + 1])]
    assert [event.data for event in found] == frames


@pytest.mark.parametrize("size", [1, 16, 4096])
def test_an_event_above_the_limit_is_refused_and_one_at_the_limit_is_not(size: int) -> None:
    def feed(text: bytes) -> list[SseEvent]:
        reader = EventReader(100)
        return [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]

    assert len(feed(b"data:" + b"x" * 90 + b"\n\n" + b"data:" + b"y" * 90 + b"\n\n")) == 2
    assert feed(b":" + b"c" * 40 + b"\n" + b":" + b"c" * 80 + b"\n\n") == []
    for text in (b"data:" + b"x" * 101 + b"\n\n", b"data:" + b"x" * 60 + b"\ndata:" + b"x" * 60, b"x" * 120):
        with pytest.raises(ProtocolError, match="above the limit of 100 bytes"):
            feed(text)
