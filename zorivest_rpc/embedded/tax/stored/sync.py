"""Tax lots and wash sales in the database, brought in step with the trades when a tax question comes.

Rule 1: lots are worked out per underlying over all accounts, because a wash sale looks across accounts and options.
Rule 2: trades later than everything the lots have seen are added to them; a trade from the past, a changed or deleted
one, a corporate action, or other rules (accounts, methods, elections) make the lots of that underlying anew."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import orjson
from sqlalchemy import Connection, Subquery, and_, exists, func, or_, select

from ...database.schema.books import tax_lots, tax_pending, tax_stale, tax_state, tax_wash_matches
from ...database.schema.journal import accounts, trades
from ...values.kinds import AssetClass, Side
from ..book import LotBook
from ..dates import trade_date
from ..lot import Lot
from ..model import AccountTraits, CostBasisMethod, TaxFill, WashPolicy
from ..wash import WINDOW
from . import events as tax_events
from .money import Translation, has_foreign
from .profiles import Profiles
from .reading import CLOSED, OPEN, parts
from .writing import Making, Writing

__all__ = ["LotRules", "is_due", "is_empty", "rules_of", "sync"]

_lots = tax_lots.c
_pending = tax_pending.c
_trades = trades.c
_CANNOT = {
    CostBasisMethod.SPEC_ID: "Sales in the journal do not say which lots they identify, so the oldest were used "
    "(Reg. §1.1012-1(c)(1)); simulate a sale with lot_ids to see another choice.",
    CostBasisMethod.AVG_COST: "Average cost was used for everything that was sold; it is allowed for fund shares and "
    "reinvested dividends only (Reg. §1.1012-1(e)).",
}
_SIDES = {side.value: side for side in Side}
_ASSET_CLASSES = {kind.value: kind for kind in AssetClass}


class LotRules(NamedTuple):
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

    @property
    def warnings(self) -> list[str]:
        """What the chosen methods cannot mean for sales that the journal has."""
        chosen = {self.method, *self.methods.values()}
        return [text for method, text in _CANNOT.items() if method in chosen]

    def book(self) -> LotBook:
        return LotBook(accounts=self.accounts, policy=self.policy, method=self.method)

    def reader(self, translation: Translation) -> tax_events.Reader:
        """What makes of a row of `trades` a fill in dollars, or nothing where its position is kept apart."""

        def read(row: Sequence[Any]) -> TaxFill | None:
            if translation.is_apart(row[2], row[-1], row[-2]):
                return None
            return self.execution(row, translation)

        return read

    def execution(self, row: Sequence[Any], translation: Translation) -> TaxFill:
        """A row of `trades` as the lots see it, its values in the order of `tax_events.COLUMNS`."""
        exec_id, time, account, symbol, action, quantity, price, commission, fees, multiplier, kind, order_id = row[:12]
        currency = row[12]
        return TaxFill(
            exec_id=exec_id,
            time=time,
            account_id=account,
            symbol=symbol,
            side=_SIDES[action],
            quantity=quantity,
            price=translation.dollars(exec_id, price),
            commission=translation.dollars(exec_id, commission + fees),
            multiplier=multiplier,
            asset_class=_ASSET_CLASSES.get(kind, AssetClass.EQUITY),
            order_id=order_id,
            method=self.methods.get(trade_date(time).year) if self.methods else None,
            currency=currency,
        )


def rules_of(conn: Connection, profiles: Profiles) -> LotRules:
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
    return LotRules(
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


def is_due(conn: Connection, rules: LotRules) -> bool:
    """Whether the lots have something to catch up with; costs three looks at first rows."""
    waiting = conn.execute(
        select(or_(exists(select(tax_pending.c.exec_id)), exists(select(tax_stale.c.underlying))))
    ).scalar()
    return bool(waiting) or (_read_rules(conn) != rules.digest and not is_empty(conn))


def sync(conn: Connection, rules: LotRules, now: datetime) -> None:
    """Bring the lots in step with the trades and the rules."""
    stale = set(conn.execute(select(tax_stale.c.underlying)).scalars())
    if _read_rules(conn) != rules.digest:
        stale |= _underlyings(conn)
    pending = set(conn.execute(select(tax_pending.c.underlying).distinct()).scalars())
    for part in parts(sorted(pending)):
        stale |= has_foreign(conn, part)  # a fill without a rate keeps a position apart that had lots until now
    is_first = conn.execute(select(_lots.lot_id).limit(1)).first() is None
    if is_first:
        stale |= pending
    stale.update(_advance(conn, rules, pending - stale, Writing(conn, now)))
    _rebuild(conn, rules, stale, Writing(conn, now, is_first=is_first))
    conn.execute(tax_pending.delete())
    conn.execute(tax_stale.delete())
    conn.execute(tax_state.delete())
    conn.execute(tax_state.insert().values(id=1, rules=rules.digest, synced_at=now))


def _read_rules(conn: Connection) -> str | None:
    return conn.execute(select(tax_state.c.rules)).scalar()


def _underlyings(conn: Connection) -> set[str]:
    traded, held = (select(column).distinct() for column in (_trades.underlying, _lots.underlying))
    return {*conn.execute(traded).scalars(), *conn.execute(held).scalars()}


def _rebuild(conn: Connection, rules: LotRules, groups: Collection[str], writing: Writing) -> None:
    """Make the lots of underlyings from their whole history."""
    for portion in tax_events.portions(tax_events.sizes(conn, groups)):
        conn.execute(tax_wash_matches.delete().where(tax_wash_matches.c.underlying.in_(portion)))
        made: list[Making] = []
        read = rules.reader(Translation(conn, portion))
        for group, events in tax_events.histories(conn, read, portion, tax_events.Actions(conn, portion)):
            made.append(Making(group, rules.book()))
            writing.follow(made[-1], events)
        writing.flush()
        writing.abandon(made)


def _advance(conn: Connection, rules: LotRules, groups: Collection[str], writing: Writing) -> list[str]:
    """Add the pending trades of underlyings to their lots; those that need their whole history are returned."""
    refused: list[str] = []
    for portion in tax_events.portions(_waiting(conn, groups)):
        firsts = _firsts(conn, portion)
        overtaken = _find_overtaken(conn, firsts, portion)
        actions = tax_events.Actions(conn, portion)
        fit = {
            group: first
            for group, first in firsts.items()
            if group not in overtaken and all(split.time < first[0] for split in actions.splits(group))
        }
        refused += [group for group in firsts if group not in fit]
        if not fit:
            continue
        known = _read_lots(conn, fit)
        made: list[Making] = []
        read = rules.reader(Translation(conn, list(fit)))
        for group, events in tax_events.histories(conn, read, list(fit), actions, fit):
            book, lots = rules.book(), known.pop(group, [])
            book.restore(lots, actions.splits(group))
            made.append(Making(group, book, frozenset(lot.lot_id for lot in lots)))
            writing.follow(made[-1], events)
        writing.flush()
        refused += [making.group for making in made if making.is_taken]
    return refused


def _waiting(conn: Connection, groups: Collection[str]) -> dict[str, int]:
    """How much there is to read of each underlying: its pending trades and its open lots."""
    found = dict.fromkeys(groups, 0)
    for part in parts(found):
        pending = select(_pending.underlying, func.count()).where(_pending.underlying.in_(part))
        held = select(_lots.underlying, func.count()).where(_lots.underlying.in_(part), OPEN)
        for query in (pending.group_by(_pending.underlying), held.group_by(_lots.underlying)):
            for group, count in conn.execute(query):
                found[group] += count
    return found


def _rank_pending(portion: Sequence[str]) -> Subquery:
    """The pending trades of underlyings, each with its place among those of its own."""
    place = func.row_number().over(partition_by=_pending.underlying, order_by=(_trades.time, _trades.exec_id))
    return (
        select(_pending.underlying, _trades.time, _trades.exec_id, place.label("place"))
        .join(trades, _trades.exec_id == _pending.exec_id)
        .where(_pending.underlying.in_(portion))
        .subquery("ranked")
    )


def _firsts(conn: Connection, portion: Sequence[str]) -> dict[str, tax_events.Place]:
    """The first pending trade of each underlying that has one, in the order of the underlyings."""
    ranked = _rank_pending(portion).c
    query = select(ranked.underlying, ranked.time, ranked.exec_id).where(ranked.place == 1)
    found = {row.underlying: (row.time, row.exec_id) for row in conn.execute(query)}
    return {group: found[group] for group in portion if group in found}


def _find_overtaken(conn: Connection, firsts: Mapping[str, tax_events.Place], portion: Sequence[str]) -> set[str]:
    """Underlyings whose lots have already seen a trade that comes after a pending one."""
    first = _rank_pending(portion).c
    later = and_(_trades.time >= first.time, or_(_trades.time > first.time, _trades.exec_id > first.exec_id))
    seen = ~exists().where(_pending.exec_id == _trades.exec_id)
    overtaken = select(_trades.underlying).where(first.place == 1, _trades.underlying == first.underlying, later, seen)
    return firsts.keys() & conn.execute(overtaken.distinct()).scalars()


def _read_lots(conn: Connection, firsts: Mapping[str, tax_events.Place]) -> dict[str, list[Lot]]:
    """The stored lots that trades from a place on can change: open ones, and those closed within a window before."""
    since = {group: trade_date(time) - WINDOW - timedelta(days=1) for group, (time, _) in firsts.items()}
    of_these = select(_lots.underlying, _lots.close_date, _lots.lot).where(_lots.underlying.in_(list(since)))
    found: dict[str, list[Lot]] = {}
    for query in (of_these.where(OPEN), of_these.where(CLOSED, _lots.close_date >= min(since.values()))):
        for group, closed, lot in conn.execute(query):
            if closed is None or closed >= since[group]:
                found.setdefault(group, []).append(msgspec.json.decode(lot, type=Lot))
    return found
