"""Lots from executions; every figure is worked out by hand beside the assertion."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.embedded.tax.fills import book_of, buy, dec, deliver, sell, split
from zorivest_rpc.embedded.tax.book import LotBook
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import AcquisitionSource, CostBasisMethod, Direction, TaxError, TaxFill, parse
from zorivest_rpc.embedded.values.kinds import AssetClass

CALL = "ACME 260619 C 50"
PUT = "ACME 260619 P 50"


def gains(book: LotBook) -> list[Decimal]:
    return [lot.recognized for lot in sorted(book.closed_lots, key=lambda lot: (lot.closed_at, lot.order))]


def three_lots(method: CostBasisMethod, **sale: Any) -> LotBook:
    """100 at 10, 100 at 30, 100 at 20, a year apart from the sale of 150 at 25."""
    return book_of(
        buy("ACME", 100, 10, "2024-01-02", exec_id="a"),
        buy("ACME", 100, 30, "2024-02-01", exec_id="b"),
        buy("ACME", 100, 20, "2026-01-05", exec_id="c"),
        sell("ACME", 150, 25, "2026-03-02", exec_id="z", **sale),
        method=method,
    )


def sold(book: LotBook) -> dict[str, Decimal]:
    return {lot.linked_trade_ids[0]: lot.quantity for lot in book.closed_lots}


def test_a_buy_opens_a_lot_whose_basis_includes_the_commission() -> None:
    # §1012: cost includes commission: 100 × 10 + 5 = 1005, 10.05 per share.
    (lot,) = book_of(buy("ACME", 100, 10, "2026-01-05", commission=5, exec_id="x")).open_lots
    assert (lot.lot_id, lot.total_basis, lot.cost_basis) == ("lot-x", dec(1005), dec("10.05"))
    assert (lot.open_date, lot.direction, lot.linked_trade_ids) == (date(2026, 1, 5), Direction.LONG, ("x",))


def test_a_sale_closes_with_proceeds_less_commission() -> None:
    # 100 × 12 − 5 = 1195; 1195 − 1005 = 190.
    book = book_of(buy("ACME", 100, 10, "2026-01-05", commission=5), sell("ACME", 100, 12, "2026-02-05", commission=5))
    (lot,) = book.closed_lots
    assert (lot.received, lot.proceeds, lot.gain) == (dec(1195), dec("11.95"), dec(190))
    assert book.open_lots == []


def test_a_partial_sale_splits_the_lot_and_its_basis() -> None:
    # 1005 over 100 shares: 40 sold carry 402, 60 left carry 603. Gain 40 × 12 − 402 = 78.
    book = book_of(buy("ACME", 100, 10, "2026-01-05", commission=5, exec_id="x"), sell("ACME", 40, 12, "2026-02-05"))
    (closed,), (rest,) = book.closed_lots, book.open_lots
    assert (closed.lot_id, closed.quantity, closed.cost, closed.gain) == ("lot-x-1", dec(40), dec(402), dec(78))
    assert (rest.lot_id, rest.quantity, rest.cost) == ("lot-x", dec(60), dec(603))


def test_the_round_trip_example_realises_350_with_50_left() -> None:
    # FIFO: (13 − 10) × 100 + (13 − 12) × 50 = 350.
    book = book_of(
        buy("ACME", 100, 10, "2026-01-05"), buy("ACME", 100, 12, "2026-01-06"), sell("ACME", 150, 13, "2026-01-07")
    )
    assert sum(gains(book)) == 350
    assert [lot.quantity for lot in book.open_lots] == [dec(50)]


def test_a_sale_beyond_the_position_flips_it_short() -> None:
    # Long: (12 − 10) × 100 = 200. The other 50 open a short lot with 600 received.
    book = book_of(buy("ACME", 100, 10, "2026-01-05"), sell("ACME", 150, 12, "2026-01-06", exec_id="f"))
    (short,) = book.open_lots
    assert gains(book) == [dec(200)]
    assert (short.lot_id, short.direction, short.quantity) == ("lot-f", Direction.SHORT, dec(50))
    assert (short.received, short.cost) == (dec(600), None)


def test_the_commission_of_a_flip_is_shared_by_quantity() -> None:
    # 150 × 12 − 3 = 1797: the close gets 1797 × 100/150 = 1198, the short 599.
    book = book_of(buy("ACME", 100, 10, "2026-01-05"), sell("ACME", 150, 12, "2026-01-06", commission=3))
    assert book.closed_lots[0].received == dec(1198)
    assert book.open_lots[0].received == dec(599)


def test_a_short_sale_gains_when_covered_lower_and_is_always_short_term() -> None:
    # §1233: 100 × 20 − 1 received, 100 × 15 + 1 paid: 1999 − 1501 = 498, short-term however long it stood.
    book = book_of(sell("ACME", 100, 20, "2024-01-05", commission=1), buy("ACME", 100, 15, "2026-01-05", commission=1))
    (lot,) = book.closed_lots
    assert lot.gain == 498
    assert not lot.is_long_term(date(2026, 1, 5))


def test_options_count_their_multiplier() -> None:
    # 2 contracts at 3.00: 2 × 100 × 3 + 1.30 = 601.30; sold at 4.50: 900 − 1.30 = 898.70; gain 297.40.
    book = book_of(
        buy(CALL, 2, 3, "2026-01-05", commission="1.30", asset_class=AssetClass.OPTION),
        sell(CALL, 2, "4.5", "2026-02-05", commission="1.30", asset_class=AssetClass.OPTION),
    )
    (lot,) = book.closed_lots
    assert (lot.cost, lot.received, lot.gain) == (dec("601.30"), dec("898.70"), dec("297.40"))


def test_an_option_that_expires_is_a_close_at_zero() -> None:
    # A written put that lapses keeps its premium, short-term (§1234(b)): 250.
    book = book_of(
        sell(PUT, 1, "2.5", "2026-01-05", asset_class=AssetClass.OPTION),
        buy(PUT, 1, 0, "2026-06-22", asset_class=AssetClass.OPTION),
    )
    assert gains(book) == [dec(250)]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (CostBasisMethod.FIFO, {"a": 100, "b": 50}),
        (CostBasisMethod.LIFO, {"c": 100, "b": 50}),
        (CostBasisMethod.HIFO, {"b": 100, "c": 50}),
        # at 25: a is a long-term gain of 15, b a long-term loss of 5, c a short-term gain of 5
        (CostBasisMethod.MAX_LT_GAIN, {"a": 100, "c": 50}),
        (CostBasisMethod.MAX_LT_LOSS, {"b": 100, "c": 50}),
        (CostBasisMethod.MAX_ST_GAIN, {"c": 100, "a": 50}),
        (CostBasisMethod.MAX_ST_LOSS, {"b": 100, "a": 50}),
    ],
)
def test_each_method_uses_lots_in_its_own_order(method: CostBasisMethod, expected: dict[str, int]) -> None:
    assert sold(three_lots(method)) == {key: dec(value) for key, value in expected.items()}


def test_the_dearest_short_lot_is_the_one_that_brought_in_least_a_share() -> None:
    # Ten sold at 30 brought in 300, a hundred at 20 two thousand; a share of the second gains less when covered.
    book = book_of(
        sell("ACME", 10, 30, "2026-01-05", exec_id="a"),
        sell("ACME", 100, 20, "2026-01-06", exec_id="b"),
        buy("ACME", 10, 15, "2026-02-02"),
        method=CostBasisMethod.HIFO,
    )
    assert (sold(book), sum(gains(book))) == ({"b": dec(10)}, dec(50))


def test_specific_identification_uses_the_named_lots_in_their_order() -> None:
    book = three_lots(CostBasisMethod.SPEC_ID, lot_ids=("lot-c", "lot-a"))
    assert sold(book) == {"c": dec(100), "a": dec(50)}


def test_a_sale_larger_than_the_named_lots_goes_on_with_the_oldest() -> None:
    book = three_lots(CostBasisMethod.SPEC_ID, lot_ids=("lot-b",))
    assert sold(book) == {"b": dec(100), "a": dec(50)}


def test_specific_identification_without_names_falls_back_to_the_oldest_and_says_so() -> None:
    # Reg. §1.1012-1(c)(1): without adequate identification the earliest acquired are sold.
    book = book_of(buy("ACME", 10, 1, "2026-01-05"), method=CostBasisMethod.SPEC_ID)
    step = book.advance(sell("ACME", 10, 2, "2026-01-06", exec_id="q"))
    assert step.warnings == ("Execution q names no lots; the oldest were used.",)
    assert book.open_lots == []


def test_a_named_lot_that_is_not_open_is_refused() -> None:
    with pytest.raises(TaxError) as refused:
        three_lots(CostBasisMethod.SPEC_ID, lot_ids=("lot-nope",))
    assert refused.value.code == "unknown_lot"


def test_average_cost_spreads_the_basis_over_the_position() -> None:
    # (100 × 10 + 100 × 20) / 200 = 15: 150 sold at 25 gain 1500, 50 left carry 750.
    fund = AssetClass.MUTUAL_FUND
    book = book_of(
        buy("FUNDX", 100, 10, "2026-01-05", asset_class=fund),
        buy("FUNDX", 100, 20, "2026-01-06", asset_class=fund),
        method=CostBasisMethod.AVG_COST,
    )
    step = book.advance(sell("FUNDX", 150, 25, "2026-03-02", asset_class=fund))
    assert sum(gains(book)) == 1500
    assert [lot.cost for lot in book.open_lots] == [dec(750)]
    assert step.warnings == ()


@pytest.mark.parametrize(
    ("asset_class", "words"), [(AssetClass.EQUITY, "check that ACME is a fund"), (AssetClass.CRYPTO, "not allowed")]
)
def test_average_cost_outside_funds_is_done_with_a_warning(asset_class: AssetClass, words: str) -> None:
    # Reg. §1.1012-1(e) allows it for fund shares and reinvestment plans only.
    book = book_of(buy("ACME", 1, 10, "2026-01-05", asset_class=asset_class), method=CostBasisMethod.AVG_COST)
    (warning,) = book.advance(sell("ACME", 1, 25, "2026-03-02", asset_class=asset_class)).warnings
    assert words in warning


def test_accounts_do_not_close_each_others_lots() -> None:
    book = book_of(buy("ACME", 10, 1, "2026-01-05", account_id="A"), sell("ACME", 10, 3, "2026-01-07", account_id="B"))
    assert {(lot.account_id, lot.direction) for lot in book.open_lots} == {
        ("A", Direction.LONG),
        ("B", Direction.SHORT),
    }


@pytest.mark.parametrize("method", CostBasisMethod)
def test_no_method_closes_lots_of_another_currency(method: CostBasisMethod) -> None:
    book = book_of(
        buy("ACME", 10, 100, "2026-01-05", exec_id="dollars"),
        buy("ACME", 5, 160, "2026-01-06", currency="EUR", exec_id="euros"),
        buy("ACME", 5, 120, "2026-01-07", exec_id="dear"),
        sell("ACME", 5, 180, "2026-02-02", currency="EUR"),
        method=method,
    )
    assert (sold(book), gains(book)) == ({"euros": dec(5)}, [dec(100)])


def test_a_share_split_changes_units_and_no_total() -> None:
    # §307: 100 shares costing 3000 become 300 costing 3000, 10 each.
    book = book_of(buy("ACME", 100, 30, "2026-01-05"), split("ACME", "3", "2026-02-02"))
    (lot,) = book.open_lots
    assert (lot.quantity, lot.cost, lot.cost_basis, lot.open_date) == (dec(300), dec(3000), dec(10), date(2026, 1, 5))


def test_a_call_exercised_adds_its_premium_to_the_shares() -> None:
    # 50 × 100 + 300 premium + 1 commission = 5301.
    book = book_of(
        buy(CALL, 1, 3, "2026-01-05", asset_class=AssetClass.OPTION), deliver(CALL, 1, "2026-06-19", "A", "1")
    )
    (shares,), (option,) = book.open_lots, book.closed_lots
    assert (shares.ticker, shares.quantity, shares.cost) == ("ACME", dec(100), dec(5301))
    assert (shares.source, shares.open_date) == (AcquisitionSource.EXERCISE, date(2026, 6, 19))
    assert (option.gain, option.delivered) == (dec(0), True)


def test_a_written_put_that_is_assigned_makes_the_shares_cheaper() -> None:
    # 50 × 100 − 250 = 4750.
    book = book_of(sell(PUT, 1, "2.5", "2026-01-05", asset_class=AssetClass.OPTION), deliver(PUT, 1, "2026-06-19"))
    (shares,) = book.open_lots
    assert (shares.cost, shares.source, shares.direction) == (dec(4750), AcquisitionSource.ASSIGNMENT, Direction.LONG)


def test_a_written_call_that_is_assigned_makes_the_sale_larger() -> None:
    # Shares cost 4000; sold for 50 × 100 + 200 = 5200: gain 1200.
    book = book_of(
        buy("ACME", 100, 40, "2026-01-05"),
        sell(CALL, 1, 2, "2026-01-06", asset_class=AssetClass.OPTION),
        deliver(CALL, 1, "2026-06-19"),
    )
    assert sum(gains(book)) == 1200
    assert book.open_lots == []


def test_a_put_exercised_makes_the_sale_smaller() -> None:
    # Shares cost 4000; sold for 50 × 100 − 150 = 4850: gain 850.
    book = book_of(
        buy("ACME", 100, 40, "2026-01-05"),
        buy(PUT, 1, "1.5", "2026-01-06", asset_class=AssetClass.OPTION),
        deliver(PUT, 1, "2026-06-19"),
    )
    assert sum(gains(book)) == 850


def test_delivering_what_is_not_held_is_refused() -> None:
    with pytest.raises(TaxError) as refused:
        book_of(deliver(CALL, 1, "2026-06-19"))
    assert refused.value.code == "no_open_lots"


def test_an_execution_from_the_past_is_refused_and_changes_nothing() -> None:
    book = book_of(buy("ACME", 10, 1, "2026-01-05"))
    before = book.lots
    with pytest.raises(TaxError) as refused:
        book.advance(sell("ACME", 10, 1, "2026-01-04"))
    assert refused.value.code == "out_of_order"
    assert book.lots == before
    book.advance(buy("OTHER", 1, 1, "2026-01-04"))


@pytest.mark.parametrize(
    "wrong",
    [
        buy("ACME", 0, 10, "2026-01-05"),
        buy("ACME", -1, 10, "2026-01-05"),
        buy("ACME", 1, 10, "2026-01-05", multiplier=dec(0)),
        buy("ACME", 1, 10, "2026-01-05", multiplier=dec(-1)),
        *(buy("ACME", 1, "-0.01", "2026-01-05", asset_class=kind) for kind in AssetClass if kind.name != "FUTURE"),
    ],
)
def test_a_fill_without_size_or_below_zero_is_refused(wrong: TaxFill) -> None:
    with pytest.raises(TaxError) as refused:
        book_of(wrong)
    assert refused.value.code == "invalid_execution"


def test_a_future_may_trade_below_zero_and_anything_at_nothing() -> None:
    # CL settled at −37.63 on 20 April 2020: bought at 1 and sold there, a contract of 1000 barrels loses 38630.
    oil: dict[str, Any] = {"asset_class": AssetClass.FUTURE, "multiplier": dec(1000)}
    fall = book_of(buy("CLK0", 1, 1, "2020-04-17", **oil), sell("CLK0", 1, "-37.63", "2020-04-20", **oil))
    assert gains(fall) == [dec(-38630)]
    assert gains(book_of(buy("ACME", 1, 0, "2026-01-05"), sell("ACME", 1, 3, "2026-01-06"))) == [dec(3)]


def test_a_time_without_an_offset_is_refused() -> None:
    fill = buy("ACME", 1, 10, "2026-01-05")
    with pytest.raises(TaxError) as refused:
        LotBook().advance(msgspec.structs.replace(fill, time=fill.time.replace(tzinfo=None)))
    assert refused.value.code == "naive_time"


def test_a_lot_survives_storage_as_json() -> None:
    book = book_of(buy("ACME", 3, 10, "2026-01-05", commission="0.01"), sell("ACME", 1, 12, "2026-02-05"))
    for lot in book.lots:
        assert msgspec.json.decode(msgspec.json.encode(lot), type=Lot) == lot


def test_the_trade_date_is_the_exchange_day_not_the_utc_day() -> None:
    # 16:00 UTC + 12 h = 04:00 UTC on 1 January, which is 23:00 on 31 December in New York.
    book = book_of(buy("ACME", 1, 10, "2025-06-02"), sell("ACME", 1, 12, "2025-12-31", minute=720))
    assert book.closed_lots[0].close_date == date(2025, 12, 31)


def test_a_cut_piece_never_takes_the_id_of_another_execution() -> None:
    book = book_of(
        buy("ACME", 10, 1, "2026-01-05", exec_id="x"),
        buy("ACME", 10, 1, "2026-01-06", exec_id="x-1"),
        sell("ACME", 4, 2, "2026-01-07"),
    )
    assert len({lot.lot_id for lot in book.lots}) == 3


def test_an_inherited_or_given_lot_replaces_no_loss() -> None:
    # §1091(a): acquired by purchase or by a taxable exchange.
    for source in (AcquisitionSource.INHERITANCE, AcquisitionSource.GIFT, AcquisitionSource.TRANSFER):
        book = book_of(
            buy("ACME", 10, 50, "2025-06-02"),
            sell("ACME", 10, 40, "2026-03-02"),
            buy("ACME", 10, 41, "2026-03-10", source=source),
        )
        assert book.matches == []


def test_a_step_names_every_lot_that_changed() -> None:
    book = book_of(buy("ACME", 100, 10, "2026-01-05", exec_id="x"))
    step = book.advance(sell("ACME", 40, 12, "2026-02-05"))
    assert {lot.lot_id: lot.is_closed for lot in step.lots} == {"lot-x": False, "lot-x-1": True}
    assert all(isinstance(lot, Lot) for lot in step.lots)


@pytest.mark.parametrize("text", ["spec_id", "SPECIFIC_ID", "specific-id"])
def test_methods_are_read_in_every_spelling(text: str) -> None:
    assert parse(CostBasisMethod, text) is CostBasisMethod.SPEC_ID


def test_an_unknown_method_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TaxError, match="FIFO, LIFO"):
        parse(CostBasisMethod, "best")
