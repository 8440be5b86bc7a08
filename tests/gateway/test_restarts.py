"""How soon a child that ended is started again."""

from __future__ import annotations

import pytest

from zorivest_rpc.gateway.restarts import Restarts


def test_each_end_within_five_minutes_of_the_last_doubles_the_wait_up_to_half_a_minute() -> None:
    restarts, now, waits = Restarts(), 1000.0, []
    assert restarts.wait(now) == 0.0
    for _ in range(9):
        restarts.note_end(now)
        waits.append(restarts.wait(now))
        assert not restarts.too_many(now)
        now += 61.0
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_a_wait_passes_with_the_time() -> None:
    restarts = Restarts()
    restarts.note_end(1000.0)
    restarts.note_end(1010.0)
    assert restarts.wait(1010.0) == 1.0
    assert restarts.wait(1010.75) == pytest.approx(0.25)
    assert restarts.wait(1011.0) == 0.0


def test_a_timer_that_is_back_a_moment_early_has_waited_long_enough() -> None:
    restarts = Restarts()
    restarts.note_end(1000.0)
    assert restarts.wait(1000.4995) == 0.0
    assert restarts.wait(1000.49) == pytest.approx(0.01)


def test_five_minutes_without_an_end_begin_anew() -> None:
    restarts = Restarts()
    for now in (1000.0, 1001.0, 1002.0):
        restarts.note_end(now)
    restarts.note_end(1302.0)
    assert restarts.wait(1302.0) == 0.5


def test_a_sixth_end_within_five_minutes_waits_until_the_first_of_them_is_five_minutes_old() -> None:
    restarts = Restarts()
    for number in range(5):
        restarts.note_end(1000.0 + number)
        assert not restarts.too_many(1000.0 + number)
    restarts.note_end(1010.0)
    assert restarts.too_many(1010.0)
    assert restarts.wait(1010.0) == 290.0
    assert restarts.too_many(1299.0)
    assert restarts.wait(1299.0) == 1.0
    assert not restarts.too_many(1300.0)
    assert restarts.wait(1300.0) == 0.0
    restarts.note_end(1300.0)  # and again too many: those of the first minute but one count on
    assert restarts.wait(1300.0) == 1.0
