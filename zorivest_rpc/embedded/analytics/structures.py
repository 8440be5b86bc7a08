"""The names of options structures: which known shape a set of net legs has.

Rule 1: legs come sorted by expiry, strike and right, one for each contract that is held.
Rule 2: a name is given to a whole structure only; a set that fits none is `custom` with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple

from zorivest_rpc.embedded.analytics.positions import Sign
from zorivest_rpc.embedded.values.money import ZERO
from zorivest_rpc.embedded.values.symbols import Contract

__all__ = ["Label", "Net", "OptionLeg", "StrategyType", "name_structure"]

StrategyType = Literal["vertical", "iron_condor", "butterfly", "calendar", "straddle", "strangle", "custom"]


class Net(NamedTuple):
    """What is held of one contract after all fills; `contract` is None for shares."""

    contract: Contract | None
    side: Sign
    quantity: Decimal
    multiplier: Decimal


class OptionLeg(NamedTuple):
    """A net option leg, its terms at hand."""

    expiry: date
    strike: Decimal
    right: Literal["C", "P"]
    side: Sign
    quantity: Decimal
    multiplier: Decimal


class Label(NamedTuple):
    kind: StrategyType
    name: str
    confidence: float = 1.0
    reasons: tuple[str, ...] = ()


_NOTHING_KNOWN = Label("custom", "unknown", 0.2, ("no_known_structure",))
_UNEVEN = Label("custom", "unknown", 0.3, ("unequal_quantities",))


def name_structure(options: Sequence[OptionLeg], shares: Sequence[Net]) -> Label:
    """The shape of sorted option legs, with the shares held beside them."""
    if shares:
        return _with_shares(options, shares[0])
    if not options:
        return Label("custom", "closed position", 1.0, ("closed",))
    if len(options) == 1:
        return Label("custom", f"{_direction(options[0])} {_word(options[0])}")
    if len(options) == 2:
        return _two_legs(*options)
    if len(options) == 3:
        return _three_legs(*options)
    if len(options) == 4:
        return _four_legs(options)
    return Label("custom", "unknown", 0.2, ("more_than_four_legs",))


def _two_legs(low: OptionLeg, high: OptionLeg) -> Label:
    same_right, same_expiry = low.right == high.right, low.expiry == high.expiry
    opposite, even = low.side != high.side, low.quantity == high.quantity
    uneven = () if even else ("unequal_quantities",)
    if same_right and same_expiry and opposite:
        return _vertical(low, high) if even else _ratio(low, high)
    if not same_right and same_expiry and not opposite:
        side = _direction(low)
        put, call = (low, high) if low.right == "P" else (high, low)
        if put.strike == call.strike:
            return Label("straddle", f"{side} straddle", 1.0 if even else 0.8, uneven)
        if put.strike < call.strike:
            return Label("strangle", f"{side} strangle", 1.0 if even else 0.8, uneven)
        return Label("custom", f"{side} guts", 0.8, uneven)
    if same_right and not same_expiry and opposite:
        kind = "calendar" if low.strike == high.strike else "diagonal"
        return Label("calendar", f"{_word(low)} {kind}", 1.0 if even else 0.7, uneven)
    if not same_right and same_expiry:
        return Label("custom", "synthetic shares" if low.strike == high.strike else "risk reversal", 0.8, uneven)
    return _NOTHING_KNOWN


def _vertical(low: OptionLeg, high: OptionLeg) -> Label:
    """The owner of the lower strike of the two gains when the price rises, with calls and with puts."""
    return Label("vertical", f"{'bull' if low.side == 1 else 'bear'} {_word(low)} spread")


def _ratio(low: OptionLeg, high: OptionLeg) -> Label:
    long, short = (low, high) if low.side == 1 else (high, low)
    shape = "ratio spread" if short.quantity > long.quantity else "backspread"
    return Label("custom", f"{_word(low)} {shape}", 0.9, ("ratio", "unequal_quantities"))


def _three_legs(low: OptionLeg, middle: OptionLeg, high: OptionLeg) -> Label:
    legs = (low, middle, high)
    if len({leg.expiry for leg in legs}) > 1:
        return Label("custom", "unknown", 0.2, ("several_expiries",))
    if len({leg.right for leg in legs}) == 1:
        return _three_of_a_kind(low, middle, high)
    if len({leg.quantity for leg in legs}) == 1:
        return _lizard(legs) or Label("custom", "unknown", 0.3, ("incomplete",))
    return _NOTHING_KNOWN


def _three_of_a_kind(low: OptionLeg, middle: OptionLeg, high: OptionLeg) -> Label:
    """Butterflies 1:2:1, Christmas trees 1:3:2 (away from the money), ladders 1:1:1."""
    quantities = (low.quantity, middle.quantity, high.quantity)
    lower, upper = middle.strike - low.strike, high.strike - middle.strike
    if low.side == high.side != middle.side:
        if low.quantity == high.quantity and middle.quantity == 2 * low.quantity:
            shape = "butterfly" if lower == upper else "broken-wing butterfly"
            return Label("butterfly", f"{_direction(low)} {_word(low)} {shape}", 1.0 if lower == upper else 0.9)
        # one option, three at the strike after next, two beyond it: calls upwards, puts downwards
        one, three, two = quantities if low.right == "C" else quantities[::-1]
        if three == 3 * one and two == 2 * one:
            wide, narrow = (lower, upper) if low.right == "C" else (upper, lower)
            confidence = 1.0 if wide == 2 * narrow else 0.9
            return Label("custom", f"{_direction(low)} {_word(low)} Christmas tree", confidence)
        return Label("custom", "unknown", 0.3, ("unequal_quantities",))
    near, far = (low, high) if low.right == "C" else (high, low)
    if near.side != middle.side == far.side and len(set(quantities)) == 1:
        # one option against one at each of the next two strikes; some books call this the Christmas tree
        return Label("custom", f"{_direction(near)} {_word(near)} ladder (Christmas tree)")
    return _NOTHING_KNOWN


def _lizard(legs: Sequence[OptionLeg]) -> Label | None:
    """A short strangle with a wing on one side: over the calls a jade lizard, under the puts its reverse."""
    first, second, third = ((leg.right, leg.side) for leg in legs)
    if len({leg.strike for leg in legs}) < 3:
        return None
    if (first, second, third) == (("P", -1), ("C", -1), ("C", 1)):
        return Label("custom", "jade lizard")
    if (first, second, third) == (("P", 1), ("P", -1), ("C", -1)):
        return Label("custom", "reverse jade lizard")
    return None


def _four_legs(options: Sequence[OptionLeg]) -> Label:
    puts = [leg for leg in options if leg.right == "P"]
    calls = [leg for leg in options if leg.right == "C"]
    if len({leg.expiry for leg in options}) > 1:
        return _two_time_spreads(options) or Label("custom", "unknown", 0.2, ("several_expiries",))
    if len(puts) in (0, 4):
        return _condor(options)
    if len(puts) != 2:
        return _NOTHING_KNOWN
    if (puts[0].strike, puts[1].strike) == (calls[0].strike, calls[1].strike):
        return _box(puts, calls)
    if puts[1].strike > calls[0].strike:
        return _NOTHING_KNOWN
    outer, inner = (puts[0], calls[1]), (puts[1], calls[0])
    if outer[0].side != outer[1].side or inner[0].side != inner[1].side or outer[0].side == inner[0].side:
        return _NOTHING_KNOWN
    if len({leg.quantity for leg in options}) > 1:
        return _UNEVEN
    side = _direction(inner[0])
    if inner[0].strike == inner[1].strike:
        return Label("butterfly", f"{side} iron butterfly")
    return Label("iron_condor", f"{side} iron condor")


def _condor(options: Sequence[OptionLeg]) -> Label:
    """Four strikes of one right: the outer two on one side, the inner two on the other."""
    low, inner_low, inner_high, high = options
    if not low.side == high.side != inner_low.side == inner_high.side:
        return _NOTHING_KNOWN
    if len({leg.quantity for leg in options}) > 1:
        return _UNEVEN
    is_regular = inner_low.strike - low.strike == high.strike - inner_high.strike
    shape = "condor" if is_regular else "broken-wing condor"
    return Label("custom", f"{_direction(low)} {_word(low)} {shape}", 1.0 if is_regular else 0.9)


def _box(puts: Sequence[OptionLeg], calls: Sequence[OptionLeg]) -> Label:
    """A bull call spread and a bear put spread over the same strikes, or both the other way round."""
    sides = (calls[0].side, calls[1].side, puts[0].side, puts[1].side)
    if sides not in ((1, -1, -1, 1), (-1, 1, 1, -1)):
        return _NOTHING_KNOWN
    if len({leg.quantity for leg in (*puts, *calls)}) > 1:
        return _UNEVEN
    return Label("custom", f"{_direction(calls[0])} box")


def _two_time_spreads(options: Sequence[OptionLeg]) -> Label | None:
    """Two legs of one expiry against two of another: calendars where the strikes agree, else diagonals."""
    near, far = options[:2], options[2:]
    if near[1].expiry != near[0].expiry or far[0].expiry != far[1].expiry or near[0].expiry == far[0].expiry:
        return None
    if near[0].side != near[1].side or far[0].side != far[1].side or near[0].side == far[0].side:
        return None
    if sorted(leg.right for leg in near) != sorted(leg.right for leg in far):
        return None
    uneven = () if len({leg.quantity for leg in options}) == 1 else ("unequal_quantities",)
    terms = [sorted((leg.right, leg.strike) for leg in pair) for pair in (near, far)]
    shape = "calendar" if terms[0] == terms[1] else "diagonal"
    # a calendar is bought where the later expiry is owned
    return Label("calendar", f"{_direction(far[0])} double {shape}", 0.7 if uneven else 1.0, uneven)


def _with_shares(options: Sequence[OptionLeg], shares: Net) -> Label:
    if not options:
        return Label("custom", "shares", 0.3, ("incomplete",))
    if len({leg.expiry for leg in options}) > 1:
        return Label("custom", "unknown", 0.2, ("several_expiries",))
    held = {(leg.right, leg.side) for leg in options}
    side = shares.side
    written, bought = ("C" if side == 1 else "P", -1), ("P" if side == 1 else "C", 1)
    written_word, bought_word = ("call", "put") if side == 1 else ("put", "call")
    sold = sum((leg.quantity * leg.multiplier for leg in options if leg.side == -1), ZERO)
    partly = ("partly_covered",) if sold > shares.quantity * shares.multiplier else ()
    if held == {written}:
        return Label("custom", f"covered {written_word}", 0.7 if partly else 1.0, partly)
    if held == {bought}:
        return Label("custom", f"protective {bought_word}", 0.9)
    if held == {written, bought} and len(options) == 2:
        if options[0].strike == options[1].strike:
            return _parity(options, shares)
        return Label("custom", "collar", 0.7 if partly else 0.9, partly)
    return _NOTHING_KNOWN


def _parity(options: Sequence[OptionLeg], shares: Net) -> Label:
    """Shares against the opposite synthetic of one strike: held long a conversion, sold short a reversal."""
    sizes = {leg.quantity * leg.multiplier for leg in options} | {shares.quantity * shares.multiplier}
    uneven = () if len(sizes) == 1 else ("unequal_quantities",)
    return Label("custom", "conversion" if shares.side == 1 else "reversal", 0.7 if uneven else 1.0, uneven)


def _direction(leg: OptionLeg) -> str:
    return "long" if leg.side == 1 else "short"


def _word(leg: OptionLeg) -> str:
    return "call" if leg.right == "C" else "put"
