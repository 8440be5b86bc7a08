"""The sums of a set of results from which averages, rates and deviations follow without the results themselves.

A database can supply them with one aggregate query: COUNT, SUM, SUM of squares, and the same over wins and losses."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.values.money import ZERO, divide, exactly, root

__all__ = ["NO_RESULTS", "Moments", "Streaks", "moments_of", "streaks_of"]

# A deviation below a millionth of the results' own size is rounding in the sums, not a difference.
_NOISE = Decimal("1e-12")


class Moments(msgspec.Struct, frozen=True):
    """Counts and sums of results. `gross_loss` is positive; a result of exactly zero is neither win nor loss."""

    count: int = 0
    wins: int = 0
    losses: int = 0
    gross_win: Decimal = ZERO
    gross_loss: Decimal = ZERO
    sum_squares: Decimal = ZERO

    @property
    def total(self) -> Decimal:
        """The sum of all results."""
        return self.gross_win - self.gross_loss

    @property
    def mean(self) -> Decimal:
        """The average result, zero over nothing."""
        return divide(self.total, self.count) or ZERO

    @property
    def avg_win(self) -> Decimal:
        """The average of the wins, zero without any."""
        return divide(self.gross_win, self.wins) or ZERO

    @property
    def avg_loss(self) -> Decimal:
        """The average size of the losses, positive, zero without any."""
        return divide(self.gross_loss, self.losses) or ZERO

    @property
    def std_dev(self) -> Decimal | None:
        """The sample standard deviation (n - 1), or None for fewer than two results."""
        return _std_dev(self)

    def plus(self, other: Moments) -> Moments:
        """Both sets together."""
        return Moments(
            self.count + other.count,
            self.wins + other.wins,
            self.losses + other.losses,
            self.gross_win + other.gross_win,
            self.gross_loss + other.gross_loss,
            self.sum_squares + other.sum_squares,
        )

    def in_units_of(self, unit: Decimal) -> Moments:
        """The same results measured in a positive unit."""
        return _scale(self, unit)


NO_RESULTS = Moments()


class Streaks(msgspec.Struct, frozen=True):
    """The longest unbroken runs of wins and of losses; a result of zero breaks both."""

    wins: int = 0
    losses: int = 0


@exactly
def moments_of(results: Iterable[Decimal]) -> Moments:
    """The sums of results that are at hand."""
    count = wins = losses = 0
    gross_win = gross_loss = squares = ZERO
    for result in results:
        count += 1
        squares += result * result
        if result > 0:
            wins += 1
            gross_win += result
        elif result < 0:
            losses += 1
            gross_loss -= result
    return Moments(count, wins, losses, gross_win, gross_loss, squares)


def streaks_of(results: Iterable[Decimal]) -> Streaks:
    """The longest runs of results in the order of their closing."""
    best_win = best_loss = win = loss = 0
    for result in results:
        win = win + 1 if result > 0 else 0
        loss = loss + 1 if result < 0 else 0
        best_win, best_loss = max(best_win, win), max(best_loss, loss)
    return Streaks(best_win, best_loss)


@exactly
def _std_dev(moments: Moments) -> Decimal | None:
    if moments.count < 2:
        return None
    spread = moments.sum_squares - moments.total * moments.total / moments.count
    return ZERO if spread <= moments.sum_squares * _NOISE else root(spread / (moments.count - 1))


@exactly
def _scale(moments: Moments, unit: Decimal) -> Moments:
    if unit <= 0:
        raise ValueError("a unit must be positive")
    return msgspec.structs.replace(
        moments,
        gross_win=moments.gross_win / unit,
        gross_loss=moments.gross_loss / unit,
        sum_squares=moments.sum_squares / (unit * unit),
    )
