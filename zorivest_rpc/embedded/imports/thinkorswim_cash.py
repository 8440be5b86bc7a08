"""The fees of a thinkorswim statement: the cash sections have them, the trade history has the fills.

Both know the second. The fees of a second are shared by its fills in proportion to their quantities, those of the
same underlying first; what meets no fill is told."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.collect import TradeCollector, costs
from zorivest_rpc.embedded.imports.drafts import FeeType, TradeDraft
from zorivest_rpc.embedded.imports.rows import Columns, Reading, Record, Row, RowRefused, split_line, squash
from zorivest_rpc.embedded.imports.symbols import plain

__all__ = ["CashCharge", "charge", "read_charges"]

_HEADER = frozenset({"type", "description", "miscfees", "commissions&fees", "amount", "balance"})
_COLUMNS = {
    "date": "execdate|date",
    "time": "exectime|time",
    "kind": "type",
    "notes": "description",
    "misc": "miscfees",
    "commission": "commissions&fees",
}
_MICRO = Decimal("0.000001")


class CashCharge(msgspec.Struct, frozen=True):
    """What one line of the cash section took for a trade."""

    words: frozenset[str]
    commission: Decimal
    misc: Decimal


def read_charges(lines: Sequence[str], delimiter: str, reading: Reading) -> dict[datetime, list[CashCharge]]:
    """The fees of every trade line of the cash and futures sections, by their second."""
    found: defaultdict[datetime, list[CashCharge]] = defaultdict(list)
    columns: Columns | None = None
    for at, line in enumerate(lines):
        if delimiter not in line:
            columns = None
            continue
        cells = split_line(line, delimiter)
        if {squash(cell) for cell in cells} >= _HEADER:
            columns = Columns.match(cells, _COLUMNS)
        elif columns is not None:
            record = Record(Row(at + 1, cells, line), columns, reading)
            try:
                if record.text("kind").upper() != "TRD":
                    continue
                paid, misc = (-(record.decimal(role) or Decimal(0)) for role in ("commission", "misc"))
                if paid or misc:
                    words = frozenset(re.findall(r"[A-Z0-9]+", record.text("notes").upper()))
                    found[record.moment()[0]].append(CashCharge(words, paid, misc))
            except RowRefused:
                continue
    return dict(found)


def charge(
    drafts: Sequence[TradeDraft], charges: dict[datetime, list[CashCharge]], into: TradeCollector
) -> list[TradeDraft]:
    """The fills with the fees of their second. Where the cash sections are there, they replace the net price's."""
    if not charges:
        return list(drafts)
    paid: dict[int, list[Decimal]] = {place: [Decimal(0), Decimal(0)] for place in range(len(drafts))}
    fills: defaultdict[datetime, list[int]] = defaultdict(list)
    for place, draft in enumerate(drafts):
        fills[draft.exec_time].append(place)
    lost = Decimal(0)
    for second, taken in charges.items():
        for one in taken:
            there = fills.get(second, [])
            named = [place for place in there if drafts[place].symbol.split(" ")[0] in one.words] or there
            if not named:
                lost += one.commission + one.misc
            _share(one, named, drafts, paid)
    if lost:
        into.warn("fees_without_fill", f"Fees of {plain(lost)} stand at times without a fill in the trade history.")
    return [_with_costs(draft, *paid[place]) for place, draft in enumerate(drafts)]


def _share(
    one: CashCharge, places: Sequence[int], drafts: Sequence[TradeDraft], paid: dict[int, list[Decimal]]
) -> None:
    """Divide by quantity in millionths; the last fill takes the rest, so that no cent is lost."""
    total = sum((drafts[place].quantity for place in places), Decimal(0))
    for kind, amount in enumerate((one.commission, one.misc)):
        left = amount
        for place in places[:-1]:
            part = (amount * drafts[place].quantity / total).quantize(_MICRO)
            paid[place][kind] += part
            left -= part
        if places:
            paid[places[-1]][kind] += left


def _with_costs(draft: TradeDraft, paid: Decimal, misc: Decimal) -> TradeDraft:
    commission, fees, ledger = costs(paid, [(FeeType.REGULATORY, misc, "misc fees")], draft.currency)
    return msgspec.structs.replace(draft, commission=commission, fees=fees, ledger=ledger)
