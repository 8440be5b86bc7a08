"""The table of broker connections: what was entered, with encrypted secrets, and how far the last sync came."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, String, Table, Text, true

from ..columns import Moment
from .journal import metadata

__all__ = ["SINCE", "broker_configs"]

SINCE = 6
"""The schema version that brought it."""

_INFO = {"since": SINCE}

# A row exists once something about a broker was said or synced; the rest of a broker is in the registry.
broker_configs = Table(
    "broker_configs",
    metadata,
    Column("broker_id", String(64), primary_key=True),
    Column("encrypted_api_key", Text),
    Column("encrypted_api_secret", Text),
    Column("environment", String(8)),
    Column("account_id", String(128)),  # the journal's account that fills go to
    Column("options", JSON, nullable=False, server_default="{}"),
    Column("is_enabled", Boolean, nullable=False, server_default=true()),
    Column("last_sync", Moment),
    Column("last_status", String(16)),
    Column("cursor", String(128)),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=_INFO,
)
