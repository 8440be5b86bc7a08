"""Runs the steps of one policy in order: references, conditions, time limits, retries, and what a failure means.

The history is written after every change of a step. Texts that reach it are cleaned of anything like a credential."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

import jsonschema

from ..disk.redact import redact_text
from . import runs
from .refs import resolve, skips
from .step import Context, Produced, StepFailed, StepResult, StepType
from .steps import STEP_TYPES

__all__ = ["RunFailed", "run_steps"]

_LONGEST_PAUSE = 3600.0

Pause = Callable[[float], Awaitable[None]]

log = logging.getLogger("zorivest.scheduler")


class RunFailed(Exception):
    """A step failed and the run ends with it."""


async def run_steps(document: Mapping[str, Any], context: Context, pause: Pause = asyncio.sleep) -> list[str]:
    """Run every step; returns what went wrong without ending the run, or raises `RunFailed`."""
    passed_over = []
    for position, step in enumerate(document["steps"]):
        context.step_id, context.steps_done = step["id"], position
        problem = await _one(step, position, context, pause)
        if problem is None:
            continue
        if step["on_error"] != "log_and_continue" and step["required"]:
            raise RunFailed(f'Step "{step["id"]}" failed: {problem}')
        passed_over.append(f'Step "{step["id"]}" failed and was passed over: {problem}')
    return passed_over


async def _one(step: Mapping[str, Any], position: int, context: Context, pause: Pause) -> str | None:
    """One step with its retries; None, or why it failed in the end."""

    async def record(**changes: Any) -> None:
        await context.db.write(lambda conn: runs.step_changed(conn, context.run_id, position, **changes))

    if "skip_if" in step and skips(step["skip_if"], context.outputs()):
        await record(status="skipped", summary={"skip_if": True})
        return None
    retry = step["retry"]
    attempts = retry["max_attempts"] if step["on_error"] == "retry_then_fail" else 1
    started = context.now()
    problem = ""
    for attempt in range(1, attempts + 1):
        await record(status="running", attempt=attempt, started_at=started)
        try:
            outcome = await _attempt(step, context)
        except StepFailed as exc:
            problem = redact_text(str(exc))
            log.warning("run %s, step %s, attempt %s: %s", context.run_id, step["id"], attempt, problem)
            if attempt == attempts or not exc.retry:
                break
            await record(error=problem)
            await pause(_wait(retry, attempt))
        else:
            context.produced.append(Produced(step["id"], step["type"], outcome.output))
            await record(status="success", error=None, summary=outcome.summary, **_timing(started, context.now()))
            return None
    await record(status="failed", error=problem, **_timing(started, context.now()))
    return problem


async def _attempt(step: Mapping[str, Any], context: Context) -> StepResult:
    kind = STEP_TYPES[step["type"]]
    try:
        params = resolve(step["params"], context.outputs())
    except LookupError as exc:
        raise StepFailed(str(exc.args[0]), retry=False) from None
    _check(kind, params)
    try:
        async with asyncio.timeout(step["timeout"]):
            return await kind.run(params, context)
    except TimeoutError:
        raise StepFailed(f"It took longer than {step['timeout']} seconds.") from None
    except StepFailed:
        raise
    except Exception as exc:  # a mistake of ours ends the step, not the scheduler
        log.error("run %s, step %s: unexpected %s", context.run_id, step["id"], type(exc).__name__, exc_info=exc)
        raise StepFailed(f"Unexpected error ({type(exc).__name__}); the log has the details.", retry=False) from None


@cache
def _validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(dict(STEP_TYPES[name].params))


def _check(kind: StepType, params: Any) -> None:
    """What references stood for must fit as well."""
    error = next(iter(_validator(kind.name).iter_errors(params)), None)
    if error is not None:
        path = ".".join(str(part) for part in error.absolute_path)
        raise StepFailed(f"The parameter {path} does not fit: {error.message[:200]}", retry=False)


def _wait(retry: Mapping[str, Any], attempt: int) -> float:
    """It grows with every attempt up to a limit."""
    spread = random.uniform(0.5, 1.5) if retry["jitter"] else 1.0
    return min(float(retry["backoff_factor"]) ** attempt * spread, _LONGEST_PAUSE)


def _timing(started: datetime, ended: datetime) -> dict[str, Any]:
    return {"completed_at": ended, "duration_ms": max(0, round((ended - started).total_seconds() * 1000))}
