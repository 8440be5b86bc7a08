"""The trades of an Interactive Brokers Flex query in XML.

The document is fed in pieces to a parser that forbids DTDs, entities and external references; no tree is built, so
memory does not grow with the file. Broken XML refuses the whole file: a statement cut short is not a shorter statement.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from zorivest_rpc.embedded.imports.collect import TradeCollector, costs
from zorivest_rpc.embedded.imports.drafts import FeeType, ImportRefused, RateDraft, TradeDraft
from zorivest_rpc.embedded.imports.layouts import ASSETS
from zorivest_rpc.embedded.imports.rows import BLANKS, Reading, Row, RowRefused
from zorivest_rpc.embedded.imports.source import Budget
from zorivest_rpc.embedded.imports.symbols import option, parse_symbol
from zorivest_rpc.embedded.imports.values import (
    BadValue,
    currency_code,
    parse_date,
    parse_decimal,
    parse_effect,
    parse_moment,
    parse_side,
    plain_text,
)
from zorivest_rpc.embedded.imports.xml_feed import feed_safely
from zorivest_rpc.embedded.values.kinds import AssetClass, Side
from zorivest_rpc.embedded.values.symbols import Instrument

__all__ = ["read_flex"]

DETAILS = frozenset({"", "execution"})
SHOWN = ("symbol", "dateTime", "buySell", "quantity", "tradePrice", "tradeID")


class _Flex:
    """Takes the elements as they come."""

    def __init__(self, reading: Reading, budget: Budget, into: TradeCollector) -> None:
        self.line: Any = lambda: 0
        self._reading = reading
        self._budget = budget
        self._into = into
        self._open: list[str] = []
        self._failure: dict[str, str] = {}
        self.is_flex = False
        self.base_currency: str | None = None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._open.append(tag)
        if tag in ("FlexQueryResponse", "FlexStatementResponse"):
            self.is_flex = True
        elif tag == "AccountInformation":
            self.base_currency = self._into.base_currency = attributes.get("currency") or None
        elif tag == "ConversionRate":
            self._conversion(attributes)
        elif tag == "Trade":
            self.is_flex = True
            self._trade(attributes)

    def data(self, text: str) -> None:
        if self._open and self._open[-1] in ("Status", "ErrorCode", "ErrorMessage"):
            self._failure[self._open[-1]] = plain_text(self._failure.get(self._open[-1], "") + text, 200)

    def end(self, tag: str) -> None:
        if self._open:
            self._open.pop()

    def close(self) -> None:
        if self._failure.get("ErrorCode") or self._failure.get("Status", "").lower() in ("fail", "warn"):
            said = self._failure.get("ErrorMessage") or self._failure.get("ErrorCode", "no reason given")
            raise ImportRefused(
                "flex_not_ready",
                f"The file is the broker's refusal, not a statement: {said}",
                next="Run the Flex query again and download its result.",
            )

    def _trade(self, attributes: Mapping[str, str]) -> None:
        self._budget.count()
        row = Row(self.line(), [], " ".join(f'{key}="{attributes[key]}"' for key in SHOWN if key in attributes))
        if attributes.get("levelOfDetail", "").lower() not in DETAILS:
            self._into.skip(kind="summary")
            return
        if "(ca" in attributes.get("buySell", "").lower() or attributes.get("transactionType") == "TradeCancel":
            self._into.skip("cancelled_skipped", "cancelled")
            return
        try:
            self._into.add(self._fill(row, attributes))
        except RowRefused as exc:
            self._into.refuse_row(row, exc)

    def _fill(self, row: Row, attributes: Mapping[str, str]) -> TradeDraft:
        quantity = self._number(attributes, "quantity")
        if not quantity:
            raise RowRefused("quantity", "is missing" if quantity is None else "is zero")
        price = self._number(attributes, "tradePrice")
        if price is None:
            raise RowRefused("tradePrice", "is missing")
        side = _side(attributes.get("buySell", ""), quantity)
        moment, known = self._moment(attributes)
        try:
            symbol = _symbol(attributes, moment.date())
            currency = currency_code(attributes.get("currency", ""), self._reading.currency)
        except BadValue as exc:
            raise RowRefused("symbol", str(exc)) from None
        if price < 0 and symbol.asset_class is not AssetClass.FUTURE:
            raise RowRefused("tradePrice", "is negative, which only a future's can be")
        multiplier = self._into.multiplier(symbol, self._number(attributes, "multiplier"))
        paid = -(self._number(attributes, "ibCommission") or Decimal(0)) or Decimal(0)
        taxes = abs(self._number(attributes, "taxes") or Decimal(0))
        commission, fees, ledger = costs(paid, [(FeeType.REGULATORY, taxes, "taxes")], currency)
        rate = self._number(attributes, "fxRateToBase")
        self._into.account(attributes.get("accountId", ""), row.number)
        return TradeDraft(
            row_number=row.number,
            broker="ibkr",
            account_id=self._into.hints.account_id,
            exec_time=moment,
            time_known=known,
            instrument=plain_text(attributes.get("symbol", ""), 80),
            symbol=symbol.symbol,
            asset_class=symbol.asset_class,
            side=side,
            quantity=abs(quantity),
            price=price,
            multiplier=multiplier,
            currency=currency,
            commission=commission,
            fees=fees,
            ledger=ledger,
            exec_id=plain_text(attributes.get("ibExecID") or attributes.get("tradeID") or "", 80),
            order_id=plain_text(attributes.get("ibOrderID") or attributes.get("ibOrderRef") or "", 80) or None,
            base_currency=self.base_currency,
            base_amount=price * abs(quantity) * multiplier * rate if rate else None,
            fx_rate=rate if rate and rate > 0 else None,
            fee_currency=plain_text(attributes.get("ibCommissionCurrency", ""), 8).upper(),
            realized_pnl=self._number(attributes, "fifoPnlRealized"),
            notes=plain_text(attributes.get("ibOrderRef", "")),
            effect=parse_effect(attributes.get("openCloseIndicator", "")),
        )

    def _conversion(self, attributes: Mapping[str, str]) -> None:
        """A rate of the statement's own table; one that cannot be read is no reason to refuse a trade."""
        try:
            day = parse_date(attributes.get("reportDate", ""))
            base = currency_code(attributes.get("fromCurrency", ""), "")
            quote = currency_code(attributes.get("toCurrency", ""), "")
            rate = parse_decimal(attributes.get("rate", ""), ".")
        except BadValue:
            return
        if base and quote and base != quote and rate > 0:
            self._into.rates.append(RateDraft(day=day, base=base, quote=quote, rate=rate))

    def _number(self, attributes: Mapping[str, str], name: str) -> Decimal | None:
        value = attributes.get(name, "").strip()
        if value.lower() in BLANKS:
            return None
        try:
            return parse_decimal(value, ".")
        except BadValue as exc:
            raise RowRefused(name, str(exc)) from None

    def _moment(self, attributes: Mapping[str, str]) -> tuple[dt.datetime, bool]:
        value = attributes.get("dateTime", "") or " ".join(
            filter(None, (attributes.get("tradeDate"), attributes.get("tradeTime")))
        )
        if not value:
            raise RowRefused("dateTime", "is missing")
        try:
            return parse_moment(value, self._reading.zone)
        except (BadValue, OverflowError) as exc:
            raise RowRefused("dateTime", str(exc)) from None


def read_flex(data: bytes, reading: Reading, budget: Budget, into: TradeCollector) -> None:
    """All executions of a Flex query result."""
    target = _Flex(reading, budget, into)
    feed_safely(data, target, budget)
    if not target.is_flex:
        raise ImportRefused(
            "unknown_broker_format",
            "The XML is no Interactive Brokers Flex result: it has no Trade elements.",
            next="Import CSV from other brokers; bank statements go to import_bank_statement.",
        )


def _side(word: str, quantity: Decimal) -> Side:
    side = parse_side(word) if word else (Side.BOT if quantity > 0 else Side.SLD)
    if side is None:
        raise RowRefused("buySell", f"{plain_text(word, 40)!r} is neither BUY nor SELL")
    if quantity < 0 and side is Side.BOT:
        raise RowRefused("buySell", f"{plain_text(word, 40)!r} contradicts the sign of the quantity {quantity:f}")
    return side


def _symbol(attributes: Mapping[str, str], day: dt.date) -> Instrument:
    """The instrument, an option by its own columns where they are there. Raises BadValue."""
    text = attributes.get("symbol", "")
    strike, right, expiry = attributes.get("strike"), attributes.get("putCall"), attributes.get("expiry")
    if attributes.get("assetCategory") == "OPT" and strike and right and expiry:
        under = attributes.get("underlyingSymbol") or text[:6].strip()
        return option(under, parse_date(expiry), right, parse_decimal(strike, "."))
    return parse_symbol(text, ASSETS.get(attributes.get("assetCategory", "").lower()), day)
