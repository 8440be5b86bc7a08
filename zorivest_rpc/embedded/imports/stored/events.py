"""Events of a file (an option's end, a share split) on their way into the corporate actions of the journal.

An event that the journal holds already is passed over; one that fits no position is told."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import cast

from sqlalchemy import Connection, select

from ...database.schema.journal import corporate_actions, round_trips, trades
from ...errors import Refusal
from ...journal import corporate_actions as actions
from ...journal.corporate_actions import OptionKind, moment_of
from ...values.symbols import Instrument, parse_instrument
from ..drafts import BrokerImport, Note, PositionEvent

__all__ = ["apply_events"]

_actions = corporate_actions.c
_trades = trades.c
_DAYS = timedelta(days=4)  # brokers book the end of Friday's options on the weekend or on Monday


def apply_events(conn: Connection, found: BrokerImport, actor: str) -> tuple[int, list[Note]]:
    """Record what is new; how many there were, and notes about those that could not be."""
    applied = 0
    refused: Counter[str] = Counter()
    first: dict[str, tuple[str, int | None]] = {}
    for event in sorted(found.events, key=lambda one: one.day):
        what = parse_instrument(event.symbol)
        try:
            with conn.begin_nested():
                applied += _apply(conn, found.account_id, event, what, actor)
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


def _apply(conn: Connection, account_id: str, event: PositionEvent, what: Instrument, actor: str) -> bool:
    effective = moment_of(event.day, event.kind)
    if _is_known(conn, account_id, event, effective):
        return False
    if event.kind == "split":
        numerator, denominator = _ratio(conn, account_id, event, effective)
        if numerator == denominator:
            return False
        split = actions.Split(what, effective, numerator, denominator, account_id)
        actions.record_split(conn, split, actor)
        return True
    option = actions.OptionEnd(cast(OptionKind, event.kind), what, effective, account_id, event.quantity)
    delivered = None if event.kind == "expiry" else _delivery(conn, option)
    actions.record_option(conn, option._replace(related_trade_id=delivered), actor)
    return True


def _is_known(conn: Connection, account_id: str, event: PositionEvent, effective: datetime) -> bool:
    query = select(_actions.id).where(
        _actions.kind == event.kind,
        _actions.symbol == event.symbol,
        _actions.account_id.is_(None) | (_actions.account_id == account_id),
        _actions.effective_at >= effective - _DAYS,
        _actions.effective_at <= effective + _DAYS,
    )
    return conn.execute(query.limit(1)).first() is not None


def _ratio(conn: Connection, account_id: str, event: PositionEvent, effective: datetime) -> tuple[Decimal, Decimal]:
    """As the row states it, else from the shares that were added to those that were held."""
    if event.numerator is not None and event.denominator is not None:
        return event.numerator, event.denominator
    held = conn.execute(
        select(round_trips.c.open_quantity).where(
            round_trips.c.account_id == account_id,
            round_trips.c.instrument == event.symbol,
            round_trips.c.opened_at < effective,
            round_trips.c.status != "closed",
        )
    ).scalar()
    if not held or not event.quantity:
        return Decimal(1), Decimal(1)
    whole, of = held + event.quantity, held
    scale = (whole / of).normalize()
    return (scale, Decimal(1)) if scale == round(scale, 6) else (whole, of)


def _delivery(conn: Connection, option: actions.OptionEnd) -> str | None:
    """The fill by which the file, or one before it, moved the shares of an exercise or assignment."""
    contract = option.what.contract
    if contract is None:
        return None
    taken = select(_actions.related_trade_id).where(_actions.related_trade_id.is_not(None))
    query = (
        select(_trades.exec_id, _trades.quantity)
        .where(
            _trades.account_id == option.account_id,
            _trades.symbol == contract.underlying,
            _trades.price == contract.strike,
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
