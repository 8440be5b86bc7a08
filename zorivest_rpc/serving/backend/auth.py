"""From an API key to a session token, and back to a fresh one before it ends.

Rule 1: a token lives in the memory of one Auth, and an Auth belongs to one principal; keys share nothing.
Rule 2: the key is asked for at the moment of an exchange and not kept; over HTTP it is the running request's own.
Rule 3: however many calls find no token, one exchange is on its way; a key that was refused is not tried at once again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from math import inf
from typing import Protocol

import msgspec

from zorivest_rpc.errors import BackendError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.serving.backend.coalesce import Coalesced

__all__ = ["BackendLogins", "FixedLogin", "Grant", "Keyring", "Sessions", "principal_of"]

_LIFE = 3600.0  # of a token whose answer does not say
_NEXT = {
    401: "Check the API key (ZORIVEST_API_KEY, or the client's Authorization header).",
    403: "The key was revoked or has ended; create another one.",
    423: "Another program holds the database; close it and call again.",
}
_OF_THE_KEY = (401, 403)


def principal_of(key: str) -> str:
    """Who a key stands for: the same key is the same principal, and the key cannot be read back."""
    return "key:" + sha256(key.encode()).hexdigest()[:32]


class Grant(msgspec.Struct, frozen=True):
    """What an exchange gave; `header` is the ready Authorization value."""

    header: str
    ends: float
    role: str = ""
    inline_guard: bool = False

    def __repr__(self) -> str:  # it may end up in a log line
        return f"Grant(role={self.role!r}, ends={self.ends!r}, inline_guard={self.inline_guard!r})"


class Sessions(Protocol):
    """Where the value of the Authorization header comes from."""

    @property
    def current(self) -> Grant | None: ...

    def at_hand(self) -> Grant | None: ...

    async def grant(self) -> Grant: ...

    def reject(self, grant: Grant) -> None: ...

    async def close(self) -> None: ...


class FixedLogin:
    """A header that the operator gave; there is nothing to exchange, and nothing else to try."""

    def __init__(self, authorization: str) -> None:
        self.current: Grant | None = Grant(authorization, inf)

    def at_hand(self) -> Grant | None:
        return self.current

    async def grant(self) -> Grant:
        assert self.current is not None
        return self.current

    def reject(self, grant: Grant) -> None:
        return

    async def close(self) -> None:
        return


class BackendLogins:
    """The one current token of one principal."""

    def __init__(
        self,
        unlock: Callable[[str], Awaitable[Json]],
        key: Callable[[], str | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        margin: float = 30.0,
        share: float = 1.0,
        hold_off: float = 2.0,
        longest_hold_off: float = 2.0,
        advice: str | None = None,
    ) -> None:
        """`share` of a token's life is used. A key that was refused is tried again after `hold_off` seconds, which
        double up to `longest_hold_off` with each refusal. `advice` is what to do about the key where it is neither the
        caller's nor this server's own."""
        self._advice = advice
        self._unlock = unlock
        self._key = key
        self._clock = clock
        self._margin = margin
        self._share = share
        self._hold_off = self._next_hold_off = hold_off
        self._longest_hold_off = longest_hold_off
        self._refused: tuple[str, float, BackendError] | None = None
        self._exchange = Coalesced(self._renew)
        self.current: Grant | None = None

    def at_hand(self) -> Grant | None:
        """The token, if it is good for a while yet; the common case, and nothing to wait for."""
        grant = self.current
        return grant if grant is not None and self._clock() < grant.ends - self._margin else None

    async def grant(self) -> Grant:
        """A token that is good for a while yet."""
        return self.at_hand() or await self._exchange.get()

    def reject(self, grant: Grant) -> None:
        """The backend did not take it. Another call may have replaced it already; then there is nothing to forget."""
        if self.current is grant:
            self.current = None

    async def close(self) -> None:
        await self._exchange.close()
        self.current = None

    async def _renew(self) -> Grant:
        key = self._key()
        if not key:
            advice = self._advice or "Set ZORIVEST_API_KEY, or send the key as Authorization: Bearer …, and call again."
            raise BackendError(
                401,
                f"The backend needs an API key and none is configured. {advice}",
                code="no_api_key",
                next=self._advice or "Configure an API key.",
            )
        whose = principal_of(key)
        if self._refused is not None:
            refused, until, error = self._refused
            if refused == whose and self._clock() < until:
                raise error
        try:
            answer = await self._unlock(key)
        except BackendError as error:
            failure = _failure(error, key, self._advice)
            self._refused = (whose, self._clock() + self._next_hold_off, failure)
            self._next_hold_off = min(self._longest_hold_off, self._next_hold_off * 2)
            raise failure from None
        self._refused, self._next_hold_off = None, self._hold_off
        self.current = self._read(answer)
        return self.current

    def _read(self, answer: Json) -> Grant:
        token = answer.get("session_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise BackendError(
                200,
                "Auth failed (200): the answer of /auth/unlock has no session_token. Check that the API URL names a "
                "Zorivest backend.",
                code="auth_failed",
                next="Check that the API URL names a Zorivest backend.",
            )
        life = answer.get("expires_in")
        seconds = float(life) if isinstance(life, (int, float)) and life > 0 else _LIFE
        # A token that lives no longer than the margin would never be good; use most of what it has.
        ends = self._clock() + max(seconds * self._share, self._margin + seconds / 2)
        role = answer.get("role")
        return Grant(
            "Bearer " + token,
            ends,
            role if isinstance(role, str) else "",
            answer.get("inline_guard") is True,
        )


def _failure(error: BackendError, key: str, own_advice: str | None) -> BackendError:
    """The exchange's own sentence; a backend that echoes the key does not get it into a text."""
    detail = error.detail if isinstance(error.detail, str) and error.detail.strip() else "unknown"
    words = detail.replace(key, "…").strip().rstrip(".")[:300]
    advice = _NEXT.get(error.status, "zorivest_diagnose shows the state of the backend.")
    if own_advice is not None and error.status in _OF_THE_KEY:
        advice = own_advice
    problem = f"Auth failed ({error.status}): {words}."
    return BackendError(
        error.status,
        f"{problem} {advice}",
        code="auth_failed",
        next=advice,
        problem=problem,
        reported=error.reported,
    )


class Keyring:
    """The keys of the callers whose requests are running now; when the last request of one ends, its key is gone."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, int]] = {}

    @contextmanager
    def holding(self, key: str) -> Iterator[str]:
        """The principal of a key that is known for the time being."""
        principal = principal_of(key)
        self._held[principal] = (key, self._count(principal) + 1)
        try:
            yield principal
        finally:
            left = self._count(principal) - 1
            if left > 0:
                self._held[principal] = (key, left)
            else:
                del self._held[principal]

    def key_of(self, principal: str) -> str | None:
        held = self._held.get(principal)
        return None if held is None else held[0]

    def _count(self, principal: str) -> int:
        return self._held.get(principal, ("", 0))[1]
