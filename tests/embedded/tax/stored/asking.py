"""What tests of tax answers ask with: days before today, and the lots of a journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.tax.dates import trade_date

Satisfies = Callable[[str, Any], None]


def today() -> date:
    """Asked for in each test: a run may begin on one day and end on the next."""
    return trade_date(datetime.now(UTC))


def ago(days: int) -> str:
    return (today() - timedelta(days=days)).isoformat()


async def lots(journal: Journal, status: str = "open", **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await journal.get("/tax/lots", params={"status": status, **query}))["lots"]
    return found
