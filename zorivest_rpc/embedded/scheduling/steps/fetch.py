"""The step `fetch`: asks a market data provider, with criteria that may depend on the time, the journal or the last
run."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import timedelta
from typing import Any

from sqlalchemy import select

from ...database.schema.scheduling import pipeline_state
from ..sandbox import QueryRefused
from ..step import Context, FetchRequest, StepFailed, StepResult, StepType

__all__ = ["FETCH"]

_OFFSET = re.compile(r"-?(\d{1,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_MOST_VALUES = 500


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    criteria: dict[str, Any] = {}
    marks: dict[str, str] = {}  # state key to the field whose largest value becomes the next mark
    for name, value in params.get("criteria", {}).items():
        criteria[name] = await _value(name, value, params, context, marks)
    records: list[dict[str, Any]] = []
    statuses = set()
    for part in _batches(criteria, params.get("batch_size", 50)):
        cached = params.get("use_cache", True)
        request = FetchRequest(params["provider"], params["data_type"], part, cached, context.now())
        fetched = await context.fetch(request)
        records += fetched.records
        statuses.add(fetched.cache_status)
    for key, field in marks.items():
        seen = [str(record[field]) for record in records if record.get(field) is not None]
        if seen:
            context.marks[key] = max(seen)[:64]
    text = json.dumps(records, sort_keys=True, default=str)
    status = statuses.pop() if len(statuses) == 1 else "mixed" if statuses else "none"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return StepResult(
        {"records": records, "count": len(records), "cache_status": status, "content_hash": digest},
        {"records": len(records), "cache_status": status},
    )


def _batches(criteria: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """A long list of tickers is asked in parts."""
    tickers = criteria.get("tickers")
    if not isinstance(tickers, list):
        return [criteria]
    return [{**criteria, "tickers": tickers[start : start + size]} for start in range(0, len(tickers), size)]


async def _value(name: str, value: Any, params: dict[str, Any], context: Context, marks: dict[str, str]) -> Any:
    """A criterion as a plain value."""
    if not isinstance(value, dict) or "type" not in value:
        return value
    if value["type"] == "relative":
        found = _OFFSET.fullmatch(str(value.get("offset", "")))
        if found is None:
            raise StepFailed(f'The offset of "{name}" must look like 30d, 12h or 15m.', retry=False)
        return (context.now() - timedelta(**{_UNITS[found[2]]: int(found[1])})).isoformat()
    if value["type"] == "incremental":
        key = f"{context.step_id}/{params['provider']}/{params['data_type']}/{name}"[:256]
        marks[key] = str(value.get("field", "timestamp"))
        statement = select(pipeline_state.c.high_water).where(
            pipeline_state.c.policy_id == context.policy_id, pipeline_state.c.state_key == key
        )
        mark = await context.db.read(lambda conn: conn.execute(statement).scalar())
        return mark if mark is not None else value.get("start")
    if value["type"] == "db_query":
        await context.refresh([str(value.get("sql", ""))], context.now())
        try:
            rows = await context.sandbox.query(str(value.get("sql", "")), value.get("binds"), _MOST_VALUES)
        except QueryRefused as exc:
            raise StepFailed(f'The query of "{name}": {exc}') from None
        return [row[0] for row in rows.rows]
    raise StepFailed(
        f'"{value["type"]}" is not a kind of criterion; use relative, incremental or db_query.', retry=False
    )


_CRITERION = {
    "description": "A plain value, or where it comes from.",
    "if": {"type": "object", "required": ["type"]},
    "then": {
        "properties": {
            "type": {"enum": ["relative", "incremental", "db_query"]},
            "offset": {"type": "string", "pattern": f"^{_OFFSET.pattern}$", "description": "relative: 30d, 12h, 15m."},
            "field": {"type": "string", "minLength": 1, "maxLength": 64, "description": "incremental: what is newest."},
            "start": {"type": "string", "maxLength": 64, "description": "incremental: the value before the first run."},
            "sql": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "db_query: its first column."},
            "binds": {"type": "object", "maxProperties": 20},
        },
        "additionalProperties": False,
        "allOf": [
            {"if": {"properties": {"type": {"const": kind}}}, "then": {"required": [needed]}}
            for kind, needed in (("relative", "offset"), ("db_query", "sql"))
        ],
    },
}

FETCH = StepType(
    "fetch",
    side_effects=False,
    description="Reads market data: provider local is what is stored, auto asks the providers in their order, a name "
    "asks that one. Criteria: tickers, interval, since, until; plain values, {type: relative, offset: 30d}, "
    "{type: incremental, field, start} for what is newer than last time, {type: db_query, sql} for a list.",
    params={
        "type": "object",
        "properties": {
            "provider": {"type": "string", "minLength": 1, "maxLength": 64},
            "data_type": {"enum": ["quote", "ohlcv", "news", "fundamentals"]},
            "criteria": {"type": "object", "maxProperties": 20, "default": {}, "additionalProperties": _CRITERION},
            "batch_size": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
            "use_cache": {"type": "boolean", "default": True},
        },
        "required": ["provider", "data_type"],
        "additionalProperties": False,
    },
    run=_run,
)
