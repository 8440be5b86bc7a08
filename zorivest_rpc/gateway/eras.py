"""Which era each server was last found to speak, kept over restarts: it saves the probe, and decides nothing else."""

from __future__ import annotations

import logging
import os
from typing import Final

import msgspec

from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.pins import identity_of
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.private_files import alone, write_private

__all__ = ["STATE_FILE", "Eras"]

STATE_FILE: Final = "mcp-state.json"
_MOST: Final = 1_000  # servers; the oldest entry makes room
_log: Final = logging.getLogger(__name__)


class _State(msgspec.Struct):
    version: int = 1
    eras: dict[str, str] = {}


class Eras:
    """The state file of a data directory. What cannot be read or written costs one probe more."""

    def __init__(self, data_dir: str) -> None:
        self.path = os.path.join(data_dir, STATE_FILE)

    def known(self, profile: Profile, server: Server) -> Era | None:
        found = self._read().eras.get(identity_of(profile, server).key)
        return Era(found) if found in (Era.LEGACY.value, Era.MODERN.value) else None

    def remember(self, profile: Profile, server: Server, era: Era) -> None:
        key = identity_of(profile, server).key
        try:
            with alone(self.path):
                state = self._read()
                state.eras.pop(key, None)
                while len(state.eras) >= _MOST:
                    del state.eras[next(iter(state.eras))]
                state.eras[key] = era.value
                write_private(self.path, msgspec.json.format(msgspec.json.encode(state), indent=2) + b"\n")
        except OSError as exc:
            _log.info("%s cannot be written: %s", self.path, exc.strerror)

    def _read(self) -> _State:
        try:
            with open(self.path, "rb") as file:
                return msgspec.json.decode(file.read(), type=_State)
        except (OSError, msgspec.DecodeError):
            return _State(eras={})
