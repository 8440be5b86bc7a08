"""Tax lots and wash sales in the database, brought in step with the trades when somebody asks.

Rule 1: lots are worked out per underlying over all accounts, because a wash sale looks across accounts and options.
Rule 2: trades later than everything the lots have seen are added to them; a trade from the past, a changed or deleted
one, a corporate action, or other rules (accounts, methods, elections) make the lots of that underlying anew.
Rule 3: a lot that a person changed is never overwritten silently; the setting `tax.conflict_resolution` decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import orjson
from sqlalchemy import Connection, exists, or_, select

from . import tax_events
from .book_tables import tax_lots, tax_pending, tax_stale, tax_state, tax_wash_matches
from .columns import money
from .tables import accounts, trades
from .tax.book import Event, LotBook
from .tax.dates import trade_date
from .tax.lot import Lot
from .tax.model import AccountTraits, AssetClass, CostBasisMethod, Execution, Side, WashPolicy
from .tax.sync import ConflictStrategy, StoredLot, SyncPlan, reconcile
from .tax.wash import WINDOW, WashMatch
from .tax_profiles import Profiles
from .tax_reading import CLOSED, EDITED, OPEN, load, parts

__all__ = ["Rules", "is_due", "is_empty", "rules_of", "sync"]

_ROWS = 2_000  # lots written at a time
_IN_MEMORY = 4_000  # lots of one underlying that a book may hold before it gives away what nothing can change
_lots = tax_lots.c
_trades = trades.c
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
    pending = set(conn.execute(select(tax_pending.c.underlying).distinct()).scalars())
    total = _Counts()
    for group in sorted(stale | pending):
        if group in stale or not _advance(conn, rules, group, now, total):
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

    def merge(self, other: _Counts) -> None:
        for name, number in other.numbers.items():
            self.numbers[name] += number
        self.details += other.details

    def answer(self) -> dict[str, Any]:
        return {**self.numbers, "conflict_details": self.details}


def _made_under(conn: Connection) -> str | None:
    return conn.execute(select(tax_state.c.rules)).scalar()


def _underlyings(conn: Connection, account_id: str | None) -> set[str]:
    traded, held = select(_trades.underlying).distinct(), select(_lots.underlying).distinct()
    if account_id is not None:
        traded, held = traded.where(_trades.account_id == account_id), held.where(_lots.account_id == account_id)
    return {*conn.execute(traded).scalars(), *conn.execute(held).scalars()}


class _Taken(Exception):
    """A new lot would get the id of an older one that the book does not know."""


class _Writing:
    """Puts the lots of one underlying into the table as they become final, in portions, and counts what that changed.

    `known` are the ids of the stored lots that a book went on from; None where it has the whole history."""

    def __init__(
        self,
        conn: Connection,
        group: str,
        now: datetime,
        strategy: ConflictStrategy = ConflictStrategy.FLAG,
        known: frozenset[str] | None = None,
    ) -> None:
        self.counts = _Counts()
        self._conn = conn
        self._group = group
        self._strategy = strategy
        self._now = now
        self._known = known

    def follow(self, book: LotBook, events: Iterable[Event]) -> None:
        """Lead a book through events; only what can still change stays in memory."""
        changed: dict[str, None] = {}
        most = _IN_MEMORY
        for event in events:
            changed.update(dict.fromkeys(lot.lot_id for lot in book.advance(event).lots))
            if book.size > most:
                final = book.release(trade_date(event.time) - WINDOW)
                self._put([lot for lot in final if lot.lot_id in changed], book)
                for lot in final:
                    changed.pop(lot.lot_id, None)
                most = max(_IN_MEMORY, 2 * book.size)
        self._put([book.lot(lot_id) for lot_id in changed], book)

    def _put(self, lots: Sequence[Lot], book: LotBook) -> None:
        stored = self._stored(lot.lot_id for lot in lots)
        if self._known is not None and any(entry.lot.lot_id not in self._known for entry in stored):
            raise _Taken
        plan = reconcile(stored, lots, self._strategy)
        self.counts.add(plan)
        _mark(self._conn, plan.conflicted, "conflict")
        _drop(self._conn, {entry.lot.lot_id for entry in stored} & {lot.lot_id for lot in plan.write})
        for at in range(0, len(plan.write), _ROWS):
            rows = [_row(self._group, lot, self._now) for lot in plan.write[at : at + _ROWS]]
            self._conn.execute(tax_lots.insert(), rows)
        _add_matches(self._conn, self._group, book.matches)
        book.matches.clear()

    def _stored(self, names: Iterable[str]) -> list[StoredLot]:
        query = select(_lots.lot, _lots.is_user_modified)
        return [
            StoredLot(msgspec.json.decode(row.lot, type=Lot), row.is_user_modified)
            for part in parts(names)
            for row in self._conn.execute(query.where(_lots.lot_id.in_(part)))
        ]

    def abandon(self, book: LotBook) -> None:
        """What is stored and was not made any more: dropped, or kept with a mark where a person changed it."""
        names = self._conn.execute(select(_lots.lot_id).where(_lots.underlying == self._group)).scalars()
        left = self._stored([name for name in names if not book.has_made(name)])
        plan = reconcile(left, (), self._strategy)
        self.counts.add(plan)
        edited = {entry.lot.lot_id for entry in left if entry.is_user_modified}
        kept = set() if self._strategy is ConflictStrategy.AUTO_RESOLVE else edited
        _drop(self._conn, [name for name in plan.orphaned_ids if name not in kept])
        _mark(self._conn, kept, "orphaned")


def _advance(conn: Connection, rules: Rules, group: str, now: datetime, total: _Counts) -> bool:
    """Add the pending trades of an underlying to its lots; False where that needs its whole history."""
    waiting = select(tax_pending.c.exec_id).where(tax_pending.c.underlying == group)
    first = conn.execute(
        select(_trades.time, _trades.exec_id)
        .where(_trades.exec_id.in_(waiting))
        .order_by(_trades.time, _trades.exec_id)
        .limit(1)
    ).first()
    if first is None:
        return True
    overtaken = select(_trades.exec_id).where(
        _trades.underlying == group, tax_events.not_before((first.time, first.exec_id)), _trades.exec_id.not_in(waiting)
    )
    edited = select(_lots.lot_id).where(_lots.underlying == group, EDITED)
    if conn.execute(overtaken.limit(1)).first() or conn.execute(edited.limit(1)).first():
        return False
    splits = tax_events.splits(conn, group)
    if any(split.time >= first.time for split in splits):
        return False
    since = trade_date(first.time) - WINDOW - timedelta(days=1)
    known = load(conn, select(_lots.lot).where(_lots.underlying == group, OPEN))
    known += load(conn, select(_lots.lot).where(_lots.underlying == group, CLOSED, _lots.close_date >= since))
    book = rules.book()
    book.restore(known, splits)
    writing = _Writing(conn, group, now, known=frozenset(lot.lot_id for lot in known))
    try:
        writing.follow(book, tax_events.events(conn, rules.execution, group, (first.time, first.exec_id)))
    except _Taken:
        return False
    total.merge(writing.counts)
    return True


def _rebuild(
    conn: Connection, rules: Rules, group: str, strategy: ConflictStrategy, now: datetime, total: _Counts
) -> None:
    book = rules.book()
    conn.execute(tax_wash_matches.delete().where(tax_wash_matches.c.underlying == group))
    writing = _Writing(conn, group, now, strategy)
    writing.follow(book, tax_events.events(conn, rules.execution, group))
    writing.abandon(book)
    total.merge(writing.counts)


def _drop(conn: Connection, names: Iterable[str]) -> None:
    for part in parts(names):
        conn.execute(tax_lots.delete().where(_lots.lot_id.in_(part)))


def _mark(conn: Connection, names: Iterable[str], status: str) -> None:
    for part in parts(names):
        conn.execute(tax_lots.update().where(_lots.lot_id.in_(part)).values(sync_status=status))


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
