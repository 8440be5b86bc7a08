"""OpenFIGI: what an identifier stands for, many at once, with or without a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...vault.credentials import Credential
from ..provider import Link, Provider
from ..shapes import read_list, read_object

__all__ = ["PROVIDER", "lookup"]

_TYPES = {"cusip": "ID_CUSIP", "isin": "ID_ISIN", "sedol": "ID_SEDOL", "figi": "ID_BB_GLOBAL"}
_JOBS, _JOBS_WITH_KEY = 10, 100


async def lookup(link: Link, asked: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """For each (type, value) the best match or {}; a listing in the United States comes before others."""
    step = _JOBS_WITH_KEY if link.reach.secrets else _JOBS
    found: list[dict[str, Any]] = []
    for start in range(0, len(asked), step):
        part = asked[start : start + step]
        answer = await link.post("/mapping", [{"idType": _TYPES[kind], "idValue": value} for kind, value in part])
        if not isinstance(answer, list) or len(answer) != len(part):
            raise link.odd()
        found += [_best(item) for item in answer]
    return found


def _best(item: Any) -> dict[str, Any]:
    rows = [row for row in map(read_object, read_list(item, "data")) if isinstance(row.get("ticker"), str)]
    return next((row for row in rows if row.get("exchCode") == "US"), rows[0] if rows else {})


async def _test(link: Link) -> bool:
    answer = await link.post("/mapping", [{"idType": "ID_ISIN", "idValue": "US0378331005"}])
    return "data" in read_object(answer, 0)


PROVIDER = Provider(
    name="OpenFIGI",
    slug="openfigi",
    base="https://api.openfigi.com/v3",
    signup_url="https://www.openfigi.com/user/signup",
    rate_limit=25,
    data_types=("identifiers",),
    requires_key=False,
    credentials=(Credential("api_key", "API key", required=False),),
    headers=lambda key, secret: {"X-OPENFIGI-APIKEY": key} if key else {},
    test=_test,
)
