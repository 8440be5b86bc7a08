"""One lot: its figures per unit and in all, and its age, for every direction, source and state."""

from __future__ import annotations

from datetime import date
from itertools import product

import pytest
from msgspec.structs import replace

from tests.embedded.tax.fills import at, dec, decs
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import AcquisitionSource, Direction
from zorivest_rpc.embedded.values.kinds import AssetClass

BOUGHT, TODAY = date(2026, 1, 12), date(2026, 3, 2)
LONG_TERM = date(2027, 1, 13)  # the first day on which more than a year has passed (Rev. Rul. 66-7)


def lot(direction: Direction = Direction.LONG, **more: object) -> Lot:
    """Three contracts of 100 shares for 600, or written for as much; 30 of a washed loss taken over."""
    is_long = direction is Direction.LONG
    made = Lot(
        lot_id="e1",
        account_id="A",
        ticker="ACME 271217 C 50",
        direction=direction,
        quantity=dec(3),
        multiplier=dec(100),
        asset_class=AssetClass.OPTION,
        opened_at=at("2026-01-12"),
        open_date=BOUGHT,
        cost=dec(600) if is_long else None,
        received=None if is_long else dec(600),
        purchase="e1",
        linked_trade_ids=("e1",),
        wash_sale_adjustment=dec(30),
    )
    return replace(made, **more)


def test_a_lot_that_nothing_happened_to_has_no_past() -> None:
    fresh = lot()
    assert (fresh.tacked_days, fresh.pieces, fresh.chain_ids, fresh.delivered) == (0, 0, (), False)
    assert (fresh.disallowed, fresh.washed_quantity, fresh.replaced_units) == decs(0, 0, 0)
    assert (fresh.closed_at, fresh.close_date, fresh.is_closed, fresh.method) == (None, None, False, None)
    assert (fresh.source, fresh.currency, fresh.source_hash) == (AcquisitionSource.PURCHASE, "USD", "")


def test_the_figures_of_an_open_lot_are_of_shares_and_not_of_contracts() -> None:
    bought, written = lot(), lot(Direction.SHORT)
    assert (bought.units, bought.cost_basis, bought.proceeds, bought.total_basis) == (dec(300), dec(2), None, dec(630))
    assert (written.units, written.cost_basis, written.proceeds, written.total_basis) == (dec(300), None, dec(2), None)
    assert (bought.gain, bought.recognized, written.gain, written.recognized) == decs(0, 0, 0, 0)
    # at 3 a share 300 shares are worth 900: 900 − 600 − 30 bought, 600 − 900 − 30 written
    assert (bought.gain_at(dec(3)), written.gain_at(dec(3))) == decs(270, -330)


@pytest.mark.parametrize("direction", list(Direction))
def test_a_closed_lot_recognises_its_gain_without_what_is_disallowed(direction: Direction) -> None:
    closed = lot(direction, cost=dec(600), received=dec(450), close_date=TODAY, disallowed=dec(60))
    # 450 − 600 − 30, of which 60 are disallowed
    assert (closed.gain, closed.recognized, closed.total_basis, closed.proceeds) == decs(-180, -120, 630, "1.5")


@pytest.mark.parametrize(
    ("direction", "source", "is_closed"), list(product(Direction, AcquisitionSource, [False, True]))
)
def test_the_age_of_a_lot_follows_direction_and_source(
    direction: Direction, source: AcquisitionSource, is_closed: bool
) -> None:
    made = lot(direction, source=source, close_date=TODAY if is_closed else None)
    is_short, is_inherited = direction is Direction.SHORT, source is AcquisitionSource.INHERITANCE
    assert made.is_long_term(TODAY) is (is_inherited and not is_short)
    assert made.is_long_term(LONG_TERM) is (not is_short and (is_inherited or not is_closed))
    if is_short or is_closed:
        assert made.days_to_long_term(TODAY) is None
    else:
        assert made.days_to_long_term(TODAY) == (0 if is_inherited else (LONG_TERM - TODAY).days)
    assert made.holding_days(LONG_TERM) == ((TODAY if is_closed else LONG_TERM) - BOUGHT).days


def test_days_taken_over_make_a_lot_older() -> None:
    made = lot(tacked_days=10)
    assert made.holding_start == date(2026, 1, 2)
    assert (made.holding_days(TODAY), made.holding_days(date(2025, 12, 1))) == (59, 0)
    assert made.days_to_long_term(TODAY) == (date(2027, 1, 3) - TODAY).days
