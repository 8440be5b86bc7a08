"""However the bytes of a pipe are cut, the same messages come out."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.connect import Host, StdioWire
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.framing import LineFramer, sse_event

LIMIT = 24
PIECE = st.one_of(
    st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"{}", b" ", b"\xe2\x80\xa8", b"\x85", b"\xff", b"\0"]),
    st.binary(max_size=LIMIT + 4),
)
STREAM = st.lists(PIECE, max_size=12).map(b"".join)
CUTS = st.lists(st.integers(0, 400), max_size=12)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({place % (len(data) + 1) for place in at})
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def framed(parts: list[bytes]) -> list[bytes | str]:
    framer = LineFramer(LIMIT)
    out = [line for part in parts for line in framer.feed(part)] + framer.finish()
    return [line.message if isinstance(line, ProtocolError) else line for line in out]


@given(STREAM, CUTS)
@settings(deadline=None, max_examples=400)
def test_any_cut_gives_the_same_lines(data: bytes, at: list[int]) -> None:
    assert framed(cut(data, at)) == framed([data])


@given(STREAM)
@settings(deadline=None, max_examples=200)
def test_one_byte_at_a_time_gives_the_same_lines(data: bytes) -> None:
    assert framed([data[place : place + 1] for place in range(len(data))]) == framed([data])


@given(STREAM)
@settings(deadline=None, max_examples=300)
def test_lines_end_at_line_feeds_and_nowhere_else(data: bytes) -> None:
    expected: list[bytes | None] = []
    for line in (data + b"\n").split(b"\n")[:-1]:
        if len(line) > LIMIT:
            expected.append(None)
        elif line.strip():
            expected.append(line.removesuffix(b"\r"))
    ended = [None if isinstance(line, str) else line for line in framed([data + b"\n"])]
    assert ended == expected


@given(st.binary(max_size=200).filter(lambda data: b"\n" not in data and b"\r" not in data))
def test_an_event_is_one_data_line_and_a_blank_one(data: bytes) -> None:
    assert sse_event(data) == b"data: " + data + b"\n\n"
    assert sse_event(data, b"1", b"message") == b"event: message\nid: 1\ndata: " + data + b"\n\n"


async def test_a_real_pipe_does_not_care_how_it_is_fed() -> None:
    random = Random(17)
    host = Host("stdio")
    try:
        client = await host()
        wire = client.wire
        assert isinstance(wire, StdioWire)
        for turn in range(6):
            lines = [
                json.dumps(
                    {"jsonrpc": "2.0", "id": f"{turn}-{number}", "method": "ping", "params": {"x": "é" * number}}
                )
                for number in range(40)
            ]
            data = ("\r\n" if turn % 2 else "\n").join(lines).encode() + b"\n"
            parts = cut(data, [random.randrange(len(data)) for _ in range([0, 3, 30, 300, 1000, 5][turn])])
            for part in parts:
                await wire.send_raw(part)
            for number in range(40):
                assert (await client.answer(f"{turn}-{number}"))["result"] == {}
        assert client.strays == []
    finally:
        await host.close()
