"""References to what earlier steps produced, `{"ref": "ctx.<step>.output.<path>"}`, and conditions built on them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["REF", "is_ref", "lookup", "references", "resolve", "skips", "step_of"]

REF = r"^ctx\.[a-z][a-z0-9_]*(\.\w+)*$"
_REF = re.compile(REF)
_MISSING: Any = object()

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
    "le": operator.le,
    "in": lambda left, right: left in right,
    "not_in": lambda left, right: left not in right,
}


def is_ref(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"ref"}


def step_of(ref: str) -> str | None:
    """The step that a reference names; None if it is not well formed."""
    return ref.split(".")[1] if isinstance(ref, str) and _REF.match(ref) else None


def references(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every reference in a value with the place where it stands."""
    if is_ref(value):
        yield path, value["ref"]
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from references(item, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from references(item, f"{path}.{index}")


def lookup(ref: str, outputs: Mapping[str, Any], default: Any = _MISSING) -> Any:
    """What a reference stands for; LookupError if that does not exist and there is no default."""
    _, step, *path = ref.split(".")
    value: Any = outputs.get(step, _MISSING)
    if path and path[0] == "output" and not (isinstance(value, dict) and "output" in value):
        path = path[1:]
    for segment in path:
        if isinstance(value, dict) and segment in value:
            value = value[segment]
        elif isinstance(value, list) and segment.isdigit() and int(segment) < len(value):
            value = value[int(segment)]
        else:
            value = _MISSING
            break
    if value is not _MISSING:
        return value
    if default is _MISSING:
        raise LookupError(f'"{ref}" does not exist in what the earlier steps produced')
    return default


def resolve(value: Any, outputs: Mapping[str, Any]) -> Any:
    """The value with every reference replaced."""
    if is_ref(value):
        return lookup(value["ref"], outputs)
    if isinstance(value, dict):
        return {name: resolve(item, outputs) for name, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, outputs) for item in value]
    return value


def skips(rule: Mapping[str, Any], outputs: Mapping[str, Any]) -> bool:
    """Does the condition hold? What cannot be compared does not."""
    found = lookup(rule["field"], outputs, None)
    if rule["operator"] == "is_null":
        return found is None
    if rule["operator"] == "is_not_null":
        return found is not None
    try:
        return bool(_COMPARE[rule["operator"]](found, rule.get("value")))
    except TypeError:
        return False
