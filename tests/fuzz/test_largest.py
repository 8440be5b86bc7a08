"""A share of the largest legal messages; `python -m tests.fuzz.largest` sends all of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.fuzz.largest import Two, arguments, envelopes, params_of, product, rich, values
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.extent import MOST_LEVELS, MOST_VALUES, check_extent
from zorivest_rpc.mcp.protocol.framing import DEFAULT_LIMIT
from zorivest_rpc.mcp.protocol.jsonrpc import Batch, decode

PLACES = (
    *("params of ping", "result", "id", "method", "duplicates", "alone", "tools/call name", "tools/call arguments"),
    *("tools/call arguments.more", "resources/subscribe uri", "initialize clientInfo.name"),
    *("subscriptions/listen notifications.resourceSubscriptions", "completion/complete argument.value"),
)
VALUES = ("text of escaped quotes", "many members", "long members", "towers")
TOOLS = (
    *("enable_toolset.toolset_name", "tool_search.query", "call_tool.name", "create_trade.no_such_argument"),
    *("simulate_tax_impact.lot_ids", "resolve_identifiers.identifiers", "update_settings.settings"),
)


def chosen(place: str, value: str) -> bool:
    return (place in PLACES and value in VALUES) or place in TOOLS


async def _too_long(two: Two, frames: Iterator[tuple[str, bytes]]) -> list[str]:
    slow = []
    for name, frame in frames:
        assert len(frame) <= DEFAULT_LIMIT
        _, problem = await two.judge(frame)
        if problem:
            slow.append(f"{name}: {problem}")
    two.close()
    return slow


async def test_no_message_keeps_another_session_waiting() -> None:
    assert await _too_long(Two(rich()), chain(envelopes(chosen), params_of(False, chosen))) == []


@pytest.mark.one_journal("measures time, which the translation in between takes too")
async def test_no_argument_keeps_another_session_waiting(tmp_path: Path) -> None:
    journal, server = product(str(tmp_path))
    two = Two(server)
    two.large.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    tools = json.loads(two.large.take_frames()[0])["result"]["tools"]
    try:
        assert await _too_long(two, arguments(tools, chosen)) == []
    finally:
        await journal.close()
        await asyncio.sleep(0)


# --- the limits themselves, from both sides


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize("inside", [b"%b", b'["[[[",%b]', b'["\\"[",%b]', b'["\\\\",%b]', b'{"a]":%b}'])
def test_the_depth_is_counted_to_the_level_and_not_within_texts(inside: bytes) -> None:
    around = inside.count(b"%b") and (inside != b"%b")
    good = inside % nested(MOST_LEVELS - around)
    padded = b" " * 1_000
    assert check_extent(padded + good) is None  # type: ignore[func-returns-value]
    assert isinstance(decode(padded + b'[%b,"%b"]' % (nested(MOST_LEVELS - 1), b"x" * 600)), Batch)
    with pytest.raises(ProtocolError, match="250 levels"):
        check_extent(padded + inside % nested(MOST_LEVELS - around + 1))


@pytest.mark.parametrize("item", [b"1", b'"a,b,c"', b'"a\\",\\""', b'"\\\\"', b"[]", b'{"a":1}', b'"\xc3\xa9"'])
def test_the_values_are_counted_to_the_last_and_not_within_texts(item: bytes) -> None:
    each = 2 if item[:1] in b"[{" else 1
    most = MOST_VALUES // each
    head = b'{"jsonrpc":"2.0","id":"mine","method":"ping","params":{"a":['
    # the envelope has three commas and two braces of its own, and the array a bracket
    good = head + b",".join([item] * (most - 5 // each - 1)) + b"]}}"
    assert not isinstance(decode(good), Batch)
    with pytest.raises(ProtocolError, match=str(MOST_VALUES)) as refused:
        decode(head + b",".join([item] * (most + 1)) + b"]}}")
    assert (refused.value.code, refused.value.id) == (-32600, "mine")


def test_what_is_refused_for_its_extent_is_the_same_as_a_plain_count_finds() -> None:
    """An oracle apart from the code: a loop over the bytes."""
    for value in values().values():
        quoted = escaped = False
        level = deepest = found = 0
        for byte in value[:100_000]:
            if quoted:
                escaped, quoted = (byte == 92 and not escaped), (byte != 34 or escaped)
            elif byte == 34:
                quoted = True
            elif byte in b"[{":
                level, found = level + 1, found + 1
                deepest = max(deepest, level)
            elif byte in b"]}":
                level -= 1
            elif byte == 44:
                found += 1
        cut = value[:100_000]
        if deepest > MOST_LEVELS or found > MOST_VALUES:
            with pytest.raises(ProtocolError):
                check_extent(cut)
        else:
            check_extent(cut)
