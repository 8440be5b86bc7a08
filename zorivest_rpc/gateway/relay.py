"""What a server says during a call, on its way to the client that called: progress, and words for its log. Both are
told without what we sent it in secret.

A server that says more than a client can read would keep our answers behind its words, and the client's cancellation
behind our answers. So each call has an allowance; what exceeds it is dropped, which progress and logs permit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec

from zorivest_rpc.gateway.telemetry import Redactor
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.replies import Progress, Told

__all__ = ["AT_ONCE", "PER_SECOND", "Relay"]

AT_ONCE: Final = 1_000
PER_SECOND: Final = 200.0
_log: Final = logging.getLogger(__name__)


class Relay:
    """That of one call. The allowance is refilled with time, up to what may be said at once."""

    __slots__ = ("_call", "_clock", "_dropped", "_left", "_redactor", "_server", "_since")

    def __init__(
        self, call: Call, server: str, redactor: Redactor, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._call = call
        self._server = server
        self._redactor = redactor
        self._clock = clock
        self._left = float(AT_ONCE)
        self._since = 0.0
        self._dropped = False

    def progress(self, progress: Progress) -> None:
        if self._admits():
            message = None if progress.message is None else self._redactor.text(progress.message)
            self._call.progress(progress.progress, progress.total, message)

    def log(self, told: Told) -> None:
        if not self._admits():
            return
        server = self._server
        try:
            words = self._redactor.value(msgspec.json.decode(told.data))
            logger = f"{server}/{self._redactor.text(told.logger)}" if told.logger else server
            self._call.log(told.level, words, logger)
        except (KeyError, msgspec.DecodeError):
            _log.info("%s sent a log message of an unknown level", server)

    def _admits(self) -> bool:
        now = self._clock()
        if self._since:
            self._left = min(float(AT_ONCE), self._left + (now - self._since) * PER_SECOND)
        self._since = now
        if self._left < 1.0:
            if not self._dropped:
                self._dropped = True
                _log.warning('MCP server "%s" says more during "%s" than is passed on', self._server, self._call.name)
            return False
        self._left -= 1.0
        return True
