"""A fixed date and time for every module of the embedded backend, so that no answer depends on the day of a test."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, tzinfo
from types import ModuleType
from typing import Any

import msgspec
import pytest

import zorivest_rpc.embedded as package

__all__ = ["NOW", "fixed_clock"]

NOW = datetime(2026, 3, 2, 15, 0, tzinfo=UTC)
_COMMANDS = ("pdf_child", "template_child")  # modules that run when they are imported


class _Stand(type):
    """A stand-in for a class of the standard library: it makes and recognises that class's own values."""

    real: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.real(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real, name)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.real)


class FixedDatetime(metaclass=_Stand):
    real = datetime

    @staticmethod
    def now(tz: tzinfo | None = None) -> datetime:
        return NOW.astimezone(tz) if tz is not None else NOW.replace(tzinfo=None)


class FixedDate(metaclass=_Stand):
    real = date

    @staticmethod
    def today() -> date:
        return NOW.date()


@contextmanager
def fixed_clock() -> Iterator[None]:
    """Replace `datetime` and `date` in every module that asks them for the time.

    Not where msgspec reads them as a type: it does so by name, late, and knows the standard classes alone."""
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith(_COMMANDS):
            importlib.import_module(found.name)
    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if not name.startswith(package.__name__) or _has_structs(module):
                continue
            if getattr(module, "datetime", None) is datetime:
                patch.setattr(module, "datetime", FixedDatetime)
            if getattr(module, "date", None) is date:
                patch.setattr(module, "date", FixedDate)
        yield


def _has_structs(module: ModuleType) -> bool:
    own = (value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)
    return any(issubclass(value, msgspec.Struct) for value in own)
