"""The step `query`: named statements over the journal, each within the SQL sandbox."""

from __future__ import annotations

from typing import Any

from ..sandbox import QueryRefused, Rows, Statement
from ..step import Context, StepFailed, StepResult, StepType

__all__ = ["QUERY", "STATEMENT", "run_statements"]

STATEMENT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 64},
        "sql": {"type": "string", "minLength": 1, "maxLength": 10000, "description": "One SELECT statement."},
        "binds": {
            "type": "object",
            "description": "Values for :name in the statement; a value may be a reference.",
            "additionalProperties": {"type": ["string", "number", "boolean", "null", "object"]},
            "maxProperties": 20,
        },
    },
    "required": ["name", "sql"],
    "additionalProperties": False,
}


async def run_statements(statements: list[dict[str, Any]], limit: int, context: Context) -> dict[str, Rows]:
    """Every statement's rows by its name; the first that is refused fails the step."""
    named: dict[str, Statement] = {}
    for statement in statements:
        binds = statement.get("binds", {})
        for name, value in binds.items():
            if isinstance(value, (dict, list)):
                raise StepFailed(f'The value of ":{name}" is not a single value.', retry=False)
        if statement["name"] in named:
            raise StepFailed(f'Two queries are named "{statement["name"]}".', retry=False)
        named[statement["name"]] = Statement(statement["sql"], binds)
    await context.refresh([statement.sql for statement in named.values()], context.now())
    try:
        return dict(zip(named, await context.sandbox.query_all(named, limit), strict=True))
    except QueryRefused as exc:
        raise StepFailed(str(exc)) from None


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    found = await run_statements(params["queries"], params.get("row_limit", 1000), context)
    return StepResult(
        {
            "results": {name: rows.records() for name, rows in found.items()},
            "counts": {name: len(rows.rows) for name, rows in found.items()},
            "truncated": sorted(name for name, rows in found.items() if rows.truncated),
        },
        {"rows": {name: len(rows.rows) for name, rows in found.items()}},
    )


QUERY = StepType(
    "query",
    side_effects=False,
    description="Reads the journal with up to five named SELECT statements; amounts are plain numbers, times UTC.",
    params={
        "type": "object",
        "properties": {
            "queries": {"type": "array", "items": STATEMENT, "minItems": 1, "maxItems": 5, "x-literal": True},
            "row_limit": {"type": "integer", "minimum": 1, "maximum": 5000, "default": 1000},
        },
        "required": ["queries"],
        "additionalProperties": False,
    },
    run=_run,
)
