"""Gathers what a broker file yields and closes it into one result: order, ids, counts and status."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.dedup import exec_id, fingerprint
from zorivest_rpc.embedded.imports.drafts import (
    BrokerHints,
    BrokerImport,
    Effect,
    Fee,
    FeeType,
    ImportLimits,
    Note,
    PositionEvent,
    RateDraft,
    RowError,
    Status,
    TradeDraft,
)
from zorivest_rpc.embedded.imports.rows import Record, Row, RowRefused, render_line
from zorivest_rpc.embedded.imports.symbols import multiplier_of, plain
from zorivest_rpc.embedded.imports.values import BadValue
from zorivest_rpc.embedded.values.futures import SETTING as _FUTURES_SETTING
from zorivest_rpc.embedded.values.futures import contract_of
from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["FileLayout", "TradeCollector", "costs", "outcome"]


_CENT = Decimal("0.015")  # files round a half cent to either side


class FileLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What was recognised: whose file, which layout, and by what."""

    broker: str
    layout: str
    detected_by: str


def outcome(parsed: int, refused: int) -> Status:
    if not refused:
        return Status.SUCCESS
    return Status.PARTIAL if parsed else Status.FAILED


def costs(
    commission: Decimal, extras: list[tuple[FeeType, Decimal, str]], currency: str
) -> tuple[Decimal, Decimal, tuple[Fee, ...]]:
    """Commission, the sum of the other fees, and one ledger row per cost that is not zero."""
    rows = [(FeeType.COMMISSION, commission, "commission"), *extras]
    ledger = tuple(
        Fee(fee_type=kind, amount=amount, currency=currency, description=text) for kind, amount, text in rows if amount
    )
    return commission, sum((amount for _, amount, _ in extras), Decimal(0)), ledger


class TradeCollector:
    """Rows in file order go in; `finish` numbers, orders and counts them."""

    def __init__(self, hints: BrokerHints, limits: ImportLimits) -> None:
        self.hints = hints
        self._limits = limits
        self._trades: list[TradeDraft] = []
        self._several: list[slice] = []  # the fills of rows that have more than one
        self._errors: list[RowError] = []
        self._notes: dict[str, Note] = {}
        self._tallies: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._events: list[PositionEvent] = []
        self.newest_first: bool | None = None
        self.rates: list[RateDraft] = []
        self.base_currency: str | None = None
        self.parsed = 0
        self.skipped = 0
        self.refused = 0
        self._repeated = 0

    def add(self, *drafts: TradeDraft) -> None:
        """The fills of one row."""
        self.parsed += 1
        if len(drafts) > 1:
            self._several.append(slice(len(self._trades), len(self._trades) + len(drafts)))
        self._trades.extend(drafts)

    def add_event(self, event: PositionEvent) -> None:
        """A row that changes a position without a trade."""
        self.skipped += 1
        self._events.append(event)

    def skip(self, tally: str = "", kind: str = "other") -> None:
        """A row that is no trade, by its kind; a `tally` counts towards a warning."""
        self.skipped += 1
        self._kinds[kind] += 1
        if tally:
            self._tallies[tally] += 1

    def refuse(self, row: Row | None, field: str, message: str) -> None:
        self.refused += 1
        if len(self._errors) < self._limits.max_errors:
            number, raw = (row.number, render_line(row.raw)) if row else (None, "")
            self._errors.append(RowError(row_number=number, field=field, message=message, raw_line=raw))

    def refuse_row(self, row: Row, exc: RowRefused) -> None:
        self.refuse(row, exc.field, exc.message)

    def warn(self, code: str, message: str, row_number: int | None = None) -> None:
        """The first warning of a code is kept; a file repeats itself."""
        self._notes.setdefault(code, Note(code=code, message=message, row_number=row_number))

    def account(self, stated: str, row_number: int | None = None) -> None:
        """The account that the file names; the one the user named wins."""
        if stated and stated.casefold() != self.hints.account_id.casefold():
            text = f"The file names account {stated[:40]!r}; the rows go to {self.hints.account_id!r} as asked."
            self.warn("account_mismatch", text, row_number)

    def multiplier(self, symbol: Instrument, stated: Decimal | None = None) -> Decimal:
        """Money per point of one unit; a row whose future has no known one is refused."""
        try:
            return multiplier_of(symbol, stated, self.hints.multipliers)
        except BadValue as exc:
            raise RowRefused("multiplier", str(exc)) from None

    def check_tick(self, symbol: Instrument, price: Decimal, multiplier: Decimal, row_number: int | None) -> None:
        """Tell a price that is no multiple of its future's tick: the file may quote in another unit, as cents."""
        contract = contract_of(symbol.underlying) if symbol.asset_class is AssetClass.FUTURE else None
        if contract is None or multiplier != contract.multiplier or not price % contract.tick:
            return
        self._tallies["off_tick"] += 1
        self.warn(
            "off_tick",
            f"{plain(price)} is no price of {symbol.symbol}, which moves by {plain(contract.tick)} in "
            f"{contract.quote}; check the unit of the file's prices (each whole one counts "
            f"{plain(multiplier)} {contract.currency}).",
            row_number,
        )

    def take_hidden(self, cost: Decimal, value: Decimal, quantity: Decimal, symbol: Instrument) -> bool:
        """Whether what an amount is short of the trade's value can be its fees; counted and told either way."""
        per_unit = Decimal(5) * quantity if symbol.asset_class is AssetClass.OPTION else Decimal(0)
        is_fee = 0 < cost <= abs(value) / 100 + per_unit + 25
        if abs(cost) >= _CENT or is_fee:
            self._tallies["fees_in_amount" if is_fee else "amount_differs"] += 1
        return is_fee

    def check_profit(self, record: Record, role: str, gross: Decimal, costs: Decimal, symbol: Instrument) -> None:
        """Tell a row whose own profit is neither the one computed from its prices nor that less its costs."""
        stated = record.decimal(role)
        if stated is None or min(abs(stated - gross), abs(stated - (gross - costs))) <= _CENT:
            return
        self._tallies["profit_contradicts"] += 1
        self.warn(
            "profit_contradicts",
            f"The file states a profit of {plain(stated)} for {symbol.symbol}, but its prices give {plain(gross)}; "
            f"check the multiplier ({_FUTURES_SETTING} corrects one) and the prices.",
            record.row.number,
        )

    def finish(
        self, found: FileLayout, *, data_sha256: str, size: int, encoding: str, confidence: float | None = None
    ) -> BrokerImport:
        trades = self._number(self._in_order())
        total = self.parsed + self.skipped + self.refused
        for tally, count in self._tallies.items():
            if tally in _COUNTED:
                self._count(tally, count)
            else:
                self.warn(tally, _TALLIES.get(tally, "{n} rows were left out.").format(n=count))
        if self._repeated:
            self.warn("repeated_rows", f"{self._repeated} rows repeat the id and content of an earlier row.")
        if not total:
            self.warn("no_rows", "The file has a header but no rows.")
        if self.refused > len(self._errors):
            self.warn("more_errors", f"{self.refused - len(self._errors)} more rows were refused than are listed.")
        if any(not trade.time_known for trade in trades):
            self.warn("date_only", "Some rows give a day without a time; they are stored as noon of the import zone.")
        if any(trade.identifier for trade in trades):
            self.warn(
                "unresolved_identifiers", "Some rows name a security by number; resolve_identifiers finds tickers."
            )
        return BrokerImport(
            status=outcome(self.parsed, self.refused),
            broker=found.broker,
            detected_format=found.layout,
            detected_by=found.detected_by,
            account_id=self.hints.account_id,
            file_sha256=data_sha256,
            file_size=size,
            encoding=encoding,
            total_rows=total,
            parsed_rows=self.parsed,
            skipped_rows=self.skipped,
            repeated_rows=self._repeated,
            error_rows=self.refused,
            trades=tuple(trades),
            errors=tuple(self._errors),
            warnings=tuple(self._notes.values()),
            date_from=trades[0].exec_time if trades else None,
            date_to=trades[-1].exec_time if trades else None,
            symbols=tuple(sorted({trade.symbol for trade in trades})),
            confidence=confidence,
            events=tuple(self._events),
            skipped_kinds=dict(sorted(self._kinds.items())),
            rates=tuple(self.rates),
            base_currency=self.base_currency,
        )

    def _count(self, code: str, count: int) -> None:
        """A warning about the first row of its kind also says how many there are."""
        first = self._notes[code]
        if count > 1:
            self._notes[code] = msgspec.structs.replace(first, message=f"{first.message} {count} rows are like this.")

    def _in_order(self) -> list[TradeDraft]:
        """Oldest first. A file that runs backwards is turned round first, for the order of rows with a day alone."""
        trades = self._reverse() if self._is_newest_first() else self._trades
        return sorted(trades, key=lambda trade: trade.exec_time)

    def _reverse(self) -> list[TradeDraft]:
        """The rows from the last to the first; the fills of one row keep their order, which its reader decided."""
        turned = list(self._trades)
        for fills in self._several:
            turned[fills] = turned[fills][::-1]
        turned.reverse()
        return turned

    def _is_newest_first(self) -> bool:
        """By the times of the rows; where all are equal, by the layout; where that is unknown, by what the rows can
        have done: the direction in which fewer sales come before the purchases that they close."""
        rows = [row.exec_time for row in self._trades]
        later = sum(b > a for a, b in itertools.pairwise(rows))
        earlier = sum(b < a for a, b in itertools.pairwise(rows))
        if later != earlier:
            return earlier > later
        if rows and rows[0] != rows[-1]:
            return rows[0] > rows[-1]
        if self.newest_first is not None:
            return self.newest_first
        return _count_uncovered_sales(self._reverse()) < _count_uncovered_sales(self._trades)

    def _number(self, trades: list[TradeDraft]) -> list[TradeDraft]:
        seen_ids: dict[str, str] = {}
        twins: Counter[str] = Counter()
        result: list[TradeDraft] = []
        for trade in trades:
            key = _fingerprint(trade)
            own = trade.exec_id
            if own and own in seen_ids:
                if seen_ids[own] == key:
                    self._repeated += 1
                    continue
                own = ""  # an id that names two different fills names neither
            if own:
                seen_ids[own] = key
            twins[key] += 1
            made = own or exec_id(
                broker=trade.broker,
                account_id=trade.account_id,
                symbol=trade.symbol,
                exec_time=trade.exec_time,
                side=trade.side,
                quantity=trade.quantity,
                price=trade.price,
                occurrence=twins[key],
            )
            result.append(
                msgspec.structs.replace(
                    trade, exec_id=made, is_synthesised=not own, dedup_hash=key, occurrence=twins[key]
                )
            )
        return result


_COUNTED = frozenset({"off_tick", "profit_contradicts"})
_TALLIES = {
    "fees_in_amount": "The fees of {n} rows are only inside their amounts and were taken from there.",
    "amount_differs": "The amounts of {n} rows are not their prices times quantities, and not by what fees explain.",
    "option_events_skipped": "{n} option expirations, assignments or exercises have no price and were left out.",
    "cancelled_skipped": "{n} cancelled rows were left out.",
    "not_filled_skipped": "{n} orders without a fill were left out.",
}


def _count_uncovered_sales(trades: Iterable[TradeDraft]) -> int:
    """How many sales of a file find nothing to sell, read in this order."""
    held: dict[str, Decimal] = {}
    count = 0
    for trade in trades:
        before = held.get(trade.symbol, Decimal(0))
        count += trade.side is Side.SLD and before <= 0 and trade.effect is not Effect.OPEN
        held[trade.symbol] = before + (trade.quantity if trade.side is Side.BOT else -trade.quantity)
    return count


def _fingerprint(trade: TradeDraft) -> str:
    return fingerprint(
        account_id=trade.account_id,
        symbol=trade.symbol,
        exec_time=trade.exec_time,
        side=trade.side,
        quantity=trade.quantity,
        price=trade.price,
    )
