"""The name of an options position: its legs merged, matched against the known structures, and its risk at expiry.

Fills of one contract and side make one leg. What decides the structure is the net position per contract, so a leg that
was bought and sold again does not count, though its money does. A set that fits nothing is `custom`, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple

import msgspec

from zorivest_rpc.embedded.analytics.payoff import PayoffLeg, payoff
from zorivest_rpc.embedded.analytics.positions import Sign
from zorivest_rpc.embedded.analytics.structures import Label, Net, OptionLeg, StrategyType, name_structure
from zorivest_rpc.embedded.values.money import ZERO, cents, exactly, price
from zorivest_rpc.embedded.values.symbols import parse_contract

__all__ = ["OptionFill", "OptionsStrategy", "StrategyLeg", "StrategyType", "detect"]


class OptionFill(msgspec.Struct, frozen=True):
    """A fill of an option, or of the shares under it, under its normalised symbol."""

    exec_id: str
    symbol: str
    side: Sign
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
        OptionLeg(net.contract.expiry, net.contract.strike, net.contract.right, net.side, net.quantity, net.multiplier)
        for net in nets
        if net.contract is not None
    ]
    shares = [net for net in nets if net.contract is None]
    if len(underlyings) > 1:
        label, risk = Label("custom", "unknown", 0.2, ("different_underlyings",)), _UNKNOWN_RISK
    else:
        label = name_structure(sorted(options), shares)
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
    groups: dict[tuple[str, Sign], list[OptionFill]] = {}
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


def _net_positions(fills: Sequence[OptionFill]) -> list[Net]:
    held: dict[str, Decimal] = {}
    multipliers: dict[str, Decimal] = {}
    for fill in fills:
        held[fill.symbol] = held.get(fill.symbol, ZERO) + fill.side * fill.quantity
        multipliers.setdefault(fill.symbol, fill.multiplier)
    return [
        Net(parse_contract(symbol), 1 if amount > 0 else -1, abs(amount), multipliers[symbol])
        for symbol, amount in held.items()
        if amount
    ]


# Risk.


class _Risk(NamedTuple):
    max_profit: Decimal | None
    max_loss: Decimal | None
    breakevens: tuple[Decimal, ...] = ()
    reasons: tuple[str, ...] = ()


_UNKNOWN_RISK = _Risk(None, None, (), ("risk_not_computed",))


def _risk(options: Sequence[OptionLeg], shares: Sequence[Net], cash: Decimal) -> _Risk:
    if len({leg.expiry for leg in options}) > 1:
        return _UNKNOWN_RISK if shares else _time_spread_risk(options, cash)
    legs = [PayoffLeg(leg.right, leg.strike, leg.side * leg.quantity * leg.multiplier) for leg in options]
    legs += [PayoffLeg("S", ZERO, net.side * net.quantity * net.multiplier) for net in shares]
    found = payoff(legs, cash)
    reasons = [name for name, value in (("unlimited_profit", found.max_profit), ("unlimited_loss", found.max_loss))
               if value is None]  # fmt: skip
    return _Risk(found.max_profit, found.max_loss, found.breakevens, tuple(reasons))


def _time_spread_risk(options: Sequence[OptionLeg], cash: Decimal) -> _Risk:
    """Two expiries: what the later legs are worth when the first ones end depends on volatility, so no profit is known.

    The loss has a bound when all later legs are owned and cover the earlier ones: each is worth at least its exercise
    value, so the loss is at most that of a set in which everything ends on the first day."""
    first, *later = sorted({leg.expiry for leg in options})
    if len(later) != 1 or any(leg.expiry != first and leg.side != 1 for leg in options):
        return _UNKNOWN_RISK
    for right in {leg.right for leg in options}:
        sizes = [leg.side * leg.quantity * leg.multiplier for leg in options if leg.right == right]
        if sum(sizes, ZERO) != 0:
            return _UNKNOWN_RISK
    legs = [PayoffLeg(leg.right, leg.strike, leg.side * leg.quantity * leg.multiplier) for leg in options]
    return _Risk(None, payoff(legs, cash).max_loss, (), ("profit_depends_on_volatility",))
