"""Round trips in the database, kept in step with the trades they are made of.

Every function here runs inside the transaction that changes the trades, so no reader sees one without the other. An
execution later than everything in its position continues the open episode and reads only the lots it closes; one that
lands in the past, or is changed or removed, drops the episodes from there on and matches them again. So does one that
happened before a known share split, and a split itself.

Rows are ordered by (time, exec_id) in SQL as `Execution.key` orders them in Python; both compare code points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, literal_column, or_, select

from ..analytics.positions import Episode, Execution, Fill, OpenPart, SplitRatio
from ..analytics.round_trips import Change, Matching, ReplayPoint, advance, replay, resume_point, round_trip
from ..database.columns import money
from ..database.schema.journal import corporate_actions, excursion_metrics, round_trip_legs, round_trips, trades
from ..values.money import ZERO
from ..values.symbols import parse_contract

__all__ = [
    "EXECUTION",
    "Execution",
    "add",
    "add_many",
    "change",
    "episode_of",
    "execution_of",
    "remove",
    "split",
]

Position = tuple[str, str, str]
"""Account, symbol and currency."""

_AT_ONCE = 2000
_legs = round_trip_legs
_NEXT_LOTS = (
    select(_legs)
    .where(_legs.c.round_trip_id == bindparam("id"), _legs.c.open_quantity > literal_column("0"))  # as its index says
    .order_by(_legs.c.time, _legs.c.exec_id)
)
_LATEST = (
    select(round_trips)
    .where(
        round_trips.c.account_id == bindparam("account"),
        round_trips.c.instrument == bindparam("symbol"),
        round_trips.c.currency == bindparam("money"),
    )
    .order_by(
        round_trips.c.last_at.desc(),
        round_trips.c.last_by.desc(),
        round_trips.c.opened_at.desc(),
        round_trips.c.opened_by.desc(),
    )
    .limit(1)
)
_actions = corporate_actions.c
_SPLITS = (
    select(_actions.effective_at, _actions.numerator, _actions.denominator)
    .where(
        _actions.symbol == bindparam("symbol"),
        _actions.kind == literal_column("'split'"),
        or_(_actions.account_id.is_(None), _actions.account_id == bindparam("account")),
    )
    .order_by(_actions.effective_at)
)
_ADVANCE = round_trips.update().where(round_trips.c.id == bindparam("trip"))
_FORGET = excursion_metrics.delete().where(excursion_metrics.c.round_trip_id == bindparam("trip"))
_USE_LOT = (
    _legs.update()
    .where(_legs.c.round_trip_id == bindparam("trip"), _legs.c.exec_id == bindparam("entry"))
    .values(open_quantity=bindparam("quantity_left"), open_fee=bindparam("fee_left"))
)
_ADD_TRIPS, _ADD_LEGS = round_trips.insert(), _legs.insert()
EXECUTION = (
    "exec_id", "account_id", "symbol", "time", "action", "quantity", "price", "multiplier", "commission", "fees",
    "nbbo_bid", "nbbo_ask", "currency",
)  # fmt: skip
"""The columns of `trades` that the matching reads."""


def execution_of(row: Mapping[Any, Any]) -> Execution:
    """A row of `trades` as the matching sees it."""
    return Execution(
        row["exec_id"],
        row["account_id"],
        row["symbol"],
        row["time"],
        1 if row["action"] == "BOT" else -1,
        row["quantity"],
        row["price"],
        row["multiplier"],
        row["commission"] + row["fees"],
        _slip(row),
        row["currency"],
    )


def _slip(row: Mapping[Any, Any]) -> Decimal | None:
    """How much worse than the quote of its moment a unit was; None without a quote, or with an empty or crossed one."""
    bid, ask, price = row["nbbo_bid"], row["nbbo_ask"], row["price"]
    if bid is None or ask is None or not 0 < bid <= ask or not price:
        return None
    slip: Decimal = price - ask if row["action"] == "BOT" else bid - price
    return slip


def episode_of(row: Mapping[Any, Any]) -> Episode:
    """A row of `round_trips` as the matching sees it."""
    return Episode(
        id=row["id"],
        account_id=row["account_id"],
        symbol=row["instrument"],
        direction=1 if row["direction"] == "BOT" else -1,
        multiplier=row["multiplier"],
        opened_at=row["opened_at"],
        opened_by=row["opened_by"],
        opened_skip=row["opened_skip"],
        last_at=row["last_at"],
        last_by=row["last_by"],
        entry_quantity=row["total_quantity"],
        entry_value=row["entry_value"],
        exit_quantity=row["exit_quantity"],
        exit_value=row["exit_value"],
        gross=row["gross"],
        matched_fees=row["matched_fees"],
        fees=row["total_commission"],
        slippage=row["slippage"],
        currency=row["currency"],
    )


def add(conn: Connection, execution: Execution) -> None:
    """One more trade was inserted."""
    account, symbol = execution.account_id, execution.symbol
    position = _position(execution)
    latest = _latest(conn, *position)
    if latest is not None and latest.last_key >= execution.key:
        point = _point(conn, execution)
        assert point is not None  # the latest episode is not before it
        _replay(conn, position, point)
        return
    current = latest if latest is not None and latest.open_quantity else None
    if _is_split_after(_splits(conn, account, symbol), execution):
        _replay(conn, position, ReplayPoint(execution.key) if current is None else _beginning(current))
        return
    change = advance(current, _lots(conn, current), execution)
    _apply(conn, current, change, execution)


def add_many(conn: Connection, executions: Iterable[Execution]) -> None:
    """Trades were inserted, all of them before this is called; a position is matched again at most once."""
    positions: dict[Position, list[Execution]] = {}
    for execution in sorted(executions, key=lambda item: item.key):
        positions.setdefault(_position(execution), []).append(execution)
    waiting = _Waiting(conn)
    for (account, symbol, currency), new in positions.items():
        latest = _latest(conn, account, symbol, currency)
        splits = _splits(conn, account, symbol)
        if latest is None:
            waiting.add(replay(new, splits=splits), {item.exec_id: item for item in new})
        elif latest.last_key >= new[0].key or _is_split_after(splits, new[0]):
            add(conn, new[0])  # replays from there on, and with it all that came after
        else:
            for execution in new:
                add(conn, execution)
    waiting.write()


def remove(conn: Connection, execution: Execution) -> None:
    """A trade is about to be deleted; call before its row goes, so that no leg refers to nothing."""
    point = _point(conn, execution)
    if point is not None:
        _replay(conn, _position(execution), point, without=execution.exec_id)


def change(conn: Connection, before: Execution, after: Execution) -> None:
    """A trade was rewritten under its own id; call after its row changed."""
    if before == after:
        return
    if _position(before) != _position(after):
        remove(conn, before)
        add(conn, after)
        return
    earlier = min(before, after, key=lambda item: item.key)
    point = _point(conn, earlier)
    assert point is not None  # the execution itself is in one of them
    _replay(conn, _position(after), point)


def split(conn: Connection, account_id: str | None, symbol: str, effective: datetime) -> list[str]:
    """A split came or went; call after its row did. The accounts whose positions were open then and count anew."""
    trips = round_trips.c
    spanning = (
        select(round_trips)
        .where(trips.instrument == symbol, trips.opened_at < effective)
        .where(or_(trips.status != "closed", trips.last_at >= effective))
        .order_by(trips.account_id)
    )
    if account_id is not None:
        spanning = spanning.where(trips.account_id == account_id)
    touched = [episode_of(row) for row in conn.execute(spanning).mappings().all()]
    for episode in touched:
        _replay(conn, (episode.account_id, symbol, episode.currency), _beginning(episode))
    return list(dict.fromkeys(episode.account_id for episode in touched))


def _position(execution: Execution) -> Position:
    return execution.account_id, execution.symbol, execution.currency


def _latest(conn: Connection, account: str, symbol: str, currency: str) -> Episode | None:
    row = conn.execute(_LATEST, {"account": account, "symbol": symbol, "money": currency}).mappings().first()
    return None if row is None else episode_of(row)


def _splits(conn: Connection, account: str, symbol: str) -> list[SplitRatio]:
    return [SplitRatio(*row) for row in conn.execute(_SPLITS, {"account": account, "symbol": symbol})]


def _is_split_after(splits: Iterable[SplitRatio], execution: Execution) -> bool:
    return any(execution.time < known.effective for known in splits)


def _beginning(episode: Episode) -> ReplayPoint:
    return ReplayPoint(episode.opened_key, episode.opened_skip)


def _lots(conn: Connection, episode: Episode | None) -> Iterator[OpenPart]:
    """The open lots, oldest first, fetched as they are asked for."""
    if episode is None:
        return
    with conn.execute(_NEXT_LOTS, {"id": episode.id}) as found:
        for row in found.mappings():
            price = row["price"] if row["lot_price"] is None else row["lot_price"]
            yield OpenPart(row["exec_id"], row["time"], row["open_quantity"], price, row["multiplier"], row["open_fee"])


def _point(conn: Connection, execution: Execution) -> ReplayPoint | None:
    """Where the position of an execution must be matched again from."""
    trips = round_trips.c
    row = (
        conn.execute(
            select(round_trips)
            .where(
                trips.account_id == execution.account_id,
                trips.instrument == execution.symbol,
                trips.currency == execution.currency,
                _from(trips.last_at, trips.last_by, execution.key),
            )
            .order_by(trips.last_at, trips.last_by, trips.opened_at, trips.opened_by)
            .limit(1)
        )
        .mappings()
        .first()
    )
    return None if row is None else resume_point([episode_of(row)], execution.key)


def _from(moment: ColumnElement[Any], name: ColumnElement[Any], key: tuple[datetime, str]) -> ColumnElement[bool]:
    """At or after a place in history; the first condition alone lets an index be used."""
    return and_(moment >= key[0], or_(moment > key[0], name >= key[1]))


def _replay(conn: Connection, position: Position, point: ReplayPoint, without: str | None = None) -> None:
    trips = round_trips.c
    account, symbol, currency = position
    conn.execute(
        round_trips.delete().where(
            trips.account_id == account,
            trips.instrument == symbol,
            trips.currency == currency,
            _from(trips.opened_at, trips.opened_by, point.key),
        )
    )
    rows = conn.execute(
        select(*(trades.c[name] for name in EXECUTION))
        .where(
            trades.c.account_id == account,
            trades.c.symbol == symbol,
            trades.c.currency == currency,
            _from(trades.c.time, trades.c.exec_id, point.key),
        )
        .order_by(trades.c.time, trades.c.exec_id)
    ).mappings()
    executions = [execution_of(row) for row in rows if row["exec_id"] != without]
    skips = bool(executions) and executions[0].key == point.key
    matching = replay(executions, point.skip if skips else ZERO, _splits(conn, account, symbol))
    _insert(conn, matching, {item.exec_id: item for item in executions})


def _insert(conn: Connection, matching: Matching, executions: Mapping[str, Execution]) -> None:
    waiting = _Waiting(conn)
    waiting.add(matching, executions)
    waiting.write()


class _Waiting:
    """Round trips on their way into the database in portions: one statement for many positions, and never more rows
    made ready at once than a portion has."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._trips: list[dict[str, Any]] = []
        self._legs: list[dict[str, Any]] = []

    def add(self, matching: Matching, executions: Mapping[str, Execution]) -> None:
        open_lots = {(trip, lot.exec_id): lot for trip, lots in matching.lots.items() for lot in lots}
        for episode in matching.episodes:
            self._trips.append(_row(episode))
            if len(self._trips) >= _AT_ONCE:
                self.write()
        for fill in matching.fills:
            lot = open_lots.get((fill.round_trip_id, fill.exec_id))
            self._legs.append(_leg(fill, executions[fill.exec_id].multiplier, lot))
            if len(self._legs) >= _AT_ONCE:
                self.write()

    def write(self) -> None:
        """What waits; trips come before their legs."""
        for statement, rows in ((_ADD_TRIPS, self._trips), (_ADD_LEGS, self._legs)):
            if rows:
                self._conn.execute(statement, rows)
                rows.clear()


def _apply(conn: Connection, current: Episode | None, change: Change, execution: Execution) -> None:
    """What `advance` says, as rows."""
    for episode in change.episodes:
        row = _row(episode)
        if current is not None and episode.id == current.id:
            conn.execute(_FORGET, {"trip": episode.id})
            conn.execute(_ADVANCE, {"trip": episode.id, **row})
        else:
            conn.execute(_ADD_TRIPS, row)
    if current is not None and change.used:
        conn.execute(
            _USE_LOT,
            [
                {"trip": current.id, "entry": use.exec_id, "quantity_left": use.quantity_left, "fee_left": use.fee_left}
                for use in change.used
            ],
        )
    conn.execute(
        _ADD_LEGS,
        [_leg(fill, execution.multiplier, change.added if fill.role == "entry" else None) for fill in change.fills],
    )


def _leg(fill: Fill, multiplier: Decimal, lot: OpenPart | None) -> dict[str, Any]:
    return {
        "round_trip_id": fill.round_trip_id,
        "exec_id": fill.exec_id,
        "role": fill.role,
        "time": fill.time,
        "price": fill.price,
        "multiplier": multiplier,
        "quantity": fill.quantity,
        "fee": fill.fee,
        "realized": money(fill.realized),
        "open_quantity": ZERO if lot is None else lot.quantity,
        "open_fee": ZERO if lot is None else lot.fee,
        "lot_price": None if lot is None or lot.price == fill.price else lot.price,
    }


def _row(episode: Episode) -> dict[str, Any]:
    view = round_trip(episode, (), ())
    contract = parse_contract(episode.symbol)
    return {
        "id": episode.id,
        "account_id": episode.account_id,
        "instrument": episode.symbol,
        "direction": view.direction,
        "multiplier": episode.multiplier,
        "entry_avg_price": view.entry_avg_price,
        "exit_avg_price": view.exit_avg_price,
        "total_quantity": episode.entry_quantity,
        "exit_quantity": episode.exit_quantity,
        "open_quantity": episode.open_quantity,
        "realized_pnl": None if view.status == "open" else money(episode.realized),
        "matched_fees": episode.matched_fees,
        "total_commission": episode.fees,
        "opened_at": episode.opened_at,
        "opened_by": episode.opened_by,
        "opened_skip": episode.opened_skip,
        "last_at": episode.last_at,
        "last_by": episode.last_by,
        "closed_at": view.closed_at,
        "status": view.status,
        "holding_period_seconds": view.holding_period_seconds,
        "expires_on": None if contract is None else contract.expiry,
        "entry_value": episode.entry_value,
        "exit_value": episode.exit_value,
        "gross": episode.gross,
        "slippage": episode.slippage,
        "currency": episode.currency,
    }
