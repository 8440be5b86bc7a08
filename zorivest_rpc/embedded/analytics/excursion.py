"""How far the price went for and against a round trip while it was held, and how much of the best the exit kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

import msgspec

from zorivest_rpc.embedded.analytics.positions import Episode
from zorivest_rpc.embedded.values.money import ZERO, cents, divide, exactly, percent, price, ratio

__all__ = ["Bar", "Excursion", "Resolution", "best_resolution", "excursion", "held_window", "wanted_resolution"]

Resolution = Literal["1min", "5min", "15min", "1d"]

SPANS: dict[Resolution, timedelta] = {
    "1min": timedelta(minutes=1),
    "5min": timedelta(minutes=5),
    "15min": timedelta(minutes=15),
    "1d": timedelta(days=1),
}


class Bar(msgspec.Struct, frozen=True):
    """One price bar; `time` is its beginning."""

    time: datetime
    open: Decimal
    high: Decimal
    low: Decimal
    close: Decimal
    volume: Decimal = ZERO
    vwap: Decimal | None = None


class Excursion(msgspec.Struct, frozen=True):
    """MFE and MAE in price, money and percent of the entry; BSO is the share of the best move that the exit caught.

    All money is in `currency`, that of the round trip, also under the names that speak of dollars."""

    trade_exec_id: str
    round_trip_id: str
    direction: Literal["BOT", "SLD"]
    mfe_price: Decimal
    mfe_dollars: Decimal
    mfe_pct: Decimal | None
    mae_price: Decimal
    mae_dollars: Decimal
    mae_pct: Decimal | None
    bso_price: Decimal
    bso_pct: Decimal | None
    capture_ratio: Decimal | None
    holding_bars: int
    resolution: Resolution
    data_source: str
    computed_at: datetime
    warnings: tuple[str, ...]
    currency: str


def wanted_resolution(held: timedelta) -> Resolution:
    """The bars that fit a holding time: the shorter it is, the finer."""
    if held < timedelta(hours=1):
        return "1min"
    if held <= timedelta(hours=8):
        return "5min"
    return "15min" if held <= timedelta(days=5) else "1d"


def best_resolution(wanted: Resolution, available: Collection[Resolution]) -> Resolution | None:
    """Of the bars at hand the wanted ones, else the nearest finer, else the nearest coarser; None without any."""
    order: Sequence[Resolution] = tuple(SPANS)
    place = order.index(wanted)
    preference = (*reversed(order[: place + 1]), *order[place + 1 :])
    return next((resolution for resolution in preference if resolution in available), None)


def held_window(episode: Episode, now: datetime) -> tuple[datetime, datetime]:
    """From opening to closing, or to now while something is still held."""
    return episode.opened_at, now if episode.open_quantity else episode.last_at


@exactly
def excursion(
    episode: Episode, bars: Iterable[Bar], resolution: Resolution, *, exec_id: str, data_source: str, now: datetime
) -> Excursion | None:
    """The excursion of a round trip over bars of its instrument, or None if no bar overlaps the time it was held.

    The whole entry quantity counts as held throughout, as the usual definition has it."""
    start, end = held_window(episode, now)
    span = SPANS[resolution]
    seen = sorted((bar for bar in bars if bar.time <= end and bar.time + span > start), key=lambda bar: bar.time)
    if not seen:
        return None
    direction = episode.direction
    closed = not episode.open_quantity
    leave = divide(episode.exit_value, episode.exit_quantity) if closed else None
    ranges = [_range(bar, bar.time + span, (start, end), leave) for bar in seen]
    highest, lowest = max(high for high, _ in ranges), min(low for _, low in ranges)
    best, worst = (highest, lowest) if direction == 1 else (lowest, highest)
    entry = divide(episode.entry_value, episode.entry_quantity) or ZERO
    size = episode.entry_quantity * episode.multiplier
    gained, lost = max(ZERO, direction * (best - entry)), max(ZERO, direction * (entry - worst))
    kept = None if leave is None else percent(direction * (leave - entry), gained)
    return Excursion(
        trade_exec_id=exec_id,
        round_trip_id=episode.id,
        direction="BOT" if direction == 1 else "SLD",
        mfe_price=price(best),
        mfe_dollars=cents(gained * size),
        mfe_pct=percent(gained, abs(entry)),
        mae_price=price(worst),
        mae_dollars=cents(lost * size),
        mae_pct=percent(lost, abs(entry)),
        bso_price=price(best),
        bso_pct=kept,
        capture_ratio=ratio(divide(episode.realized, gained * size)) if closed else None,
        holding_bars=len(seen),
        resolution=resolution,
        data_source=data_source,
        computed_at=now,
        warnings=_warnings(seen, span, (start, end), open_now=not closed),
        currency=episode.currency,
    )


def _range(
    bar: Bar, ends: datetime, window: tuple[datetime, datetime], leave: Decimal | None
) -> tuple[Decimal, Decimal]:
    """The highest and lowest price of a bar while the position was held.

    A bar that goes on after the exit is cut there: of the part before it the open and the exit's own price are known,
    while its high and low may have come later. A bar that also began before the entry cannot be cut."""
    start, end = window
    if leave is None or ends <= end or bar.time < start:
        return bar.high, bar.low
    return max(bar.open, leave), min(bar.open, leave)


def _warnings(
    seen: Sequence[Bar], span: timedelta, window: tuple[datetime, datetime], *, open_now: bool
) -> tuple[str, ...]:
    start, end = window
    found = []
    if span > SPANS[wanted_resolution(end - start)]:
        found.append("coarse_resolution")
    if seen[0].time > start:
        found.append("entry_not_covered")
    if not open_now and seen[-1].time + span <= end:
        found.append("exit_not_covered")
    return tuple(found)
