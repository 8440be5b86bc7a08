"""The log files of the backend: one JSONL file per feature, written by one listener thread, redacted, rotated.

A module logs to `logging.getLogger("zorivest.<feature>")`. Records go through a queue, so a slow disk never holds up a
request. The level of a feature is changed while running. Before the settings are readable
everything goes to `bootstrap.jsonl`."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any

import orjson

from .paths import private_opener
from .redact import redact, redact_text

__all__ = ["FEATURES", "LEVELS", "Logs"]

FEATURES = (
    "trades",
    "accounts",
    "marketdata",
    "tax",
    "scheduler",
    "db",
    "calculator",
    "images",
    "api",
    "frontend",
    "app",
)
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_ROOT = "zorivest"
_SERVER = ("aiohttp", "asyncio")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FORMATTER = logging.Formatter()


class _Line(logging.Formatter):
    """One record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "module": record.module,
            "funcName": record.funcName,
            "lineno": record.lineno,
            "message": redact_text(record.getMessage()),
        }
        extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        line.update(redact(extras))
        if record.exc_text:
            line["exception"] = redact_text(record.exc_text)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class _File(RotatingFileHandler):
    """A file only its owner can read, also after rotation."""

    def _open(self) -> TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", errors="replace", opener=private_opener)


class _Queue(QueueHandler):
    """Fixes what a record says at the moment it is made; the listener only writes."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        copy = logging.makeLogRecord(vars(record))
        copy.msg, copy.args = record.getMessage(), None
        if record.exc_info:
            copy.exc_text = record.exc_text or _FORMATTER.formatException(record.exc_info)
            copy.exc_info = None
        return copy


class _Router(logging.Handler):
    """Gives each record to the file of its feature."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._files: dict[str, _File] = {}
        self._levels = dict.fromkeys(FEATURES, logging.INFO)
        self._max_bytes, self._backups = 10 * 1024 * 1024, 5
        self._settled = False
        self._guard = threading.RLock()

    def configure(self, levels: Mapping[str, str], rotation_mb: int, backup_count: int) -> None:
        with self._guard:
            self._settled = True
            self._levels.update({feature: logging.getLevelName(level) for feature, level in levels.items()})
            self._max_bytes, self._backups = rotation_mb * 1024 * 1024, backup_count
            for file in self._files.values():
                file.maxBytes, file.backupCount = self._max_bytes, self._backups

    def levels(self) -> dict[str, str]:
        return {feature: logging.getLevelName(level) for feature, level in self._levels.items()}

    def wants(self, record: logging.LogRecord) -> bool:
        """Asked when the record is made, so that a level holds from the moment it was set."""
        return record.levelno >= self._levels.get(self._feature(record.name), logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        with self._guard:
            feature = self._feature(record.name)
            name = feature if self._settled or feature == "server" else "bootstrap"
            self._file(name).handle(record)

    def _feature(self, logger: str) -> str:
        parts = logger.split(".")
        if parts[0] != _ROOT:
            return "server"
        return parts[1] if len(parts) > 1 and parts[1] in FEATURES else "misc"

    def _file(self, name: str) -> _File:
        if name not in self._files:
            file = _File(self._directory / f"{name}.jsonl", maxBytes=self._max_bytes, backupCount=self._backups)
            file.setFormatter(_Line())
            self._files[name] = file
        return self._files[name]

    def close(self) -> None:
        with self._guard:
            for file in self._files.values():
                file.close()
            self._files.clear()
        super().close()


class Logs:
    """The log files of one data directory, from `start` to `close`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._router = _Router(directory)
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._handler = _Queue(self._queue)
        self._handler.addFilter(self._router.wants)
        self._listener = QueueListener(self._queue, self._router)
        self._levels: dict[str, int] = {}

    def start(self) -> None:
        self._listener.start()
        for name in (_ROOT, *_SERVER):
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.addHandler(self._handler)
            logger.setLevel(logging.DEBUG if name == _ROOT else logging.INFO)

    def configure(self, levels: Mapping[str, str], rotation_mb: int, backup_count: int) -> None:
        """Take effect at once, on open files too."""
        self._router.configure(levels, rotation_mb, backup_count)

    def levels(self) -> dict[str, str]:
        """The level in force for each feature."""
        return self._router.levels()

    def close(self) -> None:
        """Write what is queued and let go of every file; closing twice does nothing."""
        if not self._levels:
            return
        for name, level in self._levels.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self._handler)
            logger.setLevel(level)
        self._levels.clear()
        self._listener.stop()
        self._router.close()
        self._handler.close()
