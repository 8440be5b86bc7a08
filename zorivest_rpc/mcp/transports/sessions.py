"""Session ids that rebuild their session, and the little that has to be remembered beside them.

An id is a sealed capsule of what `initialize` settled, so a session that is not in memory revives, after an idle
hour as after `kill -9`. What changed since, and that a DELETE ended it, is in the session journal. A new key ends all
sessions.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from secrets import token_bytes
from typing import Final

import msgspec

from zorivest_rpc.mcp.announce import Announcer, Standing
from zorivest_rpc.mcp.dispatcher import Conversation
from zorivest_rpc.mcp.protocol.capabilities import Capabilities
from zorivest_rpc.mcp.protocol.revisions import BY_NAME
from zorivest_rpc.mcp.protocol.seal import BadSeal, Seal
from zorivest_rpc.mcp.protocol.session import Phase, Session
from zorivest_rpc.mcp.protocol.types import Implementation
from zorivest_rpc.mcp.transports.session_journal import SessionJournal, SessionState
from zorivest_rpc.mcp.transports.streams import REPLAY_BYTES, Replay, SessionStreams

__all__ = ["MOST_ASKED", "LiveSession", "SessionStore", "TooManySessions", "load_key"]

log: Final = logging.getLogger("zorivest_rpc")
LIFE: Final = 24 * 3600.0
MOST_ASKED: Final = 2_048  # characters of narrowing headers that an id has room for; all tools by name take 1 300


def load_key(path: Path) -> bytes:
    """The sealing key of a data directory, made at the first start; only its owner may read it."""
    try:
        key = path.read_bytes()
        if len(key) == 32:
            return key
        log.warning("%s is not a key of ours; a new one ends all sessions", path)
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = token_bytes(32)
    partial = path.with_name(path.name + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, key)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(partial, path)
    return key


class LiveSession:
    """A session that is in memory: its conversation, its standing stream and its streams to resume."""

    __slots__ = ("conversation", "expires", "id", "session", "standing", "streams", "used")

    def __init__(self, id: str, session: Session, expires: float, streams: SessionStreams) -> None:
        self.id = id
        self.session = session
        self.expires = expires
        self.conversation = Conversation(session)
        self.standing = Standing(self.conversation)
        self.streams = streams
        self.used = 0.0

    @property
    def is_idle(self) -> bool:
        return not self.conversation.running and not self.streams.open_count


class TooManySessions(Exception):
    """Every session that is held has something going on; nothing is lost, but this one has to wait."""


class SessionStore:
    def __init__(
        self,
        seal: Seal,
        announcer: Announcer,
        journal: SessionJournal,
        now: Callable[[], float],
        epoch: str,
        *,
        life: float = LIFE,
        idle: float = 1_800.0,
        most: int = 10_000,
        most_kept: int = 256,
        replay_bytes: int = REPLAY_BYTES,
    ) -> None:
        self._seal = seal
        self._announcer = announcer
        self._journal = journal
        self._now = now
        self._epoch = epoch
        self._life = life
        self._idle = idle
        self._most = most
        self._most_kept = most_kept
        self.replay = Replay(replay_bytes)
        self._stream_counter = count(1)
        self._live: dict[str, LiveSession] = {}
        self._swept = 0.0

    def __len__(self) -> int:
        return len(self._live)

    @property
    def live(self) -> list[LiveSession]:
        return list(self._live.values())

    def mint(self, session: Session) -> str:
        """An id for a session that has just been greeted. Nothing is stored: an abandoned session costs nothing."""
        client = session.client or Implementation("")
        payload = [
            session.revision.name,
            client.name[:64],
            client.version[:32],
            list(msgspec.structs.astuple(session.capabilities)),
            list(session.asked),
            session.agent[:64],
            token_bytes(12),
        ]
        expires = self._now() + self._life
        return self._seal.close("session", payload, bound_to=session.principal, expires=expires)

    def find(self, id: str, principal: str) -> LiveSession | None:
        """The session of this id, revived where need be; None if it ended, is foreign or another principal's."""
        live = self._live.get(id)
        now = self._now()
        if live is not None:
            if live.session.principal != principal or now > live.expires:
                return None
            live.used = now
            return live
        return self._revive(id, principal, now)

    def _revive(self, id: str, principal: str, now: float) -> LiveSession | None:
        try:
            payload = self._seal.open("session", id, bound_to=principal, now=now)
        except BadSeal:
            return None
        name, expires = _name(id), _expiry(id)
        if self._journal.has_ended(name, expires):
            return None
        revision, client, version, capabilities, asked, agent, _ = payload
        session = Session(
            BY_NAME[revision],
            Phase.READY,
            client=Implementation(client, version),
            capabilities=Capabilities(*capabilities),
            principal=principal,
            key=id,
        )
        session.asked = tuple(asked)
        session.agent = agent
        state = self._journal.get(name)
        if state is not None:
            session.log_level, session.subscriptions, session.toolsets = state.level, state.uris, state.toolsets
        live = LiveSession(
            id, session, expires, SessionStreams(self._epoch, self._most_kept, self._stream_counter, self.replay)
        )
        live.used = now
        if len(self._live) >= self._most or now - self._swept > 60:
            self.sweep()
            if len(self._live) >= self._most:
                raise TooManySessions
        self._live[id] = live
        self._announcer.join(live.standing)
        return live

    def remember(self, session: Session) -> None:
        """Something about it changed that should survive a restart. A session of another transport ends with it."""
        live = self._live.get(session.key)
        if live is not None:
            state = SessionState(session.log_level, session.subscriptions, session.toolsets)
            self._journal.remember(_name(live.id), live.expires, state)

    def end(self, live: LiveSession) -> None:
        """DELETE: gone for good, here and after a restart."""
        self._journal.end(_name(live.id), live.expires)
        self._forget(live)
        live.session.phase = Phase.CLOSED
        live.conversation.close()

    def sweep(self) -> None:
        """Forget what is idle, the longest unused first where there are too many; all of it can revive."""
        now = self._swept = self._now()
        idle = [live for live in self._live.values() if live.is_idle]
        for live in idle:
            if now - live.used > self._idle or now > live.expires:
                self._forget(live)
        surplus = len(self._live) - self._most + max(1, self._most // 10)
        if surplus > 0:
            for live in sorted((each for each in idle if each.id in self._live), key=lambda each: each.used)[:surplus]:
                self._forget(live)

    def _forget(self, live: LiveSession) -> None:
        self._live.pop(live.id, None)
        self._announcer.leave(live.conversation)
        live.streams.close()


def _name(id: str) -> str:
    """What the journal calls a session: the seal of its id, which is as unique and shorter."""
    return id[:32]


def _expiry(id: str) -> float:
    return float(msgspec.msgpack.decode(bytes.fromhex(id)[16:])[0])
