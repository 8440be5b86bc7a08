"""Text that only its server can have written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.mcp.protocol.seal import BadSeal, Seal

SEAL = Seal(b"k" * 32)
PAYLOAD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(PAYLOAD, PAYLOAD)
@settings(deadline=None)
def test_what_was_closed_opens_with_what_it_was_bound_to(payload: Any, bound: Any) -> None:
    assert SEAL.open("state", SEAL.close("state", payload, bound_to=bound), bound_to=bound) == payload


@given(st.text(), st.integers(0, 500), st.integers(1, 255))
@settings(deadline=None)
def test_no_altered_byte_goes_unnoticed(payload: str, place: int, change: int) -> None:
    raw = bytearray.fromhex(SEAL.close("state", payload))
    raw[place % len(raw)] ^= change
    with pytest.raises(BadSeal):
        SEAL.open("state", raw.hex())


@given(st.text() | st.binary().map(bytes.hex))
@settings(deadline=None)
def test_nothing_made_up_opens(token: str) -> None:
    with pytest.raises(BadSeal):
        SEAL.open("state", token)


def test_a_seal_is_bound_to_purpose_binding_and_key() -> None:
    token = SEAL.close("state", 1, bound_to=["a", "b"])
    rows: list[tuple[Seal, str, str, Any]] = [
        (SEAL, "cursor", token, ["a", "b"]),
        (SEAL, "state", token, ["ab"]),
        (SEAL, "state", token, None),
        (Seal(b"x" * 32), "state", token, ["a", "b"]),
        (SEAL, "state", token.upper(), ["a", "b"]),
        (SEAL, "state", f" {token}", ["a", "b"]),
        (SEAL, "state", f"{token[:10]} {token[10:]}", ["a", "b"]),
    ]
    for seal, purpose, shown, bound in rows:
        with pytest.raises(BadSeal):
            seal.open(purpose, shown, bound_to=bound)


def test_a_seal_expires_by_the_clock_it_is_given() -> None:
    token = SEAL.close("state", 1, expires=100)
    assert SEAL.open("state", token, now=100) == 1
    with pytest.raises(BadSeal):
        SEAL.open("state", token, now=100.001)
    assert SEAL.open("state", SEAL.close("state", 1), now=1e12) == 1


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Seal(b"short")


def test_a_key_has_at_least_sixteen_bytes() -> None:
    Seal(b"k" * 16)
    with pytest.raises(ValueError, match="16 bytes"):
        Seal(b"k" * 15)
