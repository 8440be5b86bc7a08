"""Foreign money in the tax books: each fill in dollars at the rate of its own trade date, or its position kept apart.

United States tax is figured in dollars, and each leg is translated on its own day (Rev. Rul. 54-105): what was paid at
the rate of the purchase, what was received at that of the sale. A position is one account, one underlying and one
currency; a fill without a rate would leave the others without their counterpart, so the whole position stays out of
every tax figure and is told.

Futures and currency pairs change no foreign money at their price: only their gain does, on the day it is made. The
lots have no place for that, so such positions in foreign money are kept apart as well."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Context, Decimal
from typing import Any

from sqlalchemy import Connection, select

from ...database.schema.journal import trades
from ...journal.exchange import DOLLAR, HOW_TO_GIVE, RateBook, differs, own_rate
from ..dates import trade_date

__all__ = ["Translation", "has_foreign", "tell_foreign"]

Position = tuple[str, str, str]
"""Account, underlying and currency."""

_MOST_NAMED = 20
_EXACT = Context(prec=60)
_UNTRANSLATED = frozenset({"FUTURE", "FOREX"})
_trades = trades.c
_COLUMNS = (
    "exec_id", "account_id", "underlying", "symbol", "time", "currency", "fx_rate", "fx_base", "asset_class", "price",
)  # fmt: skip


class Translation:
    """The rates of the foreign fills of some underlyings, and the positions of which a fill has none."""

    def __init__(self, conn: Connection, groups: Sequence[str] | None = None) -> None:
        exchange = RateBook(conn)
        self._rates: dict[str, Decimal] = {}
        self.apart: dict[Position, list[Any]] = {}
        self.missing: set[tuple[date, str]] = set()
        self.fills: dict[Position, list[Any]] = {}
        query = select(*(_trades[name] for name in _COLUMNS)).where(differs(_trades.currency, DOLLAR))
        for row in conn.execute(query if groups is None else query.where(_trades.underlying.in_(groups))):
            position = (row.account_id, row.underlying, row.currency)
            self.fills.setdefault(position, []).append(row)
            day = trade_date(row.time)
            if row.asset_class in _UNTRANSLATED:
                self.apart.setdefault(position, []).append(row)
                continue
            rate = exchange.rate(row.currency, DOLLAR, day, own_rate(row))
            if rate is None:
                self.apart.setdefault(position, []).append(row)
                self.missing.add((day, row.currency))
            else:
                self._rates[row.exec_id] = rate

    def is_apart(self, account_id: str, underlying: str, currency: str) -> bool:
        return (account_id, underlying, currency) in self.apart

    def dollars(self, exec_id: str, amount: Decimal) -> Decimal:
        """Money of a fill that is not kept apart."""
        rate = self._rates.get(exec_id)
        return amount if rate is None else _EXACT.multiply(amount, rate)


def has_foreign(conn: Connection, groups: Sequence[str]) -> set[str]:
    """Which underlyings have a fill in foreign money."""
    query = select(_trades.underlying).where(differs(_trades.currency, DOLLAR), _trades.underlying.in_(groups))
    return set(conn.execute(query.distinct()).scalars())


def tell_foreign(conn: Connection) -> dict[str, Any]:
    """What a tax answer says about currencies."""
    told: dict[str, Any] = {"currency": DOLLAR}
    translation = Translation(conn)
    if not translation.fills:
        return told
    converted = [position for position in translation.fills if position not in translation.apart]
    if converted:
        told["converted"] = [
            {
                "kind": "positions",
                "account_id": account,
                "ticker": name,
                "currency": currency,
                "count": len(translation.fills[account, name, currency]),
            }
            for account, name, currency in sorted(converted)
        ][:_MOST_NAMED]
    if not translation.apart:
        return told
    told["unconverted"] = [
        {
            "kind": "positions",
            "account_id": account,
            "ticker": name,
            "currency": currency,
            "count": len(rows),
            "reason": "no_rate" if any(row.asset_class not in _UNTRANSLATED for row in rows) else "not_translated",
        }
        for (account, name, currency), rows in sorted(translation.apart.items(), key=lambda item: item[0])
    ]
    missing = sorted(translation.missing)
    told["missing_rates"] = [
        {"from": currency, "to": DOLLAR, "day": day.isoformat()} for day, currency in missing[:_MOST_NAMED]
    ]
    told["missing_rate_count"] = len(missing)
    told["currency_note"] = _explain(translation, missing)
    return told


def _explain(translation: Translation, missing: Sequence[tuple[date, str]]) -> str:
    text = "The positions listed as unconverted are in none of these figures, wash sales included."
    if missing:
        names = ", ".join(sorted({currency for _, currency in missing}))
        text += (
            f" There is no rate of {names} between {missing[0][0]} and {missing[-1][0]}. To have them counted: "
            f"{HOW_TO_GIVE}."
        )
    if any(row.asset_class in _UNTRANSLATED for rows in translation.apart.values() for row in rows):
        text += " Futures and currency pairs in foreign money are not translated: take their gain from the broker."
    return text
