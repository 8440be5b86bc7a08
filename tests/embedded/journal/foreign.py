"""What tests of foreign money share: loading a file, and reading figures that are kept apart."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from aiohttp import FormData

from tests.embedded.driver import Journal


async def load(journal: Journal, text: str, account: str = "US", name: str = "file.csv") -> dict[str, Any]:
    form = FormData()
    form.add_field("account_id", account)
    form.add_field("file", text.encode(), filename=name)
    answer: dict[str, Any] = await journal.expect(200, "POST", "/import/csv", data=form)
    return answer


def near(shown: Any, exact: Fraction) -> bool:
    """To the cent; fees are divided in millionths."""
    return abs(Fraction(str(shown)) - exact) <= Fraction(6, 1000)


def apart(answer: dict[str, Any], kind: str) -> dict[str, tuple[int, float]]:
    return {
        line["currency"]: (line["count"], line["amount"])
        for line in answer.get("unconverted", [])
        if line["kind"] == kind
    }
