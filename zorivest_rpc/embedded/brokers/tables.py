"""The tables of broker connections: what is configured, with encrypted secrets, and what each import brought."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Index, Integer, String, Table, Text, true

from ..columns import Moment
from ..tables import metadata

__all__ = ["SINCE", "broker_configs", "import_batches"]

SINCE = 5
"""The schema version that brought these tables."""

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

import_batches = Table(
    "import_batches",
    metadata,
    Column("batch_id", String(64), primary_key=True),
    Column("kind", String(16), nullable=False),  # broker_csv, broker_pdf, bank, sync
    Column("file_name", String(300), nullable=False, server_default=""),
    Column("file_sha256", String(64)),
    Column("account_id", String(128), nullable=False),
    Column("detected_format", String(64), nullable=False, server_default=""),
    Column("total_rows", Integer, nullable=False, server_default="0"),
    Column("imported", Integer, nullable=False, server_default="0"),
    Column("duplicates_skipped", Integer, nullable=False, server_default="0"),
    Column("skipped_rows", Integer, nullable=False, server_default="0"),
    Column("status", String(8), nullable=False),
    Column("errors", JSON, nullable=False, server_default="[]"),
    Column("created_at", Moment, nullable=False),
    Index("ix_import_batches_created_at", "created_at"),
    Index("ix_import_batches_file", "file_sha256", "account_id"),
    info=_INFO,
)
