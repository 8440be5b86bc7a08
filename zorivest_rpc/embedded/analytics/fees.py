"""What was charged: fees by kind and by broker, and an estimate of regulatory fees that a broker did not itemise."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from decimal import ROUND_CEILING, Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.positions import Sign
from zorivest_rpc.embedded.values.answers import Hint
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, exactly, percent

__all__ = [
    "BrokerFees",
    "Charge",
    "FeeBreakdown",
    "FeeLine",
    "FeeType",
    "RegulatoryEstimate",
    "TradeCharges",
    "charges_of",
    "estimate_regulatory",
    "fee_breakdown",
]

FeeType = Literal["commission", "exchange", "regulatory", "ecn", "clearing", "platform", "other"]

NO_BROKER = "(unassigned)"


class Charge(msgspec.Struct, frozen=True):
    """An amount of one kind: a ledger row, a periodic fee, or the sum of many (GROUP BY type, broker, estimated)."""

    fee_type: FeeType
    amount: Decimal
    broker_id: str | None = None
    is_estimated: bool = False


class TradeCharges(msgspec.Struct, frozen=True):
    """What an execution cost: its two totals, and its ledger rows if it has any."""

    commission: Decimal
    fees: Decimal
    broker_id: str | None = None
    ledger: tuple[Charge, ...] = ()


class FeeLine(msgspec.Struct, frozen=True):
    """One kind; `pct` is its share of all fees, `is_estimated` says that at least a part is."""

    fee_type: FeeType
    amount: Decimal
    pct: Decimal | None
    is_estimated: bool


class BrokerFees(msgspec.Struct, frozen=True):
    """All fees of one broker."""

    broker_id: str
    amount: Decimal


class FeeBreakdown(msgspec.Struct, frozen=True):
    """The fees of a period. `pnl_pct` repeats `pct_of_gross_pnl`."""

    period: str
    account_id: str | None
    total_fees: Decimal
    by_type: tuple[FeeLine, ...]
    by_broker: tuple[BrokerFees, ...]
    trade_count: int
    avg_fee_per_trade: Decimal
    pct_of_gross_pnl: Decimal | None
    pnl_pct: Decimal | None
    hint: Hint = msgspec.UNSET


def charges_of(trade: TradeCharges) -> tuple[Charge, ...]:
    """The ledger rows of an execution; without any its commission, and its fees as `other`."""
    if trade.ledger:
        return trade.ledger
    kinds: tuple[tuple[FeeType, Decimal], ...] = (("commission", trade.commission), ("other", trade.fees))
    return tuple(Charge(kind, amount, trade.broker_id) for kind, amount in kinds if amount)


@exactly
def fee_breakdown(
    charges: Iterable[Charge],
    *,
    trade_count: int,
    gross_pnl: Decimal,
    period: str = "ytd",
    account_id: str | None = None,
) -> FeeBreakdown:
    """The answer from single charges or from sums of them, periodic fees included.

    `trade_count` is the number of executions in the period; `gross_pnl` what its round trips earned before fees."""
    by_type: dict[FeeType, Decimal] = {}
    by_broker: dict[str, Decimal] = {}
    estimated: set[FeeType] = set()
    for charge in charges:
        by_type[charge.fee_type] = by_type.get(charge.fee_type, ZERO) + charge.amount
        broker = charge.broker_id or NO_BROKER
        by_broker[broker] = by_broker.get(broker, ZERO) + charge.amount
        if charge.is_estimated:
            estimated.add(charge.fee_type)
    total = sum(by_type.values(), ZERO)
    share_of_pnl = percent(total, abs(gross_pnl))
    lines = [
        FeeLine(kind, cents(amount), percent(amount, total), kind in estimated) for kind, amount in by_type.items()
    ]
    brokers = [BrokerFees(broker, cents(amount)) for broker, amount in by_broker.items()]
    return FeeBreakdown(
        period=period,
        account_id=account_id,
        total_fees=cents(total),
        by_type=tuple(sorted(lines, key=lambda line: (-line.amount, line.fee_type))),
        by_broker=tuple(sorted(brokers, key=lambda line: (-line.amount, line.broker_id))),
        trade_count=trade_count,
        avg_fee_per_trade=cents(divide(total, trade_count) or ZERO),
        pct_of_gross_pnl=share_of_pnl,
        pnl_pct=share_of_pnl,
        hint=msgspec.UNSET
        if trade_count or by_type
        else "No executions in this period; record them with create_trade or load a statement with import_broker_csv.",
    )


class RegulatoryEstimate(msgspec.Struct, frozen=True):
    """US regulatory fees of one sale; a fee whose rate on that day is not known is null."""

    sec: Decimal | None
    taf: Decimal | None

    @property
    def total(self) -> Decimal:
        """What is known of it."""
        return (self.sec or ZERO) + (self.taf or ZERO)


class _Rate(msgspec.Struct, frozen=True):
    first: date
    last: date
    rate: Decimal
    cap: Decimal | None = None


# Dollars per dollar sold, and per share sold with a cap per trade. A day outside the table has no rate here.
_SEC_RATES = (
    _Rate(date(2024, 5, 22), date(2025, 5, 13), Decimal("0.0000278")),
    _Rate(date(2025, 5, 14), date(2025, 12, 31), ZERO),
)
_TAF_RATES = (
    _Rate(date(2024, 1, 1), date(2025, 12, 31), Decimal("0.000166"), Decimal("8.30")),
    _Rate(date(2026, 1, 1), date(2026, 12, 31), Decimal("0.000195"), Decimal("9.79")),
)
_CENT = Decimal("0.01")


@exactly
def estimate_regulatory(side: Sign, shares: Decimal, price: Decimal, day: date) -> RegulatoryEstimate:
    """The SEC fee and the FINRA activity fee of selling shares on a day, each up to the next cent; buying is free."""
    if side == 1:
        return RegulatoryEstimate(ZERO, ZERO)
    return RegulatoryEstimate(_fee(_SEC_RATES, shares * price, day), _fee(_TAF_RATES, shares, day))


def _fee(rates: tuple[_Rate, ...], base: Decimal, day: date) -> Decimal | None:
    found = next((row for row in rates if row.first <= day <= row.last), None)
    if found is None:
        return None
    fee = (base * found.rate).quantize(_CENT, ROUND_CEILING)
    return fee if found.cap is None else min(fee, found.cap)
