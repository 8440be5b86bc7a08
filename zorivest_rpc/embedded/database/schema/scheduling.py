"""The tables of scheduling: policies, their runs with steps, what reports held, and what was delivered to whom."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint, false

from ..columns import Moment
from .journal import metadata

__all__ = [
    "SINCE",
    "email_provider",
    "pipeline_runs",
    "pipeline_state",
    "pipeline_steps",
    "policies",
    "report_deliveries",
    "report_versions",
    "reports",
]

SINCE = 7
"""The schema version that brought these tables."""

_INFO = {"since": SINCE}

policies = Table(
    "policies",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("schema_version", Integer, nullable=False),
    Column("policy_json", JSON, nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("approved_hash", String(64)),  # approved means: equal to content_hash
    Column("approved_at", Moment),
    Column("approved_by", String(128)),
    Column("handled_until", Moment),  # every firing up to here was run or told as missed
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment),
    info=_INFO,
)

# Runs outlive their policy, so they name it instead of referring to it.
pipeline_runs = Table(
    "pipeline_runs",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("run_id", String(36), nullable=False, unique=True),
    Column("policy_id", String(36), nullable=False),
    Column("policy_name", String(128), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("trigger_type", String(16), nullable=False),
    Column("dry_run", Boolean, nullable=False, server_default=false()),
    Column("scheduled_for", Moment),
    Column("missed", Integer, nullable=False, server_default="0"),
    Column("started_at", Moment, nullable=False),
    Column("completed_at", Moment),
    Column("duration_ms", Integer),
    Column("error", Text),
    Index("ix_pipeline_runs_policy_id_seq", "policy_id", "seq"),
    Index("ix_pipeline_runs_status", "status"),
    info=_INFO,
)

pipeline_steps = Table(
    "pipeline_steps",
    metadata,
    Column("run_id", ForeignKey("pipeline_runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("step_id", String(64), nullable=False),
    Column("step_type", String(32), nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempt", Integer, nullable=False, server_default="0"),
    Column("started_at", Moment),
    Column("completed_at", Moment),
    Column("duration_ms", Integer),
    Column("error", Text),
    Column("summary", JSON),
    info=_INFO,
)

# How far an incremental fetch has come.
pipeline_state = Table(
    "pipeline_state",
    metadata,
    Column("policy_id", ForeignKey("policies.id", ondelete="CASCADE"), primary_key=True),
    Column("state_key", String(256), primary_key=True),
    Column("high_water", String(64), nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=_INFO,
)

reports = Table(
    "reports",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("policy_id", String(36), nullable=False),
    Column("name", String(200), nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("policy_id", "name"),
    info=_INFO,
)

report_versions = Table(
    "report_versions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("report_id", ForeignKey("reports.id", ondelete="CASCADE"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("snapshot_hash", String(64), nullable=False),
    Column("spec_json", JSON, nullable=False),
    Column("data_json", JSON, nullable=False),
    Column("run_id", String(36), nullable=False),
    Column("created_at", Moment, nullable=False),
    UniqueConstraint("report_id", "version"),
    UniqueConstraint("report_id", "snapshot_hash"),
    info=_INFO,
)

report_deliveries = Table(
    "report_deliveries",
    metadata,
    Column("dedup_key", String(64), primary_key=True),
    Column("run_id", String(36), nullable=False),
    Column("report", String(200), nullable=False),
    Column("channel", String(16), nullable=False),
    Column("recipient", String(320), nullable=False),
    Column("snapshot_hash", String(64), nullable=False),
    Column("status", String(16), nullable=False),  # claimed, sending, sent, failed, refused, uncertain
    Column("detail", Text),
    Column("created_at", Moment, nullable=False),
    Column("updated_at", Moment, nullable=False),
    Index("ix_report_deliveries_status", "status"),
    info=_INFO,
)

email_provider = Table(
    "email_provider",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("host", String(253), nullable=False),
    Column("port", Integer, nullable=False),
    Column("security", String(8), nullable=False),
    Column("username", String(320), nullable=False, server_default=""),
    Column("encrypted_password", Text, nullable=False, server_default=""),
    Column("from_email", String(320), nullable=False),
    Column("updated_at", Moment, nullable=False),
    info=_INFO,
)
