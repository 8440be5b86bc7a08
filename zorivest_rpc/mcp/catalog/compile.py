"""A schema as a validator whose work has an end: what is written in it, another server may have written.

An expression is run by the engine that takes linear time wherever that engine can; look-around and back references
need the one that tries and goes back, and are given few tries. What runs out of tries does not match."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["LONGEST_TRIED", "compile_schema", "has_only_linear"]

LONGEST_TRIED: Final = 128 * 1024  # bytes of a value that an expression which goes back may be tried on
_TRIES: Final = 10_000  # each may read the whole text: two seconds for 128 KiB


def compile_schema(schema: Json, mask: str | None = None) -> Any:
    """The validator; ValueError where the schema is none, or refers to what is not in it. `mask` stands for values in
    its messages."""
    import jsonschema_rs

    linear, trying = _engines()
    options: dict[str, Any] = {"retriever": _refuse_fetch, **({} if mask is None else {"mask": mask})}
    try:
        return jsonschema_rs.validator_for(schema, pattern_options=linear, **options)
    except jsonschema_rs.ValidationError:  # an expression that it cannot run, or something that is wrong in both
        return jsonschema_rs.validator_for(schema, pattern_options=trying, **options)


def has_only_linear(schema: Json) -> bool:
    """Whether no expression in it needs the engine that goes back."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema, pattern_options=_engines()[0], retriever=_refuse_fetch)
    except jsonschema_rs.ValidationError:
        return False
    return True


@cache
def _engines() -> tuple[Any, Any]:
    from jsonschema_rs import FancyRegexOptions, RegexOptions

    return RegexOptions(), FancyRegexOptions(backtrack_limit=_TRIES)


def _refuse_fetch(uri: str) -> Json:
    raise ValueError(f"{uri} is no part of the schema, and schemas are never fetched")
