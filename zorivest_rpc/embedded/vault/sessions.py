"""Sessions of unlocked callers: opaque tokens in memory, with a role and an end.

Tokens are looked up by their hash, so the time a lookup takes says nothing about how much of a guessed token was
right."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import Forbidden, Unauthorized
from .crypto import fingerprint
from .vault import Role

__all__ = ["SESSION_SECONDS", "Login", "Logins"]

SESSION_SECONDS = 3600
_MOST = 1000


@dataclass
class Login:
    """One unlocked caller; `id` names it in the audit log and binds confirmation tokens, and is not the token."""

    id: str
    key_id: str
    role: Role
    ends: float
    revoked: bool = False

    @property
    def actor(self) -> str:
        return f"key:{self.key_id}"


class Logins:
    """All sessions of one backend; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, ttl: float = SESSION_SECONDS) -> None:
        self._clock = clock
        self._ttl = ttl
        self._by_hash: dict[str, Login] = {}

    def issue(self, key_id: str, role: Role, at_most: float | None = None) -> tuple[str, Login, int]:
        """A new token, its session, and the seconds it lasts; `at_most` is the rest of the key's own life."""
        now = self._clock()
        for name in [name for name, session in self._by_hash.items() if session.ends <= now - self._ttl]:
            del self._by_hash[name]  # long over: "unknown" is now as good an answer as "expired"
        while len(self._by_hash) >= _MOST:
            del self._by_hash[next(iter(self._by_hash))]
        lasts = self._ttl if at_most is None else min(self._ttl, at_most)
        token = "tok_" + secrets.token_hex(16)
        session = Login(secrets.token_hex(8), key_id, role, now + lasts)
        self._by_hash[fingerprint(token)] = session
        return token, session, int(lasts)

    def find(self, token: str) -> Login:
        """401 unknown or expired: unlock again; 403 if the key behind it was revoked."""
        session = self._by_hash.get(fingerprint(token))
        if session is None:
            raise Unauthorized("session_unknown", "This session is not known (any more); unlock again.")
        if session.revoked:
            raise Forbidden("key_revoked", "The API key of this session was revoked.")
        if session.ends <= self._clock():
            raise Unauthorized("session_expired", "The session has expired; unlock again.")
        return session

    def revoke(self, key_id: str) -> None:
        for session in self._by_hash.values():
            if session.key_id == key_id:
                session.revoked = True

    def clear(self) -> None:
        self._by_hash.clear()

    def active(self) -> int:
        now = self._clock()
        return sum(not session.revoked and session.ends > now for session in self._by_hash.values())
