"""FIFO matching, against hand-computed vectors."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal

import msgspec
import pytest

from tests.embedded.analytics.fills import SPY, D, fill, split
from zorivest_rpc.embedded.analytics.expiration import settle_expired
from zorivest_rpc.embedded.analytics.positions import Episode, OpenPart, Sign
from zorivest_rpc.embedded.analytics.round_trips import (
    advance,
    match,
    resume_point,
    round_trip,
)
from zorivest_rpc.embedded.values.answers import to_json
from zorivest_rpc.embedded.values.symbols import Contract


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
    history = match([fill(1, 1, "100", "10", fee="1"), fill(2, -1, "150", "12", fee="3")])
    long, short = history.episodes
    assert (long.realized, long.fees) == (D(197), D(3))
    assert short.fees == D(1)
    assert [(leg.role, leg.fee, leg.realized) for leg in history.fills] == [
        ("entry", D(1), D(0)), ("exit", D(2), D(197)), ("entry", D(1), D(0)),
    ]  # fmt: skip


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
