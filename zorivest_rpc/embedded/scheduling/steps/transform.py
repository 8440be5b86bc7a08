"""The step `transform`: maps fetched records to a market data table, checks them, and writes the good ones.

Only the four market data tables can be written. Rows that break a rule are set aside and counted; when too few are
good, nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import JSON, Boolean, Connection, Float, Integer, Table, UniqueConstraint, and_, or_, select

from ...database.columns import Moment, Scaled
from ...database.schema.journal import metadata
from ..step import Context, StepFailed, StepResult, StepType

__all__ = ["TRANSFORM", "WRITABLE", "convert_rows", "write_rows"]

WRITABLE = ("market_ohlcv", "market_quotes", "market_news", "market_fundamentals")
_MOST_TOLD = 5
_MOST_RECORDS = 50_000


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    table = metadata.tables.get(params["target_table"])
    if table is None or params["target_table"] not in WRITABLE:
        raise StepFailed(f'This journal has no table "{params["target_table"]}" to write to.', retry=False)
    records = _source(params, context)
    rows, problems = convert_rows(table, records, params.get("mapping", "auto"), params.get("validation_rules", []))
    quality = 1.0 if not records else len(rows) / len(records)
    if quality < params.get("quality_threshold", 0.8):
        told = "; ".join(problems[:_MOST_TOLD])
        raise StepFailed(f"Only {len(rows)} of {len(records)} records are good enough: {told}.", retry=False)
    written = 0
    if not context.dry_run:
        disposition = params.get("write_disposition", "append")
        written = await context.db.write(lambda conn: write_rows(conn, table, rows, disposition))
    summary = {"valid": len(rows), "rows_written": written, "quarantined": len(problems), "quality": round(quality, 4)}
    return StepResult({"records": [_render_row(row) for row in rows], "problems": problems[:100], **summary}, summary)


def _source(params: dict[str, Any], context: Context) -> list[dict[str, Any]]:
    wanted = params.get("source_step_id")
    output = context.outputs().get(wanted) if wanted else context.latest("fetch")
    records = (output or {}).get("records")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise StepFailed(f'Step "{wanted or "fetch"}" produced no records.', retry=False)
    if len(records) > _MOST_RECORDS:
        raise StepFailed(f"There are more than {_MOST_RECORDS} records.", retry=False)
    return records


def convert_rows(
    table: Table, records: list[dict[str, Any]], mapping: Any, rules: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows for the table, and why other records cannot be one. `mapping` is column to field, or `auto`."""
    columns = [column for column in table.columns if not (column.primary_key and isinstance(column.type, Integer))]
    fields = {column.name: column.name for column in columns}
    if isinstance(mapping, dict) and mapping:
        if unknown := sorted(set(mapping) - set(fields)):
            raise StepFailed(f"{table.name} has no column {', '.join(unknown)}.", retry=False)
        fields = {str(column): str(field) for column, field in mapping.items()}
    rows, problems = [], []
    for number, record in enumerate(records, 1):
        try:
            _check_rules(record, rules)
            row = {}
            for column in columns:
                value = record.get(fields.get(column.name, ""))
                if value is not None:
                    row[column.name] = _convert(value, column.type, column.name)
                elif not column.nullable and column.server_default is None:
                    raise ValueError(f"{column.name} is missing")
            rows.append(row)
        except ValueError as exc:
            problems.append(f"record {number}: {exc}")
    return rows, problems


def _check_rules(record: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        name, value = rule["field"], record.get(rule["field"])
        if value is None:
            if rule.get("required", False):
                raise ValueError(f"{name} is missing")
            continue
        if "min" in rule or "max" in rule:
            number = _decimal(value, name)
            if ("min" in rule and number < Decimal(str(rule["min"]))) or (
                "max" in rule and number > Decimal(str(rule["max"]))
            ):
                raise ValueError(f"{name} is out of range")


def _decimal(value: Any, name: str) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{name} is not a number") from None
    if isinstance(value, bool) or not number.is_finite():
        raise ValueError(f"{name} is not a number")
    return number


def _convert(value: Any, kind: Any, name: str) -> Any:
    if isinstance(kind, Scaled):
        number = _decimal(value, name)
        if abs(number) >= Decimal(9 * 10 ** (18 - kind.places)):
            raise ValueError(f"{name} is too large")
        return number.quantize(Decimal(1).scaleb(-kind.places))
    if isinstance(kind, Moment):
        return _moment(value, name)
    if isinstance(kind, Boolean):
        return bool(value)
    if isinstance(kind, Integer):
        return int(_decimal(value, name))
    if isinstance(kind, Float):
        return float(_decimal(value, name))
    if isinstance(kind, JSON):
        return value
    text = str(value)
    length = getattr(kind, "length", None)
    if length is not None and len(text) > length:
        raise ValueError(f"{name} is longer than {length} characters")
    return text


def _moment(value: Any, name: str) -> datetime:
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        parsed = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{name} is not a date and time") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def write_rows(conn: Connection, table: Table, rows: list[dict[str, Any]], disposition: str) -> int:
    """`append` adds rows whose key is new, `merge` also updates known ones, `replace` first removes what there is of
    the same tickers and providers. Returns how many rows were added or changed."""
    if disposition == "replace":
        _remove(conn, table, rows)
    key = _key(table)
    written = 0
    for row in rows:
        same = and_(*(table.c[name] == row.get(name) for name in key)) if key else None
        known = same is not None and conn.execute(select(table.c[key[0]]).where(same)).first() is not None
        if not known:
            conn.execute(table.insert(), row)
            written += 1
        elif disposition == "merge" and same is not None:
            conn.execute(table.update().where(same).values(row))
            written += 1
    return written


def _remove(conn: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    names = [name for name in ("ticker", "provider") if name in table.c]
    groups = {tuple(row.get(name) for name in names) for row in rows}
    clauses = [and_(*(table.c[name] == value for name, value in zip(names, group, strict=True))) for group in groups]
    for start in range(0, len(clauses), 100):
        conn.execute(table.delete().where(or_(*clauses[start : start + 100])))


def _key(table: Table) -> list[str]:
    """What makes a row the same row."""
    for constraint in table.constraints:
        if isinstance(constraint, UniqueConstraint) and constraint.columns:
            return [column.name for column in constraint.columns]
    return [name for name in ("ticker", "timestamp", "provider") if name in table.c]


def _render_row(row: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, value in row.items():
        plain[name] = float(value) if isinstance(value, Decimal) else value
        if isinstance(value, datetime):
            plain[name] = value.isoformat()
    return plain


TRANSFORM = StepType(
    "transform",
    side_effects=True,
    description="Writes fetched records into a market data table after checking them.",
    params={
        "type": "object",
        "properties": {
            "target_table": {"enum": list(WRITABLE), "x-literal": True},
            "mapping": {
                "description": 'Column to field of the record, or "auto" when they have the same names.',
                "type": ["object", "string"],
                "default": "auto",
                "x-literal": True,
            },
            "write_disposition": {"enum": ["append", "replace", "merge"], "default": "append", "x-literal": True},
            "validation_rules": {
                "type": "array",
                "maxItems": 50,
                "items": {
                    "type": "object",
                    "properties": {
                        "field": {"type": "string", "maxLength": 100},
                        "required": {"type": "boolean"},
                        "min": {"type": "number"},
                        "max": {"type": "number"},
                    },
                    "required": ["field"],
                    "additionalProperties": False,
                },
                "x-literal": True,
            },
            "quality_threshold": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.8},
            "source_step_id": {"type": "string", "maxLength": 64, "x-literal": True},
        },
        "required": ["target_table"],
        "additionalProperties": False,
    },
    run=_run,
)
