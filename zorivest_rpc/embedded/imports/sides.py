"""Which way a row of a table traded: by its words, else by the sign of its quantity, else by that of its amount.

Rule 1: what two of them say differently, or none says, is no trade but an error with the reason.
Rule 2: a number without a sign says nothing, unless other rows of the file have one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

import msgspec

from zorivest_rpc.embedded.imports.drafts import Effect
from zorivest_rpc.embedded.imports.rows import BLANKS, Columns, Record, RowRefused
from zorivest_rpc.embedded.imports.values import BadValue, parse_decimal, parse_effect, parse_side, plain_text
from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["Signs", "Stated", "check_amount", "decide_side", "hidden_cost", "read_words"]

_PHRASE = re.compile(
    r"(?:you )?(?P<side>bought|sold|buy|sell|bot|sld|short sale|reinvestment)"
    r"(?P<effect> short| to open| to close| to cover| opening| closing)?\b",
    re.IGNORECASE,
)


class Signs(msgspec.Struct, frozen=True):
    """Whether the quantities and the amounts of a table carry a sign: some of them are below zero."""

    quantity: bool = False
    amount: bool = False
    places: int = 2  # decimals that the table's prices have at most

    @classmethod
    def of(cls, sample: Sequence[Sequence[str]], columns: Columns, mark: str | None) -> Signs:
        return cls(
            _has_negative(sample, columns, "quantity", mark),
            _has_negative(sample, columns, "amount", mark),
            _most_places(sample, columns, mark),
        )


def _most_places(sample: Sequence[Sequence[str]], columns: Columns, mark: str | None) -> int:
    place = columns.roles.get("price")
    cells = [row[place] for row in sample if place is not None and place < len(row)]
    return max([2, *(len(cell.rpartition(mark or ".")[2].strip(")- ")) for cell in cells if (mark or ".") in cell)])


def _has_negative(sample: Sequence[Sequence[str]], columns: Columns, role: str, mark: str | None) -> bool:
    place = columns.roles.get(role)
    return place is not None and any(_is_negative(row[place], mark) for row in sample if place < len(row))


def _is_negative(cell: str, mark: str | None) -> bool:
    if not cell or (cell[0].isdigit() and cell[-1].isdigit()):
        return False
    try:
        return parse_decimal(cell, mark) < 0
    except BadValue:
        return False


class Stated(msgspec.Struct, frozen=True):
    """What the words of a row say; a side of None is silence."""

    side: Side | None = None
    effect: Effect | None = None
    word: str = ""


def read_words(record: Record, *, phrases: bool) -> Stated:
    """The side that the row's words name: the side column, and where `phrases` may stand for it, the description."""
    word = record.text("side")
    if side := parse_side(word):
        return Stated(side, parse_effect(word) or parse_effect(record.text("effect")), word)
    if phrases:
        for text in (word, record.text("notes")):
            if match := _PHRASE.match(text):
                effect = parse_effect(f"{match['side']}{match['effect'] or ''}") or parse_effect(match["effect"] or "")
                return Stated(parse_side(match["side"]), effect, text)
    return Stated(None, None, word)


def decide_side(record: Record, stated: Stated, quantity: Decimal, signs: Signs) -> Side:
    """Bought or sold; refused where the row is silent or contradicts itself."""
    by_quantity = _of_quantity(record, quantity, signs, strictly=stated.side is not None)
    if stated.side is not None:
        if by_quantity is not None and by_quantity is not stated.side:
            raise RowRefused("side", f"{_quote(stated.word)} contradicts the sign of the quantity {quantity:f}")
        return stated.side
    amount = record.decimal("amount") if signs.amount else None
    by_amount = None if not amount else (Side.SLD if amount > 0 else Side.BOT)
    if by_quantity is not None and by_amount is not None and by_quantity is not by_amount:
        raise RowRefused(
            "side", f"the signs of the quantity {quantity:f} and the amount {amount:f} contradict each other"
        )
    found = by_quantity or by_amount
    if found is None:
        raise RowRefused("side", "is missing: no word, no sign of the quantity and no signed amount says it")
    return found


def check_amount(record: Record, stated: Stated, side: Side, value: Decimal, asset: AssetClass, signs: Signs) -> None:
    """Refuse a row whose words and cash flow go opposite ways.

    Fees can turn the small proceeds of an option negative, so only an amount of about the trade's value counts; for
    futures no such money flows."""
    amount = record.decimal("amount") if signs.amount and stated.side is not None else None
    if not amount or asset is AssetClass.FUTURE or abs(amount) * 2 < abs(value):
        return
    if (amount > 0) != (side is Side.SLD):
        raise RowRefused("side", f"{_quote(stated.word)} contradicts the amount {amount:f}: a purchase costs money")


def hidden_cost(record: Record, side: Side, symbol: Instrument, value: Decimal, signs: Signs) -> Decimal | None:
    """What a row's amount is short of its value, all costs of it; None where the amount cannot tell.

    Prices are rounded to so many places that a difference of their half, times the quantity, and half a cent mean
    nothing."""
    amount = record.decimal("amount") if signs.amount else None
    if not amount or not value or symbol.asset_class is AssetClass.FUTURE:
        return None
    cost = value - amount if side is Side.SLD else -amount - value
    price = record.decimal("price")
    is_rounded = bool(price) and symbol.asset_class is not AssetClass.OPTION  # an option moves by whole cents
    units = abs(value / price) if is_rounded and price else Decimal(0)
    noise = units * Decimal(5).scaleb(-signs.places - 1) + Decimal("0.005")
    return cost if abs(cost) > noise else None


def _of_quantity(record: Record, quantity: Decimal, signs: Signs, *, strictly: bool) -> Side | None:
    if quantity < 0:
        return Side.SLD
    has_sign = "+" in record.text("quantity")
    return Side.BOT if has_sign or (signs.quantity and not strictly) else None


def _quote(word: str) -> str:
    return repr(plain_text(word, 40)) if word.lower() not in BLANKS else "the description"
