"""The fields of a resource, said once: read whole when one is made, or as a patch when one is changed.

PLAN = Resource(Field("strategy_name", text(least=1, most=200)), Field("notes", text(), default=""))
PLAN.read(fields)           # every field, with its default where it is not given
PLAN.read_changes(fields)   # those that are given and not null
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from .fields import MISSING, Fields

__all__ = ["Field", "Resource", "choice", "decimal", "flag", "moment", "text"]

Reader: TypeAlias = Callable[[Fields, str, Any], Any]
"""The value of a named field, or the default given; what is wrong with it is told to `fields`."""


class Field(NamedTuple):
    """`default` is what a new resource has without the field, or makes it; without one the field is required."""

    name: str
    read: Reader
    default: Any = MISSING

    def read_new(self, fields: Fields) -> Any:
        default = self.default() if callable(self.default) else self.default
        return self.read(fields, self.name, default)


class Resource:
    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def read(self, fields: Fields) -> dict[str, Any]:
        return {field.name: field.read_new(fields) for field in self.fields}

    def read_changes(self, fields: Fields) -> dict[str, Any]:
        return {field.name: field.read(fields, field.name, None) for field in self.fields if fields.has(field.name)}


def text(*, least: int = 0, most: int = 10_000) -> Reader:
    return lambda fields, name, default: fields.text(name, default, least=least, most=most)


def choice(allowed: Iterable[str]) -> Reader:
    known = tuple(allowed)
    return lambda fields, name, default: fields.choice(name, known, default)


def decimal(
    *, above: int | None = None, least: int | None = None, most: Decimal | int = 10**10, places: int = 6
) -> Reader:
    return lambda fields, name, default: fields.decimal(
        name, default, above=above, least=least, most=most, places=places
    )


def flag(fields: Fields, name: str, default: Any) -> Any:
    return fields.flag(name, default)


def moment(fields: Fields, name: str, default: Any) -> Any:
    return fields.moment(name, default)
