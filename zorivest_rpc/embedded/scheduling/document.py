"""The policy document: its JSON Schema, its normal form, and the hash that an approval is bound to.

The schema that is served is the schema that is applied. The normal form has every default filled in, so that a document
and the same document with its defaults spelled out have one hash."""

from __future__ import annotations

import copy
import hashlib
import json
from decimal import Decimal
from typing import Any

from .refs import REF
from .steps import STEP_TYPES

__all__ = ["MOST_STEPS", "content_hash", "normal_form", "plain", "policy_schema", "step_type_views"]

MOST_STEPS = 10
_OPERATORS = ["eq", "ne", "gt", "lt", "ge", "le", "in", "not_in", "is_null", "is_not_null"]

_METADATA = {
    "type": "object",
    "properties": {
        "author": {"type": "string", "maxLength": 200, "default": ""},
        "description": {"type": "string", "maxLength": 500, "default": ""},
        "created_at": {"type": "string", "maxLength": 64},
        "updated_at": {"type": "string", "maxLength": 64},
    },
    "additionalProperties": False,
}

_TRIGGER = {
    "type": "object",
    "properties": {
        "cron_expression": {
            "type": "string",
            "description": "Five fields: minute hour day month weekday; weekday 0 and 7 are Sunday.",
            "minLength": 1,
            "maxLength": 200,
        },
        "timezone": {"type": "string", "description": "IANA zone name.", "minLength": 1, "maxLength": 64},
        "enabled": {"type": "boolean", "default": True},
        "misfire_grace_time": {"type": "integer", "minimum": 60, "maximum": 86400, "default": 3600},
        "coalesce": {"type": "boolean", "default": True},
        "max_instances": {"type": "integer", "minimum": 1, "maximum": 3, "default": 1},
    },
    "required": ["cron_expression"],
    "additionalProperties": False,
}

_RETRY = {
    "type": "object",
    "properties": {
        "max_attempts": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "backoff_factor": {"type": "number", "minimum": 1, "maximum": 10, "default": 2},
        "backoff_seconds": {"type": "number", "minimum": 1, "maximum": 10, "description": "Same as backoff_factor."},
        "jitter": {"type": "boolean", "default": True},
    },
    "additionalProperties": False,
}

_SKIP_IF = {
    "type": "object",
    "properties": {
        "field": {"type": "string", "pattern": REF, "maxLength": 300},
        "operator": {"enum": _OPERATORS},
        "value": {
            "type": ["string", "number", "boolean", "array", "null"],
            "items": {"type": ["string", "number", "boolean"]},
        },
    },
    "required": ["field", "operator"],
    "additionalProperties": False,
}


# long: one JSON document, shown as it is published
def policy_schema() -> dict[str, Any]:
    """The JSON Schema of a policy document, with the parameters of every step type."""
    step = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$", "maxLength": 64},
            "type": {"enum": list(STEP_TYPES)},
            "params": {"type": "object"},
            "timeout": {"type": "integer", "minimum": 10, "maximum": 3600, "default": 300},
            "required": {"type": "boolean", "default": True},
            "on_error": {"enum": ["fail_pipeline", "log_and_continue", "retry_then_fail"], "default": "fail_pipeline"},
            "retry": {"$ref": "#/$defs/retry"},
            "skip_if": {"$ref": "#/$defs/skip_if"},
        },
        "required": ["id", "type", "params"],
        "additionalProperties": False,
        "allOf": [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"properties": {"params": {"$ref": f"#/$defs/params_{name}"}}},
            }
            for name in STEP_TYPES
        ],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Pipeline policy",
        "description": "A schedule and the steps that run on it. It runs once a person has approved it.",
        "type": "object",
        "properties": {
            "schema_version": {"enum": [1, 2], "default": 1},
            "name": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "\\S"},
            "metadata": copy.deepcopy(_METADATA),
            "trigger": copy.deepcopy(_TRIGGER),
            "steps": {"type": "array", "minItems": 1, "maxItems": MOST_STEPS, "items": {"$ref": "#/$defs/step"}},
        },
        "required": ["name", "trigger", "steps"],
        "additionalProperties": False,
        "$defs": {
            "step": step,
            "retry": copy.deepcopy(_RETRY),
            "skip_if": copy.deepcopy(_SKIP_IF),
            "ref": {
                "type": "object",
                "description": "Stands for what an earlier step produced.",
                "properties": {"ref": {"type": "string", "pattern": REF, "maxLength": 300}},
                "required": ["ref"],
                "additionalProperties": False,
            },
            **{f"params_{name}": _with_refs(kind.params) for name, kind in STEP_TYPES.items()},
        },
    }


def step_type_views() -> list[dict[str, Any]]:
    return [
        {
            "type": kind.name,
            "description": kind.description,
            "side_effects": kind.side_effects,
            "params_schema": copy.deepcopy(dict(kind.params)),
        }
        for kind in STEP_TYPES.values()
    ]


def _with_refs(params: Any) -> dict[str, Any]:
    """The schema of parameters in a document: most values may be references, statements and templates may not."""
    schema: dict[str, Any] = copy.deepcopy(dict(params))
    for name, part in schema["properties"].items():
        if not part.pop("x-literal", False):
            schema["properties"][name] = {"anyOf": [part, {"$ref": "#/$defs/ref"}]}
    return schema


def plain(value: Any) -> Any:
    """JSON as it is stored: exact decimals become numbers, whole ones integers, so that every spelling hashes alike."""
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, (Decimal, float)):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return value


def normal_form(document: dict[str, Any], default_zone: str) -> dict[str, Any]:
    """A valid document with every default spelled out; the normal form of a normal form is itself."""
    trigger = document["trigger"]
    return {
        "schema_version": document.get("schema_version", 1),
        "name": document["name"].strip(),
        "metadata": {**_defaults(_METADATA), **document.get("metadata", {})},
        "trigger": {**_defaults(_TRIGGER), "timezone": default_zone, **trigger},
        "steps": [_normal_step(step) for step in document["steps"]],
    }


def _normal_step(step: dict[str, Any]) -> dict[str, Any]:
    normal = {"timeout": 300, "required": True, "on_error": "fail_pipeline", **step}
    retry = dict(step.get("retry", {}))
    seconds = retry.pop("backoff_seconds", None)
    if seconds is not None:
        retry.setdefault("backoff_factor", seconds)
    normal["retry"] = {**_defaults(_RETRY), **retry}
    return normal


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: part["default"] for name, part in schema["properties"].items() if "default" in part}


def content_hash(document: dict[str, Any]) -> str:
    """SHA-256 of the canonical text; whether the schedule is switched on is left out, so pausing keeps an approval."""
    canonical = {**document, "trigger": {**document["trigger"], "enabled": True}}
    text = json.dumps(canonical, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
