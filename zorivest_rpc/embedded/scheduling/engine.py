"""The scheduling of one open journal: policies, their schedule, their runs.

Rule 1: it lives exactly as long as the open database; `start` recovers what the last process left, `stop` ends every
run and leaves nothing behind.
Rule 2: a run starts only after it is written down, in the transaction that also moves the schedule past its firing,
so a crash neither repeats nor forgets a firing.
Rule 3: time is `now`, a callable; the loop sleeps in short stretches, so a suspended machine or a changed clock is
seen."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import logging
import uuid
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from ..database.engine import Database
from ..database.schema.scheduling import policies as policies_table
from ..disk.paths import DataDir
from ..disk.redact import redact_text
from ..errors import BadRequest, Conflict, Forbidden, NotFound
from ..settings import JournalSettings
from ..vault.crypto import FieldCipher
from . import deliveries, policies, runs
from .approval import Approval, approval_file
from .budget import RUNS_PER_HOUR, note, spend_run
from .cron import next_firing
from .due import MOST_COUNTED, Due, due
from .freshness import bring_up_to_date
from .marks import keep_marks
from .runner import RunFailed, run_steps
from .sandbox import Sandbox
from .step import Context, Fetcher
from .validate import validate

__all__ = ["Scheduling"]

ANSWER_SECONDS = 25.0
PREVIEW_CHARACTERS = 60_000
_LONGEST_SLEEP = 30.0
_PREVIEWS = 8
_WITHDRAWN = 256

log = logging.getLogger("zorivest.scheduler")


@dataclass
class _Open:
    """What exists while the journal is open."""

    db: Database
    fields: FieldCipher
    settings: JournalSettings
    sandbox: Sandbox
    fetch: Fetcher


@dataclass
class _Active:
    """A run under way; `reason` says why it is being cancelled, `key` is that of the request that started it."""

    task: asyncio.Task[None]
    policy_id: str
    context: Context
    total: int
    key: str = ""
    reason: str = "It was cancelled."


class Scheduling:
    """Owned by the backend, which starts it when the journal opens and stops it before the journal closes."""

    def __init__(self, directory: DataDir) -> None:
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.pause: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._directory = directory
        self._approval = Approval(approval_file(directory))
        self._open: _Open | None = None
        self._jobs: dict[str, Mapping[str, Any]] = {}  # approved and enabled policies, by id
        self._active: dict[str, _Active] = {}
        self._previews: OrderedDict[str, str] = OrderedDict()
        self._withdrawn: OrderedDict[str, None] = (
            OrderedDict()
        )  # requests that were cancelled, perhaps before they came
        self._ticking = asyncio.Lock()
        self._starting = asyncio.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self.when_moved: Callable[[], None] | None = None  # called whenever `next_due` may be another

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self, db: Database, fields: FieldCipher, settings: JournalSettings, fetch: Fetcher) -> None:
        """Mark what the last process left unfinished, and begin to watch the clock."""
        now = self.now()

        def job(conn: Connection) -> int:
            deliveries.recover(conn, now)
            return runs.recover(conn, now)

        if cut_off := await db.write(job):
            log.warning("%s runs were under way when the last process ended", cut_off)
        self._open = _Open(db, fields, settings, Sandbox(db), fetch)
        self._approval.renew()
        await self._reload()
        self._loop = asyncio.create_task(self._watch(), name="zorivest-scheduler")

    async def stop(self) -> None:
        """Cancel every run, write that down, and let go of the journal."""
        if self._open is None:
            return
        self._approval.withdraw()
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.wait([self._loop])
            self._loop = None
        async with self._starting:
            self._open = None
        for active in self._active.values():
            active.reason = "The backend was stopped."
            active.task.cancel()
        if self._active:
            await asyncio.wait([active.task for active in self._active.values()])
        self._jobs = {}

    async def _watch(self) -> None:
        while True:
            self._wake.clear()
            try:
                delay = await self.tick()
            except Exception as exc:  # a full disk must not end the schedule for good
                log.error("the scheduler stumbled: %s", type(exc).__name__, exc_info=exc)
                delay = _LONGEST_SLEEP
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(delay, _LONGEST_SLEEP)):
                    await self._wake.wait()

    def _parts(self) -> _Open:
        if self._open is None:
            raise Forbidden("database_locked", "The database is locked; unlock it with POST /auth/unlock.")
        return self._open

    # --- the schedule -------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Something is scheduled or running, so the process is needed."""
        return bool(self._jobs or self._active)

    @property
    def is_active(self) -> bool:
        """A run is under way."""
        return bool(self._active)

    def next_due(self) -> datetime | None:
        """The first firing that is not dealt with; it may be past already."""
        now, moments = self.now(), []
        for job in self._jobs.values():
            trigger = job["policy_json"]["trigger"]
            moments.append(next_firing(trigger["cron_expression"], trigger["timezone"], job["handled_until"] or now))
        return min((moment for moment in moments if moment is not None), default=None)

    def _tell_moved(self) -> None:
        if self.when_moved is not None:
            self.when_moved()

    def jobs(self) -> list[dict[str, Any]]:
        """What is scheduled, the next first."""
        now = self.now()
        found = [
            {"id": job["id"], "name": job["name"], "next_run": policies.view(job, now)["next_run"]}
            for job in self._jobs.values()
        ]
        return sorted(found, key=lambda job: (job["next_run"] is None, job["next_run"]))

    async def tick(self) -> float:
        """Deal with everything that is due; returns the seconds until the next firing."""
        async with self._ticking:
            for job in list(self._jobs.values()):
                await self._handle(job)
        now = self.now()
        waits = [_LONGEST_SLEEP]
        for job in self._jobs.values():
            trigger = job["policy_json"]["trigger"]
            following = next_firing(trigger["cron_expression"], trigger["timezone"], now)
            if following is not None:
                waits.append((following - now).total_seconds())
        return max(0.0, min(waits))

    async def _handle(self, job: Mapping[str, Any]) -> None:
        """The due firings of one policy, until none is left or none may start now."""
        policy_id = job["id"]
        while policy_id in self._jobs:
            now = self.now()
            current = self._jobs[policy_id]
            trigger = current["policy_json"]["trigger"]
            found = due(trigger, current["handled_until"] or now, now)
            if found.missed:
                await self._tell_missed(current, found, now)
                continue
            if found.run is None or self._count_active()[policy_id] >= trigger["max_instances"]:
                return
            await self._fire(current, found, found.run)

    def _count_active(self) -> Counter[str]:
        return Counter(active.policy_id for active in self._active.values())

    async def _tell_missed(self, job: Mapping[str, Any], found: Due, now: datetime) -> None:
        count = f"{found.missed}" if found.missed < MOST_COUNTED else f"at least {found.missed}"
        when = (
            f"due {found.first:%Y-%m-%d %H:%M} UTC"
            if found.first == found.last
            else (f"due from {found.first:%Y-%m-%d %H:%M} to {found.last:%Y-%m-%d %H:%M} UTC")
        )
        what = "run was" if count == "1" else "runs were"
        reason = f"{count} {what} missed, {when}: the backend was not running, or busy, until it was too late."

        def write(conn: Connection) -> None:
            runs.skip(conn, job, reason, now, found.last, found.missed)
            _move(conn, job["id"], found.last or now)
            note(conn, now, "scheduler", "pipeline.missed", "policy", job["id"], missed=found.missed)

        await self._parts().db.write(write)
        log.warning("policy %s: %s", job["id"], reason)
        self._move_mark(job["id"], found.last or now)

    async def _fire(self, job: Mapping[str, Any], found: Due, firing: datetime) -> None:
        """Start one scheduled run, or write down why it could not start."""
        policy_id = job["id"]
        try:
            await self._begin(policy_id, "scheduled", "scheduler", dry_run=False, firing=firing, merged=found.merged)
        except (BadRequest, Conflict) as refusal:
            now, reason = self.now(), f"The run was refused: {refusal.detail}"

            def write(conn: Connection) -> None:
                runs.skip(conn, job, reason, now, firing, 1 + found.merged)
                _move(conn, policy_id, firing)

            await self._parts().db.write(write)
        self._move_mark(policy_id, firing)

    def _move_mark(self, policy_id: str, until: datetime) -> None:
        if policy_id in self._jobs:
            self._jobs[policy_id] = {**self._jobs[policy_id], "handled_until": until}
            self._tell_moved()

    async def _reload(self) -> None:
        """Bring the schedule in step with the policies."""
        found = await self._parts().db.read(lambda conn: policies.every(conn, enabled_only=True, approved_only=True))
        self._jobs = {row["id"]: row for row in found}
        self._tell_moved()
        self._wake.set()

    # --- policies -----------------------------------------------------------------------------------------------------

    async def create(self, document: Any, actor: str) -> dict[str, Any]:
        checked = await self._validate(document)
        row = await self._parts().db.write(lambda conn: policies.create(conn, checked, actor, self.now()))
        return policies.view(row, self.now())

    async def update(self, policy_id: str, document: Any, actor: str) -> dict[str, Any]:
        db = self._parts().db
        await db.read(lambda conn: policies.find(conn, policy_id))
        checked = await self._validate(document)
        async with self._ticking:
            row = await db.write(lambda conn: policies.replace(conn, policy_id, checked, actor, self.now()))
            await self._reload()
        return policies.view(row, self.now())

    async def delete(self, policy_id: str, actor: str) -> None:
        """Unschedule and forget a policy; its history stays. Runs under way are cancelled."""
        db = self._parts().db
        async with self._ticking:
            await db.write(lambda conn: policies.remove(conn, policy_id, actor, self.now()))
            await self._reload()
        for run_id, active in list(self._active.items()):
            if active.policy_id == policy_id:
                await self.cancel(run_id, actor, "The policy was deleted.")

    async def approve(self, policy_id: str, token: str | None, seen_hash: str | None) -> dict[str, Any]:
        """Approve a policy for the holder of the one-time token; a failed approval spends the token too."""
        db = self._parts().db
        self._approval.check(token)
        await asyncio.to_thread(self._approval.renew)
        actor = f"cli:{_user()}"
        async with self._ticking:
            row = await db.write(lambda conn: policies.approve(conn, policy_id, seen_hash, actor, self.now()))
            await self._reload()
        log.info("policy %s approved by %s", policy_id, actor)
        return policies.view(row, self.now())

    async def _validate(self, document: Any) -> dict[str, Any]:
        parts = self._parts()
        zone = await parts.settings.value("scheduling.default_timezone")
        return await validate(document, parts.sandbox, zone)

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def run(
        self, policy_id: str, *, dry_run: bool, trigger_type: str, actor: str, key: str = ""
    ) -> dict[str, Any]:
        """Run a policy now; the answer waits for its end, though not for long. `key` names the request."""
        run_id = await self._begin(policy_id, trigger_type, actor, dry_run=dry_run, key=key)
        task = self._active[run_id].task
        await asyncio.wait([task], timeout=ANSWER_SECONDS)
        return await self.show(run_id)

    async def show(self, run_id: str) -> dict[str, Any]:
        """The run with its steps, and the preview of a dry run while it is remembered."""
        view = await self._parts().db.read(lambda conn: runs.find(conn, run_id))
        preview = self._previews.get(run_id)
        if view["dry_run"]:
            view["preview"] = preview[:PREVIEW_CHARACTERS] if preview is not None else None
            view["preview_truncated"] = preview is not None and len(preview) > PREVIEW_CHARACTERS
        return view

    def progress(self, key: str) -> dict[str, Any]:
        """How far the run that a request started has come; 404 when none is under way."""
        for run_id, active in self._active.items():
            if active.key == key:
                now_at = f'step "{active.context.step_id}"' if active.context.step_id else "starting"
                done = active.context.steps_done
                return {"run_id": run_id, "done": done, "total": active.total, "message": now_at}
        raise NotFound("run of this request", key)

    async def withdraw(self, key: str, actor: str) -> dict[str, Any]:
        """The request is no longer wanted: end the run it started, or see to it that it starts none."""
        self._withdrawn[key] = None
        while len(self._withdrawn) > _WITHDRAWN:
            self._withdrawn.popitem(last=False)
        async with self._starting:  # one that is just being started is found too
            found = [run_id for run_id, active in self._active.items() if active.key == key]
        if not found:
            return {"run_id": None, "status": "cancelled"}
        return await self.cancel(found[0], actor, f"The request that started it was cancelled by {actor}.")

    async def cancel(self, run_id: str, actor: str, reason: str | None = None) -> dict[str, Any]:
        """End a run; one that has ended stays as it is."""
        db = self._parts().db
        view = await db.read(lambda conn: runs.find(conn, run_id))
        active = self._active.get(run_id)
        if active is not None:
            active.reason = reason or f"It was cancelled by {actor}."
            active.task.cancel()
            await asyncio.wait([active.task])
            await db.write(lambda conn: note(conn, self.now(), actor, "pipeline.cancel", "run", run_id))
            view = await db.read(lambda conn: runs.find(conn, run_id))
        return {"run_id": run_id, "status": view["status"]}

    async def _begin(
        self,
        policy_id: str,
        trigger_type: str,
        actor: str,
        *,
        dry_run: bool,
        firing: datetime | None = None,
        merged: int = 0,
        key: str = "",
    ) -> str:
        """Check, write down and start a run. 404, 409 already running, 400 not approved or too many this hour."""
        run_id = str(uuid.uuid4())
        async with self._starting:
            if key and key in self._withdrawn:
                raise Conflict("request_cancelled", "The request was cancelled before its run began.")
            parts = self._parts()
            now = self.now()
            active = self._count_active()[policy_id]

            def job(conn: Connection) -> Mapping[str, Any]:
                policy = policies.find(conn, policy_id)
                if active >= policy["policy_json"]["trigger"]["max_instances"]:
                    raise Conflict("already_running", f'Policy "{policy["name"]}" is already running.')
                if not dry_run:
                    _check_approved(policy)
                if not spend_run(conn, actor, run_id, now, policy_id=policy_id, dry_run=dry_run):
                    raise BadRequest("run_limit", f"The limit of {RUNS_PER_HOUR} runs per hour is reached.")
                runs.begin(
                    conn,
                    policy,
                    run_id=run_id,
                    trigger_type=trigger_type,
                    dry_run=dry_run,
                    now=now,
                    scheduled_for=firing,
                    missed=merged,
                )
                if firing is not None:
                    _move(conn, policy_id, firing)
                return policy

            policy = await parts.db.write(job)
            context = self._context(parts, policy, run_id, dry_run, actor, firing or now)
            task = asyncio.create_task(self._execute(policy, context, now), name=f"run-{run_id}")
            self._active[run_id] = _Active(task, policy_id, context, len(policy["policy_json"]["steps"]), key)
        return run_id

    def _context(
        self, parts: _Open, policy: Mapping[str, Any], run_id: str, dry_run: bool, actor: str, moment: datetime
    ) -> Context:
        zone = ZoneInfo(policy["policy_json"]["trigger"]["timezone"])
        return Context(
            run_id=run_id,
            policy_id=policy["id"],
            policy_name=policy["name"],
            content_hash=policy["content_hash"],
            dry_run=dry_run,
            actor=actor,
            as_of=moment.astimezone(zone).date().isoformat(),
            now=self.now,
            db=parts.db,
            sandbox=parts.sandbox,
            fields=parts.fields,
            reports=self._directory.reports,
            fetch=parts.fetch,
            refresh=partial(bring_up_to_date, parts.db),
        )

    async def _execute(self, policy: Mapping[str, Any], context: Context, started: datetime) -> None:
        """One run from its first step to its last word in the history."""
        status, error = "failed", None
        try:
            passed_over = await run_steps(policy["policy_json"], context, self.pause)
            status, error = "success", " ".join(passed_over) or None
        except RunFailed as exc:
            error = str(exc)
        except asyncio.CancelledError:
            status, error = "cancelled", self._active[context.run_id].reason
        except Exception as exc:  # the history could not be written; the log is all that is left
            error = f"Unexpected error ({type(exc).__name__}); the log has the details."
            log.error("run %s: unexpected %s", context.run_id, type(exc).__name__, exc_info=exc)
        if context.dry_run and (rendered := context.latest("render")) is not None:
            self._previews[context.run_id] = rendered["text"]
            while len(self._previews) > _PREVIEWS:
                self._previews.popitem(last=False)
        try:
            await context.db.write(lambda conn: _finish(conn, context, status, error, started))
        except Exception as exc:
            log.error("run %s could not be finished: %s", context.run_id, type(exc).__name__, exc_info=exc)
        finally:
            del self._active[context.run_id]
            self._wake.set()
        log.info("run %s of %s: %s", context.run_id, context.policy_id, status)


def _finish(conn: Connection, context: Context, status: str, error: str | None, started: datetime) -> None:
    now = context.now()
    runs.finish(conn, context.run_id, status, redact_text(error) if error else None, started, now)
    if status == "success" and not context.dry_run:
        keep_marks(conn, context.policy_id, context.marks, now)
    note(conn, now, context.actor, "pipeline.complete", "run", context.run_id, status=status)


def _check_approved(policy: Mapping[str, Any]) -> None:
    if policy["approved_hash"] is None:
        raise BadRequest(
            "policy_not_approved",
            f'Policy "{policy["name"]}" waits for a person\'s approval: zorivest-rpc approve {policy["id"]}. '
            "A dry run needs none.",
        )
    if policy["approved_hash"] != policy["content_hash"]:
        raise BadRequest("policy_changed", f'Policy "{policy["name"]}" was changed after its approval.')


def _move(conn: Connection, policy_id: str, until: datetime) -> None:
    conn.execute(policies_table.update().where(policies_table.c.id == policy_id).values(handled_until=until))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
