"""A journal behind the real application, and the words the tests speak: buy, sell, picture, schema."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import jsonschema
import pytest
from PIL import Image

from tests.embedded.conftest import Caller
from tests.places import ROOT

SCHEMAS = ROOT / "schemas" / "tools"
START = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)  # a Monday, New York is open


class Journal:
    """A caller that keeps a journal."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.get = caller.get
        self.expect = caller.expect
        self.ask = caller.ask
        self._count = 0

    async def trade(self, action: str, quantity: Any, price: Any, **more: Any) -> dict[str, Any]:
        """Record a fill, a minute after the one before; the answer's trade."""
        self._count += 1
        moment = START + timedelta(minutes=self._count)
        body = {
            "exec_id": f"E{self._count:04d}",
            "instrument": "SPY",
            "action": action,
            "quantity": quantity,
            "price": price,
            "account_id": "A1",
            "time": moment.isoformat(),
            **more,
        }
        answer = await self.expect(201, "POST", "/trades", body)
        trade: dict[str, Any] = answer["trade"]
        return trade

    async def buy(self, quantity: Any, price: Any, **more: Any) -> dict[str, Any]:
        return await self.trade("BOT", quantity, price, **more)

    async def sell(self, quantity: Any, price: Any, **more: Any) -> dict[str, Any]:
        return await self.trade("SLD", quantity, price, **more)

    async def result(self, pnl: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """A closed round trip that earned `pnl`."""
        opened = await self.buy(1, 1000, **more)
        return opened, await self.sell(1, 1000 + pnl, **more)

    async def trips(self, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.get("/round-trips", params={"limit": "1000", **query}))["items"]
        return found

    async def refused(self, status: int, method: str, path: str, json: Any = None, **options: Any) -> dict[str, Any]:
        """The envelope of a refusal, which is always whole."""
        answer: dict[str, Any] = await self.expect(status, method, path, json, **options)
        assert {"error", "detail", "request_id"} <= answer.keys()
        return answer


@pytest.fixture
async def journal(admin: Caller) -> Journal:
    return Journal(admin)


def picture(kind: str = "PNG", size: tuple[int, int] = (640, 320), mode: str = "RGB", **options: Any) -> bytes:
    """An image file."""
    out = io.BytesIO()
    image = Image.effect_noise(size, 64).convert(mode)
    image.save(out, kind, **options)
    return out.getvalue()


def form(data: bytes, caption: str | None = None, filename: str = "chart.png") -> Any:
    from aiohttp import FormData

    body = FormData()
    body.add_field("file", io.BytesIO(data), filename=filename, content_type="image/png")
    if caption is not None:
        body.add_field("caption", caption)
    return body


@pytest.fixture(scope="session")
def satisfies() -> Callable[[str, Any], None]:
    """Checks an answer against the output schema of a tool, where that has one."""

    def check(tool: str, answer: Any) -> None:
        (path,) = SCHEMAS.glob(f"*/{tool}.json")
        schema = json.loads(path.read_text(encoding="utf-8")).get("outputSchema")
        if schema is not None:
            jsonschema.validate(answer, schema)

    return check
