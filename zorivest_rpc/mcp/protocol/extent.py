"""How far a message may reach: its depth, its number of values, and the length of the names in it.

The limits are ours, so they are the same on every interpreter: the recursion limit of Python decides nothing. They keep
one message from holding the event loop, which all sessions share, for longer than a small share of a second.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from zorivest_rpc.errors import ProtocolError

__all__ = [
    "MOST_ID",
    "MOST_LARGE_VALUES",
    "MOST_LEVELS",
    "MOST_NAME",
    "MOST_SUBSCRIBED",
    "MOST_SUBSCRIPTIONS",
    "MOST_TOKEN",
    "MOST_URI",
    "MOST_VALUES",
    "SHORT",
    "check_extent",
    "shorten",
]

MOST_LEVELS: Final = 250  # orjson writes 254 and jsonschema-rs reads 255; the envelope takes its share of those
MOST_VALUES: Final = 50_000  # 800 000 names of arguments held the loop for 22 s, 100 000 lists for 140 ms
MOST_LARGE_VALUES: Final = 10_000  # of a message above _LARGE bytes
_LARGE: Final = 1 << 20
MOST_NAME: Final = 256  # of a tool, a prompt, an argument, a level
MOST_URI: Final = 2_048
MOST_TOKEN: Final = 8_192  # of a cursor or a task id, which are ours
MOST_ID: Final = 1_024  # of a request or a progress token, which every event of the request repeats
MOST_SUBSCRIPTIONS: Final = 256  # resources that one session or one listen request follows
MOST_SUBSCRIBED: Final = 64 * 1024  # bytes of their URIs
_MOST_ESCAPES: Final = 500_000  # twice as many took 130 ms to read
SHORT: Final = 2 * MOST_LEVELS  # what is nested deeper than the limit has an opening and a closing byte per level
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_STEP: Final = bytes(1 if byte in b"[{" else 255 for byte in range(256))  # 255 is -1 as a signed byte
_NO_BRACKET: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def check_extent(data: bytes) -> None:
    """Refuse a frame that nests too deeply or holds too many values; `data` need not be JSON.

    Nearly every message is answered by its length alone, and a large text by a few counts over it."""
    if len(data) <= SHORT:
        return
    if len(data) > _LARGE:
        _check_large(data)
        return
    opening = data.count(b"[") + data.count(b"{")
    if opening <= MOST_LEVELS and (len(data) <= MOST_VALUES or opening + data.count(b",") <= MOST_VALUES):
        return
    outside = _without_strings(data)
    opening = outside.count(b"[") + outside.count(b"{")
    if opening > MOST_LEVELS and _depth(outside) > MOST_LEVELS:
        raise ProtocolError(_PARSE_ERROR, f"not JSON that can be read: more than {MOST_LEVELS} levels deep")
    if opening + outside.count(b",") > MOST_VALUES:
        raise ProtocolError(_INVALID_REQUEST, f"a message holds at most {MOST_VALUES} values; send less at once")


def _check_large(data: bytes) -> None:
    """A message above 1 MiB is a few values with a large text among them, as an image is. What looks like structure
    counts wherever it stands, because finding out what is text takes longer than such a message is worth."""
    opening = _count_few(data, b"[") + _count_few(data, b"{")
    escapes = data.count(b"\\") if b"\\" in data else 0
    if opening + _count_few(data, b",") > MOST_LARGE_VALUES or escapes > _MOST_ESCAPES:
        words = (
            f"a message above {_LARGE} bytes holds at most {MOST_LARGE_VALUES} values, commas and brackets in texts "
            f"included, and {_MOST_ESCAPES} escapes; send less at once, or the path of a file"
        )
        raise ProtocolError(_INVALID_REQUEST, words)
    if opening > MOST_LEVELS and _depth(_without_strings(data)) > MOST_LEVELS:
        raise ProtocolError(_PARSE_ERROR, f"not JSON that can be read: more than {MOST_LEVELS} levels deep")


def _count_few(data: bytes, byte: bytes) -> int:
    """How often it occurs, up to more than a large message may hold; four times as fast as `count` where it is rare."""
    count, at = 0, data.find(byte)
    while at >= 0 and count <= MOST_LARGE_VALUES:
        count, at = count + 1, data.find(byte, at + 1)
    return count


def _without_strings(data: bytes) -> bytes:
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # in this order: an escaped backslash escapes nothing
    return b"".join(data.split(b'"')[::2])


def _depth(outside: bytes) -> int:
    brackets = outside.translate(None, _NO_BRACKET)
    return max(accumulate(memoryview(brackets.translate(_STEP)).cast("b")), default=0)


def shorten(text: str, most: int = 80) -> str:
    """For a text that repeats what a client sent."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
