"""How much of the time of this process a server takes that says much and answers nothing."""

from __future__ import annotations

from zorivest_rpc.gateway.timing import Pace


def listen(pace: Pace, spent: float, seconds: float, between: float = 0.0) -> tuple[float, float]:
    """Seconds of reading and of looking away, while it talks for so long."""
    now, read, away = 1000.0, 0.0, 0.0
    while now < 1000.0 + seconds:
        now += spent
        read += spent
        rest = pace.charge(spent, now)
        away += rest
        now += rest + between
    return read, away


def test_a_flood_is_read_for_a_tenth_of_the_time() -> None:
    read, away = listen(Pace(), 0.005, 600.0)
    assert 0.1 <= read / (read + away) < 0.11


def test_what_is_said_now_and_then_is_read_at_once() -> None:
    assert listen(Pace(), 0.005, 60.0, between=0.06)[1] == 0.0


def test_a_burst_is_read_at_once_and_time_makes_room_for_the_next() -> None:
    pace = Pace()
    assert listen(pace, 0.005, 0.39)[1] == 0.0
    assert pace.charge(0.005, 2000.0) == 0.0


def test_one_look_away_is_short_whatever_a_piece_took() -> None:
    assert Pace().charge(60.0, 1000.0) == 0.5
