"""Time that passes when a test says so."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["FakeClock"]


class _Timer:
    def __init__(self, due: float, work: Callable[[], None]) -> None:
        self.due = due
        self.work = work
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self) -> None:
        self.time = 1_000.0
        self.timers: list[_Timer] = []

    def now(self) -> float:
        return self.time

    def later(self, delay: float, work: Callable[[], None]) -> _Timer:
        timer = _Timer(self.time + delay, work)
        self.timers.append(timer)
        return timer

    def pass_by(self, seconds: float) -> None:
        """Every timer that is due in the meantime runs at its own time."""
        end = self.time + seconds
        while True:
            waiting = [timer for timer in self.timers if not timer.cancelled and timer.due <= end + 1e-9]
            if not waiting:
                break
            first = min(waiting, key=lambda timer: timer.due)
            self.timers.remove(first)
            self.time = max(self.time, first.due)
            first.work()
        self.timers = [timer for timer in self.timers if not timer.cancelled]
        self.time = end
