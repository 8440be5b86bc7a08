"""Confirmation tokens: one permission for one destructive action, for one minute, for one session.

Every method is synchronous, so on one event loop no two callers can spend the same token."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from .crypto import fingerprint, same
from .errors import BadRequest

__all__ = ["ACTIONS", "TOKEN_SECONDS", "Confirmations"]

TOKEN_SECONDS = 60
_MOST = 10_000

ACTIONS = frozenset(
    {
        # gated tools
        "create_trade",
        "disconnect_market_provider",
        "import_broker_csv",
        "import_broker_pdf",
        "sync_broker",
        "zorivest_emergency_stop",
        "zorivest_service_restart",
        # actions of the REST interface itself
        "delete_account",
        "delete_all_trades",
        "delete_trade",
        "factory_reset",
        "revoke_api_key",
    }
)


@dataclass
class _Permission:
    action: str
    session_id: str
    params_hash: str | None
    ends: float
    spent: bool = False


class Confirmations:
    """The tokens in force; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_hash: dict[str, _Permission] = {}

    def issue(self, action: str, session_id: str, params_hash: str | None) -> str:
        """A token for one action; 400 for an action that needs none."""
        if action not in ACTIONS:
            raise BadRequest(
                "unknown_destructive_action",
                f'"{action}" needs no confirmation; these do: {", ".join(sorted(ACTIONS))}.',
            )
        now = self._clock()
        for name in [name for name, token in self._by_hash.items() if token.ends <= now]:
            del self._by_hash[name]
        while len(self._by_hash) >= _MOST:
            del self._by_hash[next(iter(self._by_hash))]
        token = "ctk_" + secrets.token_urlsafe(16)
        self._by_hash[fingerprint(token)] = _Permission(action, session_id, params_hash, now + TOKEN_SECONDS)
        return token

    def consume(self, token: str, action: str, session_id: str, params_hash: str | None) -> str:
        """`ok` once; every later or wrong attempt gets the reason. Only success spends the token."""
        held = self._by_hash.get(fingerprint(token))
        if held is None:
            return "unknown"
        if held.ends <= self._clock():
            return "expired"
        if held.spent:
            return "used"
        if held.session_id != session_id:
            return "wrong_session"
        if held.action != action:
            return "wrong_action"
        if held.params_hash is not None and not same(held.params_hash, params_hash or ""):
            return "wrong_params"
        held.spent = True
        return "ok"

    def clear(self) -> None:
        self._by_hash.clear()
