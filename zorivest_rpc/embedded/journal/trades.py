"""The trades of the journal: recording, finding, changing and deleting executions.

Two guards against the same fill twice. An equal `exec_id` is always refused. An equal fingerprint (what, which way, how
much, at what price, where, in which second) is refused only for ids that an importer made up; two fills of a broker can
be equal in all of that, so a caller's own id is taken and the likeness is told."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, or_, select
from sqlalchemy.exc import StatementError

from ..database import audit
from ..database.columns import money
from ..database.schema.journal import (
    accounts,
    corporate_actions,
    entity_links,
    images,
    journal_entries,
    mistake_entries,
    round_trip_legs,
    trade_reports,
    trades,
    transaction_ledger,
)
from ..errors import Conflict, Invalid, NotFound
from ..values.currencies import currency_of, fixed_currency
from ..values.inputs import Page
from ..values.money import cents
from ..values.period import Period
from ..values.symbols import Instrument
from . import accounts as account_store
from . import round_trips as round_trip_store
from .given_times import given_time

__all__ = [
    "LARGEST_VALUE",
    "SORTS",
    "Draft",
    "TradeFee",
    "action_of",
    "change",
    "delete",
    "fingerprint",
    "insert",
    "insert_many",
    "instant_of",
    "itemise",
    "list_trades",
    "place_after",
    "read_trade",
    "require",
    "touch",
]

LARGEST_VALUE = Decimal(10**12)
"""What one trade may be worth: far above any real one, far below what sums can hold."""
SORTS = ("time", "created_at", "instrument", "price")

_COLUMNS = (
    "exec_id", "time", "instrument", "symbol", "asset_class", "action", "quantity", "price", "multiplier", "account_id",
    "commission", "fees", "realized_pnl", "notes", "order_id", "broker", "nbbo_bid", "nbbo_ask", "source", "created_at",
    "sequence", "currency", "fx_rate", "fx_base",
)  # fmt: skip
_AT_ONCE = 2000  # rows that are made ready for the database before any of them goes there
_MATCHED = frozenset(
    {"time", "instrument", "action", "quantity", "price", "account_id", "commission", "fees", "currency"}
)


# Statements of the way a trade takes into the journal are built once: building one costs more than running it.
def _query() -> Select[Any]:
    """Trades as they are shown; the counts are subqueries, so a page costs what it shows."""
    pictures = select(func.count()).where(images.c.owner_type == "trade", images.c.owner_id == trades.c.exec_id)
    report = select(func.count()).where(trade_reports.c.trade_id == trades.c.exec_id)
    legs = round_trip_legs.c
    earned = select(func.sum(legs.realized)).where(legs.exec_id == trades.c.exec_id, legs.role == "exit")
    return select(
        *(trades.c[name] for name in _COLUMNS),
        pictures.scalar_subquery().label("image_count"),
        report.scalar_subquery().label("has_report"),
        earned.scalar_subquery().label("computed_pnl"),
    )


_SHOWN = _query()
_BY_ID = _SHOWN.where(trades.c.exec_id == bindparam("name"))
_BY_LOOKS = _SHOWN.where(trades.c.dedup_hash == bindparam("looks")).limit(1)
_TOUCH = (
    accounts.update()
    .where(accounts.c.account_id == bindparam("account"))
    .values(trade_version=accounts.c.trade_version + 1)
)


_AT_AN_INSTANT = select(func.max(trades.c.time)).where(
    trades.c.account_id == bindparam("account"),
    trades.c.exec_id != bindparam("name"),
    trades.c.time >= bindparam("start", type_=trades.c.time.type),
    trades.c.time < bindparam("end", type_=trades.c.time.type),
)


class TradeFee(NamedTuple):
    """One line of what a trade cost."""

    fee_type: str
    amount: Decimal
    description: str = ""
    is_estimated: bool = False


class Draft(NamedTuple):
    """A trade on its way into the journal; `multiplier` None is the instrument's own, `currency` None what the
    instrument says or else the account's. One of `currency` was worth `fx_rate` of `fx_base`, or of the account's.

    Fills of one instant are kept in the order of their `sequence`: it is added to the stored time as microseconds, so
    every reader that goes by time sees them in that order, and taken off again where the time is shown."""

    exec_id: str
    time: datetime
    instrument: str
    what: Instrument
    action: str
    quantity: Decimal
    price: Decimal
    account_id: str
    commission: Decimal = Decimal(0)
    fees: Decimal = Decimal(0)
    realized_pnl: Decimal = Decimal(0)
    notes: str = ""
    multiplier: Decimal | None = None
    order_id: str | None = None
    broker: str | None = None
    nbbo_bid: Decimal | None = None
    nbbo_ask: Decimal | None = None
    source: str = "manual"
    import_batch_id: str | None = None
    charges: tuple[TradeFee, ...] = ()
    sequence: int = 0
    currency: str | None = None
    fx_rate: Decimal | None = None
    fx_base: str | None = None


def place_after(latest: datetime | None, time: datetime) -> int:
    """The sequence of a fill at an instant whose latest fill so far is stored at `latest`."""
    return 0 if latest is None else max(0, (latest - time) // timedelta(microseconds=1) + 1)


def instant_of(time: datetime) -> tuple[datetime, datetime]:
    """From when to when fills count as those of one instant: a second, or a thousandth where the time has one."""
    return time, time + timedelta(seconds=1 if not time.microsecond else 0, milliseconds=1 if time.microsecond else 0)


def _sequence(conn: Connection, account_id: str, time: datetime, exec_id: str) -> int:
    start, end = instant_of(time)
    latest = conn.execute(_AT_AN_INSTANT, {"account": account_id, "name": exec_id, "start": start, "end": end}).scalar()
    return place_after(latest, time)


def fingerprint(symbol: str, action: str, quantity: Decimal, price: Decimal, account_id: str, time: datetime) -> str:
    """SHA-256 over what makes two executions look the same, to the second."""
    second = time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    parts = (symbol, action, _plain(quantity), _plain(price), account_id, second)
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def insert(conn: Connection, draft: Draft, *, actor: str, auto_create: bool) -> tuple[dict[str, Any], str | None]:
    """Record a trade and bring its round trips in step; the trade as shown, and the id of one that looks the same."""
    existing = conn.execute(_BY_ID, {"name": draft.exec_id}).mappings().first()
    if existing is not None:
        raise _duplicate(draft.exec_id, "exec_id", existing)
    account_store.usable(conn, draft.account_id, auto_create=auto_create, actor=actor)
    placed = draft._replace(sequence=_sequence(conn, draft.account_id, draft.time, draft.exec_id))
    row = _row(placed, account_store.require(conn, draft.account_id)["currency"])
    twin = conn.execute(_BY_LOOKS, {"looks": row["dedup_hash"]}).mappings().first()
    try:
        conn.execute(trades.insert(), row)
        if draft.charges:
            conn.execute(transaction_ledger.insert(), _ledger(row, draft.charges))
        round_trip_store.add(conn, round_trip_store.execution_of(row))
    except StatementError as exc:
        raise _too_large(exc) from None
    touch(conn, draft.account_id)
    audit.record(conn, actor, "trade.create", "trade", draft.exec_id)
    return read_trade(conn, draft.exec_id), None if twin is None else twin["exec_id"]


def insert_many(conn: Connection, drafts: Iterable[Draft]) -> list[tuple[Draft, Invalid]]:
    """Record trades whose ids are new, in accounts that exist, each with its place in its instant, and match each
    position once; the refused ones.

    The caller, who knows where they came from, writes one line into the audit log for all of them."""
    executions: list[round_trip_store.Execution] = []
    refused: list[tuple[Draft, Invalid]] = []
    rest = iter(drafts)
    try:
        while some := list(islice(rest, _AT_ONCE)):
            executions += _insert_some(conn, some, refused)
        round_trip_store.add_many(conn, executions)
    except StatementError as exc:
        raise _too_large(exc) from None
    for account_id in {execution.account_id for execution in executions}:
        touch(conn, account_id)
    return refused


def _insert_some(
    conn: Connection, drafts: Iterable[Draft], refused: list[tuple[Draft, Invalid]]
) -> list[round_trip_store.Execution]:
    """The rows of some trades and of what they cost; what the matching needs to know of them."""
    rows: list[dict[str, Any]] = []
    charges: list[dict[str, Any]] = []
    usual: dict[str, str] = {}
    for draft in drafts:
        if draft.account_id not in usual:
            usual[draft.account_id] = account_store.require(conn, draft.account_id)["currency"]
        try:
            rows.append(_row(draft, usual[draft.account_id]))
        except Invalid as exc:
            refused.append((draft, exc))
            continue
        charges += _ledger(rows[-1], draft.charges)
    if rows:
        conn.execute(trades.insert(), rows)
    if charges:
        conn.execute(transaction_ledger.insert(), charges)
    return [round_trip_store.execution_of(row) for row in rows]


def itemise(conn: Connection, exec_id: str, charges: Iterable[TradeFee]) -> None:
    """Keep the fees of a trade line by line; they must add up to what it has in all, and replace earlier lines."""
    row = require(conn, exec_id)
    lines = _ledger(row, charges)
    conn.execute(transaction_ledger.delete().where(transaction_ledger.c.trade_exec_id == exec_id))
    if lines:
        conn.execute(transaction_ledger.insert(), lines)
    conn.execute(trades.update().where(trades.c.exec_id == exec_id).values(is_itemised=bool(lines)))


def _ledger(row: Mapping[Any, Any], charges: Iterable[TradeFee]) -> list[dict[str, Any]]:
    of_trade = {name: row[name] for name in ("account_id", "time", "broker", "currency")}
    return [{"trade_exec_id": row["exec_id"], **of_trade, **charge._asdict()} for charge in charges]


def read_trade(conn: Connection, exec_id: str) -> dict[str, Any]:
    """One trade, or 404."""
    row = conn.execute(_BY_ID, {"name": exec_id}).mappings().first()
    if row is None:
        raise NotFound("trade", exec_id, "list_trades shows the recorded ones.")
    return _view(row)


def require(conn: Connection, exec_id: str) -> Mapping[Any, Any]:
    """The row of a trade, or 404."""
    row = conn.execute(select(trades).where(trades.c.exec_id == exec_id)).mappings().first()
    if row is None:
        raise NotFound("trade", exec_id, "list_trades shows the recorded ones.")
    return row


def list_trades(
    conn: Connection, page: Page, *, account_id: str | None, search: str | None, sort: str, period: Period
) -> dict[str, Any]:
    """A page of trades; `sort` is a column of `SORTS`, descending with a leading dash."""
    wanted: list[ColumnElement[bool]] = []
    if account_id is not None:
        wanted.append(trades.c.account_id == account_id)
    if search:
        columns = (trades.c.instrument, trades.c.symbol, trades.c.exec_id, trades.c.account_id)
        wanted.append(or_(*(column.icontains(search, autoescape=True) for column in columns)))
    if period.start is not None:
        wanted.append(trades.c.time >= period.start)
    if period.end is not None:
        wanted.append(trades.c.time < period.end)
    total = conn.execute(select(func.count()).select_from(trades).where(*wanted)).scalar_one()
    column = trades.c[sort.removeprefix("-")]
    down = sort.startswith("-")
    order = (column.desc(), trades.c.exec_id.desc()) if down else (column, trades.c.exec_id)
    rows = conn.execute(_SHOWN.where(*wanted).order_by(*order).limit(page.limit).offset(page.offset)).mappings()
    return page.envelope([_view(row) for row in rows], total)


def change(
    conn: Connection,
    exec_id: str,
    changes: Mapping[str, Any],
    what: Instrument | None,
    *,
    actor: str,
    auto_create: bool,
) -> dict[str, Any]:
    """Rewrite fields of a trade; `what` is the new instrument if that is among them."""
    before = require(conn, exec_id)
    if not changes:
        return read_trade(conn, exec_id)
    if _MATCHED & changes.keys():
        _keep(conn, exec_id)
    after: dict[str, Any] = {**before, **changes}
    if what is not None:
        after |= {"symbol": what.symbol, "underlying": what.underlying, "asset_class": what.asset_class}
        after["multiplier"] = before["multiplier"] if what.symbol == before["symbol"] else what.multiplier
    if after["account_id"] != before["account_id"]:
        account_store.usable(conn, after["account_id"], auto_create=auto_create, actor=actor)
    after |= _money_of(conn, before, after, changes)
    if "time" in changes and changes["time"] != given_time(before):
        after["sequence"] = _sequence(conn, after["account_id"], after["time"], exec_id)
        after["time"] += timedelta(microseconds=after["sequence"])
    else:
        after["time"] = before["time"]
    if after["price"] < 0 and after["asset_class"] != "FUTURE":
        raise Invalid({"price": ["must not be below zero, where only a future can trade"]})
    after["notional"] = _value(after["price"], after["quantity"], after["multiplier"])
    core = ("symbol", "action", "quantity", "price", "account_id", "time")
    after["dedup_hash"] = fingerprint(*(after[name] for name in core))
    try:
        conn.execute(trades.update().where(trades.c.exec_id == exec_id).values(**after))
        if after["commission"] != before["commission"] or after["fees"] != before["fees"]:
            itemise(conn, exec_id, ())
        elif before["is_itemised"]:
            lines = transaction_ledger.update().where(transaction_ledger.c.trade_exec_id == exec_id)
            conn.execute(lines.values({name: after[name] for name in ("account_id", "time", "currency")}))
        if _MATCHED & changes.keys() or after["currency"] != before["currency"]:
            round_trip_store.change(conn, round_trip_store.execution_of(before), round_trip_store.execution_of(after))
    except StatementError as exc:
        raise _too_large(exc) from None
    for account_id in {before["account_id"], after["account_id"]}:
        touch(conn, account_id)
    audit.record(conn, actor, "trade.update", "trade", exec_id, fields=sorted(changes))
    return read_trade(conn, exec_id)


def delete(conn: Connection, exec_id: str, actor: str) -> None:
    """A trade with everything that hangs on it: its report and the report's entry and images, then its own."""
    row = require(conn, exec_id)
    _keep(conn, exec_id)
    report = conn.execute(select(trade_reports.c.id).where(trade_reports.c.trade_id == exec_id)).scalar_one_or_none()
    if report is not None:
        delete_report(conn, report)
    conn.execute(images.delete().where(images.c.owner_type == "trade", images.c.owner_id == exec_id))
    conn.execute(mistake_entries.delete().where(mistake_entries.c.trade_id == exec_id))
    _unlink(conn, "trade", exec_id)
    round_trip_store.remove(conn, round_trip_store.execution_of(row))
    conn.execute(trades.delete().where(trades.c.exec_id == exec_id))
    touch(conn, row["account_id"])
    audit.record(conn, actor, "trade.delete", "trade", exec_id)


def action_of(conn: Connection, exec_id: str) -> int | None:
    """The corporate action that a trade is a part of."""
    actions = corporate_actions.c
    found: int | None = conn.execute(
        select(actions.id).where(or_(actions.closing_trade_id == exec_id, actions.related_trade_id == exec_id)).limit(1)
    ).scalar()
    return found


def _keep(conn: Connection, exec_id: str) -> None:
    action = action_of(conn, exec_id)
    if action is not None:
        raise Conflict(
            "trade_of_corporate_action", f'"{exec_id}" is a part of corporate action {action}; delete that first.'
        )


def delete_report(conn: Connection, report_id: int) -> None:
    """A report, its images, and the journal entry that was written with it."""
    conn.execute(images.delete().where(images.c.owner_type == "report", images.c.owner_id == str(report_id)))
    conn.execute(trade_reports.delete().where(trade_reports.c.id == report_id))
    entry = f"jrn_{report_id}"
    conn.execute(journal_entries.delete().where(journal_entries.c.entry_id == entry))
    _unlink(conn, "journal", entry)


def _unlink(conn: Connection, kind: str, name: str) -> None:
    for type_, id_ in (
        (entity_links.c.source_type, entity_links.c.source_id),
        (entity_links.c.target_type, entity_links.c.target_id),
    ):
        conn.execute(entity_links.delete().where(type_ == kind, id_ == name))


def _view(row: Mapping[Any, Any]) -> dict[str, Any]:
    earned = row["computed_pnl"]
    view = {
        **row,
        "time": given_time(row),
        "has_report": bool(row["has_report"]),
        "computed_pnl": None if earned is None else cents(earned),
    }
    del view["sequence"]
    return view


def _money_of(
    conn: Connection, before: Mapping[Any, Any], after: Mapping[str, Any], changes: Mapping[str, Any]
) -> dict[str, Any]:
    """The currency and the rate of a changed trade: an instrument may bring its own, and a rate is of one currency."""
    currency, symbol = after["currency"], after["symbol"]
    if "currency" not in changes and symbol != before["symbol"]:
        currency = currency_of(after["instrument"], after["asset_class"], symbol, currency)
    _check_currency(after["asset_class"], symbol, currency)
    if "fx_rate" in changes:
        base = account_store.require(conn, after["account_id"])["currency"]
        return {"currency": currency, "fx_rate": changes["fx_rate"], "fx_base": base}
    if currency != before["currency"]:
        return {"currency": currency, "fx_rate": None, "fx_base": None}
    return {}


def _check_currency(asset_class: str, symbol: str, currency: str) -> None:
    """Some things are paid in one currency only."""
    own = fixed_currency(asset_class, symbol)
    if own is not None and own != currency:
        raise Invalid({"currency": [f'"{currency}" is not what {symbol} is paid in: that is {own}']})


def _row(draft: Draft, usual: str) -> dict[str, Any]:
    """`usual` is the currency of the account."""
    currency = draft.currency or currency_of(draft.instrument, draft.what.asset_class, draft.what.symbol, usual)
    _check_currency(draft.what.asset_class, draft.what.symbol, currency)
    is_rated = draft.fx_rate is not None and (draft.fx_base or usual) != currency
    multiplier = draft.what.multiplier if draft.multiplier is None else draft.multiplier
    kept = (
        "exec_id", "time", "instrument", "action", "quantity", "price", "account_id", "commission", "fees",
        "realized_pnl", "notes", "order_id", "broker", "nbbo_bid", "nbbo_ask", "source", "import_batch_id",
    )  # fmt: skip
    symbol = draft.what.symbol
    if draft.price < 0 and draft.what.asset_class != "FUTURE":
        raise Invalid({"price": ["must not be below zero, where only a future can trade"]})
    return {
        **{name: getattr(draft, name) for name in kept},
        "time": draft.time + timedelta(microseconds=draft.sequence) if draft.sequence else draft.time,
        "sequence": draft.sequence,
        "symbol": symbol,
        "underlying": draft.what.underlying,
        "asset_class": draft.what.asset_class,
        "multiplier": multiplier,
        "notional": _value(draft.price, draft.quantity, multiplier),
        "dedup_hash": fingerprint(symbol, draft.action, draft.quantity, draft.price, draft.account_id, draft.time),
        "created_at": datetime.now(UTC),
        "is_itemised": bool(draft.charges),
        "currency": currency,
        "fx_rate": draft.fx_rate if is_rated else None,
        "fx_base": (draft.fx_base or usual) if is_rated else None,
    }


def _value(price: Decimal, quantity: Decimal, multiplier: Decimal) -> Decimal:
    with localcontext(prec=60):
        value = price * quantity * multiplier
    if abs(value) > LARGEST_VALUE:
        raise Invalid({"quantity": [f"quantity times price is above {LARGEST_VALUE}"]})
    return money(abs(value))  # below zero is the price, not the size


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


def touch(conn: Connection, account_id: str) -> None:
    """Mark everything derived from an account's trades as stale."""
    conn.execute(_TOUCH, {"account": account_id})


def _duplicate(exec_id: str, match: str, existing: Mapping[Any, Any]) -> Conflict:
    how = "with this exec_id" if match == "exec_id" else f'that looks the same, "{existing["exec_id"]}"'
    return Conflict(
        "duplicate_trade",
        f'"{exec_id}" was not recorded: there is a trade {how}.',
        exec_id=exec_id,
        match=match,
        existing=_view(existing),
    )


def _too_large(exc: StatementError) -> Exception:
    """A position whose totals no column holds is the caller's mistake; everything else stays what it is."""
    if isinstance(exc.orig, ValueError) and "too large" in str(exc.orig):
        return Invalid({"quantity": ["the position becomes too large to keep"]})
    return exc
