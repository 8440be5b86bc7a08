"""The name of an options position: its legs merged, matched against the known structures, and its risk at expiry.

Fills of one contract and side make one leg. What decides the structure is the net position per contract, so a leg that
was bought and sold again does not count, though its money does. A set that fits nothing is `custom`, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from zorivest_rpc.embedded.analytics.money import ZERO, cents, exactly, price
from zorivest_rpc.embedded.analytics.payoff import PayoffLeg, payoff
from zorivest_rpc.embedded.analytics.positions import Side
from zorivest_rpc.embedded.symbols import Contract, parse_contract

__all__ = ["OptionFill", "OptionsStrategy", "StrategyLeg", "StrategyType", "detect"]

StrategyType = Literal["vertical", "iron_condor", "butterfly", "calendar", "straddle", "strangle", "custom"]


class OptionFill(msgspec.Struct, frozen=True):
    """A fill of an option, or of the shares under it, under its normalised symbol."""

    exec_id: str
    symbol: str
    side: Side
    quantity: Decimal
    price: Decimal
    multiplier: Decimal


class StrategyLeg(msgspec.Struct, frozen=True):
    """All fills of one contract and side; `right`, `strike` and `expiry` are null for shares."""

    exec_ids: tuple[str, ...]
    symbol: str
    right: Literal["C", "P"] | None
    strike: Decimal | None
    expiry: date | None
    side: Literal["BOT", "SLD"]
    quantity: Decimal
    price: Decimal


class OptionsStrategy(msgspec.Struct, frozen=True):
    """The structure. A null extreme is unlimited or, with a reason, not knowable before the first expiry."""

    strategy_type: StrategyType
    name: str
    underlying: str | None
    legs: tuple[StrategyLeg, ...]
    net_debit_credit: Decimal
    max_profit: Decimal | None
    max_loss: Decimal | None
    breakeven_prices: tuple[Decimal, ...]
    confidence: float
    reasons: tuple[str, ...]


class _Net(NamedTuple):
    """What is held of one contract after all fills; `contract` is None for shares."""

    contract: Contract | None
    side: Side
    quantity: Decimal
    multiplier: Decimal


class _Option(NamedTuple):
    """A net option leg, its terms at hand."""

    expiry: date
    strike: Decimal
    right: Literal["C", "P"]
    side: Side
    quantity: Decimal
    multiplier: Decimal


class _Label(NamedTuple):
    kind: StrategyType
    name: str
    confidence: float = 1.0
    reasons: tuple[str, ...] = ()


@exactly
def detect(fills: Iterable[OptionFill]) -> OptionsStrategy:
    """The structure that these fills form, and nothing about fills that are not among them."""
    given = sorted(fills, key=lambda fill: (fill.symbol, -fill.side, fill.exec_id))
    nets = _net_positions(given)
    names = {net.contract.underlying for net in nets if net.contract is not None}
    stocks = {fill.symbol for fill in given if parse_contract(fill.symbol) is None}
    underlyings = names | (stocks if any(net.contract is None for net in nets) else set())
    cash = sum((-fill.side * fill.price * fill.quantity * fill.multiplier for fill in given), ZERO)
    options = [
        _Option(net.contract.expiry, net.contract.strike, net.contract.right, net.side, net.quantity, net.multiplier)
        for net in nets
        if net.contract is not None
    ]
    shares = [net for net in nets if net.contract is None]
    if len(underlyings) > 1:
        label, risk = _Label("custom", "unknown", 0.2, ("different_underlyings",)), _UNKNOWN_RISK
    else:
        label = _label(sorted(options), shares)
        risk = _risk(options, shares, cash)
    return OptionsStrategy(
        strategy_type=label.kind,
        name=label.name,
        underlying=underlyings.pop() if len(underlyings) == 1 else None,
        legs=_legs(given),
        net_debit_credit=cents(cash),
        max_profit=None if risk.max_profit is None else cents(risk.max_profit),
        max_loss=None if risk.max_loss is None else cents(risk.max_loss),
        breakeven_prices=tuple(price(zero) for zero in risk.breakevens),
        confidence=label.confidence,
        reasons=(*label.reasons, *risk.reasons),
    )


def _legs(fills: Sequence[OptionFill]) -> tuple[StrategyLeg, ...]:
    groups: dict[tuple[str, Side], list[OptionFill]] = {}
    for fill in fills:
        groups.setdefault((fill.symbol, fill.side), []).append(fill)
    legs = []
    for (symbol, side), group in groups.items():
        contract = parse_contract(symbol)
        quantity = sum((fill.quantity for fill in group), ZERO)
        legs.append(
            StrategyLeg(
                exec_ids=tuple(fill.exec_id for fill in group),
                symbol=symbol,
                right=contract.right if contract else None,
                strike=contract.strike if contract else None,
                expiry=contract.expiry if contract else None,
                side="BOT" if side == 1 else "SLD",
                quantity=quantity,
                price=price(sum((fill.price * fill.quantity for fill in group), ZERO) / quantity),
            )
        )
    return tuple(legs)


def _net_positions(fills: Sequence[OptionFill]) -> list[_Net]:
    held: dict[str, Decimal] = {}
    multipliers: dict[str, Decimal] = {}
    for fill in fills:
        held[fill.symbol] = held.get(fill.symbol, ZERO) + fill.side * fill.quantity
        multipliers.setdefault(fill.symbol, fill.multiplier)
    return [
        _Net(parse_contract(symbol), 1 if amount > 0 else -1, abs(amount), multipliers[symbol])
        for symbol, amount in held.items()
        if amount
    ]


# Names. Legs come sorted by expiry, strike and right.


def _label(options: Sequence[_Option], shares: Sequence[_Net]) -> _Label:
    if shares:
        return _with_shares(options, shares[0])
    if not options:
        return _Label("custom", "closed position", 1.0, ("closed",))
    if len(options) == 1:
        return _Label("custom", "single leg", 0.3, ("incomplete",))
    if len(options) == 2:
        return _two_legs(*options)
    if len(options) == 3:
        return _three_legs(*options)
    if len(options) == 4:
        return _four_legs(options)
    return _Label("custom", "unknown", 0.2, ("more_than_four_legs",))


def _two_legs(low: _Option, high: _Option) -> _Label:
    same_right, same_expiry = low.right == high.right, low.expiry == high.expiry
    opposite, even = low.side != high.side, low.quantity == high.quantity
    uneven = () if even else ("unequal_quantities",)
    if same_right and same_expiry and opposite:
        return _vertical(low, high) if even else _ratio(low, high)
    if not same_right and same_expiry and not opposite:
        side = _direction(low)
        put, call = (low, high) if low.right == "P" else (high, low)
        if put.strike == call.strike:
            return _Label("straddle", f"{side} straddle", 1.0 if even else 0.8, uneven)
        if put.strike < call.strike:
            return _Label("strangle", f"{side} strangle", 1.0 if even else 0.8, uneven)
        return _Label("custom", f"{side} guts", 0.8, uneven)
    if same_right and not same_expiry and opposite:
        kind = "calendar" if low.strike == high.strike else "diagonal"
        return _Label("calendar", f"{_word(low)} {kind}", 1.0 if even else 0.7, uneven)
    if not same_right and same_expiry:
        return _Label("custom", "synthetic shares" if low.strike == high.strike else "risk reversal", 0.8, uneven)
    return _Label("custom", "unknown", 0.2, ("no_known_structure",))


def _vertical(low: _Option, high: _Option) -> _Label:
    """Whoever owns the lower strike of the two gains when the price rises, with calls and with puts."""
    return _Label("vertical", f"{'bull' if low.side == 1 else 'bear'} {_word(low)} spread")


def _ratio(low: _Option, high: _Option) -> _Label:
    long, short = (low, high) if low.side == 1 else (high, low)
    shape = "ratio spread" if short.quantity > long.quantity else "backspread"
    return _Label("custom", f"{_word(low)} {shape}", 0.9, ("ratio", "unequal_quantities"))


def _three_legs(low: _Option, middle: _Option, high: _Option) -> _Label:
    legs = (low, middle, high)
    if len({leg.expiry for leg in legs}) > 1:
        return _Label("custom", "unknown", 0.2, ("several_expiries",))
    if len({leg.right for leg in legs}) == 1 and low.side == high.side != middle.side:
        if low.quantity == high.quantity and middle.quantity == 2 * low.quantity:
            regular = middle.strike - low.strike == high.strike - middle.strike
            shape = "butterfly" if regular else "broken-wing butterfly"
            return _Label("butterfly", f"{_direction(low)} {_word(low)} {shape}", 1.0 if regular else 0.9)
        return _Label("custom", "unknown", 0.3, ("unequal_quantities",))
    if len({leg.right for leg in legs}) == 2 and len({leg.quantity for leg in legs}) == 1:
        return _Label("custom", "unknown", 0.3, ("incomplete",))
    return _Label("custom", "unknown", 0.2, ("no_known_structure",))


def _four_legs(options: Sequence[_Option]) -> _Label:
    puts = [leg for leg in options if leg.right == "P"]
    calls = [leg for leg in options if leg.right == "C"]
    if len({leg.expiry for leg in options}) > 1:
        return _Label("custom", "unknown", 0.2, ("several_expiries",))
    if len(puts) != 2 or puts[1].strike > calls[0].strike:
        return _Label("custom", "unknown", 0.2, ("no_known_structure",))
    outer, inner = (puts[0], calls[1]), (puts[1], calls[0])
    if outer[0].side != outer[1].side or inner[0].side != inner[1].side or outer[0].side == inner[0].side:
        return _Label("custom", "unknown", 0.2, ("no_known_structure",))
    if len({leg.quantity for leg in options}) > 1:
        return _Label("custom", "unknown", 0.3, ("unequal_quantities",))
    side = _direction(inner[0])
    if inner[0].strike == inner[1].strike:
        return _Label("butterfly", f"{side} iron butterfly")
    return _Label("iron_condor", f"{side} iron condor")


def _with_shares(options: Sequence[_Option], shares: _Net) -> _Label:
    if not options:
        return _Label("custom", "shares", 0.3, ("incomplete",))
    if len({leg.expiry for leg in options}) > 1:
        return _Label("custom", "unknown", 0.2, ("several_expiries",))
    held = {(leg.right, leg.side) for leg in options}
    side = shares.side
    written, bought = ("C" if side == 1 else "P", -1), ("P" if side == 1 else "C", 1)
    written_word, bought_word = ("call", "put") if side == 1 else ("put", "call")
    sold = sum((leg.quantity * leg.multiplier for leg in options if leg.side == -1), ZERO)
    partly = ("partly_covered",) if sold > shares.quantity * shares.multiplier else ()
    if held == {written}:
        return _Label("custom", f"covered {written_word}", 0.7 if partly else 1.0, partly)
    if held == {bought}:
        return _Label("custom", f"protective {bought_word}", 0.9)
    if held == {written, bought} and len(options) == 2:
        return _Label("custom", "collar", 0.7 if partly else 0.9, partly)
    return _Label("custom", "unknown", 0.2, ("no_known_structure",))


def _direction(leg: _Option) -> str:
    return "long" if leg.side == 1 else "short"


def _word(leg: _Option) -> str:
    return "call" if leg.right == "C" else "put"


# Risk.


class _Risk(NamedTuple):
    max_profit: Decimal | None
    max_loss: Decimal | None
    breakevens: tuple[Decimal, ...] = ()
    reasons: tuple[str, ...] = ()


_UNKNOWN_RISK = _Risk(None, None, (), ("risk_not_computed",))


def _risk(options: Sequence[_Option], shares: Sequence[_Net], cash: Decimal) -> _Risk:
    if len({leg.expiry for leg in options}) > 1:
        return _time_spread_risk(options, cash) if len(options) == 2 and not shares else _UNKNOWN_RISK
    legs = [PayoffLeg(leg.right, leg.strike, leg.side * leg.quantity * leg.multiplier) for leg in options]
    legs += [PayoffLeg("S", ZERO, net.side * net.quantity * net.multiplier) for net in shares]
    found = payoff(legs, cash)
    reasons = [name for name, value in (("unlimited_profit", found.max_profit), ("unlimited_loss", found.max_loss))
               if value is None]  # fmt: skip
    return _Risk(found.max_profit, found.max_loss, found.breakevens, tuple(reasons))


def _time_spread_risk(options: Sequence[_Option], cash: Decimal) -> _Risk:
    """Two expiries: what the later leg is worth when the first one ends depends on volatility, so no profit is known.

    The loss has a bound when the later leg is owned: it is worth at least its exercise value, which leaves the money
    paid plus, if its strike is the worse of the two, the distance of the strikes."""
    near, far = sorted(options)
    if near.right != far.right or near.side == far.side:
        return _UNKNOWN_RISK
    size = near.quantity * near.multiplier
    if far.side != 1 or size != far.quantity * far.multiplier:
        return _UNKNOWN_RISK
    worse = far.strike - near.strike if far.right == "C" else near.strike - far.strike
    return _Risk(None, -cash + max(ZERO, worse) * size, (), ("profit_depends_on_volatility",))
