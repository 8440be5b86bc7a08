"""What free routing may have cost: an estimate from the volume per kind of routing, and never more than an estimate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.fees import FeeBreakdown
from zorivest_rpc.embedded.values.answers import Hint
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, exactly, percent, round_to

__all__ = [
    "CostComponent",
    "CostOfFree",
    "PfofReport",
    "RoutingLine",
    "RoutingType",
    "RoutingVolume",
    "cost_of_free",
    "pfof_report",
    "routing_of",
]

RoutingType = Literal["pfof", "dma", "hybrid"]

BROKER_ROUTING: dict[str, RoutingType] = {
    "robinhood": "pfof",
    "webull": "pfof",
    "ibkr_lite": "pfof",
    "tastytrade": "pfof",
    "ibkr_pro": "dma",
    "lightspeed": "dma",
    "das_trader": "dma",
    "schwab": "hybrid",
}
ASSUMED_BPS: dict[RoutingType, Decimal] = {"dma": Decimal("0.2"), "hybrid": Decimal("2.0"), "pfof": Decimal("3.8")}
ENOUGH_SCORED = 20
_SPREAD = Decimal("0.30")
_METHOD = (
    "Notional traded through non-direct routing, times the slippage of that routing above that of direct routing, in "
    "basis points. Slippage is measured where at least 20 fills have quotes, otherwise assumed. The range is 30 % "
    "either way. Nobody outside the broker can audit this figure."
)


class RoutingVolume(msgspec.Struct, frozen=True):
    """The executions of one kind of routing, summed: their number and notional, the slippage of those with quotes."""

    routing: RoutingType
    trades: int
    notional: Decimal
    scored_trades: int = 0
    slippage_bps_sum: Decimal = ZERO
    routing_known: bool = True


class RoutingLine(msgspec.Struct, frozen=True):
    """One kind of routing in the answer; `cost` is what it took above direct routing."""

    routing: RoutingType
    trades: int
    notional: Decimal
    avg_slippage_bps: Decimal
    cost: Decimal
    basis: Literal["measured", "assumed"]


class PfofReport(msgspec.Struct, frozen=True):
    """The estimate. `total_pfof_impact` repeats `estimated_cost`; below zero the routing did better than direct."""

    estimate_label: Literal["ESTIMATE"]
    account_id: str | None
    period: str
    routing_type: RoutingType | Literal["mixed", "unknown"]
    trades_analyzed: int
    by_routing: tuple[RoutingLine, ...]
    estimated_cost: Decimal
    total_pfof_impact: Decimal
    low: Decimal
    high: Decimal
    annualized: Decimal | None
    confidence: Literal["low", "moderate"]
    assumptions: tuple[str, ...]
    methodology: str
    hint: Hint = msgspec.UNSET


class CostComponent(msgspec.Struct, frozen=True):
    """A part of what trading cost: charged, or estimated."""

    component: str
    kind: Literal["explicit", "implicit"]
    amount: Decimal
    basis: Literal["charged", "measured", "assumed"]


class CostOfFree(msgspec.Struct, frozen=True):
    """Charged fees and the estimated routing cost together."""

    estimate_label: Literal["ESTIMATE"]
    account_id: str | None
    period: str
    fee_component: Decimal
    pfof_component: Decimal
    total_hidden_cost: Decimal
    breakdown: tuple[CostComponent, ...]
    trade_count: int
    per_trade_avg: Decimal
    pct_of_gross_pnl: Decimal | None
    confidence: Literal["low", "moderate"]
    assumptions: tuple[str, ...]
    hint: Hint = msgspec.UNSET


def routing_of(broker_id: str | None, configured: RoutingType | None = None) -> tuple[RoutingType, bool]:
    """How a broker routes, and whether that is known: configuration first, then the list, else hybrid is assumed."""
    found = configured or BROKER_ROUTING.get((broker_id or "").lower())
    return (found, True) if found is not None else ("hybrid", False)


@exactly
def pfof_report(
    volumes: Iterable[RoutingVolume], *, period: str = "ytd", account_id: str | None = None, days: int | None = None
) -> PfofReport:
    """The estimate from sums per routing (one GROUP BY broker); `days` is the length of the period, to annualise by.

    Only fills with quotes count as scored; a bar is too coarse to measure basis points with."""
    groups = _merge(volumes)
    baseline, baseline_basis = _slippage(groups.get("dma"), "dma")
    lines, exact_cost, measured = [], ZERO, True
    assumptions: list[str] = []
    for routing, volume in sorted(groups.items()):
        bps, basis = _slippage(volume, routing)
        cost = ZERO if routing == "dma" else volume.notional * (bps - baseline) / 10_000
        exact_cost += cost
        lines.append(
            RoutingLine(
                routing, volume.trades, cents(volume.notional), round_to(bps, Decimal("0.01")), cents(cost), basis
            )
        )
        if routing == "dma":
            continue
        measured = measured and basis == "measured" and volume.routing_known
        assumptions += _assumptions(routing, volume, bps, basis)
    if any(line.routing != "dma" for line in lines) and baseline_basis == "assumed":
        assumptions.append(f"direct routing is taken to slip by {baseline} bps")
    trades = sum(volume.trades for volume in groups.values())
    reach = abs(exact_cost) * _SPREAD
    return PfofReport(
        estimate_label="ESTIMATE",
        account_id=account_id,
        period=period,
        routing_type="unknown" if not groups else next(iter(groups)) if len(groups) == 1 else "mixed",
        trades_analyzed=trades,
        by_routing=tuple(lines),
        estimated_cost=cents(exact_cost),
        total_pfof_impact=cents(exact_cost),
        low=cents(exact_cost - reach),
        high=cents(exact_cost + reach),
        annualized=cents(exact_cost * 365 / days) if days else None,
        confidence="moderate" if trades and measured else "low",
        assumptions=tuple(assumptions),
        methodology=_METHOD,
        hint=msgspec.UNSET
        if trades
        else "No executions in this period; record them with create_trade or load a statement with import_broker_csv.",
    )


def _assumptions(routing: RoutingType, volume: RoutingVolume, bps: Decimal, basis: str) -> Iterator[str]:
    if basis == "assumed":
        yield (
            f"{routing} routing is taken to slip by {bps} bps: {volume.scored_trades} of {volume.trades} "
            f"fills have quotes, {ENOUGH_SCORED} are needed to measure"
        )
    if not volume.routing_known:
        yield "the routing of a broker is not known and is taken to be hybrid"


def _merge(volumes: Iterable[RoutingVolume]) -> dict[RoutingType, RoutingVolume]:
    groups: dict[RoutingType, RoutingVolume] = {}
    for volume in volumes:
        if not volume.trades:
            continue
        known = groups.get(volume.routing)
        if known is None:
            groups[volume.routing] = volume
            continue
        groups[volume.routing] = RoutingVolume(
            volume.routing,
            known.trades + volume.trades,
            known.notional + volume.notional,
            known.scored_trades + volume.scored_trades,
            known.slippage_bps_sum + volume.slippage_bps_sum,
            known.routing_known and volume.routing_known,
        )
    return groups


def _slippage(volume: RoutingVolume | None, routing: RoutingType) -> tuple[Decimal, Literal["measured", "assumed"]]:
    if volume is not None and volume.scored_trades >= ENOUGH_SCORED:
        return volume.slippage_bps_sum / volume.scored_trades, "measured"
    return ASSUMED_BPS[routing], "assumed"


@exactly
def cost_of_free(fees: FeeBreakdown, routing: PfofReport, gross_pnl: Decimal) -> CostOfFree:
    """Both reports of one account and period as one figure; `gross_pnl` is what its round trips earned before fees."""
    total = fees.total_fees + routing.estimated_cost
    explicit = [CostComponent(line.fee_type, "explicit", line.amount, "charged") for line in fees.by_type]
    implicit = [
        CostComponent(f"{line.routing} routing", "implicit", line.cost, line.basis)
        for line in routing.by_routing
        if line.routing != "dma"
    ]
    trades = max(fees.trade_count, routing.trades_analyzed)
    return CostOfFree(
        estimate_label="ESTIMATE",
        account_id=fees.account_id,
        period=fees.period,
        fee_component=fees.total_fees,
        pfof_component=routing.estimated_cost,
        total_hidden_cost=cents(total),
        breakdown=(*explicit, *implicit),
        trade_count=trades,
        per_trade_avg=cents(divide(total, trades) or ZERO),
        pct_of_gross_pnl=percent(total, abs(gross_pnl)),
        confidence=routing.confidence,
        assumptions=routing.assumptions,
        hint=fees.hint,
    )
