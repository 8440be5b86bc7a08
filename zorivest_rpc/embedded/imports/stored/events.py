"""Events of a file (an option's end, a share split) on their way into the corporate actions of the journal.

An event that the journal held before the file is passed over; one that fits no position is told."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import cast

from sqlalchemy import ColumnElement, Connection, select

from ...database.schema.journal import corporate_actions, trades
from ...errors import Conflict, Refusal
from ...journal import corporate_actions as actions
from ...journal.corporate_actions import OptionKind, moment_of
from ...values.symbols import Instrument, parse_instrument
from ..drafts import BrokerImport, Note, PositionEvent
from ..events import join_splits, ratio_of

__all__ = ["apply_events"]

_actions = corporate_actions.c
_trades = trades.c
_DAYS = timedelta(days=4)  # brokers book the end of Friday's options on the weekend or on Monday


def apply_events(conn: Connection, found: BrokerImport, actor: str) -> tuple[int, list[Note]]:
    """Record what is new; how many there were, and notes about those that could not be."""
    applied = 0
    refused: Counter[str] = Counter()
    first: dict[str, tuple[str, int | None]] = {}
    known = _Known(conn, found.account_id)
    for event in sorted(join_splits(found.events), key=lambda one: one.day):
        what = parse_instrument(event.symbol)
        try:
            with conn.begin_nested():
                applied += _apply(conn, found.account_id, event, what, actor, known)
        except Refusal as exc:
            refused[event.kind] += 1
            first.setdefault(event.kind, (f"{event.symbol} on {event.day}: {exc}", event.row_number))
    notes = [
        Note(
            code="event_not_applied",
            message=f"{count} rows of the kind {kind} were not recorded as corporate actions: {first[kind][0]}",
            row_number=first[kind][1],
        )
        for kind, count in refused.items()
    ]
    return applied, notes


class _Known:
    """The actions that the journal held before the file.

    The end of an option answers for as many contracts of the file as it closed, so that a position which ended in parts
    is recorded in parts, and a file that comes again records nothing."""

    def __init__(self, conn: Connection, account_id: str) -> None:
        self._conn = conn
        self._account_id = account_id
        self._found: dict[tuple[str, str], list[tuple[datetime, Decimal | None]]] = {}

    def has(self, event: PositionEvent, effective: datetime) -> bool:
        """Whether it is one of them; the contracts it answers for are used up then."""
        actions = self._of(event)
        near = [one for one in actions if abs(one[0] - effective) <= _DAYS and one[1] != 0]
        if event.kind == "split":
            return bool(near)
        closed = sum((quantity or Decimal(0) for _, quantity in near), Decimal(0))
        if not near or (event.quantity is not None and closed < event.quantity):
            return False
        left = closed if event.quantity is None else event.quantity
        for one in sorted(near, key=lambda one: abs(one[0] - effective)):
            used = min(left, one[1] or Decimal(0))
            actions[actions.index(one)] = (one[0], (one[1] or Decimal(0)) - used)
            left -= used
        return True

    def add_split(self, event: PositionEvent, effective: datetime) -> None:
        """A file may state the ratio of one split in several rows."""
        self._of(event).append((effective, None))

    def _of(self, event: PositionEvent) -> list[tuple[datetime, Decimal | None]]:
        key = (event.kind, event.symbol)
        if key not in self._found:
            query = select(_actions.effective_at, _actions.quantity).where(
                _actions.kind == event.kind, _actions.symbol == event.symbol, _is_of(self._account_id)
            )
            self._found[key] = [(moment, quantity) for moment, quantity in self._conn.execute(query)]
        return self._found[key]


def _is_of(account_id: str) -> ColumnElement[bool]:
    return _actions.account_id.is_(None) | (_actions.account_id == account_id)


def _apply(
    conn: Connection, account_id: str, event: PositionEvent, what: Instrument, actor: str, known: _Known
) -> bool:
    effective = moment_of(event.day, event.kind)
    if known.has(event, effective):
        return False
    if event.kind == "split":
        numerator, denominator = _ratio(conn, account_id, event, effective)
        if numerator == denominator:
            return False
        split = actions.Split(what, effective, numerator, denominator, account_id)
        actions.record_split(conn, split, actor)
        known.add_split(event, effective)
        return True
    option = actions.OptionEnd(cast(OptionKind, event.kind), what, effective, account_id, event.quantity)
    delivered = None if event.kind == "expiry" else _delivery(conn, option)
    actions.record_option(conn, option._replace(related_trade_id=delivered), actor)
    return True


def _ratio(conn: Connection, account_id: str, event: PositionEvent, effective: datetime) -> tuple[Decimal, Decimal]:
    """As the rows state it, else from the shares that were added to those that were held."""
    if event.numerator is not None and event.denominator is not None:
        return event.numerator, event.denominator
    held, moved = _held_before(conn, account_id, event.symbol, effective), Fraction(event.quantity or 0)
    # of a short position, and of new shares alone, a row does not tell which of two ratios it means
    if held <= 0 or held + moved <= 0 or (event.is_reverse and moved > 0):
        raise Conflict(
            "no_ratio", f"its rows do not give the ratio for the {float(held):g} shares held; record it by hand"
        )
    return ratio_of((held + moved) / held)


def _held_before(conn: Connection, account_id: str, symbol: str, moment: datetime) -> Fraction:
    """The shares of a moment, from the fills and splits before it: the open round trip knows later sales as well."""
    fills = select(_trades.time, _trades.action, _trades.quantity).where(
        _trades.account_id == account_id, _trades.symbol == symbol, _trades.time < moment
    )
    splits = select(_actions.effective_at, _actions.numerator, _actions.denominator).where(
        _actions.kind == "split", _actions.symbol == symbol, _is_of(account_id), _actions.effective_at < moment
    )
    steps: list[tuple[datetime, Fraction, Fraction]] = []
    for at, numerator, denominator in conn.execute(splits):  # a fill of the same moment is in new shares already
        steps.append((at, Fraction(numerator) / Fraction(denominator), Fraction(0)))
    for at, action, quantity in conn.execute(fills):
        steps.append((at, Fraction(1), Fraction(quantity) if action == "BOT" else -Fraction(quantity)))
    held = Fraction(0)
    for _, ratio, moved in sorted(steps, key=lambda step: step[0]):
        held = held * ratio + moved
    return held


def _delivery(conn: Connection, option: actions.OptionEnd) -> str | None:
    """The fill by which the file, or one before it, moved the shares of an exercise or assignment."""
    contract = option.what.contract
    if contract is None:
        return None
    buys = (contract.right == "C") == (option.kind == "exercise")
    taken = select(_actions.related_trade_id).where(_actions.related_trade_id.is_not(None))
    query = (
        select(_trades.exec_id, _trades.quantity)
        .where(
            _trades.account_id == option.account_id,
            _trades.symbol == contract.underlying,
            _trades.price == contract.strike,
            _trades.action == ("BOT" if buys else "SLD"),
            _trades.time >= option.effective_at - _DAYS,
            _trades.time <= option.effective_at + _DAYS,
            _trades.exec_id.not_in(taken),
        )
        .order_by(_trades.time, _trades.exec_id)
    )
    for exec_id, shares in conn.execute(query):
        if option.quantity is None or shares == option.quantity * option.what.multiplier:
            found: str = exec_id
            return found
    return None
