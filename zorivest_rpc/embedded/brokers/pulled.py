"""What a broker's adapter works with and what it brings back: the same drafts that a file of that broker would give."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from ..imports.collect import FileLayout, TradeCollector
from ..imports.drafts import BankImport, BrokerHints, BrokerImport, ImportLimits, TradeDraft
from ..imports.rows import RowRefused
from ..imports.symbols import multiplier_of, parse_symbol
from ..imports.values import BadValue
from ..market.failures import Failure, Kind
from ..market.outbound import Outbound, Reach
from ..values.symbols import Instrument

__all__ = ["SECONDS", "BrokerLink", "Position", "PullWindow", "Pulled", "Source", "collect", "symbol_of", "within"]


SECONDS = 120.0
"""How long one file or statement may be read."""


def within(seconds: float) -> Callable[[], bool]:
    """Whether that time has passed, counted from now."""
    ends = time.monotonic() + seconds
    return lambda: time.monotonic() > ends


class PullWindow(msgspec.Struct, frozen=True):
    """Which fills: from `start` on and before `end`; None is everything."""

    start: datetime | None
    end: datetime | None
    timezone: str
    currency: str = "USD"
    multipliers: dict[str, Decimal] = {}

    def hints(self, account_id: str, *, broker: str = "auto", file_name: str = "") -> BrokerHints:
        """What an importer is told about the fills of an account."""
        return BrokerHints(
            account_id=account_id,
            broker=broker,
            file_name=file_name,
            timezone=self.timezone,
            currency=self.currency,
            multipliers=self.multipliers,
        )

    def multiplier(self, symbol: Instrument) -> Decimal:
        """Money per point of one unit of a symbol."""
        try:
            return multiplier_of(symbol, None, self.multipliers)
        except BadValue as exc:
            raise RowRefused("multiplier", str(exc)) from None

    @property
    def last_day(self) -> date | None:
        """The last day that is wanted; `end` itself is not."""
        return None if self.end is None else (self.end - timedelta(microseconds=1)).date()


class Position(msgspec.Struct, frozen=True):
    symbol: str
    quantity: Decimal
    avg_price: Decimal | None
    market_value: Decimal | None = None


class Source(msgspec.Struct, frozen=True):
    """One batch of fills, or one statement of a bank, and where it came from; a file has a name."""

    found: BrokerImport | BankImport
    file_name: str = ""


class Pulled(msgspec.Struct, frozen=True):
    """Everything one sync brought; `problems` are whole parts that could not be read."""

    sources: tuple[Source, ...]
    account_id: str | None = None
    balance: Decimal | None = None
    currency: str | None = None
    positions: tuple[Position, ...] = ()
    problems: tuple[str, ...] = ()
    cursor: datetime | None = None

    def within(self, start: datetime | None, end: datetime | None) -> Pulled:
        """Without fills outside a period that was asked for; some brokers know days only, and some their own period."""
        if start is None and end is None:
            return self
        sources = tuple(
            msgspec.structs.replace(source, found=_within(source.found, start, end))
            if isinstance(source.found, BrokerImport)
            else source
            for source in self.sources
        )
        return msgspec.structs.replace(self, sources=sources)


def _within(found: BrokerImport, start: datetime | None, end: datetime | None) -> BrokerImport:
    kept = tuple(
        draft
        for draft in found.trades
        if (start is None or draft.exec_time >= start) and (end is None or draft.exec_time < end)
    )
    if len(kept) == len(found.trades):
        return found
    return msgspec.structs.replace(
        found,
        trades=kept,
        parsed_rows=found.parsed_rows - (len(found.trades) - len(kept)),
        skipped_rows=found.skipped_rows + len(found.trades) - len(kept),
        date_from=kept[0].exec_time if kept else None,
        date_to=kept[-1].exec_time if kept else None,
        symbols=tuple(sorted({draft.symbol for draft in kept})),
    )


class BrokerLink(msgspec.Struct, frozen=True):
    """A way to one broker with its secrets in place."""

    outbound: Outbound
    reach: Reach
    base: str
    account_id: str | None = None
    options: Mapping[str, str] = {}

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        return await self.outbound.json(self.reach, self.base, path, params=params or {})

    def odd(self, what: str) -> Failure:
        return Failure(self.reach.name, Kind.BAD_ANSWER, f"its {what} have an unexpected shape")


def collect(
    broker: str,
    layout: str,
    account_id: str,
    wanted: PullWindow,
    rows: Iterable[Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], TradeDraft | None],
) -> BrokerImport:
    """Read rows one by one: a row that is no trade is skipped, one that cannot be read is told, the rest are drafts."""
    into = TradeCollector(wanted.hints(account_id, broker=broker), ImportLimits())
    digest, size = hashlib.sha256(), 0
    for row in rows:
        data = msgspec.json.encode(row)
        digest.update(data)
        size += len(data)
        try:
            draft = read(row)
        except RowRefused as exc:
            into.refuse(None, exc.field, exc.message)
            continue
        if draft is None:
            into.skip()
        else:
            into.add(draft)
    found = FileLayout(broker=broker, layout=layout, detected_by="api")
    return into.finish(found, data_sha256=digest.hexdigest(), size=size, encoding="utf-8")


def symbol_of(text: Any, moment: datetime) -> Instrument:
    """A broker's symbol in normal form."""
    if not isinstance(text, str):
        raise RowRefused("symbol", "is missing")
    try:
        return parse_symbol(text, None, moment.date())
    except BadValue as exc:
        raise RowRefused("symbol", str(exc)) from None
