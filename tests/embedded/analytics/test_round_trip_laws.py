"""FIFO matching keeps the laws of any matching: quantity, cash, order of arrival, scale and insertion."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded.analytics.fills import D, fill, split
from zorivest_rpc.embedded.analytics.positions import Episode, Execution, Fill, OpenPart
from zorivest_rpc.embedded.analytics.round_trips import (
    Matching,
    advance,
    match,
    replay,
    resume_point,
)

# The laws. Prices in cents, quantities in thousandths and few distinct minutes, so that ties and flips are common.

prices = st.integers(1, 50_000).map(lambda n: D(n).scaleb(-2))
quantities = st.integers(1, 4_000).map(lambda n: D(n).scaleb(-3)) | st.integers(1, 5).map(D)
fees = st.integers(0, 500).map(lambda n: D(n).scaleb(-2))


@st.composite
def histories(draw: st.DrawFn) -> list[Execution]:
    rows = draw(st.lists(st.tuples(st.sampled_from([1, -1]), quantities, prices, fees, st.integers(0, 6)), max_size=14))
    multiplier = draw(st.sampled_from(["1", "100", "0.5"]))
    return [
        fill(n, 1 if side == 1 else -1, quantity, price, fee=fee, minute=minute, multiplier=multiplier)
        for n, (side, quantity, price, fee, minute) in enumerate(rows)
    ]


def held(history: list[Execution]) -> Decimal:
    return sum((item.side * item.quantity for item in history), D(0))


def cash_of(history: list[Execution]) -> Decimal:
    """What all the buying and selling left in the till."""
    return sum((-item.side * item.quantity * item.price * item.multiplier - item.fee for item in history), D(0))


def flattened(history: list[Execution], price: Decimal) -> list[Execution]:
    """The history with a last execution that leaves nothing open."""
    position = held(history)
    if not position:
        return history
    multiplier = str(history[0].multiplier)
    return [*history, fill(900, -1 if position > 0 else 1, abs(position), price, fee="0.10", multiplier=multiplier)]


@settings(deadline=None, max_examples=150)
@given(histories())
def test_fifo_conserves_quantity(history: list[Execution]) -> None:
    matched = match(history)
    assert sum((item.direction * item.open_quantity for item in matched.episodes), D(0)) == held(history)
    for execution in history:
        parts = [item.quantity for item in matched.fills if item.exec_id == execution.exec_id]
        assert sum(parts, D(0)) == execution.quantity
    for episode in matched.episodes:
        lots = matched.lots.get(episode.id, ())
        assert sum((lot.quantity for lot in lots), D(0)) == episode.open_quantity


@settings(deadline=None, max_examples=150)
@given(histories())
def test_fifo_conserves_cash(history: list[Execution]) -> None:
    # cash in hand = what was realised - what the open lots cost (signed), with the fees they still carry
    matched = match(history)
    realized = sum((item.realized for item in matched.episodes), D(0))
    tied_up = D(0)
    for episode in matched.episodes:
        for lot in matched.lots.get(episode.id, ()):
            tied_up += episode.direction * lot.quantity * lot.price * lot.multiplier + lot.fee
    assert realized - tied_up == cash_of(history)


ratios = st.tuples(st.integers(1, 30), st.sampled_from([1, 2, 3, 7]))


@settings(deadline=None, max_examples=150)
@given(histories(), st.lists(st.tuples(st.integers(0, 12), ratios), max_size=3))
def test_splits_change_shares_and_no_money(history: list[Execution], given: list[tuple[int, tuple[int, int]]]) -> None:
    splits = [split(minute, str(to), str(of)) for minute, (to, of) in given]
    matched = match(history, {(item.account_id, item.symbol): splits for item in history})
    money = sum((item.realized for item in matched.episodes), D(0))
    for episode in matched.episodes:
        lots = matched.lots.get(episode.id, ())
        assert sum((lot.quantity for lot in lots), D(0)) == episode.open_quantity
        money -= sum((episode.direction * lot.quantity * lot.price * lot.multiplier + lot.fee for lot in lots), D(0))
    assert abs(money - cash_of(history)) < D("1e-15")  # a price of so many thirds ends after sixty digits


@settings(deadline=None, max_examples=150)
@given(histories(), prices)
def test_round_trips_of_a_flat_position_sum_to_its_cash_flows(history: list[Execution], last: Decimal) -> None:
    complete = flattened(history, last)
    matched = match(complete)
    assert all(item.status == "closed" for item in matched.episodes)
    assert sum((item.realized for item in matched.episodes), D(0)) == cash_of(complete)
    assert sum((item.fees for item in matched.episodes), D(0)) == sum((item.fee for item in complete), D(0))


@settings(deadline=None, max_examples=100)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_in_which_executions_arrive_changes_nothing(history: list[Execution], random: Random) -> None:
    shuffled = list(history)
    random.shuffle(shuffled)
    assert match(shuffled) == match(history)


@settings(deadline=None, max_examples=100)
@given(histories(), prices, st.integers(2, 9))
def test_scaling_prices_and_fees_scales_the_result(history: list[Execution], last: Decimal, factor: int) -> None:
    complete = flattened(history, last)
    scaled = [msgspec.structs.replace(item, price=item.price * factor, fee=item.fee * factor) for item in complete]
    before = sum((item.realized for item in match(complete).episodes), D(0))
    assert sum((item.realized for item in match(scaled).episodes), D(0)) == before * factor


@settings(deadline=None, max_examples=100)
@given(histories(), prices)
def test_a_closed_round_trip_is_the_difference_of_its_averages(history: list[Execution], last: Decimal) -> None:
    for episode in match(flattened(history, last)).episodes:
        entry = Fraction(episode.entry_value) / Fraction(episode.entry_quantity)
        leave = Fraction(episode.exit_value) / Fraction(episode.exit_quantity)
        size = Fraction(episode.entry_quantity) * Fraction(episode.multiplier)
        assert Fraction(episode.realized) == episode.direction * (leave - entry) * size - Fraction(episode.fees)


class Store:
    """A position as a database would keep it: rows that `advance` changes, and a replay where the past changes."""

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        self.episodes: list[Episode] = []
        self.lots: list[OpenPart] = []
        self.fills: list[Fill] = []

    def insert(self, execution: Execution) -> None:
        self.executions.append(execution)
        point = resume_point(self.episodes, execution.key)
        if point is not None:
            self.replay_from(point.key, point.skip)
            return
        current = self.episodes[-1] if self.episodes and self.episodes[-1].open_quantity else None
        change = advance(current, iter(self.lots), execution)
        if current is not None:
            self.episodes.pop()
        self.episodes.extend(change.episodes)
        self.fills.extend(change.fills)
        for use in change.used:
            lot = self.lots.pop(0)
            if use.quantity_left:
                kept = OpenPart(lot.exec_id, lot.time, use.quantity_left, lot.price, lot.multiplier, use.fee_left)
                self.lots.insert(0, kept)
        if change.added is not None:
            self.lots.append(change.added)

    def delete(self, exec_id: str) -> None:
        (gone,) = [item for item in self.executions if item.exec_id == exec_id]
        self.executions.remove(gone)
        point = resume_point(self.episodes, gone.key)
        assert point is not None
        self.replay_from(point.key, point.skip)

    def replay_from(self, key: tuple[datetime, str], skip: Decimal) -> None:
        self.episodes = [item for item in self.episodes if item.opened_key < key]
        kept = {item.id for item in self.episodes}
        self.fills = [item for item in self.fills if item.round_trip_id in kept]
        again = replay([item for item in self.executions if item.key >= key], skip)
        self.episodes.extend(again.episodes)
        self.fills.extend(again.fills)
        self.lots = [lot for lots in again.lots.values() for lot in lots]

    @property
    def matching(self) -> Matching:
        lots = {self.episodes[-1].id: tuple(self.lots)} if self.lots else {}
        return Matching(tuple(self.episodes), lots, tuple(self.fills))


@settings(deadline=None, max_examples=150)
@given(histories(), st.randoms(use_true_random=False))
def test_a_position_kept_in_step_equals_the_whole_history_matched_at_once(
    history: list[Execution], random: Random
) -> None:
    random.shuffle(history)
    store = Store()
    for count, execution in enumerate(history, 1):
        store.insert(execution)
        assert store.matching == match(history[:count])


@settings(deadline=None, max_examples=100)
@given(histories(), st.randoms(use_true_random=False))
def test_deleting_an_execution_equals_never_having_had_it(history: list[Execution], random: Random) -> None:
    store = Store()
    for execution in history:
        store.insert(execution)
    random.shuffle(history)
    while history:
        store.delete(history.pop().exec_id)
        assert store.matching == match(history)
