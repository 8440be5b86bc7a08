"""FIFO matching, against hand-computed vectors and the laws that any matching must keep."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.analytics.expiration import settle_expired
from zorivest_rpc.embedded.analytics.positions import Episode, Execution, Fill, OpenPart, Sign, SplitRatio
from zorivest_rpc.embedded.analytics.round_trips import (
    Matching,
    advance,
    match,
    replay,
    resume_point,
    round_trip,
)
from zorivest_rpc.embedded.values.answers import to_json
from zorivest_rpc.embedded.values.symbols import Contract

START = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
D = Decimal


def fill(
    number: int,
    side: Sign,
    quantity: str | Decimal,
    price: str | Decimal,
    *,
    fee: str | Decimal = "0",
    minute: int | None = None,
    symbol: str = "SPY",
    account: str = "A1",
    multiplier: str = "1",
) -> Execution:
    moment = START + timedelta(minutes=number if minute is None else minute)
    return Execution(f"E{number:04d}", account, symbol, moment, side, D(quantity), D(price), D(multiplier), D(fee))


def test_a_partial_exit_closes_the_oldest_lots_first() -> None:
    # 150 sold at 13: 100 of them bought at 10, 50 of them at 12: (13-10)*100 + (13-12)*50 = 350
    history = match([fill(1, 1, "100", "10"), fill(2, 1, "100", "12"), fill(3, -1, "150", "13")])
    (episode,) = history.episodes
    assert (episode.status, episode.realized, episode.open_quantity) == ("partial", D(350), D(50))
    (lot,) = history.lots[episode.id]
    assert (lot.exec_id, lot.quantity, lot.price) == ("E0002", D(50), D(12))


def test_a_flip_closes_one_round_trip_and_opens_the_next() -> None:
    # 150 sold against 100 held: 100*(12-10) = 200 closed, 50 short from 12
    long, short = match([fill(1, 1, "100", "10"), fill(2, -1, "150", "12")]).episodes
    assert (long.status, long.direction, long.realized, long.exit_quantity) == ("closed", 1, D(200), D(100))
    assert (short.status, short.direction, short.open_quantity, short.entry_value) == ("open", -1, D(50), D(600))
    assert short.opened_skip == D(100)
    assert (long.id, short.id) == ("rt-E0001", "rt-E0002")


def test_a_flip_splits_its_fee_by_quantity() -> None:
    # fee 3 on 150: 100/150 of it (2) closes, 1 opens; the entry's own fee was 1
    long, short = match([fill(1, 1, "100", "10", fee="1"), fill(2, -1, "150", "12", fee="3")]).episodes
    assert (long.realized, long.fees) == (D(197), D(3))
    assert short.fees == D(1)


def test_a_short_earns_when_the_price_falls() -> None:
    # sold 200 at 50, bought back at 45.5: 200*4.5 = 900, less 1.25 + 1.25
    (episode,) = match([fill(1, -1, "200", "50", fee="1.25"), fill(2, 1, "200", "45.5", fee="1.25")]).episodes
    assert (episode.direction, episode.status, episode.realized) == (-1, "closed", D("897.50"))


def test_the_multiplier_scales_the_result() -> None:
    # two contracts bought at 1.85 and sold at 2.60: 0.75 * 2 * 100 = 150, less four fees of 0.65
    history = match(
        [
            fill(1, 1, "2", "1.85", multiplier="100", fee="1.30", symbol="AAPL 260320 C 200"),
            fill(2, -1, "2", "2.60", multiplier="100", fee="1.30", symbol="AAPL 260320 C 200"),
        ]
    )
    assert history.episodes[0].realized == D("147.40")


def test_entry_fees_are_realised_in_proportion_and_the_last_exit_takes_the_rest() -> None:
    # fee 1 on 3 shares: 1/3 = 0.333333; of the 0.666667 left one half, 0.3333335, up to 0.333334; then the rest
    history = match([fill(1, 1, "3", "10", fee="1"), *(fill(n, -1, "1", "10") for n in (2, 3, 4))])
    assert [item.realized for item in history.fills if item.role == "exit"] == [
        D("-0.333333"), D("-0.333334"), D("-0.333333"),
    ]  # fmt: skip
    assert history.episodes[0].realized == D(-1)


def test_accounts_and_symbols_never_mix() -> None:
    history = match(
        [
            fill(1, 1, "10", "5", account="A1"),
            fill(2, -1, "10", "6", account="A2"),
            fill(3, -1, "10", "7", symbol="QQQ"),
        ]
    )
    assert [(item.account_id, item.symbol, item.status) for item in history.episodes] == [
        ("A1", "SPY", "open"), ("A2", "SPY", "open"), ("A1", "QQQ", "open"),
    ]  # fmt: skip


def test_currencies_of_one_symbol_never_mix() -> None:
    # bought and sold in euros for 10 more, bought in dollars and still held
    euros = [msgspec.structs.replace(fill(n, side, "10", price), currency="EUR") for n, side, price in EUROS]
    history = match([*euros, fill(2, 1, "10", "7"), fill(4, -1, "4", "9")])
    assert [(one.currency, one.status, one.realized) for one in history.episodes] == [
        ("EUR", "closed", D(10)),
        ("USD", "partial", D(8)),
    ]
    dollars = history.episodes[1]
    with pytest.raises(ValueError, match="another position"):
        advance(dollars, history.lots[dollars.id], msgspec.structs.replace(fill(9, -1, "1", "9"), currency="EUR"))


EUROS: tuple[tuple[int, Sign, str], ...] = ((1, 1, "5"), (3, -1, "6"))


def test_the_answer_shows_averages_ids_and_the_holding_time() -> None:
    # entry (100*10 + 100*12)/200 = 11; exit (150*13 + 50*14)/200 = 13.25; (13.25-11)*200 - 4 = 446
    executions = [
        fill(1, 1, "100", "10", fee="1"),
        fill(2, 1, "100", "12", fee="1"),
        fill(3, -1, "150", "13", fee="1"),
        fill(63, -1, "50", "14", fee="1"),
    ]
    history = match(executions)
    entries = [item.exec_id for item in history.fills if item.role == "entry"]
    exits = [item.exec_id for item in history.fills if item.role == "exit"]
    shown = round_trip(history.episodes[0], entries, exits)
    assert to_json(shown) == {
        "id": "rt-E0001",
        "account_id": "A1",
        "instrument": "SPY",
        "direction": "BOT",
        "entry_exec_ids": ["E0001", "E0002"],
        "exit_exec_ids": ["E0003", "E0063"],
        "entry_avg_price": 11,
        "exit_avg_price": 13.25,
        "total_quantity": 200,
        "open_quantity": 0,
        "realized_pnl": 446,
        "total_commission": 4,
        "opened_at": "2026-03-02T14:31:00+00:00",
        "closed_at": "2026-03-02T15:33:00+00:00",
        "status": "closed",
        "holding_period_seconds": 62 * 60,
        "currency": "USD",
        "flags": [],
    }


def test_an_open_round_trip_has_no_result_and_no_exit() -> None:
    shown = round_trip(match([fill(1, -1, "5", "10", fee="0.5")]).episodes[0], ["E0001"], [])
    assert (shown.direction, shown.status, shown.realized_pnl, shown.exit_avg_price) == ("SLD", "open", None, None)
    assert (shown.closed_at, shown.holding_period_seconds, shown.total_commission) == (None, None, D("0.50"))


def test_a_closing_execution_reads_no_more_lots_than_it_closes() -> None:
    history = match([fill(n, 1, "10", "5") for n in range(1, 6)])
    (episode,) = history.episodes
    read: list[str] = []

    def cursor() -> itertools.chain[OpenPart]:
        def one(lot: OpenPart) -> list[OpenPart]:
            read.append(lot.exec_id)
            return [lot]

        return itertools.chain.from_iterable(one(lot) for lot in history.lots[episode.id])

    change = advance(episode, cursor(), fill(9, -1, "15", "6"))
    assert read == ["E0001", "E0002"]
    assert [(use.exec_id, use.quantity_left) for use in change.used] == [("E0001", D(0)), ("E0002", D(5))]


def test_an_execution_of_the_past_is_refused_by_advance() -> None:
    (episode,) = (history := match([fill(5, 1, "10", "5")])).episodes
    with pytest.raises(ValueError, match="resume_point"):
        advance(episode, history.lots[episode.id], fill(4, -1, "10", "5"))
    with pytest.raises(ValueError, match="resume_point"):
        advance(episode, history.lots[episode.id], fill(5, -1, "10", "5"))  # the last execution once more


def test_slippage_is_money_and_counts_the_shares_behind_a_contract() -> None:
    # Two contracts of 100 shares, 0.05 a share worse on the way in (10) and 0.02 better on the way out of one (-2).
    history = [
        msgspec.structs.replace(fill(1, 1, "2", "5", multiplier="100"), slip=D("0.05")),
        msgspec.structs.replace(fill(2, -1, "1", "6", multiplier="100"), slip=D("-0.02")),
        fill(3, -1, "1", "6", multiplier="100"),  # without a quote
    ]
    assert [match(history[:count]).episodes[0].slippage for count in (1, 2, 3)] == [D(10), D(8), D(8)]
    assert match([fill(1, 1, "2", "5")]).episodes[0].slippage is None


def test_an_execution_of_another_position_is_refused() -> None:
    (episode,) = (history := match([fill(5, 1, "10", "5")])).episodes
    with pytest.raises(ValueError, match="another position"):
        advance(episode, history.lots[episode.id], fill(6, -1, "10", "5", symbol="QQQ"))


def test_an_execution_without_quantity_is_refused() -> None:
    with pytest.raises(ValueError, match="no positive quantity"):
        advance(None, (), fill(1, 1, "0", "5"))


def test_one_execution_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="given twice"):
        match([fill(1, 1, "1", "5"), fill(1, 1, "1", "5")])


def test_an_insertion_after_flat_leaves_the_past_alone() -> None:
    past = match([fill(1, 1, "10", "5"), fill(2, -1, "10", "6"), fill(8, 1, "10", "5")]).episodes
    point = resume_point(past, fill(5, 1, "1", "5").key)
    assert point is not None
    assert (point.key, point.skip) == (fill(5, 1, "1", "5").key, D(0))
    assert resume_point(past, fill(9, 1, "1", "5").key) is None


def test_an_insertion_into_a_flipped_episode_starts_in_the_middle_of_an_execution() -> None:
    past = match([fill(1, 1, "10", "5"), fill(2, -1, "15", "6"), fill(8, 1, "5", "5")]).episodes
    point = resume_point(past, fill(5, -1, "1", "5").key)
    assert point is not None
    assert (point.key, point.skip) == (fill(2, -1, "15", "6").key, D(10))


SPY = ("A1", "SPY")


def split(minute: int, to: str, of: str = "1") -> SplitRatio:
    return SplitRatio(START + timedelta(minutes=minute), D(to), D(of))


def test_a_split_keeps_the_money_and_lets_old_lots_match_new_shares() -> None:
    # 10 at 400 become 40 at 100; sold at 110: 40*10 = 400
    buy, sell = fill(1, 1, "10", "400", fee="1"), fill(60, -1, "40", "110")
    (episode,) = match([buy, sell], {SPY: [split(30, "4")]}).episodes
    assert (episode.status, episode.realized, episode.entry_quantity) == ("closed", D(399), D(40))
    assert (episode.entry_value, episode.exit_value) == (D(4000), D(4400))


def test_a_split_counts_what_was_sold_before_it_in_new_shares_too() -> None:
    # 10 at 400, 4 of them sold at 410 (+40); two for one: 12 at 200 are left, and 8 are gone
    history = match([fill(1, 1, "10", "400"), fill(2, -1, "4", "410")], {SPY: [split(30, "2")]})
    (episode,) = history.episodes
    assert (episode.entry_quantity, episode.exit_quantity, episode.realized) == (D(20), D(8), D(40))
    (lot,) = history.lots[episode.id]
    assert (lot.quantity, lot.price) == (D(12), D(200))


def test_a_split_does_not_touch_what_trades_from_then_on() -> None:
    history = [fill(30, 1, "10", "100")]
    assert match(history, {SPY: [split(30, "4")]}) == match(history)


def test_a_split_leaves_a_position_that_was_closed_before_it_as_it_was() -> None:
    history = [fill(1, 1, "10", "100"), fill(2, -1, "10", "110")]
    assert match(history, {SPY: [split(30, "4")]}) == match(history)


def test_several_splits_multiply() -> None:
    # two for one, then one for ten: 10 at 50 are 2 at 250
    history = match([fill(1, 1, "10", "50")], {SPY: [split(20, "1", "10"), split(10, "2")]})
    ((lot,),) = history.lots.values()
    assert (lot.quantity, lot.price) == (D(2), D(250))


def test_shares_that_do_not_divide_keep_their_money_to_the_cent() -> None:
    # 100 at 3 are a third of them at 9 after one for three; 33 sold at 12, and the fraction paid out at 12
    history = [fill(1, 1, "100", "3"), fill(60, -1, "33", "12"), fill(61, -1, "0.33333333", "12")]
    (episode,) = match(history, {SPY: [split(30, "1", "3")]}).episodes
    assert (episode.status, round(episode.realized, 6)) == ("closed", round(D("33.33333333") * 12 - 300, 6))


def test_a_split_of_another_position_changes_nothing() -> None:
    history = [fill(1, 1, "10", "400")]
    assert match(history, {("A2", "SPY"): [split(2, "4")], ("A1", "QQQ"): [split(2, "4")]}) == match(history)


CALL = Contract("AAPL", date(2026, 3, 20), "C", D(200))


def option_episode(side: Sign) -> Episode:
    return match([fill(1, side, "2", "1.50", multiplier="100", symbol=CALL.symbol)]).episodes[0]


def test_an_option_out_of_the_money_closes_at_zero_the_day_after_expiry() -> None:
    episode = option_episode(-1)
    settled = settle_expired(episode, CALL, D("199.99"), date(2026, 3, 21))
    assert settled.execution is not None
    assert settled.execution.time == datetime(2026, 3, 21, tzinfo=UTC)
    sold = fill(1, -1, "2", "1.50", multiplier="100", symbol=CALL.symbol)
    (closed,) = match([sold, settled.execution]).episodes
    assert (closed.status, closed.realized) == ("closed", D(300))  # the whole premium: 1.50 * 2 * 100


@pytest.mark.parametrize(("right", "underlying"), [("C", D(200)), ("P", D(200)), ("P", D(300))])
def test_a_bought_option_that_ends_worthless_loses_its_premium(right: Literal["C", "P"], underlying: Decimal) -> None:
    contract = Contract("AAPL", date(2026, 3, 20), right, D(200))
    bought = fill(1, 1, "2", "1.50", multiplier="100", symbol=contract.symbol)
    settled = settle_expired(match([bought]).episodes[0], contract, underlying, date(2026, 4, 1))
    assert settled.execution is not None
    (closed,) = match([bought, settled.execution]).episodes
    assert (closed.status, closed.realized) == ("closed", D(-300))


@pytest.mark.parametrize("underlying", [D("200.01"), None])
def test_an_option_whose_end_is_not_known_stays_open_and_says_so(underlying: Decimal | None) -> None:
    settled = settle_expired(option_episode(1), CALL, underlying, date(2026, 3, 21))
    assert (settled.execution, settled.flag) == (None, "expired_unresolved")


def test_an_option_on_its_last_day_is_not_settled() -> None:
    settled = settle_expired(option_episode(1), CALL, D(150), date(2026, 3, 20))
    assert (settled.execution, settled.flag) == (None, None)


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
