"""The step `store_report`: runs a report's queries and keeps what they found as a version of the report.

The snapshot hash covers the specification, the data and the day; the same report on the same day is one version however
often it is run."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from sqlalchemy import Connection, func, select

from ...database.schema.scheduling import report_versions, reports
from ..budget import QUERIES_PER_HOUR, spend_queries
from ..step import Context, StepFailed, StepResult, StepType
from .query import STATEMENT, run_statements

__all__ = ["STORE_REPORT"]


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    statements = params["data_queries"]
    names = {statement["name"] for statement in statements}
    for section in params["spec"]["sections"]:
        if section["query"] not in names:
            raise StepFailed(f'A section names the query "{section["query"]}", which does not exist.', retry=False)
    allowed = await context.db.write(
        lambda conn: spend_queries(conn, context.actor, context.run_id, len(statements), context.now())
    )
    if not allowed:
        raise StepFailed(f"The limit of {QUERIES_PER_HOUR} report queries per hour is reached.", retry=False)
    found = await run_statements(statements, params.get("row_limit", 1000), context)
    data = {
        name: {"columns": rows.columns, "rows": rows.rows, "truncated": rows.truncated} for name, rows in found.items()
    }
    name, spec = params["report_name"], params["spec"]
    text = json.dumps([name, spec, data, context.as_of], sort_keys=True, separators=(",", ":"))
    snapshot = hashlib.sha256(text.encode()).hexdigest()
    report_id, version = None, None
    if not context.dry_run:
        report_id, version = await context.db.write(lambda conn: _keep(conn, context, name, snapshot, spec, data))
    facts = {"report_id": report_id, "version": version, "snapshot_hash": snapshot, "query_count": len(statements)}
    counts = {key: len(rows.rows) for key, rows in found.items()}
    return StepResult(
        {"report_name": name, "spec": spec, "data": data, "counts": counts, **facts}, {**facts, "rows": counts}
    )


def _keep(
    conn: Connection, context: Context, name: str, snapshot: str, spec: dict[str, Any], data: dict[str, Any]
) -> tuple[str, int]:
    now = context.now()
    mine = (reports.c.policy_id == context.policy_id) & (reports.c.name == name)
    report_id = conn.execute(select(reports.c.id).where(mine)).scalar()
    if report_id is None:
        report_id = str(uuid.uuid4())
        row = {"id": report_id, "policy_id": context.policy_id, "name": name, "created_at": now}
        conn.execute(reports.insert().values(**row))
    versions = report_versions.c.report_id == report_id
    known = conn.execute(
        select(report_versions.c.version).where(versions, report_versions.c.snapshot_hash == snapshot)
    ).scalar()
    if known is not None:
        return report_id, known
    version = (conn.execute(select(func.max(report_versions.c.version)).where(versions)).scalar() or 0) + 1
    conn.execute(
        report_versions.insert().values(
            report_id=report_id,
            version=version,
            snapshot_hash=snapshot,
            spec_json=spec,
            data_json=data,
            run_id=context.run_id,
            created_at=now,
        )
    )
    return report_id, version


_SECTION = {
    "type": "object",
    "properties": {
        "type": {"enum": ["data_table", "metric_card", "chart"]},
        "title": {"type": "string", "maxLength": 200},
        "query": {"type": "string", "maxLength": 64, "description": "Name of one of data_queries."},
        "columns": {"type": "array", "items": {"type": "string"}, "maxItems": 50, "description": "For data_table."},
        "value": {"type": "string", "description": "Column shown by metric_card; the first by default."},
        "kind": {"enum": ["line", "bar"], "description": "For chart; line by default."},
        "x": {"type": "string", "description": "For chart: column of labels; the first by default."},
        "y": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 5,
            "description": "For chart: columns drawn; all others by default.",
        },
    },
    "required": ["type", "query"],
    "additionalProperties": False,
}

STORE_REPORT = StepType(
    "store_report",
    side_effects=True,
    description="Runs the queries of a report and stores what they found as a version of it.",
    params={
        "type": "object",
        "properties": {
            "report_name": {"type": "string", "minLength": 1, "maxLength": 200, "x-literal": True},
            "spec": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "minLength": 1, "maxLength": 200},
                    "sections": {"type": "array", "items": _SECTION, "minItems": 1, "maxItems": 20},
                },
                "required": ["title", "sections"],
                "additionalProperties": False,
                "x-literal": True,
            },
            "data_queries": {"type": "array", "items": STATEMENT, "minItems": 1, "maxItems": 10, "x-literal": True},
            "row_limit": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 1000},
        },
        "required": ["report_name", "spec", "data_queries"],
        "additionalProperties": False,
    },
    run=_run,
)
