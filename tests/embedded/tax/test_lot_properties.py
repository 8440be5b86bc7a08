"""What holds for every history: basis is conserved, disallowed losses reappear, and steps add up to the whole."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from zorivest_rpc.embedded.tax.book import Event, LotBook, build, event_order
from zorivest_rpc.embedded.tax.dates import trade_date
from zorivest_rpc.embedded.tax.lot import Lot
from zorivest_rpc.embedded.tax.model import (
    AccountTraits,
    CostBasisMethod,
    Direction,
    OptionDelivery,
    StockSplit,
    TaxFill,
)
from zorivest_rpc.embedded.tax.selection import order, take
from zorivest_rpc.embedded.tax.wash import WINDOW
from zorivest_rpc.embedded.values.kinds import AssetClass, Side

ZERO = Decimal(0)

ACCOUNTS = {"IRA": AccountTraits(tax_advantaged=True)}
CALL = "ACME 261218 C 50"
START = datetime(2026, 1, 5, 15, tzinfo=UTC)
MANY = settings(deadline=None, max_examples=120)
METHODS = [method for method in CostBasisMethod if method is not CostBasisMethod.SPEC_ID]


@st.composite
def executions(draw: st.DrawFn, accounts: Sequence[str] = ("A", "B", "IRA"), splits: bool = False) -> list[Event]:
    """Up to 14 fills on nearby days, so that wash windows overlap, with prices and commissions that divide badly."""
    rows: list[Event] = []
    for n in range(draw(st.integers(1, 14))):
        time = START + timedelta(days=draw(st.integers(0, 75)), minutes=n)
        symbol = draw(st.sampled_from(["ACME", "ACME", "ACME", CALL]))
        if splits and draw(st.integers(0, 7)) == 0:
            to, of = draw(st.sampled_from([(2, 1), (1, 2), (3, 1), (1, 3), (3, 2)]))
            whose = draw(st.sampled_from([None, "A"]))
            name = f"e{n:02d}"
            rows.append(
                StockSplit(exec_id=name, time=time, symbol="ACME", to=Decimal(to), of=Decimal(of), account_id=whose)
            )
            continue
        is_call = symbol == CALL
        rows.append(
            TaxFill(
                exec_id=f"e{n:02d}",
                time=time,
                account_id=draw(st.sampled_from(accounts)),
                symbol=symbol,
                side=draw(st.sampled_from(Side)),
                quantity=Decimal(draw(st.integers(1, 7))) * (1 if is_call else 10),
                price=Decimal(draw(st.integers(100, 9999))) / 100,
                commission=Decimal(draw(st.integers(0, 299))) / 100,
                multiplier=Decimal(100 if is_call else 1),
                asset_class=AssetClass.OPTION if is_call else AssetClass.EQUITY,
            )
        )
    return sorted(rows, key=lambda event: (event.time, event.exec_id))


def net(events: Sequence[Event], side: Side) -> Decimal:
    sign = 1 if side is Side.BOT else -1
    return sum(
        (
            event.price * event.quantity * event.multiplier + sign * event.commission
            for event in events
            if isinstance(event, TaxFill) and event.side is side
        ),
        ZERO,
    )


def state(book: LotBook) -> dict[str, Lot]:
    return {lot.lot_id: lot for lot in book.lots}


@MANY
@given(executions(splits=True), st.sampled_from(METHODS), st.integers(1, 14))
def test_a_book_that_gives_away_what_is_over_goes_on_as_if_it_had_not(
    events: list[Event], method: CostBasisMethod, every: int
) -> None:
    whole = build(events, LotBook(accounts=ACCOUNTS, method=method))
    book, given_away = LotBook(accounts=ACCOUNTS, method=method), dict[str, Lot]()
    for n, event in enumerate(events):
        book.advance(event)
        if n % every == 0:
            given_away |= {lot.lot_id: lot for lot in book.release(trade_date(event.time) - WINDOW)}
    assert given_away | state(book) == state(whole)
    assert book.matches == whole.matches
    assert all(book.has_made(lot_id) for lot_id in state(whole))


def raw(lots: Sequence[Lot]) -> Decimal:
    return sum(((lot.received or ZERO) - (lot.cost or ZERO) for lot in lots), ZERO)


@MANY
@given(executions(splits=True), st.sampled_from(METHODS))
def test_total_basis_and_proceeds_are_conserved_to_the_last_digit(events: list[Event], method: CostBasisMethod) -> None:
    lots = build(events, LotBook(accounts=ACCOUNTS, method=method)).lots
    assert sum((lot.cost or ZERO for lot in lots), ZERO) == net(events, Side.BOT)
    assert sum((lot.received or ZERO for lot in lots), ZERO) == net(events, Side.SLD)


@MANY
@given(executions(), st.sampled_from(METHODS))
def test_open_lots_add_up_to_the_position(events: list[Event], method: CostBasisMethod) -> None:
    book = build(events, LotBook(accounts=ACCOUNTS, method=method))
    expected: dict[tuple[str, str], Decimal] = {}
    for event in events:
        assert isinstance(event, TaxFill)
        sign = 1 if event.side is Side.BOT else -1
        key = (event.account_id, event.symbol)
        expected[key] = expected.get(key, ZERO) + sign * event.quantity
    held: dict[tuple[str, str], Decimal] = {}
    for lot in book.open_lots:
        sign = 1 if lot.direction is Direction.LONG else -1
        held[lot.account_id, lot.ticker] = held.get((lot.account_id, lot.ticker), ZERO) + sign * lot.quantity
    assert held == {key: quantity for key, quantity in expected.items() if quantity}


@MANY
@given(executions(splits=True), st.sampled_from(METHODS))
def test_a_disallowed_loss_reappears_in_basis_or_is_lost_to_an_ira(
    events: list[Event], method: CostBasisMethod
) -> None:
    # §1091(d): what one lot may not deduct, another carries; only an IRA swallows it.
    book = build(events, LotBook(accounts=ACCOUNTS, method=method))
    disallowed = sum((lot.disallowed for lot in book.lots), ZERO)
    carried = sum((lot.wash_sale_adjustment for lot in book.lots), ZERO)
    destroyed = sum((match.disallowed for match in book.matches if match.is_permanent), ZERO)
    assert disallowed == sum((match.disallowed for match in book.matches), ZERO)
    moved_on = sum((match.disallowed for match in book.matches if not match.is_permanent), ZERO)
    assert carried == moved_on
    assert disallowed == carried + destroyed
    # and so for the return: recognised = economic result + what still waits in open lots + what is lost
    taxable = [lot for lot in book.closed_lots if lot.account_id != "IRA"]
    waiting = sum((lot.wash_sale_adjustment for lot in book.open_lots), ZERO)
    assert sum((lot.recognized for lot in taxable), ZERO) == raw(taxable) + waiting + destroyed


@MANY
@given(executions(splits=True))
def test_no_share_replaces_twice_and_no_loss_is_disallowed_beyond_itself(events: list[Event]) -> None:
    for lot in build(events, LotBook(accounts=ACCOUNTS)).lots:
        assert ZERO <= lot.replaced_units <= lot.units
        assert ZERO <= lot.washed_quantity <= lot.quantity
        assert ZERO <= lot.disallowed <= max(ZERO, -lot.gain)
        assert lot.wash_sale_adjustment >= 0
        assert lot.quantity > 0


@MANY
@given(executions(accounts=("A", "B")))
def test_the_order_of_lots_never_changes_the_total_once_everything_is_sold(events: list[Event]) -> None:
    # After the last close nothing is left to carry a loss, so every method recognises the same total.
    closing: list[Event] = []
    for n, lot_group in enumerate(sorted({(e.account_id, e.symbol) for e in events if isinstance(e, TaxFill)})):
        account, symbol = lot_group
        fills = [e for e in events if isinstance(e, TaxFill) and (e.account_id, e.symbol) == lot_group]
        held = sum((e.quantity if e.side is Side.BOT else -e.quantity for e in fills), ZERO)
        if held:
            closing.append(
                TaxFill(
                    exec_id=f"z{n}",
                    time=START + timedelta(days=400, minutes=n),
                    account_id=account,
                    symbol=symbol,
                    side=Side.SLD if held > 0 else Side.BOT,
                    quantity=abs(held),
                    price=Decimal(33),
                    multiplier=fills[0].multiplier,
                    asset_class=fills[0].asset_class,
                )
            )
    books = [build([*events, *closing], LotBook(method=method)) for method in METHODS]
    assert all(not book.open_lots for book in books)
    totals = {sum((lot.recognized for lot in book.lots), ZERO) for book in books}
    assert totals == {raw(books[0].lots)}


@MANY
@given(executions(splits=True), st.data(), st.sampled_from(METHODS))
def test_going_on_from_stored_lots_equals_building_from_the_whole_history(
    events: list[Event], data: st.DataObject, method: CostBasisMethod
) -> None:
    whole = build(events, LotBook(accounts=ACCOUNTS, method=method))
    cut = data.draw(st.integers(0, len(events)))
    first = build(events[:cut], LotBook(accounts=ACCOUNTS, method=method))
    second = LotBook(accounts=ACCOUNTS, method=method)
    stored = data.draw(st.permutations(first.lots))
    second.restore(stored, [event for event in events[:cut] if isinstance(event, StockSplit)])
    for event in events[cut:]:
        second.advance(event)
    assert state(second) == state(whole)
    assert first.matches + second.matches == whole.matches


@MANY
@given(executions(splits=True), st.data())
def test_open_lots_and_the_losses_of_the_last_thirty_days_are_enough_to_go_on(
    events: list[Event], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(events)))
    first = build(events[:cut], LotBook(accounts=ACCOUNTS))
    since = events[cut - 1].time.date() - timedelta(days=31)
    kept = [lot for lot in first.lots if lot.close_date is None or (lot.gain < 0 and lot.close_date >= since)]
    second = LotBook(accounts=ACCOUNTS)
    second.restore(kept, [event for event in events[:cut] if isinstance(event, StockSplit)])
    for event in events[cut:]:
        second.advance(event)
    forgotten = {lot.lot_id: lot for lot in first.lots if lot not in kept}
    whole = build(events, LotBook(accounts=ACCOUNTS))
    assert state(second) | forgotten == state(whole)


@MANY
@given(executions(splits=True))
def test_a_replacement_takes_over_the_days_the_loss_was_held(events: list[Event]) -> None:
    # §1223(3)
    book = build(events, LotBook(accounts=ACCOUNTS))
    for match in book.matches:
        replacement, loss = book.lot(match.replacement_lot_id), book.lot(match.loss_lot_id)
        assert replacement.tacked_days >= match.tacked_days
        assert abs((replacement.open_date - match.loss_date).days) <= 30
        if not match.is_permanent:
            assert match.tacked_days == loss.holding_days(match.loss_date)
            assert replacement.holding_start <= replacement.open_date


@MANY
@given(executions(splits=True), st.randoms(use_true_random=False))
def test_a_history_in_any_order_builds_the_same_book(events: list[Event], random: object) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert state(build(shuffled, LotBook(accounts=ACCOUNTS))) == state(build(events, LotBook(accounts=ACCOUNTS)))


@MANY
@given(executions(splits=True))
def test_the_steps_name_every_change(events: list[Event]) -> None:
    book, seen = LotBook(accounts=ACCOUNTS), dict[str, Lot]()
    for event in events:
        seen.update({lot.lot_id: lot for lot in book.advance(event).lots})
        assert seen == state(book)


@MANY
@given(executions())
def test_first_in_first_out_never_sells_a_younger_lot_before_an_older_one(events: list[Event]) -> None:
    book = build(events, LotBook(accounts=ACCOUNTS))
    for account, symbol in {(lot.account_id, lot.ticker) for lot in book.lots}:
        closed = [lot for lot in book.closed_lots if (lot.account_id, lot.ticker) == (account, symbol)]
        closed.sort(key=lambda lot: (lot.closed_at or lot.opened_at, lot.linked_trade_ids[-1], lot.opened_at))
        assert all(one.opened_at <= two.opened_at for one, two in pairwise(closed))


@st.composite
def deliveries(draw: st.DrawFn) -> list[Event]:
    """Fills of a share and a call on it, and at times a whole call position that is exercised or assigned."""
    rows: list[Event] = []
    held = 0
    for event in draw(executions(accounts=("A",))):
        rows.append(event)
        if isinstance(event, TaxFill) and event.symbol == CALL:
            held += int(event.quantity) * (1 if event.side is Side.BOT else -1)
        if held and draw(st.integers(0, 2)) == 0:
            rows.append(
                OptionDelivery(
                    exec_id=f"{event.exec_id}-x",
                    time=event.time,
                    account_id="A",
                    symbol=CALL,
                    contracts=Decimal(abs(held)),
                )
            )
            held = 0
    return rows


@MANY
@given(deliveries(), st.sampled_from(METHODS))
def test_delivery_moves_premiums_and_washed_losses_and_loses_none(events: list[Event], method: CostBasisMethod) -> None:
    book = build(events, LotBook(method=method))
    strikes = ZERO  # money for shares that changed hands at the strike of 50, 100 a contract
    book_so_far = LotBook(method=method)
    for event in sorted(events, key=event_order):
        if isinstance(event, OptionDelivery):
            sign = (
                1 if any(lot.direction is Direction.LONG for lot in book_so_far.open_lots if lot.ticker == CALL) else -1
            )
            strikes -= sign * 50 * 100 * event.contracts
        book_so_far.advance(event)
    cash = net(events, Side.SLD) - net(events, Side.BOT) + strikes
    # money in less money out is what the lots say, however premium moved between options and shares
    assert raw(book.lots) == cash
    for lot in book.lots:
        assert not lot.delivered or (lot.gain == 0 and lot.recognized == 0)
    # a washed loss counts in the end, or waits: recognised = economic result + what waits in open lots
    waiting = sum((lot.wash_sale_adjustment for lot in book.open_lots), ZERO)
    assert sum((lot.recognized for lot in book.closed_lots), ZERO) == raw(book.closed_lots) + waiting


@MANY
@given(executions(accounts=("A",), splits=True))
def test_highest_cost_first_is_the_dearest_lot_at_every_sale(events: list[Event]) -> None:
    book = LotBook(method=CostBasisMethod.HIFO)
    for event in events:
        before = state(book)
        closed = [
            lot for lot in book.advance(event).lots if lot.is_closed and lot.linked_trade_ids[-1] == event.exec_id
        ]
        if not closed:
            continue
        held = [lot for lot in before.values() if not lot.is_closed and lot.ticker == closed[0].ticker]
        ranked = order(held, CostBasisMethod.HIFO, price=Decimal(1), today=date(2026, 6, 1))
        used = [pick.lot.linked_trade_ids[0] for pick in take(ranked, sum((lot.quantity for lot in closed), ZERO))[0]]
        assert sorted(lot.linked_trade_ids[0] for lot in closed) == sorted(used)
