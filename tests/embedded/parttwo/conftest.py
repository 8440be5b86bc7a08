"""A journal that files are brought to, and the words the tests speak: upload, buy, sell, schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from aiohttp import FormData

from tests.embedded.conftest import Caller
from tests.places import ROOT

SCHEMAS = ROOT / "schemas" / "tools"


def form(data: bytes | None, filename: str = "export.csv", **fields: str) -> FormData:
    body = FormData(default_to_multipart=True)
    if data is not None:
        body.add_field("file", data, filename=filename, content_type="application/octet-stream")
    for name, value in fields.items():
        body.add_field(name, value)
    return body


class Books:
    """A caller that keeps a journal and brings files to it."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.get = caller.get
        self.expect = caller.expect
        self._count = 0

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

    async def trades(self) -> list[dict[str, Any]]:
        page = await self.get("/trades", params={"limit": "1000", "sort": "time"})
        found: list[dict[str, Any]] = page["items"]
        return found

    async def trade(self, action: str, quantity: Any, price: Any, day: str, **more: Any) -> str:
        """Record a fill at 15:00 UTC of a day, which is the same day in New York; its id."""
        self._count += 1
        body = {
            "exec_id": f"E{self._count:04d}",
            "instrument": "SPY",
            "action": action,
            "quantity": quantity,
            "price": price,
            "account_id": "A1",
            "time": f"{day}T15:00:00+00:00",
            **more,
        }
        answer = await self.expect(201, "POST", "/trades", body)
        name: str = answer["exec_id"]
        return name

    async def buy(self, quantity: Any, price: Any, day: str, **more: Any) -> str:
        return await self.trade("BOT", quantity, price, day, **more)

    async def sell(self, quantity: Any, price: Any, day: str, **more: Any) -> str:
        return await self.trade("SLD", quantity, price, day, **more)

    async def refused(self, status: int, method: str, path: str, json: Any = None, **options: Any) -> dict[str, Any]:
        """The envelope of a refusal, which is always whole."""
        answer: dict[str, Any] = await self.expect(status, method, path, json, **options)
        assert {"error", "detail", "request_id"} <= answer.keys()
        return answer

    async def contents(self) -> dict[str, Any]:
        """Everything an import can change."""
        return {
            "trades": await self.trades(),
            "trips": (await self.get("/round-trips", params={"limit": "1000"}))["items"],
            "accounts": await self.get("/accounts"),
            "banks": await self.get("/banking/accounts"),
            "fees": await self.get("/fees/summary", params={"period": "all"}),
        }


@pytest.fixture
async def books(admin: Caller) -> Books:
    return Books(admin)


@pytest.fixture(scope="session")
def satisfies() -> Callable[[str, Any], None]:
    """Checks an answer against the output schema of a tool, where that has one, and against what it keeps."""

    def check(tool: str, answer: Any) -> None:
        (path,) = SCHEMAS.glob(f"*/{tool}.json")
        schema = json.loads(path.read_text(encoding="utf-8")).get("outputSchema")
        if schema is not None:
            jsonschema.validate(answer, schema)

    return check
