"""A file of a form on its way into an importer: how large it may be, how long it may take, and how it is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .errors import Invalid, Refusal
from .imports.drafts import ImportRefused, Limits
from .routing import Ask, Form, Upload

__all__ = ["BODY", "Importer", "form_with_file", "read_file"]

T_co = TypeVar("T_co", covariant=True)
H_contra = TypeVar("H_contra", contravariant=True)

LIMITS = Limits()
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
        limits: Limits,
        expired: Callable[[], bool],
        progress: Callable[[int, int], None],
    ) -> T_co: ...


async def form_with_file(ask: Ask) -> tuple[Form, Upload]:
    """The form and its field `file`; 422 without one, 413 above the limit."""
    form = await ask.form(LIMITS.max_bytes)
    if "file" not in form.files:
        raise Invalid({"file": ["is required"]})
    return form, form.files["file"]


async def read_file(ask: Ask, importer: Importer[H_contra, T_co], upload: Upload, hints: H_contra) -> T_co:
    """Run an importer on a worker thread; the time counts from when it begins, not while it waits for its turn.

    How far it has come can be asked for under the request's own idempotency key, by whoever knows that."""
    ending, reading = ask.backend.stop_requested, ask.backend.reading
    key = ask.request.headers.get("Idempotency-Key", "")[:64]

    def come(done: int, total: int) -> None:
        if key:
            reading[key] = (done, total)

    def job() -> T_co:
        deadline = time.monotonic() + SECONDS
        try:
            return importer(
                upload.data,
                hints,
                limits=LIMITS,
                expired=lambda: ending.is_set() or time.monotonic() > deadline,
                progress=come,
            )
        except ImportRefused as exc:
            raise _refused(exc) from None

    try:
        return await ask.backend.work("files", job)
    finally:
        reading.pop(key, None)


def _refused(exc: ImportRefused) -> Refusal:
    """Why nothing of a file is imported, and what to do about it."""
    told: dict[str, Any] = {"what": exc.what, "where": exc.where, "next": exc.next, "headers": list(exc.headers)}
    refusal = Refusal(exc.code, str(exc), **{name: value for name, value in told.items() if value})
    refusal.status = exc.status
    return refusal
