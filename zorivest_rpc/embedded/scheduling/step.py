"""What a step type is, what it gets, and what it gives back.

A step is a function of its parameters and the run's `Context`. It returns an `Outcome` or raises `StepFailed`; on a dry
run it does everything that has no effect. Which types exist is the table in `steps/__init__.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ..database.engine import Database
from ..vault.crypto import FieldCipher
from .sandbox import Sandbox

__all__ = [
    "Context",
    "FetchRequest",
    "Fetched",
    "Fetcher",
    "Produced",
    "Refresh",
    "StepFailed",
    "StepResult",
    "StepType",
]

Json = Any


class StepFailed(Exception):
    """The step could not do its work; `retry` false means that trying again cannot help."""

    def __init__(self, text: str, *, retry: bool = True) -> None:
        super().__init__(text)
        self.retry = retry


class StepResult(NamedTuple):
    """`output` is what later steps refer to; `summary` is small, holds no journal data, and is kept in the history."""

    output: dict[str, Json]
    summary: dict[str, Json]


class FetchRequest(NamedTuple):
    """What a fetch step wants from market data; criteria hold plain values."""

    provider: str
    data_type: str
    criteria: dict[str, Json]
    use_cache: bool
    now: datetime


class Fetched(NamedTuple):
    records: list[dict[str, Json]]
    cache_status: str


Fetcher = Callable[[FetchRequest], Awaitable[Fetched]]
"""Asks a market data provider; raises `StepFailed` with a plain reason."""


Refresh = Callable[[Iterable[str], datetime], Awaitable[None]]
"""Brings up to date what the statements will read; raises `StepFailed`."""


class Produced(NamedTuple):
    """One finished step of the run."""

    step_id: str
    step_type: str
    output: dict[str, Json]


@dataclass
class Context:
    """One run, as its steps see it."""

    run_id: str
    policy_id: str
    policy_name: str
    content_hash: str
    dry_run: bool
    actor: str
    as_of: str
    now: Callable[[], datetime]
    db: Database
    sandbox: Sandbox
    fields: FieldCipher
    reports: Path
    fetch: Fetcher
    refresh: Refresh
    produced: list[Produced] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)  # high-water marks, kept when the run succeeds
    documents: dict[str, bytes] = field(default_factory=dict)  # PDFs of this run, by file name
    step_id: str = ""
    steps_done: int = 0

    def outputs(self) -> dict[str, dict[str, Json]]:
        return {one.step_id: one.output for one in self.produced}

    def latest(self, step_type: str) -> dict[str, Json] | None:
        """The output of the last step of a type."""
        return next((one.output for one in reversed(self.produced) if one.step_type == step_type), None)


@dataclass(frozen=True)
class StepType:
    """A registered type; `params` is the JSON Schema of its parameters."""

    name: str
    side_effects: bool
    params: Mapping[str, Json]
    run: Callable[[dict[str, Json], Context], Awaitable[StepResult]]
    description: str
