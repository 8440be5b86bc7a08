"""The step `compose`: puts what several steps produced together."""

from __future__ import annotations

from typing import Any

from ..step import Context, StepFailed, StepResult, StepType

__all__ = ["COMPOSE"]


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    sources: dict[str, Any] = params["sources"]
    strategy = params.get("merge_strategy", "nest")
    composed: Any
    if strategy == "nest":
        composed = dict(sources)
    elif strategy == "concat":
        _need(sources, list, "lists")
        composed = [item for source in sources.values() for item in source]
    else:
        _need(sources, dict, "objects")
        composed = {name: item for source in sources.values() for name, item in source.items()}
    return StepResult({"composed": composed}, {"sources": len(sources), "items": len(composed)})


def _need(sources: dict[str, Any], kind: type, name: str) -> None:
    wrong = [source for source, value in sources.items() if not isinstance(value, kind)]
    if wrong:
        raise StepFailed(f"This merge_strategy needs {name}; not so: {', '.join(wrong)}.", retry=False)


COMPOSE = StepType(
    "compose",
    side_effects=False,
    description="Joins earlier results: nest keeps each under its name, concat joins lists, merge joins objects.",
    params={
        "type": "object",
        "properties": {
            "sources": {
                "type": "object",
                "description": "Name to reference.",
                "minProperties": 1,
                "maxProperties": 10,
                "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
            },
            "merge_strategy": {"enum": ["nest", "concat", "merge"], "default": "nest", "x-literal": True},
        },
        "required": ["sources"],
        "additionalProperties": False,
    },
    run=_run,
)
