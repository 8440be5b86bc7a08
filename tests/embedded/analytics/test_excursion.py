"""Excursions over small sets of bars, worked out by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from zorivest_rpc.embedded.analytics.excursion import (
    Bar,
    Excursion,
    Resolution,
    best_resolution,
    excursion,
    wanted_resolution,
)
from zorivest_rpc.embedded.analytics.positions import Episode, Execution, Sign
from zorivest_rpc.embedded.analytics.round_trips import match
from zorivest_rpc.embedded.values.answers import to_json

D = Decimal
OPEN = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
NOW = datetime(2026, 3, 10, tzinfo=UTC)


def held(side: Sign, entry: str, leave: str | None, *, minutes: int = 20, multiplier: str = "1") -> Episode:
    back: Sign = -1 if side == 1 else 1
    fills = [Execution("E1", "A1", "XYZ", OPEN, side, D(100), D(entry), D(multiplier), D(1))]
    if leave is not None:
        moment = OPEN + timedelta(minutes=minutes)
        fills.append(Execution("E2", "A1", "XYZ", moment, back, D(100), D(leave), D(multiplier), D(1)))
    return match(fills).episodes[0]


def bars(*ranges: tuple[str, str], step: timedelta = timedelta(minutes=5), start: datetime = OPEN) -> list[Bar]:
    return [Bar(start + step * n, D(low), D(high), D(low), D(high)) for n, (low, high) in enumerate(ranges)]


def measured(episode: Episode, given: list[Bar], resolution: Resolution = "5min") -> Excursion:
    found = excursion(episode, given, resolution, exec_id="E1", data_source="stored", now=NOW)
    assert found is not None
    return found


def test_a_long_gains_to_the_highest_high_and_suffers_to_the_lowest_low() -> None:
    # bought 100 at 50, sold at 52. High 54: 4*100 = 400 = 8 %; low 49: 1*100 = 100 = 2 %
    # kept (52-50)/(54-50) = 50 %; net (200 - 2 fees)/400 = 0.495
    given = bars(("49", "50.5"), ("50", "53"), ("51", "54"), ("51.5", "53"), ("51", "52"))
    shown = to_json(measured(held(1, "50", "52"), given))
    assert shown == {
        "trade_exec_id": "E1",
        "round_trip_id": "rt-E1",
        "direction": "BOT",
        "mfe_price": 54,
        "mfe_dollars": 400,
        "mfe_pct": 8,
        "mae_price": 49,
        "mae_dollars": 100,
        "mae_pct": 2,
        "bso_price": 54,
        "bso_pct": 50,
        "capture_ratio": 0.495,
        "holding_bars": 5,
        "resolution": "5min",
        "data_source": "stored",
        "computed_at": "2026-03-10T00:00:00+00:00",
        "warnings": ["coarse_resolution"],
        "currency": "USD",
    }


def test_a_short_gains_to_the_lowest_low() -> None:
    # sold at 50, bought back at 51; low 48: 200 for it, high 53: 300 against; kept (50-51)/(50-48) = -50 %
    found = measured(held(-1, "50", "51"), bars(("48", "51"), ("49", "53")))
    assert (found.mfe_price, found.mfe_dollars, found.mfe_pct) == (D(48), D(200), D(4))
    assert (found.mae_price, found.mae_dollars, found.mae_pct) == (D(53), D(300), D(6))
    assert (found.bso_pct, found.capture_ratio) == (D(-50), D("-0.51"))  # (-100 - 2)/200


def test_a_price_that_never_went_its_way_leaves_nothing_to_catch() -> None:
    found = measured(held(1, "50", "48"), bars(("47", "49.5")))
    assert (found.mfe_dollars, found.mfe_price, found.bso_pct, found.capture_ratio) == (D(0), D("49.5"), None, None)
    assert found.mae_dollars == D(300)


def test_while_it_is_open_the_exit_has_no_figure() -> None:
    found = measured(held(1, "50", None), bars(("49", "55")))
    assert (found.mfe_dollars, found.bso_pct, found.capture_ratio) == (D(500), None, None)


def test_the_multiplier_scales_money_and_not_percent() -> None:
    found = measured(held(1, "2", "3", multiplier="100"), bars(("1.5", "4")))
    assert (found.mfe_dollars, found.mfe_pct, found.mae_dollars) == (D(20000), D(100), D(5000))


def test_bars_outside_the_holding_time_do_not_count() -> None:
    # held from 14:30 to 14:50: the bars of 14:25 (ends as it opens) and 14:55 are outside; of 14:50, which begins with
    # the exit, only the open (48) counts, not the high of 52 that came after it
    given = bars(
        ("1", "99"), ("49", "51"), ("49", "51"), ("49", "51"), ("49", "51"), ("48", "52"), ("1", "99"),
        start=OPEN - timedelta(minutes=5),
    )  # fmt: skip
    found = measured(held(1, "50", "50"), given)
    assert (found.holding_bars, found.mfe_price, found.mae_price) == (5, D(51), D(48))


@pytest.mark.parametrize("direction", [1, -1])
def test_what_the_last_bar_did_after_the_exit_does_not_count(direction: Sign) -> None:
    # sold out at 14:52, in the middle of a bar that opened at 50.5 and went to 60 and 40 afterwards
    given = bars(("49", "51"), ("49", "51"), ("49", "51"), ("49", "51"))
    given.append(Bar(OPEN + timedelta(minutes=20), D("50.5"), D(60), D(40), D(55)))
    found = measured(held(direction, "50", "51.5", minutes=22), given)
    best, worst = (D("51.5"), D(49)) if direction == 1 else (D(49), D("51.5"))
    assert (found.holding_bars, found.mfe_price, found.mae_price) == (5, best, worst)
    assert measured(held(direction, "50", "51.5", minutes=25), given).mfe_price == (D(60) if direction == 1 else D(40))


def test_a_daily_bar_serves_an_intraday_trade_with_a_warning() -> None:
    midnight = OPEN.replace(hour=0, minute=0)
    found = measured(held(1, "50", "52"), bars(("45", "56"), step=timedelta(days=1), start=midnight), "1d")
    assert (found.mfe_dollars, found.holding_bars, found.warnings) == (D(600), 1, ("coarse_resolution",))


def test_missing_bars_at_either_end_are_told() -> None:
    episode = held(1, "50", "52", minutes=120)
    late = bars(("49", "51"), start=OPEN + timedelta(minutes=30))
    assert measured(episode, late).warnings == ("entry_not_covered", "exit_not_covered")


def test_no_bars_give_no_figures() -> None:
    far = bars(("49", "51"), start=OPEN + timedelta(days=3))
    assert excursion(held(1, "50", "52"), far, "5min", exec_id="E1", data_source="stored", now=NOW) is None


@pytest.mark.parametrize(
    ("minutes", "resolution"),
    [(0, "1min"), (59, "1min"), (60, "5min"), (480, "5min"), (481, "15min"), (7200, "15min"), (7201, "1d")],
)
def test_the_holding_time_chooses_the_bars(minutes: int, resolution: str) -> None:
    assert wanted_resolution(timedelta(minutes=minutes)) == resolution


def test_other_bars_stand_in_finer_ones_first() -> None:
    assert best_resolution("5min", {"1min", "5min", "1d"}) == "5min"
    assert best_resolution("15min", {"1min", "5min", "1d"}) == "5min"
    assert best_resolution("5min", {"15min", "1d"}) == "15min"
    assert best_resolution("1min", {"1d"}) == "1d"
    assert best_resolution("1min", set()) is None
