"""Price bars for the time a trade was held: fetched when nothing is stored, so that its excursion can be known."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from ..analytics.excursion import Resolution, held_window, wanted_resolution
from ..database.engine import Database
from ..errors import Refusal, Unavailable
from ..market.market import Market
from .round_trip_views import trip_of
from .round_trips import episode_of

__all__ = ["cover"]


async def cover(
    db: Database, market: Market, exec_id: str, wanted: Resolution | None, now: datetime, missing: Unavailable
) -> None:
    """Fetch bars for the round trip of an execution; `missing`, with the reason added, if no provider has them."""

    def window(conn: Connection) -> tuple[str, datetime, datetime] | None:
        row = trip_of(conn, exec_id)
        if row is None:
            return None
        episode = episode_of(row)
        return episode.symbol, *held_window(episode, now)

    found = await db.read(window)
    if found is None:
        raise missing
    symbol, start, end = found
    try:
        count = await market.fetch_bars(symbol, wanted or wanted_resolution(end - start), start, end)
    except Refusal as refusal:
        raise Unavailable(missing.code, f"{missing.detail} {refusal.detail}", **refusal.extra) from None
    if not count:
        raise missing
