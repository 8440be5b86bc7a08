"""The tables of market data: providers with their encrypted keys, what was fetched, price bars, known identifiers."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, String, Table, Text, UniqueConstraint, false

from ..columns import QUANTITY_PLACES, Moment, Scaled
from .journal import metadata

__all__ = [
    "SINCE",
    "VOLUME_PLACES",
    "fetch_cache",
    "identifier_cache",
    "market_fundamentals",
    "market_news",
    "market_ohlcv",
    "market_providers",
    "market_quotes",
]

SINCE = 6
"""The schema version that brought these tables."""

VOLUME_PLACES = 4  # coins trade in fractions and in trillions

_INFO = {"since": SINCE}


def _price(name: str, **options: Any) -> Column[Any]:
    return Column(name, Scaled(QUANTITY_PLACES), **options)


def _volume(name: str, **options: Any) -> Column[Any]:
    return Column(name, Scaled(VOLUME_PLACES), **options)


# A row exists once something about a provider was said; without one the registry's own values hold.
market_providers = Table(
    "market_providers",
    metadata,
    Column("provider_name", String(64), primary_key=True),
    Column("encrypted_api_key", Text),
    Column("encrypted_api_secret", Text),
    Column("rate_limit", Integer),
    Column("timeout", Integer),
    Column("is_enabled", Boolean, nullable=False, server_default=false()),
    Column("last_tested_at", Moment),
    Column("last_test_status", String(16), nullable=False, server_default="untested"),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=_INFO,
)

fetch_cache = Table(
    "fetch_cache",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("provider", String(64), nullable=False),
    Column("data_type", String(32), nullable=False),
    Column("entity_key", String(256), nullable=False),
    Column("payload_json", Text, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("etag", String(256)),
    Column("last_modified", String(64)),
    Column("fetched_at", Moment, nullable=False),
    Column("ttl_seconds", Integer, nullable=False),
    UniqueConstraint("provider", "data_type", "entity_key"),
    Index("ix_fetch_cache_entity", "data_type", "entity_key", "fetched_at"),
    info=_INFO,
)

market_ohlcv = Table(
    "market_ohlcv",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("ticker", String(64), nullable=False),
    Column("interval", String(4), nullable=False),
    Column("timestamp", Moment, nullable=False),
    _price("open", nullable=False),
    _price("high", nullable=False),
    _price("low", nullable=False),
    _price("close", nullable=False),
    _price("adj_close"),
    _volume("volume", nullable=False),
    _price("vwap"),
    Column("trade_count", Integer),
    Column("provider", String(64), nullable=False),
    # the order in which a holding period is read; one provider says one thing about one bar
    UniqueConstraint("ticker", "interval", "timestamp", "provider"),
    info=_INFO,
)

market_quotes = Table(
    "market_quotes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("ticker", String(64), nullable=False),
    Column("timestamp", Moment, nullable=False),
    _price("price", nullable=False),
    _price("bid"),
    _price("ask"),
    _volume("volume"),
    Column("provider", String(64), nullable=False),
    Index("ix_market_quotes_ticker_timestamp", "ticker", "timestamp"),
    info=_INFO,
)

market_news = Table(
    "market_news",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("title", Text, nullable=False),
    Column("source", String(200), nullable=False, server_default=""),
    Column("url", String(2000), nullable=False),
    Column("published_at", Moment),
    Column("tickers", JSON, nullable=False, server_default="[]"),
    Column("summary", Text),
    Column("provider", String(64), nullable=False),
    UniqueConstraint("url", "provider"),
    info=_INFO,
)

market_fundamentals = Table(
    "market_fundamentals",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("ticker", String(64), nullable=False),
    Column("metric", String(64), nullable=False),
    Column("period", String(16), nullable=False),
    Column("value", Float, nullable=False),
    Column("provider", String(64), nullable=False),
    UniqueConstraint("ticker", "metric", "period", "provider"),
    info=_INFO,
)

identifier_cache = Table(
    "identifier_cache",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("id_type", String(8), nullable=False),
    Column("id_value", String(16), nullable=False),
    Column("ticker", String(64), nullable=False),
    Column("name", String(200)),
    Column("exchange", String(32)),
    Column("security_type", String(64)),
    Column("source", String(16), nullable=False),
    Column("confidence", Float, nullable=False),
    Column("resolved_at", Moment, nullable=False),
    Column("expires_at", Moment),
    UniqueConstraint("id_type", "id_value"),
    info=_INFO,
)
