"""Tradier's brokerage side: trades from the account's history, read page by page, with balances and positions.

The history comes from the clearing firm overnight: it has days without times, and no order numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from ..imports.collect import costs
from ..imports.drafts import TradeDraft
from ..imports.rows import RowRefused
from ..imports.values import BadValue, parse_moment, zone
from ..market.failures import Failure, Kind
from ..market.providers.tradier import rows_of
from ..market.shapes import at, number, plain, read_object
from ..values.kinds import Side
from .pulled import BrokerLink, Position, Pulled, PullWindow, Source, collect, symbol_of

__all__ = ["positions", "pull"]

PAGE = 1000
MOST_PAGES = 100


async def pull(link: BrokerLink, wanted: PullWindow) -> Pulled:
    number_at_broker = await _account(link)
    account_id = link.account_id or number_at_broker
    balances = read_object(await link.get(f"/v1/accounts/{number_at_broker}/balances"), "balances")
    rows = await _trades(link, number_at_broker, wanted)
    found = collect("tradier", "tradier_api", account_id, wanted, rows, lambda row: _draft(row, account_id, wanted))
    return Pulled(
        (Source(found),),
        account_id,
        number(balances.get("total_equity")),
        wanted.currency,
        tuple(await _positions(link, number_at_broker)),
        cursor=found.date_to,
    )


async def positions(link: BrokerLink) -> list[Position]:
    return await _positions(link, await _account(link))


async def _account(link: BrokerLink) -> str:
    """The account that was named, else the first of the key's owner."""
    if link.account_id is not None:
        return quote(link.account_id, safe="")
    accounts = rows_of(at(await link.get("/v1/user/profile"), "profile", "account"))
    found = plain(accounts[0].get("account_number"), 32) if accounts else None
    if found is None or not found.isalnum():
        raise link.odd("account details")
    return found


async def _positions(link: BrokerLink, account: str) -> list[Position]:
    answer = await link.get(f"/v1/accounts/{account}/positions")
    if "positions" not in read_object(answer):
        raise link.odd("positions")
    found = []
    for row in rows_of(at(answer, "positions", "position")):
        symbol, quantity, cost = (
            plain(row.get("symbol"), 64),
            number(row.get("quantity")),
            number(row.get("cost_basis")),
        )
        if symbol is None or not quantity:
            raise link.odd("positions")
        name = symbol_of(symbol, link.outbound.now())
        average = None if cost is None else number(abs(cost / quantity / name.multiplier))
        found.append(Position(name.symbol, quantity, average))
    return found


async def _trades(link: BrokerLink, account: str, wanted: PullWindow) -> list[dict[str, Any]]:
    params = {"type": "trade", "limit": str(PAGE)}
    if wanted.start is not None:
        params["start"] = wanted.start.date().isoformat()
    if wanted.last_day is not None:
        params["end"] = wanted.last_day.isoformat()
    found: list[dict[str, Any]] = []
    for page in range(1, MOST_PAGES + 1):
        answer = await link.get(f"/v1/accounts/{account}/history", {**params, "page": str(page)})
        if "history" not in read_object(answer):
            raise link.odd("history")
        rows = rows_of(at(answer, "history", "event"))
        found += rows
        if len(rows) < PAGE:
            return found
    raise Failure(
        link.reach.name, Kind.BAD_ANSWER, f"it has more than {MOST_PAGES * PAGE} events; name a shorter period"
    )


def _draft(row: Mapping[str, Any], account_id: str, wanted: PullWindow) -> TradeDraft | None:
    trade = read_object(row, "trade") if isinstance(row, dict) else {}
    if row.get("type") != "trade" or not trade:
        return None
    when, known = _when(row.get("date"), wanted.timezone)
    quantity, price = number(trade.get("quantity")), number(trade.get("price"))
    if not quantity:
        raise RowRefused("quantity", "is missing or zero")
    if price is None or price < 0:
        raise RowRefused("price", "is missing or negative")
    symbol = symbol_of(trade.get("symbol"), when)
    commission, fees, ledger = costs(abs(number(trade.get("commission")) or Decimal(0)), [], wanted.currency)
    return TradeDraft(
        row_number=None,
        broker="tradier",
        account_id=account_id,
        exec_time=when,
        time_known=known,
        instrument=plain(trade.get("symbol"), 80) or symbol.symbol,
        symbol=symbol.symbol,
        asset_class=symbol.asset_class,
        side=Side.BOT if quantity > 0 else Side.SLD,
        quantity=abs(quantity),
        price=price,
        multiplier=wanted.multiplier(symbol),
        currency=wanted.currency,
        commission=commission,
        fees=fees,
        ledger=ledger,
    )


def _when(value: Any, timezone: str) -> tuple[datetime, bool]:
    """A day, written as midnight UTC: the clearing firm has no times."""
    text = str(value or "")
    try:
        day_alone = text[10:] in ("", "T00:00:00Z", "T00:00:00.000Z")
        return parse_moment(text[:10] if day_alone else text, zone(timezone))
    except (BadValue, OverflowError):
        raise RowRefused("date", "is missing or no date") from None
