"""The book of lots against shares counted one by one, and the wash sales that the IRS publishes."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.embedded.tax.fills import book_of, buy, decs, deliver, sell
from tests.embedded.tax.shares import Ledger
from tests.embedded.tax.test_lot_properties import START
from zorivest_rpc.embedded.tax.book import LotBook, build
from zorivest_rpc.embedded.tax.model import AccountTraits, OptionDelivery, TaxError, TaxFill, WashPolicy
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

ACCOUNTS = {"IRA": AccountTraits(tax_advantaged=True), "B": AccountTraits(spousal=True)}


@st.composite
def journals(draw: st.DrawFn) -> tuple[list[TaxFill], Ledger, bool]:
    """Buys and sells of one share in three accounts, and the ledger of its shares; `together` if spouses are one."""
    together = draw(st.booleans())
    ledger = Ledger(frozenset({"IRA"}), {} if together else {"B": "spouse"})
    rows: list[TaxFill] = []
    held: dict[str, int] = {}
    days = sorted(draw(st.lists(st.integers(0, 90), min_size=2, max_size=14)))
    for n, day in enumerate(days):
        account = draw(st.sampled_from(["A", "A", "B", "IRA"]))
        quantity = draw(st.integers(1, 20))
        sells = draw(st.booleans()) and held.get(account, 0) > 0
        quantity = min(quantity, held[account]) if sells else quantity
        sells = sells and ledger.is_clear(account, quantity)
        held[account] = held.get(account, 0) + (-quantity if sells else quantity)
        row = TaxFill(
            exec_id=f"e{n:02d}",
            time=START + timedelta(days=day, minutes=n),
            account_id=account,
            symbol="ACME",
            side=Side.SLD if sells else Side.BOT,
            quantity=Decimal(quantity),
            price=Decimal(draw(st.integers(100, 9999))) / 100,
            commission=Decimal(draw(st.integers(0, 299))) / 100,
        )
        ledger.take(row)
        rows.append(row)
    return rows, ledger, together


@settings(deadline=None, max_examples=150, phases=[Phase.explicit, Phase.generate])
@given(journals())
def test_every_sale_and_every_basis_is_that_of_the_shares_one_by_one(
    journal: tuple[list[TaxFill], Ledger, bool],
) -> None:
    rows, ledger, together = journal
    book = build(rows, LotBook(accounts=ACCOUNTS, policy=WashPolicy(include_spousal=together)))
    sales = [row.exec_id for row in rows if row.side is Side.SLD]
    expected = ledger.recognized(sales)
    booked = dict.fromkeys(sales, Fraction(0))
    for lot in book.closed_lots:
        booked[lot.linked_trade_ids[-1]] += Fraction(lot.recognized)
    tolerance = Fraction(1, 10_000)  # the book keeps millionths, and cuts a lot more than once
    assert all(abs(booked[name] - expected[name]) < tolerance for name in sales), (booked, expected)
    for account in ("A", "B", "IRA"):
        basis = [lot.total_basis or Decimal(0) for lot in book.open_lots if lot.account_id == account]
        assert abs(Fraction(sum(basis, Decimal(0))) - ledger.basis(account)) < tolerance


def test_a_loss_washed_whole() -> None:
    # Pub. 550, "Wash Sales", the first example (also case study 1 of the IRS's Link & Learn Taxes, 2010): 100 shares
    # for 1,000, sold for 750, 100 again for 800 within 30 days: no loss, and a basis of 1,050.
    book = book_of(
        buy("X", 100, 10, "2010-01-04"), sell("X", 100, "7.50", "2010-03-01"), buy("X", 100, 8, "2010-03-15")
    )
    (loss,) = book.closed_lots
    (new,) = book.open_lots
    assert (loss.gain, loss.disallowed, loss.recognized, new.total_basis) == decs(-250, 250, 0, 1050)


def test_a_washed_loss_fills_a_row_of_form_8949() -> None:
    # Additional instructions for the 2012 Form 8949 (28 February 2013): the disallowed loss stands in column (g) as a
    # positive number under code W. Form 8949 (2013), column (h): "Subtract column (e) from column (d) and combine the
    # result with column (g)". The figures are those of Pub. 550, "Wash Sales", the first example, and of half of it.
    first = (buy("X", 100, 10, "2010-01-04"), sell("X", 100, "7.50", "2010-03-01"))
    for bought, row in (
        (100, decs(750, 1000, 250, 0)),
        (50, decs(750, 1000, 125, -125)),
        (0, decs(750, 1000, 0, -250)),
    ):
        again = [buy("X", bought, 8, "2010-03-15")] if bought else []
        (loss,) = book_of(*first, *again).closed_lots
        column_d, column_e, column_g = loss.received, loss.total_basis, loss.disallowed
        assert (column_d, column_e, column_g, loss.recognized) == row
        assert column_d is not None
        assert column_e is not None
        assert loss.recognized == column_d - column_e + column_g


def test_the_short_sale_of_the_instructions_for_form_8949() -> None:
    # The IRS's 2011 instructions for reporting on Form 8949, "Short Sales", Example: 10 shares of XYZ are borrowed and
    # sold for 100; 10 bought later for 80 close the sale with a gain of 20, in the year it closes.
    book = book_of(sell("XYZ", 10, 10, "2010-12-20"), buy("XYZ", 10, 8, "2011-01-10"))
    (closed,) = book.closed_lots
    assert (closed.received, closed.cost, closed.recognized) == decs(100, 80, 20)
    assert (closed.close_date, closed.is_long_term(date(2011, 1, 10))) == (date(2011, 1, 10), False)


@pytest.mark.parametrize("kind", list(AssetClass))
def test_stock_and_securities_are_washed_and_nothing_else(kind: AssetClass) -> None:
    # §1091(a) "stock or securities"; contracts and options to acquire them (§1091(a), last sentence).
    symbol = "ACME 261218 C 50" if kind is AssetClass.OPTION else "ACME"
    book = book_of(
        buy(symbol, 10, 5, "2026-01-05", asset_class=kind),
        sell(symbol, 10, 4, "2026-02-02", asset_class=kind),
        buy(symbol, 10, 4, "2026-02-10", asset_class=kind),
    )
    washed = kind in {AssetClass.EQUITY, AssetClass.OPTION, AssetClass.BOND, AssetClass.MUTUAL_FUND}
    scale = 100 if kind is AssetClass.OPTION else 1
    assert [match.disallowed for match in book.matches] == ([Decimal(10 * scale)] if washed else [])


def test_an_option_that_was_never_open_delivers_nothing() -> None:
    # Without fills of its own a delivery is refused; with them, both count as they are and the premium stays out.
    call = "ACME 261218 C 50"
    with pytest.raises(TaxError) as refused:
        book_of(deliver(call, 1, "2026-02-02"))
    assert refused.value.code == "no_open_lots"
    with pytest.raises(TaxError) as short:
        book_of(buy(call, 1, 3, "2026-01-05", asset_class=AssetClass.OPTION), deliver(call, 2, "2026-02-02"))
    assert short.value.code == "insufficient_quantity"
    closing = sell(call, 1, 0, "2026-02-02", asset_class=AssetClass.OPTION)
    shares = buy("ACME", 100, 50, "2026-02-02", minute=1)
    for half in ({"closing": closing}, {"shares": shares}):
        with pytest.raises(TaxError) as alone:
            book_of(replace(deliver(call, 1, "2026-02-02"), **half))
        assert alone.value.code == "no_open_lots"
    pair = OptionDelivery(
        exec_id=shares.exec_id,
        time=shares.time,
        account_id="A",
        symbol=call,
        contracts=Decimal(1),
        closing=closing,
        shares=shares,
    )
    book = LotBook()
    step = book.advance(pair)
    assert "was not open" in step.warnings[0]
    assert {(lot.ticker, lot.direction.value, lot.units, lot.cost, lot.received) for lot in book.open_lots} == {
        (call, "short", Decimal(100), None, Decimal(0)),
        ("ACME", "long", Decimal(100), Decimal(5000), None),
    }
