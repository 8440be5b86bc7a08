"""The step types, by name. A new type is a module with a `StepType` and a line here."""

from __future__ import annotations

from ..step import StepType
from .compose import COMPOSE
from .fetch import FETCH
from .query import QUERY
from .render import RENDER
from .send import SEND
from .store_report import STORE_REPORT
from .transform import TRANSFORM

__all__ = ["STEP_TYPES"]

STEP_TYPES: dict[str, StepType] = {
    kind.name: kind for kind in (FETCH, TRANSFORM, QUERY, COMPOSE, STORE_REPORT, RENDER, SEND)
}
