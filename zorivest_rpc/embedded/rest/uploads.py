"""A file of a form on its way into an importer: how large it may be, how long it may take, and how it is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ..errors import Invalid, Refusal
from ..imports.drafts import ImportLimits, ImportRefused
from .routing import Form, RestCall, Upload

__all__ = ["BODY", "Importer", "Progress", "form_with_file", "preview", "read_file"]

T_co = TypeVar("T_co", covariant=True)
H_contra = TypeVar("H_contra", contravariant=True)

LIMITS = ImportLimits()
BODY = LIMITS.max_bytes + 1024 * 1024
"""The largest body of a route that takes a file: the file, and the form around it."""
SECONDS = 120.0
"""How long one file may be read."""


class Importer(Protocol[H_contra, T_co]):
    def __call__(
        self,
        source: bytes,
        hints: H_contra,
        *,
        limits: ImportLimits,
        expired: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> T_co: ...


class Progress:
    """How far one import has come, for a caller that knows the idempotency key of its request; forgotten when it ends.

    Reading is the first half and writing the second, both in the unit in which the file is read."""

    def __init__(self, ask: RestCall) -> None:
        self._key = ask.request.headers.get("Idempotency-Key", "")[:64]
        self._shown = ask.backend.reading
        self._total = 1

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *problem: object) -> None:
        self._shown.pop(self._key, None)

    def read(self, done: int, total: int) -> None:
        self._total = max(total, 1)
        self._show(done)

    def report_written(self, done: int, total: int) -> None:
        self._show(self._total + self._total * done // max(total, 1))

    def _show(self, done: int) -> None:
        if self._key:
            self._shown[self._key] = (min(done, 2 * self._total), 2 * self._total)


async def form_with_file(ask: RestCall) -> tuple[Form, Upload]:
    """The form and its field `file`; 422 without one, 413 above the limit."""
    form = await ask.form(LIMITS.max_bytes)
    if "file" not in form.files:
        raise Invalid({"file": ["is required"]})
    return form, form.files["file"]


def preview(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer to an import that was rehearsed and undone. The batch that it names does not exist."""
    return {"dry_run": True, **{name: value for name, value in answer.items() if name != "batch_id"}}


async def read_file(
    ask: RestCall, importer: Importer[H_contra, T_co], upload: Upload, hints: H_contra, progress: Progress
) -> T_co:
    """Run an importer on a worker thread; the time counts from when it begins, not while it waits for its turn."""
    ending = ask.backend.stop_requested

    def job() -> T_co:
        deadline = time.monotonic() + SECONDS
        try:
            return importer(
                upload.data,
                hints,
                limits=LIMITS,
                expired=lambda: ending.is_set() or time.monotonic() > deadline,
                progress=progress.read,
            )
        except ImportRefused as exc:
            raise _refuse(exc) from None

    return await ask.backend.work("files", job)


def _refuse(exc: ImportRefused) -> Refusal:
    """Why nothing of a file is imported, and what to do about it."""
    told: dict[str, Any] = {"what": exc.what, "where": exc.where, "next": exc.next, "headers": list(exc.headers)}
    refusal = Refusal(exc.code, str(exc), **{name: value for name, value in told.items() if value})
    refusal.status = exc.status
    return refusal
