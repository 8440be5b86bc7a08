"""Mistakes that show in the numbers: rules that propose a tag, with the evidence for it; a person decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from statistics import median

import msgspec

from zorivest_rpc.embedded.analytics.mistakes import MistakeCategory
from zorivest_rpc.embedded.analytics.moments import moments_of
from zorivest_rpc.embedded.values.money import cents, exactly

__all__ = ["Suspicion", "TripFacts", "suspect"]

_WINDOW = 50
_ENOUGH = 10
_REVENGE_WITHIN = timedelta(minutes=15)
_REVENGE_SIZE = Decimal("1.5")
_EARLY_CAPTURE = Decimal("0.3")


class TripFacts(msgspec.Struct, frozen=True):
    """A round trip as the rules see it; `plan_has_stop` is None without a linked plan, `one_r` is money.

    Legs of one options structure share `decision`; without one, a round trip is a decision of its own."""

    round_trip_id: str
    opened_at: datetime
    notional: Decimal
    closed_at: datetime | None = None
    pnl: Decimal | None = None
    plan_has_stop: bool | None = None
    capture_ratio: Decimal | None = None
    mfe_dollars: Decimal | None = None
    one_r: Decimal | None = None
    decision: str | None = None


class Suspicion(msgspec.Struct, frozen=True):
    """A proposed tag."""

    round_trip_id: str
    category: MistakeCategory
    evidence: str


@exactly
def suspect(trips: Iterable[TripFacts], zone: tzinfo = UTC) -> list[Suspicion]:
    """Proposals for round trips of one account, in the order they were opened; days are those of `zone`.

    Sizes are compared with the fifty round trips before, once there are ten; days with earlier days that had trades."""
    ordered = sorted(trips, key=lambda trip: (trip.opened_at, trip.round_trip_id))
    days = [trip.opened_at.astimezone(zone).date() for trip in ordered]
    made = {(day, trip.decision or trip.round_trip_id) for day, trip in zip(days, ordered, strict=True)}
    per_day = Counter(day for day, _ in made)
    found: list[Suspicion] = []
    earlier_days: list[int] = []
    for index, trip in enumerate(ordered):
        if index and days[index - 1] != days[index]:
            earlier_days.append(per_day[days[index - 1]])
        if not index or days[index - 1] != days[index]:
            found += _overtrading(trip, per_day[days[index]], earlier_days)
        before = ordered[max(0, index - _WINDOW) : index]
        found += _revenge(trip, before)
        found += _find_oversized(trip, before)
        found += _careless(trip)
    return found


def _overtrading(first: TripFacts, count: int, earlier_days: Sequence[int]) -> list[Suspicion]:
    usual = median(earlier_days) if len(earlier_days) >= 3 else None
    if usual is None or count <= 2 * usual:
        return []
    text = f"{count} positions opened that day, usually {usual:g}"
    return [Suspicion(first.round_trip_id, "overtrading", text)]


def _revenge(trip: TripFacts, before: Sequence[TripFacts]) -> list[Suspicion]:
    losses = [
        other
        for other in before
        if other.closed_at is not None
        and other.pnl is not None
        and other.pnl < 0
        and timedelta() <= trip.opened_at - other.closed_at < _REVENGE_WITHIN
    ]
    usual = median(other.notional for other in before) if before else None
    if not losses or not usual or trip.notional < _REVENGE_SIZE * usual:
        return []
    times = cents(trip.notional / usual)
    text = f"opened within 15 minutes of the loss {losses[-1].round_trip_id}, at {times} times the usual size"
    return [Suspicion(trip.round_trip_id, "revenge_trade", text)]


def _find_oversized(trip: TripFacts, before: Sequence[TripFacts]) -> list[Suspicion]:
    if len(before) < _ENOUGH:
        return []
    sizes = moments_of(other.notional for other in before)
    limit = sizes.mean + 2 * (sizes.std_dev or 0)
    if trip.notional <= limit:
        return []
    text = f"size {cents(trip.notional)} is above {cents(limit)}, two deviations over the usual"
    return [Suspicion(trip.round_trip_id, "oversized", text)]


def _careless(trip: TripFacts) -> list[Suspicion]:
    found = []
    if trip.plan_has_stop is False:
        found.append(Suspicion(trip.round_trip_id, "no_stop", "the linked plan names no stop"))
    kept, best, one_r = trip.capture_ratio, trip.mfe_dollars, trip.one_r
    if kept is not None and best is not None and one_r and kept < _EARLY_CAPTURE and best > one_r:
        text = f"kept {kept} of a best gain of {best}, which was more than 1R"
        found.append(Suspicion(trip.round_trip_id, "early_exit", text))
    return found
