"""Alpaca's trading side: every fill as its own activity, read page by page, with the account and what it holds.

Fills are taken from the account's activities and not from its orders: an order has one average price, its fills have
the prices that were paid."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..imports.drafts import TradeDraft
from ..imports.rows import RowRefused
from ..market.failures import Failure, Kind
from ..market.shapes import moment, number, plain, read_object
from ..values.kinds import AssetClass, Side
from .pulled import BrokerLink, Position, Pulled, PullWindow, Source, collect, symbol_of

__all__ = ["positions", "pull"]

PAGE = 100
MOST_PAGES = 500
_SIDES = {"buy": Side.BOT, "sell": Side.SLD, "sell_short": Side.SLD, "buy_to_cover": Side.BOT}
_QUOTED_IN = ("USDT", "USDC", "USD", "BTC")


async def pull(link: BrokerLink, wanted: PullWindow) -> Pulled:
    account = read_object(await link.get("/v2/account"))
    stated = plain(account.get("account_number"), 64)
    if stated is None:
        raise link.odd("account details")
    account_id = link.account_id or stated
    rows = await _fills(link, wanted)
    found = collect("alpaca", "alpaca_api", account_id, wanted, rows, lambda row: _draft(row, account_id, wanted))
    return Pulled(
        (Source(found),),
        account_id,
        number(account.get("equity")),
        plain(account.get("currency"), 8),
        tuple(await positions(link)),
        cursor=found.date_to,
    )


async def positions(link: BrokerLink) -> list[Position]:
    answer = await link.get("/v2/positions")
    if not isinstance(answer, list):
        raise link.odd("positions")
    found = []
    for row in map(read_object, answer):
        symbol, quantity = plain(row.get("symbol"), 64), number(row.get("qty"))
        if symbol is None or quantity is None:
            raise link.odd("positions")
        signed = -abs(quantity) if row.get("side") == "short" else quantity
        name = symbol_of(symbol, link.outbound.now()).symbol
        found.append(Position(name, signed, number(row.get("avg_entry_price")), number(row.get("market_value"))))
    return found


async def _fills(link: BrokerLink, wanted: PullWindow) -> list[dict[str, Any]]:
    params = {"direction": "asc", "page_size": str(PAGE)}
    if wanted.start is not None:
        params["after"] = wanted.start.isoformat()
    if wanted.end is not None:
        params["until"] = wanted.end.isoformat()
    found: list[dict[str, Any]] = []
    for _ in range(MOST_PAGES):
        answer = await link.get("/v2/account/activities/FILL", params)
        if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
            raise link.odd("activities")
        found += answer
        if len(answer) < PAGE:
            return found
        last = plain(answer[-1].get("id"), 128)
        if last is None or last == params.get("page_token"):
            raise link.odd("activities")
        params["page_token"] = last
    raise Failure(
        link.reach.name, Kind.BAD_ANSWER, f"it has more than {MOST_PAGES * PAGE} fills; name a shorter period"
    )


def _draft(row: Mapping[str, Any], account_id: str, wanted: PullWindow) -> TradeDraft | None:
    if row.get("activity_type", "FILL") != "FILL":
        return None
    when, side = moment(row.get("transaction_time")), _SIDES.get(str(row.get("side")).lower())
    quantity, price = number(row.get("qty")), number(row.get("price"))
    if when is None:
        raise RowRefused("transaction_time", "is missing or no time")
    if side is None:
        raise RowRefused("side", f"{str(row.get('side'))[:40]!r} is neither buy nor sell")
    if not quantity or quantity < 0:
        raise RowRefused("qty", "is missing or not above zero")
    if price is None or price < 0:
        raise RowRefused("price", "is missing or negative")
    text, symbol = str(row.get("symbol")), symbol_of(row.get("symbol"), when)
    pair = _pair(text)
    return TradeDraft(
        row_number=None,
        broker="alpaca",
        account_id=account_id,
        exec_time=when,
        instrument=text[:80],
        symbol=pair or symbol.symbol,
        asset_class=AssetClass.CRYPTO if pair else symbol.asset_class,
        side=side,
        quantity=quantity,
        price=price,
        multiplier=Decimal(1) if pair else wanted.multiplier(symbol),
        currency=wanted.currency,
        exec_id=plain(row.get("id"), 128) or "",
        order_id=plain(row.get("order_id"), 128),
    )


def _pair(text: str) -> str | None:
    """Coins are written `BTC/USD`."""
    coin, slash, money = text.upper().partition("/")
    return f"{coin}-{money}" if slash and money in _QUOTED_IN else None
