"""What changes a position without a trade: share splits, and options exercised, assigned or expired.

A split changes the shares that are open when it takes effect; the round trips they belong to count in new shares from
then on. An option that was exercised, assigned or left to expire is closed by a fill at zero, and delivery moves the
shares by a fill at the strike. Fills that a broker's file brought already are named and used; the others are made here,
and go when the action is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, or_, select

from ..database import audit
from ..database.schema.books import tax_stale
from ..database.schema.journal import corporate_actions, round_trips
from ..errors import Conflict, Invalid, NotFound
from ..values.inputs import Page
from ..values.symbols import Contract, Instrument, parse_instrument
from . import accounts as account_store
from . import round_trips as round_trip_store
from . import trades
from .given_times import GivenTimes

__all__ = [
    "KINDS",
    "OptionEnd",
    "Split",
    "delete",
    "list_actions",
    "moment_of",
    "read_action",
    "record_option",
    "record_split",
]

OptionKind = Literal["exercise", "assignment", "expiry"]
KINDS = ("split", "exercise", "assignment", "expiry")

_BETWEEN_SESSIONS = time(5, tzinfo=UTC)  # New York and Europe are closed, and it is the same day in both
_AFTER_THE_CLOSE = time(21, tzinfo=UTC)
_actions = corporate_actions.c
_SHOWN = (
    "id", "account_id", "symbol", "underlying", "kind", "effective_at", "numerator", "denominator", "quantity",
    "closing_trade_id", "related_trade_id", "source", "created_at",
)  # fmt: skip


class Split(NamedTuple):
    """`numerator` new shares for `denominator` old ones; without an account, of every account."""

    what: Instrument
    effective_at: datetime
    numerator: Decimal
    denominator: Decimal
    account_id: str | None = None


class OptionEnd(NamedTuple):
    """The end of option contracts; without a quantity, of all that are open."""

    kind: OptionKind
    what: Instrument
    effective_at: datetime
    account_id: str
    quantity: Decimal | None = None
    closing_trade_id: str | None = None
    related_trade_id: str | None = None
    commission: Decimal = Decimal(0)


def moment_of(day: date, kind: str) -> datetime:
    """When something that has only a day takes effect: a split before the day's trading, the rest after it."""
    return datetime.combine(day, _BETWEEN_SESSIONS if kind == "split" else _AFTER_THE_CLOSE)


def record_split(conn: Connection, split: Split, actor: str) -> dict[str, Any]:
    """Keep a split and bring the positions it finds open in step."""
    if split.account_id is not None:
        account_store.require(conn, split.account_id)
    same = [_actions.kind == "split", _actions.symbol == split.what.symbol, _actions.effective_at == split.effective_at]
    if split.account_id is not None:
        same.append(or_(_actions.account_id.is_(None), _actions.account_id == split.account_id))
    known = conn.execute(select(_actions.id).where(*same)).scalar()
    if known is not None:
        raise Conflict("duplicate_corporate_action", f"That split is recorded already, as number {known}.")
    row = {
        "account_id": split.account_id,
        "kind": "split",
        "effective_at": split.effective_at,
        "numerator": split.numerator,
        "denominator": split.denominator,
    }
    added = _insert(conn, split.what, row, actor)
    touched = round_trip_store.split(conn, split.account_id, split.what.symbol, split.effective_at)
    for account_id in touched:
        trades.touch(conn, account_id)
    return read_action(conn, added) | {"accounts_adjusted": touched}


def record_option(conn: Connection, event: OptionEnd, actor: str) -> dict[str, Any]:
    """Close contracts, move the shares that they deliver, and keep how they belong together."""
    contract = event.what.contract
    assert contract is not None  # the route took nothing else
    account_store.require(conn, event.account_id)
    if event.closing_trade_id is None:
        held = _open_contracts(conn, event)
    else:
        held = _closed_contracts(conn, event, event.closing_trade_id)
    wanted = "BOT" if event.kind == "exercise" else "SLD"
    if event.kind != "expiry" and held.direction != wanted:
        other = "assigned" if held.direction == "SLD" else "exercised"
        raise Invalid(
            {"kind": [f"{event.what.symbol} was {_word(held.direction)}, so it can only be {other} or expire"]}
        )
    row = {
        "account_id": event.account_id,
        "kind": event.kind,
        "effective_at": event.effective_at,
        "quantity": held.quantity,
        "closing_trade_id": event.closing_trade_id,
        "related_trade_id": event.related_trade_id,
        "source": held.source,
    }
    if event.related_trade_id is not None:
        _check_delivery(conn, event, contract, held)
    added = _insert(conn, event.what, row, actor)
    made: dict[str, str] = {}
    if event.closing_trade_id is None:
        made["closing_trade_id"] = _close(conn, event, held, f"ca-{added}-close", actor)
    if event.related_trade_id is None and event.kind != "expiry":
        made["related_trade_id"] = _deliver(conn, event, contract, held, f"ca-{added}-shares", actor)
    if made:
        conn.execute(corporate_actions.update().where(_actions.id == added).values(**made))
    return read_action(conn, added)


def read_action(conn: Connection, number: int) -> dict[str, Any]:
    """One action, or 404."""
    row = conn.execute(select(corporate_actions).where(_actions.id == number)).mappings().first()
    if row is None:
        raise NotFound("corporate action", number)
    return _view(row)


def list_actions(
    conn: Connection, page: Page, *, account_id: str | None, symbol: str | None, kind: str | None
) -> dict[str, Any]:
    """A page of actions, newest first; of an account also those that count for every account."""
    wanted: list[ColumnElement[bool]] = []
    if account_id is not None:
        wanted.append(or_(_actions.account_id.is_(None), _actions.account_id == account_id))
    if symbol is not None:
        wanted.append(or_(_actions.symbol == symbol, _actions.underlying == symbol))
    if kind is not None:
        wanted.append(_actions.kind == kind)
    total = conn.execute(select(func.count()).select_from(corporate_actions).where(*wanted)).scalar_one()
    rows = conn.execute(
        select(corporate_actions)
        .where(*wanted)
        .order_by(_actions.effective_at.desc(), _actions.id.desc())
        .limit(page.limit)
        .offset(page.offset)
    ).mappings()
    return page.envelope([_view(row) for row in rows], total)


def delete(conn: Connection, number: int, actor: str) -> None:
    """Undo an action: its own fills go, a broker's stay."""
    action = read_action(conn, number)
    conn.execute(corporate_actions.delete().where(_actions.id == number))
    _forget_lots(conn, action["underlying"])
    audit.record(conn, actor, "corporate_action.delete", "corporate_action", str(number))
    if action["kind"] == "split":
        for account_id in round_trip_store.split(conn, action["account_id"], action["symbol"], action["effective_at"]):
            trades.touch(conn, account_id)
    for name, part in (("related_trade_id", "shares"), ("closing_trade_id", "close")):
        if action[name] == f"ca-{number}-{part}":
            trades.delete(conn, action[name], actor)


class _Held(NamedTuple):
    """The contracts of an event: how many, which way they were held, and what one of them delivers."""

    quantity: Decimal
    direction: str
    multiplier: Decimal
    source: str
    currency: str


def _open_contracts(conn: Connection, event: OptionEnd) -> _Held:
    trips = round_trips.c
    row = (
        conn.execute(
            select(round_trips).where(
                trips.account_id == event.account_id, trips.instrument == event.what.symbol, trips.status != "closed"
            )
        )
        .mappings()
        .first()
    )
    if row is None:
        raise Conflict("no_open_position", f"{event.what.symbol} is not open in account {event.account_id}.")
    latest = GivenTimes(conn, [row["last_by"]]).of(row["last_by"], row["last_at"])
    if latest > event.effective_at:
        raise Invalid({"effective": [f"must not be before the latest fill of the position, {latest.isoformat()}"]})
    quantity = row["open_quantity"] if event.quantity is None else event.quantity
    if quantity > row["open_quantity"]:
        raise Invalid({"quantity": [f"only {row['open_quantity'].normalize():f} contracts are open"]})
    opener = trades.require(conn, row["opened_by"])
    source = "demo" if opener["source"] == "demo" else "manual"
    return _Held(quantity, row["direction"], row["multiplier"], source, row["currency"])


def _closed_contracts(conn: Connection, event: OptionEnd, exec_id: str) -> _Held:
    """The same, told by the fill at zero that a broker's file brought."""
    fill = trades.require(conn, exec_id)
    if (fill["account_id"], fill["symbol"], fill["price"]) != (event.account_id, event.what.symbol, 0):
        raise Invalid({"closing_trade_id": [f"must be a fill of {event.what.symbol} at zero in this account"]})
    if event.quantity is not None and event.quantity != fill["quantity"]:
        raise Invalid({"quantity": [f"differs from the closing fill's {fill['quantity'].normalize():f}"]})
    _free(conn, "closing_trade_id", exec_id)
    direction = "BOT" if fill["action"] == "SLD" else "SLD"
    return _Held(fill["quantity"], direction, fill["multiplier"], fill["source"], fill["currency"])


def _check_delivery(conn: Connection, event: OptionEnd, contract: Contract, held: _Held) -> None:
    if event.kind == "expiry":
        raise Invalid({"related_trade_id": ["an option that expires delivers nothing"]})
    exec_id = event.related_trade_id or ""
    fill = trades.require(conn, exec_id)
    wanted = (event.account_id, contract.underlying, _side(contract, held), held.quantity * held.multiplier)
    if (fill["account_id"], fill["symbol"], fill["action"], fill["quantity"]) != wanted:
        account_id, symbol, action, shares = wanted
        raise Invalid({"related_trade_id": [f"must be {action} {shares.normalize():f} {symbol} in {account_id}"]})
    _free(conn, "related_trade_id", exec_id)


def _free(conn: Connection, name: str, exec_id: str) -> None:
    taken = trades.action_of(conn, exec_id)
    if taken is not None:
        raise Conflict("duplicate_corporate_action", f'{name} "{exec_id}" belongs to corporate action {taken} already.')


def _close(conn: Connection, event: OptionEnd, held: _Held, exec_id: str, actor: str) -> str:
    draft = trades.Draft(
        exec_id=exec_id,
        time=event.effective_at,
        instrument=event.what.symbol,
        what=event.what,
        action="SLD" if held.direction == "BOT" else "BOT",
        quantity=held.quantity,
        price=Decimal(0),
        account_id=event.account_id,
        multiplier=held.multiplier,
        notes=f"Closed by {event.kind}.",
        source=_source(event, held),
        currency=held.currency,
    )
    trades.insert(conn, draft, actor=actor, auto_create=False)
    return exec_id


def _deliver(conn: Connection, event: OptionEnd, contract: Contract, held: _Held, exec_id: str, actor: str) -> str:
    draft = trades.Draft(
        exec_id=exec_id,
        time=event.effective_at,
        instrument=contract.underlying,
        what=parse_instrument(contract.underlying),
        action=_side(contract, held),
        quantity=held.quantity * held.multiplier,
        price=contract.strike,
        account_id=event.account_id,
        commission=event.commission,
        notes=f"Delivered by {event.kind} of {contract.symbol}.",
        source=_source(event, held),
        currency=held.currency,
    )
    trades.insert(conn, draft, actor=actor, auto_create=False)
    return exec_id


def _side(contract: Contract, held: _Held) -> str:
    """A call exercised or a put assigned buys the shares; the others sell them."""
    return "BOT" if (contract.right == "C") == (held.direction == "BOT") else "SLD"


def _word(direction: str) -> str:
    return "bought" if direction == "BOT" else "written"


def _source(event: OptionEnd, held: _Held) -> str:
    return "demo" if held.source == "demo" else event.kind


def _insert(conn: Connection, what: Instrument, row: Mapping[str, Any], actor: str) -> int:
    values = {**row, "symbol": what.symbol, "underlying": what.underlying, "created_at": datetime.now(UTC)}
    added: int = conn.execute(corporate_actions.insert().values(**values).returning(_actions.id)).scalar_one()
    _forget_lots(conn, what.underlying)
    audit.record(conn, actor, "corporate_action.create", "corporate_action", str(added), kind=row["kind"])
    return added


def _forget_lots(conn: Connection, underlying: str) -> None:
    """The tax lots of an underlying do not know of this yet."""
    conn.execute(tax_stale.delete().where(tax_stale.c.underlying == underlying))
    conn.execute(tax_stale.insert().values(underlying=underlying))


def _view(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {name: row[name] for name in _SHOWN}
