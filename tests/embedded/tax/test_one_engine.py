"""Three questions, one answer: what is simulated, what is harvested and what is booked are the same figures."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.embedded.tax.test_lot_properties import START, executions
from zorivest_rpc.embedded.tax.book import Event, LotBook, build
from zorivest_rpc.embedded.tax.harvest import scan_harvest
from zorivest_rpc.embedded.tax.model import AccountTraits, CostBasisMethod, Direction, Price, TaxFill, TaxProfile
from zorivest_rpc.embedded.tax.simulate import SaleRequest, simulate_sale
from zorivest_rpc.embedded.values.kinds import Side
from zorivest_rpc.embedded.values.money import cents

ACCOUNTS = {"IRA": AccountTraits(tax_advantaged=True), "B": AccountTraits(spousal=True)}
MANY = settings(deadline=None, max_examples=150)
MOMENT = START + timedelta(days=80)
TODAY = MOMENT.date()
WHO = TaxProfile(tax_year=2026, agi_estimate=Decimal(90_000))
SPEC_ID = CostBasisMethod.SPEC_ID
METHODS = [method for method in CostBasisMethod if method is not CostBasisMethod.SPEC_ID]


def fill(position: tuple[str, str], book: LotBook, quantity: Decimal, price: Decimal, **rest: object) -> TaxFill:
    account, ticker = position
    lot = next(lot for lot in book.open_lots if (lot.account_id, lot.ticker) == position)
    return TaxFill(
        exec_id=f"z-{account}-{ticker}",
        time=MOMENT + timedelta(minutes=ord(account[0])),
        account_id=account,
        symbol=ticker,
        side=Side.SLD if lot.direction is Direction.LONG else Side.BOT,
        quantity=quantity,
        price=price,
        multiplier=lot.multiplier,
        asset_class=lot.asset_class,
        **rest,  # type: ignore[arg-type]
    )


@MANY
@given(executions(splits=True), st.data(), st.sampled_from(METHODS), st.integers(1, 9999))
def test_a_simulated_sale_is_the_booked_one(
    events: list[Event], data: st.DataObject, method: CostBasisMethod, price: int
) -> None:
    book = build(events, LotBook(accounts=ACCOUNTS, policy=WHO.wash_policy))
    positions = sorted({(lot.account_id, lot.ticker) for lot in book.open_lots})
    assume(positions)
    account, ticker = where = data.draw(st.sampled_from(positions))
    own = [lot for lot in book.open_lots if (lot.account_id, lot.ticker) == where]
    held = sum((lot.quantity for lot in own), Decimal(0))
    quantity = min(held, held * data.draw(st.integers(1, 8)) / 8).quantize(Decimal("0.00000001"))
    names: tuple[str, ...] = ()
    if data.draw(st.booleans()):
        method = CostBasisMethod.SPEC_ID
        chosen = data.draw(st.permutations(own))[: data.draw(st.integers(1, len(own)))]
        names = tuple(lot.lot_id for lot in chosen)
        quantity = min(quantity, sum((lot.quantity for lot in chosen), Decimal(0)))
    request = SaleRequest(
        ticker=ticker,
        account_id=account,
        quantity=quantity,
        price=Decimal(price) / 100,
        action="sell" if own[0].direction is Direction.LONG else "cover",
        method=method,
        lot_ids=names,
    )
    simulated = simulate_sale(book.open_lots, request, WHO, ACCOUNTS, today=TODAY)
    step = book.advance(fill(where, book, quantity, Decimal(price) / 100, method=method, lot_ids=names))
    booked = [lot for lot in step.lots if lot.is_closed and lot.linked_trade_ids[-1].startswith("z-")]
    assert [
        (row.quantity, row.basis, row.proceeds, row.disallowed_loss, row.is_long_term) for row in simulated.lots
    ] == [
        (
            lot.quantity,
            cents((lot.cost or Decimal(0)) + lot.wash_sale_adjustment),
            cents(lot.received or Decimal(0)),
            cents(lot.disallowed),
            lot.is_long_term(TODAY),
        )
        for lot in booked
    ]
    difference = simulated.summary.realized_gain - sum((lot.recognized for lot in booked), Decimal(0))
    assert abs(difference) <= Decimal("0.015") * len(booked)  # each figure of each lot is rounded by itself
    moved = sum((match.disallowed for match in step.matches), Decimal(0))
    assert abs(simulated.summary.disallowed_loss - moved) <= Decimal("0.005") * len(booked)
    if account != "IRA":
        assert simulated.wash_sale_risk.at_risk == bool(step.matches)


@MANY
@given(executions(), st.integers(1, 9999), st.sampled_from([None, "A", "B"]))
def test_a_harvest_is_what_selling_its_lots_would_book(events: list[Event], price: int, account: str | None) -> None:
    book = build(events, LotBook(accounts=ACCOUNTS, policy=WHO.wash_policy))
    at = Decimal(price) / 100
    prices = {lot.ticker: Price(price=at) for lot in book.open_lots}
    report = scan_harvest(
        book.open_lots, prices, WHO, ACCOUNTS, today=TODAY, account_id=account, min_loss=Decimal("0.01")
    )
    for opportunity in report.opportunities:
        trial = build(events, LotBook(accounts=ACCOUNTS, policy=WHO.wash_policy))
        named: dict[str, list[str]] = {}
        for row in opportunity.lots:
            named.setdefault(row.account_id, []).append(row.lot_id)
        sold = []
        for name, lots in sorted(named.items()):
            quantity = sum((row.quantity for row in opportunity.lots if row.account_id == name), Decimal(0))
            sale = fill((name, opportunity.ticker), trial, quantity, at, method=SPEC_ID, lot_ids=tuple(lots))
            sold += [lot.lot_id for lot in trial.advance(sale).lots if sale.exec_id in lot.linked_trade_ids]
        booked = sum((trial.lot(name).recognized for name in sold), Decimal(0))
        assert abs(-booked - opportunity.allowed_loss) <= Decimal("0.01") * (1 + len(sold))
        assert Decimal(0) <= opportunity.allowed_loss <= opportunity.unrealized_loss
        if opportunity.disallowed_loss:
            assert opportunity.wash_risk
    total = sum((one.allowed_loss for one in report.opportunities), Decimal(0))
    assert report.net_harvestable == total
