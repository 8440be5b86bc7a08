"""How far a message may reach, from both sides of each limit."""

from __future__ import annotations

import msgspec
import pytest

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol import extent
from zorivest_rpc.mcp.protocol.extent import check_extent, shorten
from zorivest_rpc.mcp.protocol.types import decode_params

MEBIBYTE = 1 << 20
LARGE = b'{"text":"' + b"x" * MEBIBYTE + b'","rest":'
PAD = b'"' + b"x" * 600 + b'"'  # what is short needs no look


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * levels + PAD + closing * levels


def refusal(data: bytes) -> tuple[int, str] | None:
    try:
        check_extent(data)
    except ProtocolError as error:
        return error.code, error.message
    return None


def test_the_limits_are_those_that_the_guide_names() -> None:
    limits = {name: getattr(extent, name) for name in extent.__all__ if name.isupper()}
    assert limits == {
        "MOST_ID": 1_024,
        "MOST_LARGE_VALUES": 10_000,
        "MOST_LEVELS": 250,
        "MOST_NAME": 256,
        "MOST_SUBSCRIBED": 65_536,
        "MOST_SUBSCRIPTIONS": 256,
        "MOST_TOKEN": 8_192,
        "MOST_URI": 2_048,
        "MOST_VALUES": 50_000,
        "SHORT": 500,
    }


@pytest.mark.parametrize("brackets", [b"[]", b"{}"])
@pytest.mark.parametrize("head", [b"", LARGE], ids=["small", "large"])
def test_as_many_levels_as_the_limit_are_taken_and_one_more_is_not(brackets: bytes, head: bytes) -> None:
    opening, closing = brackets[:1], brackets[1:]
    around = 1 if head else 0
    assert refusal(head + nested(250 - around, opening, closing) + b"}" * around) is None
    deep = refusal(head + nested(251 - around, opening, closing) + b"}" * around)
    assert deep == (-32700, "not JSON that can be read: more than 250 levels deep")


def test_a_frame_too_short_for_more_levels_than_the_limit_is_taken_unread() -> None:
    assert refusal(b"[" * 500) is None
    assert refusal(b"[" * 501) is not None


def test_levels_beside_each_other_and_brackets_in_texts_do_not_add_up() -> None:
    for head in (b"[", LARGE + b"["):
        assert refusal(head + b",".join([b"[[]]"] * 400) + b"]" + PAD) is None
        assert refusal(head + b'"' + b"[" * 300 + b'"' + b"]" + PAD) is None
        assert refusal(head + b'"\\"' + b"[" * 300 + b'\\\\"' + b"]" + PAD) is None
        assert refusal(head + b'"\\\\",' + b"[" * 300 + PAD) is not None


@pytest.mark.parametrize("opened", [1, 200])
def test_as_many_values_as_the_limit_are_taken_and_one_more_is_not(opened: int) -> None:
    def of(count: int) -> bytes:
        return b"[" * opened + b"1" + b",1" * (count - opened) + b"]" * opened

    assert refusal(of(50_000)) is None
    assert refusal(of(50_001)) == (-32600, "a message holds at most 50000 values; send less at once")


def test_commas_in_the_texts_of_a_message_are_no_values() -> None:
    assert refusal(b'["' + b"," * 200_000 + b'"]') is None


def test_a_message_above_a_mebibyte_holds_fewer_values_and_its_texts_count() -> None:
    def of(values: int, size: int) -> bytes:
        head = b"[1" + b",1" * (values - 1) + b',"'
        return head + b"x" * (size - len(head) - 2) + b'"]'

    assert len(of(10, MEBIBYTE)) == MEBIBYTE
    assert refusal(of(49_999, MEBIBYTE)) is None
    assert refusal(of(9_999, MEBIBYTE + 1)) is None
    told = refusal(of(10_000, MEBIBYTE + 1))
    assert told is not None
    assert (told[0], "above 1048576 bytes holds at most 10000 values" in told[1]) == (-32600, True)
    assert refusal(LARGE + b'"' + b"," * 9_997 + b'"}') is None
    for byte in (b",", b"[", b"{"):
        assert refusal(LARGE + b'"' + byte * 10_000 + b'"}') is not None


def test_escapes_of_a_large_message_are_limited() -> None:
    for escapes, is_taken in ((500_000, True), (500_001, False)):
        assert (refusal(b'["' + b"\\n" * escapes + b"x" * MEBIBYTE + b'"]') is None) is is_taken


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("x" * 80, None, "x" * 80), ("x" * 81, None, "x" * 79 + "…"), ("abc", 3, "abc"), ("abcd", 3, "ab…")],
)
def test_a_text_of_a_client_is_repeated_in_part(text: str, most: int | None, shown: str) -> None:
    assert (shorten(text) if most is None else shorten(text, most)) == shown


def test_a_refusal_repeats_little_of_a_large_value() -> None:
    kind = b"x" * 100_000
    raw = msgspec.Raw(b'{"ref":{"type":"' + kind + b'","name":"a"},"argument":{"name":"a","value":""}}')
    with pytest.raises(ProtocolError, match="invalid params") as refused:
        decode_params("completion/complete", raw, 1)
    assert len(refused.value.message) < 200
    assert refused.value.message.endswith("at `$.ref.type`")


@pytest.mark.parametrize("kind", ["", "ref/tool", "ref/prompts", "x" * 100])
def test_a_reference_of_an_unknown_type_is_refused_with_the_known_ones(kind: str) -> None:
    raw = msgspec.Raw(b'{"ref":{"type":"' + kind.encode() + b'","name":"a"},"argument":{"name":"a","value":""}}')
    with pytest.raises(ProtocolError) as refused:
        decode_params("completion/complete", raw, 1)
    known = f'type must be "ref/prompt" or "ref/resource", not {shorten(kind)!r}'
    assert refused.value.message == f"invalid params: {known} - at `$.ref`"
