"""One JSON line for each event in the life of a call and of an upstream, free of secrets.

Lines go to the log and, where a file is named, there too: readable for its owner alone, 10 MiB, three older ones. What
was sent and answered is recorded only on request. A line that cannot be written stops no call."""

from __future__ import annotations

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import UTC, datetime
from typing import Any, Final

from zorivest_rpc.errors import ToolError
from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.withheld import HIDDEN, SHORTEST

__all__ = ["CONTENT_FIELDS", "EVENTS", "CallRecord", "Redactor", "Telemetry", "secret_values"]

COMMON: Final = ("call_id", "tenant", "principal", "tool", "provenance", "server")
CONTENT_FIELDS: Final = ("arguments", "result")
EVENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "tool.requested": ("arguments",),
    "tool.succeeded": ("duration_ms", "bytes", "attempts", "is_error", "result"),
    "tool.failed": ("class", "code", "duration_ms", "attempts"),
    "tool.denied": ("reason",),
    "tool.confirm_requested": ("channel",),
    "tool.confirmed": ("channel", "auto"),
    "mcp.discovery.started": (),
    "mcp.discovery.succeeded": ("tools", "held", "era", "latency_ms"),
    "mcp.discovery.failed": ("code",),
    "mcp.state": ("from", "to"),
    "mcp.circuit.opened": (),
    "mcp.circuit.closed": (),
    "mcp.list_changed": ("added", "removed", "changed"),
    "mcp.tool.held": ("reason", "hash_old", "hash_new"),
    "mcp.pin.accepted": (),
}
# `class_` and `from_` are Python's way to write these two
_ALLOWED: Final = {
    event: frozenset(spelt for name in (*COMMON, *names) for spelt in (name, f"{name}_"))
    for event, names in EVENTS.items()
}
LARGEST: Final = 10 * 1024 * 1024
ROTATIONS: Final = 3
_SHAPES: Final = re.compile(r"(?i:\bbearer\s+)[^\s\"',;]+|\bzrv_sk_[A-Za-z0-9_-]+|\bctk_[A-Za-z0-9_-]+")
_log: Final = logging.getLogger(__name__)


def secret_values(profile: Profile, environ: Mapping[str, str]) -> list[str]:
    """The values that no line, error or report may hold: those of every variable that the profile's servers name."""
    names = {name for server in profile.mcp_servers for name in (*server.secret_variables, *server.env_pass)}
    return [value for name in sorted(names) if (value := environ.get(name, "").strip())]


class Redactor:
    """Takes known secrets, and what has the shape of one, out of texts and structures."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: one secret may be the beginning of another.
        known = sorted({secret for secret in secrets if len(secret) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, words: str) -> str:
        if self._known is not None:
            words = self._known.sub(HIDDEN, words)
        return _SHAPES.sub(HIDDEN, words)

    def error(self, error: ToolError) -> None:
        """An upstream's own words may hold what we sent it; a client and the log read them without that."""
        error.text, error.problem = self.text(error.text), self.text(error.problem)
        error.args = (error.text,)

    def value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(inner) for inner in value]
        return value


class Telemetry:
    """Where events go. `capture_content` lets arguments and results into the file; they are redacted like all else."""

    def __init__(
        self,
        path: str | None,
        redactor: Redactor,
        *,
        capture_content: bool = False,
        run_id: str | None = None,
        clock: Callable[[], float] = time.time,
        largest: int = LARGEST,
    ) -> None:
        self.run_id = run_id or os.urandom(8).hex()
        self.redactor = redactor
        self._path = path
        self._capture = capture_content
        self._clock = clock
        self._largest = largest
        self._failed = False
        self._always: dict[str, Any] = {}

    def for_tenant(self, tenant: str) -> Telemetry:
        """The same, for what belongs to one tenant: each line names it."""
        own = copy(self)
        own._always = {"tenant": tenant}
        return own

    def emit(self, event: str, **fields: Any) -> None:
        """ValueError for an event or field that is not in the table: the table is what readers build on."""
        allowed = _ALLOWED.get(event)
        if allowed is None or not allowed.issuperset(fields):
            unknown = [name for name in fields if name not in (allowed or ())]
            raise ValueError(f"no event {event} with {', '.join(unknown) or 'any field'}")
        if self._path is None and not _log.isEnabledFor(logging.INFO):
            return
        line: dict[str, Any] = {"ts": self._now(), "event": event, "run_id": self.run_id}
        for name, value in (self._always | fields).items():
            if value is not None and (self._capture or name not in CONTENT_FIELDS):
                line[name.rstrip("_")] = self.redactor.value(value)
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=str)
        _log.info("%s", text)
        if self._path is not None:
            self._append(text.encode("utf-8", "replace") + b"\n")

    def call(self, **common: Any) -> CallRecord:
        """Tells that a call was requested; its record tells the end, once."""
        return CallRecord(self, common)

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="milliseconds")

    def _append(self, line: bytes) -> None:
        assert self._path is not None
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                facts = os.fstat(descriptor)
                if facts.st_mode & 0o077 and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, 0o600)
                if not facts.st_size or facts.st_size + len(line) <= self._largest:
                    os.write(descriptor, line)
                    return
            finally:
                os.close(descriptor)
            self._rotate(len(line))
            self._append(line)
        except OSError as exc:
            if not self._failed:
                self._failed = True
                _log.warning("Telemetry cannot be written to %s: %s", self._path, exc.strerror)

    def _rotate(self, coming: int) -> None:
        """Make room: the file becomes `.1`, and so on. Another process may have done it while we waited."""
        from zorivest_rpc.private_files import alone

        assert self._path is not None
        with alone(os.path.abspath(self._path)):
            if os.path.getsize(self._path) + coming <= self._largest:
                return
            for number in range(ROTATIONS - 1, 0, -1):
                if os.path.exists(f"{self._path}.{number}"):
                    os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
            os.replace(self._path, f"{self._path}.1")


class CallRecord:
    """One call, from `tool.requested` to exactly one of succeeded, failed and denied."""

    def __init__(self, telemetry: Telemetry, common: Mapping[str, Any]) -> None:
        self._telemetry = telemetry
        self._common = dict(common)
        arguments = self._common.pop("arguments", None)
        self._common.setdefault("call_id", os.urandom(8).hex())
        self.ended = False
        telemetry.emit("tool.requested", **self._common, arguments=arguments)

    def record_question(self, channel: str) -> None:
        self._telemetry.emit("tool.confirm_requested", **self._common, channel=channel)

    def record_confirmation(self, channel: str | None, *, auto: bool = False) -> None:
        self._telemetry.emit("tool.confirmed", **self._common, channel=channel, auto=auto)

    def record_success(
        self, *, duration_ms: float, bytes: int, attempts: int, is_error: bool, result: Any = None
    ) -> None:
        fields = {"duration_ms": duration_ms, "bytes": bytes, "attempts": attempts, "is_error": is_error}
        self._end("tool.succeeded", **fields, result=result)

    def record_failure(self, *, kind: str, code: str, duration_ms: float, attempts: int) -> None:
        self._end("tool.failed", class_=kind, code=code, duration_ms=duration_ms, attempts=attempts)

    def record_denial(self, reason: str) -> None:
        self._end("tool.denied", reason=reason)

    def _end(self, event: str, **fields: Any) -> None:
        if not self.ended:  # what ends a call may be cancelled while another end is on its way: the first one counts
            self.ended = True
            self._telemetry.emit(event, **self._common, **fields)
