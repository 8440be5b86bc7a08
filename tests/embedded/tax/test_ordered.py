"""A list that stays sorted, against a plain sorted list."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.tax import ordered
from zorivest_rpc.embedded.tax.ordered import Ordered


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40))), st.integers(2, 6))
def test_it_holds_what_was_added_and_not_taken_out_in_order(deeds: list[tuple[bool, int]], most: int) -> None:
    before, ordered._MOST = ordered._MOST, most  # blocks so short that they are cut and emptied all the time
    try:
        found: Ordered[int] = Ordered()
        expected: set[int] = set()
        for adds, value in deeds:
            if adds:
                found.add(value)
                expected.add(value)
            else:
                found.discard(value)
                expected.discard(value)
            assert list(found) == sorted(expected)
            assert list(reversed(found)) == sorted(expected, reverse=True)
            assert bool(found) == bool(expected)
            for place in range(-1, 42):
                assert found.after(place) == min((one for one in expected if one > place), default=None)
            assert found.after(None) == min(expected, default=None)
    finally:
        ordered._MOST = before


def test_a_long_one_is_kept_in_short_blocks() -> None:
    found: Ordered[int] = Ordered()
    values = list(range(5000))
    random.Random(1).shuffle(values)
    for value in values:
        found.add(value)
    assert list(found) == list(range(5000))
    assert max(map(len, found._blocks)) <= ordered._MOST
    for value in values[:4990]:
        found.discard(value)
    assert list(found) == sorted(values[4990:])
    assert found.first == min(values[4990:])
