"""What tests of tax answers ask with: days before today, and the lots of a journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.tax.dates import trade_date

TODAY = trade_date(datetime.now(UTC))
Satisfies = Callable[[str, Any], None]


def ago(days: int) -> str:
    return (TODAY - timedelta(days=days)).isoformat()


async def lots(journal: Journal, status: str = "open", **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await journal.get("/tax/lots", params={"status": status, **query}))["lots"]
    return found
