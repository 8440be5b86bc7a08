"""Tax lots and wash sales in the database, brought in step with the trades when somebody asks.

Rule 1: lots are worked out per underlying over all accounts, because a wash sale looks across accounts and options.
Rule 2: trades later than everything the lots have seen are added to them; a trade from the past, a changed or deleted
one, or other rules (accounts, methods, elections) make the lots of that underlying anew.
Rule 3: a lot that a person changed is never overwritten silently; the setting `tax.conflict_resolution` decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import orjson
from sqlalchemy import Connection, Select, and_, exists, or_, select

from .book_tables import tax_lots, tax_pending, tax_stale, tax_state, tax_wash_matches
from .columns import money
from .tables import accounts, trades
from .tax.book import LotBook
from .tax.dates import trade_date
from .tax.lot import Lot
from .tax.model import AccountTraits, AssetClass, CostBasisMethod, Execution, Side, WashPolicy
from .tax.sync import ConflictStrategy, StoredLot, SyncPlan, reconcile
from .tax.wash import WINDOW, WashMatch
from .tax_profiles import Profiles

__all__ = ["Rules", "closed_lots", "is_due", "is_empty", "open_lots", "rules_of", "statuses", "sync", "wash_sales"]

_AT_ONCE = 500
_lots = tax_lots.c
_trades = trades.c
_EXECUTION = (
    "exec_id", "time", "account_id", "symbol", "action", "quantity", "price", "commission", "fees", "multiplier",
    "asset_class", "order_id",
)  # fmt: skip
_ASSET_CLASSES = {kind.value: kind for kind in AssetClass}


class Rules(NamedTuple):
    """Everything besides the trades that decides the lots."""

    accounts: dict[str, AccountTraits]
    policy: WashPolicy
    method: CostBasisMethod
    methods: dict[int, CostBasisMethod]  # of the years that choose another one

    @property
    def digest(self) -> str:
        traits = {name: [one.tax_advantaged, one.spousal] for name, one in self.accounts.items()}
        content = {
            "accounts": {name: values for name, values in traits.items() if any(values)},
            "policy": msgspec.to_builtins(self.policy) | {"years": sorted(self.policy.mark_to_market_years)},
            "method": self.method.value,
            "methods": {str(year): method.value for year, method in self.methods.items()},
        }
        del content["policy"]["mark_to_market_years"]
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def book(self) -> LotBook:
        return LotBook(accounts=self.accounts, policy=self.policy, method=self.method)

    def execution(self, row: Mapping[Any, Any]) -> Execution:
        """A row of `trades` as the lots see it."""
        return Execution(
            exec_id=row["exec_id"],
            time=row["time"],
            account_id=row["account_id"],
            symbol=row["symbol"],
            side=Side(row["action"]),
            quantity=row["quantity"],
            price=row["price"],
            commission=row["commission"] + row["fees"],
            multiplier=row["multiplier"],
            asset_class=_ASSET_CLASSES.get(row["asset_class"], AssetClass.EQUITY),
            order_id=row["order_id"],
            method=self.methods.get(trade_date(row["time"]).year),
        )


def rules_of(conn: Connection, profiles: Profiles) -> Rules:
    traits = {
        row.account_id: AccountTraits(tax_advantaged=row.is_tax_advantaged, spousal=row.is_spousal)
        for row in conn.execute(select(accounts.c.account_id, accounts.c.is_tax_advantaged, accounts.c.is_spousal))
    }
    standing = profiles.standing()
    known = {year: profiles.of(year) for year in profiles.years}
    elected = {year for year, profile in known.items() if profile.section_475_elected}
    if standing.section_475_elected:
        first = conn.execute(select(_trades.time).order_by(_trades.time).limit(1)).scalar()
        earliest = profiles.current if first is None else first.year - 1
        elected |= set(range(earliest, profiles.current + 1)) - known.keys()
    policy = known[profiles.current].wash_policy
    return Rules(
        traits,
        msgspec.structs.replace(policy, mark_to_market_years=frozenset(elected)),
        standing.default_cost_basis,
        {
            year: profile.default_cost_basis
            for year, profile in sorted(known.items())
            if profile.default_cost_basis is not standing.default_cost_basis
        },
    )


def is_empty(conn: Connection) -> bool:
    """Whether there is no trade at all."""
    return conn.execute(select(_trades.exec_id).limit(1)).first() is None


def is_due(conn: Connection, rules: Rules) -> bool:
    """Whether the lots have something to catch up with; costs three looks at first rows."""
    waiting = conn.execute(
        select(or_(exists(select(tax_pending.c.exec_id)), exists(select(tax_stale.c.underlying))))
    ).scalar()
    return bool(waiting) or (_made_under(conn) != rules.digest and not is_empty(conn))


def sync(
    conn: Connection,
    rules: Rules,
    now: datetime,
    strategy: ConflictStrategy = ConflictStrategy.FLAG,
    *,
    account_id: str | None = None,
    everything: bool = False,
) -> dict[str, Any]:
    """Bring the lots in step and say what changed; `everything` makes those of all (or one account's) trades anew."""
    stale = set(conn.execute(select(tax_stale.c.underlying)).scalars())
    if everything or _made_under(conn) != rules.digest:
        limited = everything and account_id is not None and _made_under(conn) == rules.digest
        stale |= _underlyings(conn, account_id if limited else None)
    pending: dict[str, list[str]] = {}
    for exec_id, group in conn.execute(select(tax_pending.c.exec_id, tax_pending.c.underlying)):
        pending.setdefault(group, []).append(exec_id)
    total = _Counts()
    for group in sorted(stale | pending.keys()):
        if group in stale or not _advance(conn, rules, group, pending[group], now, total):
            _rebuild(conn, rules, group, strategy, now, total)
    conn.execute(tax_pending.delete())
    conn.execute(tax_stale.delete())
    conn.execute(tax_state.delete())
    conn.execute(tax_state.insert().values(id=1, rules=rules.digest, synced_at=now))
    return total.answer()


class _Counts:
    """What a sync did, added up over underlyings."""

    def __init__(self) -> None:
        self.numbers = dict.fromkeys(("created", "updated", "skipped", "conflicts", "orphaned", "closed"), 0)
        self.details: list[dict[str, Any]] = []

    def add(self, plan: SyncPlan) -> None:
        for name in self.numbers:
            self.numbers[name] += getattr(plan, name)
        self.details += [msgspec.structs.asdict(detail) for detail in plan.conflict_details]

    def answer(self) -> dict[str, Any]:
        return {**self.numbers, "conflict_details": self.details}


def _made_under(conn: Connection) -> str | None:
    return conn.execute(select(tax_state.c.rules)).scalar()


def _underlyings(conn: Connection, account_id: str | None) -> set[str]:
    traded, held = select(_trades.underlying).distinct(), select(_lots.underlying).distinct()
    if account_id is not None:
        traded, held = traded.where(_trades.account_id == account_id), held.where(_lots.account_id == account_id)
    return {*conn.execute(traded).scalars(), *conn.execute(held).scalars()}


def _advance(conn: Connection, rules: Rules, group: str, new: Sequence[str], now: datetime, total: _Counts) -> bool:
    """Add new trades to the lots of an underlying; False where that needs its whole history."""
    events = sorted(_events(conn, rules, group, new), key=lambda event: (event.time, event.exec_id))
    if not events:
        return True
    first = events[0]
    earlier = tax_pending.select().where(tax_pending.c.exec_id == _trades.exec_id)
    overtaken = select(_trades.exec_id).where(
        _trades.underlying == group,
        _trades.time >= first.time,
        or_(_trades.time > first.time, _trades.exec_id > first.exec_id),
        ~exists(earlier),
    )
    edited = select(_lots.lot_id).where(_lots.underlying == group, _lots.is_user_modified.is_(True))
    if conn.execute(overtaken.limit(1)).first() or conn.execute(edited.limit(1)).first():
        return False
    since = trade_date(first.time) - WINDOW - timedelta(days=1)
    known = {
        lot.lot_id: lot
        for lot in _load(
            conn,
            select(_lots.lot).where(
                _lots.underlying == group,
                or_(_lots.is_closed.is_(False), and_(_lots.is_closed.is_(True), _lots.close_date >= since)),
            ),
        )
    }
    book = rules.book()
    book.restore(known.values())
    changed: dict[str, Lot] = {}
    for event in events:
        changed.update((lot.lot_id, lot) for lot in book.advance(event).lots)
    if _taken(conn, changed.keys() - known.keys()):
        return False  # an id that an older, closed lot has already
    total.add(reconcile([StoredLot(known[name]) for name in changed if name in known], changed.values()))
    _write(conn, group, changed.values(), now)
    _add_matches(conn, group, book.matches)
    return True


def _rebuild(
    conn: Connection, rules: Rules, group: str, strategy: ConflictStrategy, now: datetime, total: _Counts
) -> None:
    book = rules.book()
    for event in _events(conn, rules, group):
        book.advance(event)
    rows = conn.execute(select(_lots.lot, _lots.is_user_modified).where(_lots.underlying == group))
    stored = [StoredLot(msgspec.json.decode(row.lot, type=Lot), row.is_user_modified) for row in rows]
    plan = reconcile(stored, book.lots, strategy)
    edited = {entry.lot.lot_id for entry in stored if entry.is_user_modified}
    kept = set() if strategy is ConflictStrategy.AUTO_RESOLVE else edited
    _drop(conn, [lot_id for lot_id in plan.orphaned_ids if lot_id not in kept])
    _mark(conn, [lot_id for lot_id in plan.orphaned_ids if lot_id in kept], "orphaned")
    _mark(conn, plan.conflicted, "conflict")
    _write(conn, group, plan.write, now)
    conn.execute(tax_wash_matches.delete().where(tax_wash_matches.c.underlying == group))
    _add_matches(conn, group, book.matches)
    total.add(plan)


def _events(conn: Connection, rules: Rules, group: str, only: Sequence[str] | None = None) -> Iterable[Execution]:
    query = select(*(_trades[name] for name in _EXECUTION)).where(_trades.underlying == group)
    if only is None:
        for row in conn.execute(query.order_by(_trades.time, _trades.exec_id)).mappings():
            yield rules.execution(row)
        return
    for part in _parts(only):
        for row in conn.execute(query.where(_trades.exec_id.in_(part))).mappings():
            yield rules.execution(row)


def _parts(names: Iterable[str]) -> Iterable[list[str]]:
    known = list(names)
    return (known[at : at + _AT_ONCE] for at in range(0, len(known), _AT_ONCE))


def _taken(conn: Connection, names: Iterable[str]) -> bool:
    return any(
        conn.execute(select(_lots.lot_id).where(_lots.lot_id.in_(part)).limit(1)).first() for part in _parts(names)
    )


def _drop(conn: Connection, names: Iterable[str]) -> None:
    for part in _parts(names):
        conn.execute(tax_lots.delete().where(_lots.lot_id.in_(part)))


def _mark(conn: Connection, names: Iterable[str], status: str) -> None:
    for part in _parts(names):
        conn.execute(tax_lots.update().where(_lots.lot_id.in_(part)).values(sync_status=status))


def _write(conn: Connection, group: str, lots: Iterable[Lot], now: datetime) -> None:
    rows = [_row(group, lot, now) for lot in lots]
    _drop(conn, [row["lot_id"] for row in rows])
    if rows:
        conn.execute(tax_lots.insert(), rows)


def _row(group: str, lot: Lot, now: datetime) -> dict[str, Any]:
    return {
        "lot_id": lot.lot_id,
        "account_id": lot.account_id,
        "underlying": group,
        "ticker": lot.ticker,
        "direction": lot.direction.value,
        "open_date": lot.open_date,
        "close_date": lot.close_date,
        "is_closed": lot.is_closed,
        "is_chained": bool(lot.chain_ids),
        "quantity": lot.quantity,
        "cost_basis": lot.cost_basis,
        "proceeds": lot.proceeds,
        "wash_sale_adjustment": lot.wash_sale_adjustment,
        "realized_gain_loss": lot.recognized if lot.is_closed else None,
        "source_hash": lot.source_hash,
        "lot": msgspec.json.encode(lot).decode(),
        "materialized_at": now,
    }


def _add_matches(conn: Connection, group: str, matches: Sequence[WashMatch]) -> None:
    if matches:
        conn.execute(
            tax_wash_matches.insert(),
            [
                {
                    "underlying": group,
                    "chain_id": match.chain_id,
                    "loss_lot_id": match.loss_lot_id,
                    "loss_account_id": match.loss_account_id,
                    "loss_date": match.loss_date,
                    "disallowed": money(match.disallowed),
                    "match": msgspec.json.encode(match).decode(),
                }
                for match in matches
            ],
        )


def _load(conn: Connection, query: Select[Any]) -> list[Lot]:
    return [msgspec.json.decode(text, type=Lot) for text in conn.execute(query).scalars()]


def open_lots(
    conn: Connection, *, account_id: str | None = None, ticker: str | None = None, related_to: str | None = None
) -> list[Lot]:
    """Open lots; `related_to` a symbol are those of its underlying, in all their forms."""
    query = _filtered(select(_lots.lot).where(_lots.is_closed.is_(False)), account_id, ticker)
    if related_to is not None:
        query = query.where(_lots.underlying.in_(select(_lots.underlying).where(_lots.ticker == related_to)))
    return _load(conn, query)


def closed_lots(
    conn: Connection,
    *,
    start: date | None = None,
    end: date | None = None,
    account_id: str | None = None,
    ticker: str | None = None,
) -> list[Lot]:
    """Lots closed from one day to another."""
    query = select(_lots.lot).where(_lots.is_closed.is_(True))
    if start is not None:
        query = query.where(_lots.close_date >= start)
    if end is not None:
        query = query.where(_lots.close_date <= end)
    return _load(conn, _filtered(query, account_id, ticker))


def statuses(conn: Connection) -> dict[str, str]:
    """The lots that are not simply what the trades say."""
    query = select(_lots.lot_id, _lots.sync_status).where(_lots.sync_status != "synced")
    return {row.lot_id: row.sync_status for row in conn.execute(query)}


def wash_sales(
    conn: Connection, *, start: date | None = None, end: date | None = None, chained: bool = False
) -> tuple[list[WashMatch], dict[str, Lot]]:
    """Wash sales whose loss was taken in a time span and, to follow them, all their chains and every lot of those."""
    table = tax_wash_matches.c
    query = select(table.match)
    if start is not None and end is not None:
        inside = (table.loss_date >= start, table.loss_date <= end)
        query = (
            query.where(table.chain_id.in_(select(table.chain_id).where(*inside))) if chained else query.where(*inside)
        )
    matches = [msgspec.json.decode(text, type=WashMatch) for text in conn.execute(query.order_by(table.id)).scalars()]
    if not chained or not matches:
        return matches, {}
    lots = _load(conn, select(_lots.lot).where(_lots.is_chained.is_(True)))
    for part in _parts({match.loss_lot_id for match in matches}):
        lots += _load(conn, select(_lots.lot).where(_lots.lot_id.in_(part)))
    return matches, {lot.lot_id: lot for lot in lots}


def _filtered(query: Select[Any], account_id: str | None, ticker: str | None) -> Select[Any]:
    if account_id is not None:
        query = query.where(_lots.account_id == account_id)
    return query if ticker is None else query.where(_lots.ticker == ticker)
