"""Benzinga: news, for the market or one share."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ...values.symbols import Instrument
from ..provider import Link, Provider
from ..shapes import News, moment, plain, read_list, read_object

__all__ = ["PROVIDER"]


async def news(link: Link, instrument: Instrument | None, count: int) -> list[News]:
    params = {"pageSize": str(count), "displayOutput": "abstract"}
    if instrument is not None:
        params["tickers"] = instrument.underlying
    answer = await link.get("/news", params)
    if not isinstance(answer, list):
        raise link.odd()
    return [
        News(
            title=title,
            source="Benzinga",
            url=plain(item.get("url"), 2000),
            published_at=_when(item.get("created")),
            tickers=[
                name for stock in read_list(item, "stocks") if (name := plain(read_object(stock).get("name"), 32))
            ],
            summary=plain(item.get("teaser"), 2000),
            provider=link.name,
        )
        for item in map(read_object, answer)
        if (title := plain(item.get("title")))
    ][:count]


def _when(value: Any) -> datetime | None:
    """Benzinga writes dates as mail does: `Wed, 17 May 2023 13:20:15 -0400`."""
    try:
        return moment(parsedate_to_datetime(str(value)).isoformat())
    except (ValueError, TypeError):
        return moment(value)


async def _test(link: Link) -> bool:
    answer = await link.get("/news", {"pageSize": "1"})
    return isinstance(answer, list) or isinstance(read_object(answer).get("data"), list)


PROVIDER = Provider(
    name="Benzinga",
    slug="benzinga",
    base="https://api.benzinga.com/api/v2",
    signup_url="https://www.benzinga.com/apis",
    rate_limit=60,
    data_types=("news",),
    params=lambda key: {"token": key},
    test=_test,
    news=news,
)
