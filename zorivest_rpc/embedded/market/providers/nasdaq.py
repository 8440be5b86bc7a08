"""Nasdaq Data Link: fundamentals of companies, from the tables of Sharadar.

A table comes as rows and the names of its columns; every number in a row is one metric of one period. Without a
subscription the service gives a sample of companies."""

from __future__ import annotations

from typing import Any

from ..failures import Kind
from ..provider import Link, Provider
from ..shapes import Fundamental, at, day, number, plain, read_list, read_object

__all__ = ["DIMENSIONS", "PROVIDER"]

_TABLE = "/datatables/SHARADAR/SF1.json"
_PAGE = 200
_MOST_PAGES = 10
DIMENSIONS = ("ARY", "ARQ", "ART", "MRY", "MRQ", "MRT")
"""As reported or as last restated; of a year, a quarter or the last twelve months."""


async def fundamentals(link: Link, ticker: str, dimension: str) -> list[Fundamental]:
    params = {"ticker": ticker.replace(".", "-"), "dimension": dimension, "qopts.per_page": str(_PAGE)}
    found: list[Fundamental] = []
    for _ in range(_MOST_PAGES):
        answer = await link.get(_TABLE, params)
        names = [plain(read_object(column).get("name"), 64) for column in read_list(answer, "datatable", "columns")]
        if not names or not isinstance(at(answer, "datatable", "data"), list):
            raise link.odd()
        for row in read_list(answer, "datatable", "data"):
            found += _metrics(link, ticker, names, row)
        cursor = at(answer, "meta", "next_cursor_id")
        if not isinstance(cursor, str) or not cursor:
            return found
        params["qopts.cursor_id"] = cursor
    raise link.failure(Kind.BAD_ANSWER, f"it has more than {_MOST_PAGES * _PAGE} periods")


def _metrics(link: Link, ticker: str, names: list[str | None], row: Any) -> list[Fundamental]:
    values = dict(zip(names, row, strict=False)) if isinstance(row, list) else {}
    ends = day(values.get("reportperiod")) or day(values.get("calendardate"))
    kind = plain(values.get("dimension"), 3)
    if ends is None or kind is None:
        return []
    return [
        Fundamental(ticker=ticker, metric=name, period=f"{ends} {kind}", value=value, provider=link.name)
        for name, cell in values.items()
        if name and not isinstance(cell, str) and (value := number(cell, most=None)) is not None
    ]


async def _test(link: Link) -> bool:
    answer = await link.get(_TABLE, {"ticker": "AAPL", "dimension": "MRY", "qopts.per_page": "1"})
    return isinstance(at(answer, "datatable", "data"), list)


PROVIDER = Provider(
    name="Nasdaq Data Link",
    slug="nasdaq_data_link",
    base="https://data.nasdaq.com/api/v3",
    signup_url="https://data.nasdaq.com/sign-up",
    rate_limit=50,
    data_types=("fundamentals",),
    params=lambda key: {"api_key": key},
    aliases=("nasdaq", "quandl"),
    test=_test,
    fundamentals=fundamentals,
)
