"""SEC API (sec-api.io): filings of one ticker, newest first."""

from __future__ import annotations

import re
from typing import Any

from ..failures import Kind
from ..provider import Link, Provider
from ..shapes import Filing, day, plain, read_list, read_object

__all__ = ["PROVIDER"]

_PAGE = 50  # the service gives no more at once
_WORD = re.compile(r"[A-Z0-9.\-/ ]{1,20}")


async def filings(link: Link, ticker: str, forms: frozenset[str], limit: int) -> list[Filing]:
    wanted = sorted(forms)
    if not all(_WORD.fullmatch(word) for word in (ticker, *wanted)):
        raise link.failure(Kind.UNSUPPORTED, "it cannot search for these characters")
    query = f'ticker:"{ticker}"'
    if wanted:
        query += " AND formType:(" + " OR ".join(f'"{form}"' for form in wanted) + ")"
    rows: list[Any] = []
    while len(rows) < limit:
        size = min(limit - len(rows), _PAGE)
        body = {"query": query, "from": str(len(rows)), "size": str(size), "sort": [{"filedAt": {"order": "desc"}}]}
        answer = await link.post("/", body)
        if not isinstance(answer, dict) or "filings" not in answer:
            raise link.odd()
        page = read_list(answer, "filings")
        rows += page
        if len(page) < size:
            break
    found = [
        Filing(
            ticker=plain(item.get("ticker"), 32) or ticker,
            company_name=plain(item.get("companyName"), 200) or ticker,
            cik=cik.zfill(10),
            filing_type=plain(item.get("formType"), 32),
            filing_date=day(item.get("filedAt")),
            report_date=day(item.get("periodOfReport")),
            accession_number=plain(item.get("accessionNo"), 32),
            url=plain(item.get("linkToFilingDetails") or item.get("linkToHtml"), 2000),
            provider=link.name,
        )
        for item in map(read_object, rows)
        if (cik := plain(item.get("cik"), 10))
    ]
    if not found and not wanted:
        raise link.unknown(ticker)
    return found


async def _test(link: Link) -> bool:
    first = read_object(await link.get("/mapping/ticker/AAPL"), 0)
    return "ticker" in first or "cik" in first


PROVIDER = Provider(
    name="SEC API",
    slug="sec_api",
    base="https://api.sec-api.io",
    signup_url="https://sec-api.io/signup/free",
    rate_limit=60,
    data_types=("filings",),
    headers=lambda key, secret: {"Authorization": key},
    test=_test,
    filings=filings,
)
