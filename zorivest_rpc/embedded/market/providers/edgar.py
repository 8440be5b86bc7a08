"""SEC EDGAR: filings straight from the commission, free of charge and without a key.

EDGAR wants to know who asks. The provider's key is that contact (an e-mail address), sent in the User-Agent; without
one requests name this program alone and may be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...vault.credentials import Credential
from ..provider import Link, Provider
from ..shapes import Filing, day, plain, read_list, read_object

__all__ = ["PROVIDER"]

_ARCHIVE = "https://www.sec.gov/Archives/edgar/data"
_A_DAY = 86_400.0
_COLUMNS = ("accessionNumber", "filingDate", "reportDate", "form", "primaryDocument")


async def _cik(link: Link, ticker: str) -> int:
    numbers = await link.outbound.fetch_seldom("edgar tickers", _A_DAY, lambda: _numbers(link))
    word = ticker.replace(".", "-").replace("/", "-")
    if word not in numbers:
        raise link.unknown(ticker)
    return numbers[word]


async def _numbers(link: Link) -> dict[str, int]:
    """The number of every company with a ticker; a large file that changes seldom."""
    answer = await link.get("/files/company_tickers.json")
    if not isinstance(answer, dict):
        raise link.odd()
    rows = map(read_object, answer.values())
    return {
        row["ticker"]: row["cik_str"]
        for row in rows
        if isinstance(row.get("ticker"), str) and isinstance(row.get("cik_str"), int)
    }


async def filings(link: Link, ticker: str, forms: frozenset[str], limit: int) -> list[Filing]:
    cik = await _cik(link, ticker)
    answer = await link.get(f"/submissions/CIK{cik:010d}.json", host="data")
    recent = read_object(answer, "filings", "recent")
    if not isinstance(recent.get("accessionNumber"), list):
        raise link.odd()
    name = plain(read_object(answer).get("name"), 200) or ticker
    found = []
    for accession, filed, reported, form, document in _rows(recent):
        if accession is None or (forms and str(form).upper() not in forms):
            continue
        folder = f"{_ARCHIVE}/{cik}/{accession.replace('-', '')}"
        found.append(
            Filing(
                ticker=ticker,
                company_name=name,
                cik=f"{cik:010d}",
                filing_type=form,
                filing_date=day(filed),
                report_date=day(reported),
                accession_number=accession,
                url=f"{folder}/{document}" if document else f"{folder}/",
                provider=link.name,
            )
        )
        if len(found) == limit:
            break
    return found


def _rows(recent: dict[str, Any]) -> Iterator[tuple[str | None, ...]]:
    """EDGAR sends columns; a column that is shorter than the first has nothing to say about the rest."""
    columns = [read_list(recent, name) for name in _COLUMNS]
    for place in range(len(columns[0])):
        yield tuple(plain(column[place], 200) if place < len(column) else None for column in columns)


async def _test(link: Link) -> bool:
    answer = await link.get("/files/company_tickers.json")
    return "ticker" in read_object(next(iter(answer.values()), None)) if isinstance(answer, dict) else False


def _headers(contact: str, secret: str) -> dict[str, str]:
    return {"User-Agent": f"zorivest-rpc {contact or '(a trading journal run by its own user)'}"}


PROVIDER = Provider(
    name="SEC EDGAR",
    slug="sec_edgar",
    base="https://www.sec.gov",
    hosts={"data": "https://data.sec.gov"},
    signup_url="https://www.sec.gov/os/accessing-edgar-data",
    rate_limit=300,
    per_second=8,
    data_types=("filings",),
    requires_key=False,
    credentials=(Credential("api_key", "contact address", secret=False),),
    headers=_headers,
    aliases=("edgar", "sec"),
    test=_test,
    filings=filings,
)
