"""A second import is a no-op, twins survive, and the same trade of another file is recognised."""

from __future__ import annotations

import datetime as dt
import hashlib
from decimal import Decimal as D

import msgspec
import pytest

from tests.embedded.imports import writers
from tests.embedded.imports.writers import Contract, Fill
from zorivest_rpc.embedded.imports.bank import import_bank_file
from zorivest_rpc.embedded.imports.broker import import_broker_file
from zorivest_rpc.embedded.imports.dedup import HeldTrade, sort_out_bank, sort_out_trades
from zorivest_rpc.embedded.imports.drafts import BankDraft, BankHints, BrokerHints, TradeDraft

HINTS = BrokerHints(account_id="A1")
AT = dt.datetime(2024, 3, 15, 10, 31, 5, tzinfo=writers.NEW_YORK)
FILL = Fill(AT, Contract("AAPL"), True, 100, D("172.5"), D("1.00"))
OTHER = Fill(AT, Contract("SPY", dt.date(2027, 1, 15), "P", D("384.5")), False, 2, D("3.25"), D("1.30"))
TWINS = [FILL, FILL, OTHER]


def held(*drafts: TradeDraft) -> list[HeldTrade]:
    return [
        HeldTrade(
            exec_id=draft.exec_id,
            dedup_hash=draft.dedup_hash,
            symbol=draft.symbol,
            exec_time=draft.exec_time,
            quantity=draft.quantity,
            price=draft.price,
            commission=draft.commission,
            fees=draft.fees,
        )
        for draft in drafts
    ]


def read(data: bytes) -> tuple[TradeDraft, ...]:
    return import_broker_file(data, HINTS).trades


def test_keys_are_hashes_of_the_trade_as_it_is_written_here() -> None:
    (draft,) = read(writers.webull([FILL]))
    made = hashlib.sha256(b"webull|A1|AAPL|2024-03-15T14:31:05Z|BOT|100|172.5|1").hexdigest()
    assert draft.exec_id == f"imp_{made[:16]}"
    core = hashlib.sha256(b"AAPL|BOT|100|172.5|A1|2024-03-15T14:31:05Z").hexdigest()
    assert draft.dedup_hash == core
    (line,) = bank(writers.chase([LINE]))
    assert line.dedup_hash == hashlib.md5(b"2024-01-05|coffee|-5|1", usedforsecurity=False).hexdigest()


def test_equal_fills_of_one_file_are_all_new_and_all_duplicates_the_second_time() -> None:
    drafts = read(writers.webull(TWINS))
    assert [draft.occurrence for draft in drafts] == [1, 2, 1]
    assert len(sort_out_trades(drafts, []).new) == 3
    again = sort_out_trades(drafts, held(*drafts))
    assert (again.new, len(again.duplicates), again.fee_updates) == ((), 3, ())


def test_a_third_twin_is_new_where_two_are_held() -> None:
    drafts = read(writers.webull([FILL] * 3))
    result = sort_out_trades(drafts, held(*drafts[:2]))
    assert [draft.occurrence for draft in result.new] == [3]


def test_the_same_trades_of_another_layout_are_duplicates_in_both_orders() -> None:
    flex, csv = read(writers.flex_xml(TWINS, with_ids=True)), read(writers.activity_csv(TWINS))
    assert not any(draft.is_synthesised for draft in flex)
    assert sort_out_trades(csv, held(*flex)).new == ()
    assert sort_out_trades(flex, held(*csv)).new == ()


def test_equal_fills_with_two_ids_of_a_broker_stay_two_trades_and_are_told() -> None:
    (first,) = read(writers.flex_xml([FILL], with_ids=True))
    second = msgspec.structs.replace(first, exec_id="another")
    result = sort_out_trades([second], held(first))
    assert result.new == (second,)
    assert [note.code for note in result.warnings] == ["possible_duplicate"]


def test_a_trade_a_few_seconds_and_a_trifle_away_is_told_but_imported() -> None:
    near = Fill(AT + dt.timedelta(seconds=4), Contract("AAPL"), True, 100, D("172.504"))
    far = Fill(AT + dt.timedelta(seconds=6), Contract("AAPL"), True, 100, D("172.5"))
    known = held(*read(writers.webull([FILL])))
    for fill, told in ((near, 1), (far, 0)):
        result = sort_out_trades(read(writers.webull([fill])), known)
        assert (len(result.new), len(result.warnings)) == (1, told)


def test_a_fee_that_changed_is_an_update_of_the_held_trade() -> None:
    before, after = read(writers.webull([FILL])), read(writers.webull([msgspec.structs.replace(FILL, fee=D("0.07"))]))
    result = sort_out_trades(after, held(*before))
    assert result.new == ()
    assert [(key, draft.fees) for key, draft in result.fee_updates] == [(before[0].exec_id, D("0.07"))]


def test_another_account_is_another_trade() -> None:
    mine, yours = (
        read(writers.webull([FILL])),
        import_broker_file(writers.webull([FILL]), BrokerHints(account_id="B")).trades,
    )
    assert len(sort_out_trades(yours, held(*mine)).new) == 1


LINE = writers.Line(dt.date(2024, 1, 5), "Coffee", D("-5"))


def bank(data: bytes) -> tuple[BankDraft, ...]:
    return import_bank_file(data, BankHints(account_id="C1")).transactions


def test_statement_lines_are_recognised_by_the_banks_reference() -> None:
    drafts = bank(writers.ofx([LINE, LINE]))
    assert len(sort_out_bank(drafts, references=[], hashes=[], imported=[]).new) == 2
    references = [draft.reference_id or "" for draft in drafts]
    result = sort_out_bank(drafts, references=references, hashes=[], imported=[])
    assert (result.new, len(result.duplicates)) == ((), 2)


def test_a_reference_of_the_bank_that_comes_twice_in_one_file_is_one_line() -> None:
    (draft,) = bank(writers.ofx([LINE]))
    again = msgspec.structs.replace(draft, description="Coffee, corrected", dedup_hash="another")
    result = sort_out_bank([draft, again], references=[], hashes=[], imported=[])
    assert (result.new, result.duplicates, result.flagged) == ((draft,), (again,), ())
    vague = [msgspec.structs.replace(one, reference_is_unique=False) for one in (draft, again)]
    result = sort_out_bank(vague, references=[draft.reference_id or ""], hashes=[], imported=[])
    assert (len(result.new), result.duplicates) == (2, ())


@pytest.mark.parametrize(
    ("start", "end", "inside"), [(5, 5, True), (1, 5, True), (5, 9, True), (1, 4, False), (6, 9, False)]
)
def test_both_ends_of_an_imported_range_are_inside_it(start: int, end: int, inside: bool) -> None:
    (draft,) = bank(writers.chase([LINE]))
    days = [(dt.date(2023, 1, 5), dt.date(2023, 1, 5)), (dt.date(2024, 1, start), dt.date(2024, 1, end))]
    result = sort_out_bank([draft], references=[], hashes=[draft.dedup_hash], imported=days)
    assert (len(result.duplicates), len(result.flagged)) == ((1, 0) if inside else (0, 1))


def test_equal_lines_are_skipped_inside_an_imported_range_and_flagged_outside() -> None:
    drafts = bank(writers.chase([LINE, LINE]))
    hashes = [draft.dedup_hash for draft in drafts]
    assert len(set(hashes)) == 2
    inside = sort_out_bank(drafts, references=[], hashes=hashes, imported=[(dt.date(2024, 1, 1), dt.date(2024, 1, 31))])
    assert (len(inside.duplicates), inside.flagged, inside.new) == (2, (), ())
    outside = sort_out_bank(drafts, references=[], hashes=hashes[:1], imported=[])
    assert (len(outside.flagged), len(outside.new)) == (1, 1)


def test_a_statement_already_read_as_ofx_is_recognised_as_csv() -> None:
    hashes = [draft.dedup_hash for draft in bank(writers.ofx([LINE, LINE]))]
    result = sort_out_bank(
        bank(writers.chase([LINE, LINE])), references=[], hashes=hashes, imported=[(LINE.day, LINE.day)]
    )
    assert len(result.duplicates) == 2
