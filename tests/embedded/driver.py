"""The one driver of a journal over REST, in the words that its tests speak: buy, sell, upload, refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import FormData

from tests.embedded.conftest import Caller

__all__ = ["START", "Journal", "form"]

START = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)  # a Monday, New York is open


def form(data: bytes | None, filename: str = "export.csv", **fields: str) -> FormData:
    body = FormData(default_to_multipart=True)
    if data is not None:
        body.add_field("file", data, filename=filename, content_type="application/octet-stream")
    for name, value in fields.items():
        body.add_field(name, value)
    return body


class Journal:
    """A caller that keeps a journal and brings files to it."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.get = caller.get
        self.expect = caller.expect
        self.ask = caller.ask
        self._count = 0

    async def trade(self, action: str, quantity: Any, price: Any, day: Any = None, **more: Any) -> dict[str, Any]:
        """Record a fill and return it: at 15:00 UTC of a day, which is the same day in New York, or a minute after the
        one before."""
        self._count += 1
        moment = f"{day}T15:00:00+00:00" if day else (START + timedelta(minutes=self._count)).isoformat()
        body = {
            "exec_id": f"E{self._count:04d}",
            "instrument": "SPY",
            "action": action,
            "quantity": quantity,
            "price": price,
            "account_id": "A1",
            "time": moment,
            **more,
        }
        answer = await self.expect(201, "POST", "/trades", body)
        trade: dict[str, Any] = answer["trade"]
        return trade

    async def buy(self, quantity: Any, price: Any, day: Any = None, **more: Any) -> dict[str, Any]:
        return await self.trade("BOT", quantity, price, day, **more)

    async def sell(self, quantity: Any, price: Any, day: Any = None, **more: Any) -> dict[str, Any]:
        return await self.trade("SLD", quantity, price, day, **more)

    async def result(self, pnl: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """A closed round trip that earned `pnl`."""
        opened = await self.buy(1, 1000, **more)
        return opened, await self.sell(1, 1000 + pnl, **more)

    async def trades(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.get("/trades", params={"limit": "1000", "sort": "time"}))["items"]
        return items

    async def trips(self, **query: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await self.get("/round-trips", params={"limit": "1000", **query}))["items"]
        return items

    async def csv(self, data: bytes, account_id: str = "A1", status: int = 200, **fields: str) -> Any:
        body = form(data, account_id=account_id, **fields)
        return await self.expect(status, "POST", "/import/csv", data=body)

    async def pdf(self, data: bytes, account_id: str = "A1", status: int = 200) -> Any:
        body = form(data, "statement.pdf", account_id=account_id)
        return await self.expect(status, "POST", "/import/pdf", data=body)

    async def bank(
        self, data: bytes, account_id: str = "B1", status: int = 200, name: str = "statement.csv", **fields: str
    ) -> Any:
        body = form(data, name, account_id=account_id, **fields)
        return await self.expect(status, "POST", "/banking/import", data=body)

    async def refused(self, status: int, method: str, path: str, json: Any = None, **options: Any) -> dict[str, Any]:
        """The envelope of a refusal, which is always whole."""
        answer: dict[str, Any] = await self.expect(status, method, path, json, **options)
        assert {"error", "detail", "request_id"} <= answer.keys()
        return answer

    async def contents(self) -> dict[str, Any]:
        """Everything an import can change."""
        return {
            "trades": await self.trades(),
            "trips": await self.trips(),
            "accounts": await self.get("/accounts"),
            "banks": await self.get("/banking/accounts"),
            "fees": await self.get("/fees/summary", params={"period": "all"}),
        }
