"""How many shares a risk allows: the position-size calculator."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import msgspec

from zorivest_rpc.embedded.values.money import ZERO, cents, exactly, price

__all__ = ["PositionSize", "position_size", "problems_of"]

_SMALLEST, _LARGEST, _FALLBACK = Decimal("0.0001"), Decimal(1), Decimal("0.01")
_CENT = Decimal("0.01")


class PositionSize(msgspec.Struct, frozen=True):
    """The sizes. `position_value` is what the shares cost to the cent, `position_size` the same in whole units of
    money, rounded up. `shares` and `risk_amount` repeat `share_size` and `account_risk_1r` under their short names."""

    risk_per_share: Decimal
    account_risk_1r: Decimal
    share_size: int
    position_size: Decimal
    position_value: Decimal
    reward_risk_ratio: Decimal
    potential_profit: Decimal
    position_to_account_pct: Decimal
    shares: int
    risk_amount: Decimal
    warnings: tuple[str, ...]


@exactly
def problems_of(
    balance: Decimal, risk_pct: Decimal, entry: Decimal, stop: Decimal, target: Decimal
) -> dict[str, list[str]]:
    """What a strict caller refuses; `position_size` itself answers with zeros."""
    problems: dict[str, list[str]] = {}
    if entry <= 0:
        problems["entry"] = ["must be above 0"]
    if stop <= 0:
        problems["stop"] = ["must be above 0"]
    elif entry == stop:
        problems["stop"] = ["must differ from entry, or there is no risk to size by"]
    if entry > 0 and stop > 0 and (target - entry) * (entry - stop) < 0:
        problems["target"] = [_explain_target(entry, stop, target)]
    if risk_pct <= 0:
        problems["risk_pct"] = ["must be above 0"]
    elif risk_pct < _SMALLEST * 100:
        problems["risk_pct"] = [_explain_risk(balance, risk_pct)]
    return problems


def _explain_target(entry: Decimal, stop: Decimal, target: Decimal) -> str:
    is_long = stop < entry
    kind, side, other = ("long", "below", "above") if is_long else ("short", "above", "below")
    return (
        f"{_text(target)} is {side} the entry {_text(entry)}, on the side of the stop {_text(stop)}: a stop {side} the "
        f"entry makes the trade {kind}, so its target must be {other} the entry"
    )


def _explain_risk(balance: Decimal, risk_pct: Decimal) -> str:
    """Name both readings of a number that is too small to be meant as per cent; a fraction is the likelier one."""
    meant = risk_pct * 100
    return (
        f"{_text(risk_pct)} is read as {_text(risk_pct)} % of the balance, {cents(balance * risk_pct / 100)}; if the "
        f"fraction is meant, that is {_text(meant)} %, {cents(balance * risk_pct)}: give risk_pct {_text(meant)}. "
        "The smallest risk_pct is 0.01"
    )


@exactly
def position_size(
    balance: Decimal, entry: Decimal, stop: Decimal, target: Decimal, risk_pct: Decimal = Decimal(1)
) -> PositionSize:
    """Shares that lose at most `risk_pct` percent of the balance at the stop; zeros where nothing can be sized."""
    warnings = []
    fraction = risk_pct / 100
    if not _SMALLEST <= fraction <= _LARGEST:
        warnings.append("risk_pct is outside 0.01 to 100; 1 is used")
        fraction = _FALLBACK
    one_r = balance * fraction
    per_share = abs(entry - stop) if entry > 0 and stop > 0 else ZERO
    shares = _floor(one_r / per_share) if per_share and one_r > 0 else 0
    value = (entry * shares).to_integral_value(ROUND_CEILING)
    reward = abs(target - entry)
    reward_risk = _cut(reward / per_share) if per_share else ZERO
    to_account = _cut(value / balance * 100) if balance > 0 else ZERO
    if balance <= 0:
        warnings.append("the balance is not above 0")
    if to_account > 100:
        warnings.append("the position is larger than the balance")
    if fraction * 100 > 3:
        warnings.append("more than 3 % is risked on one trade")
    if per_share and reward_risk < 1:
        warnings.append("the target earns less than the stop risks")
    return PositionSize(
        risk_per_share=price(per_share),
        account_risk_1r=cents(one_r),
        share_size=shares,
        position_size=value,
        position_value=cents(entry * shares),
        reward_risk_ratio=reward_risk,
        potential_profit=cents(reward * shares),
        position_to_account_pct=to_account,
        shares=shares,
        risk_amount=cents(one_r),
        warnings=tuple(warnings),
    )


def _text(value: Decimal) -> str:
    return f"{value.normalize():f}"


def _floor(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_FLOOR))


def _cut(value: Decimal) -> Decimal:
    return value.quantize(_CENT, ROUND_FLOOR)
