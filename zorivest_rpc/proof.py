"""How a backend on a port proves to a server of the same data directory that it is the one that wrote `runtime.json`.

Any local user can listen on a port that became free. Before a key or a token goes to a port, the backend there answers
a random challenge with a MAC under the secret in `runtime.json`, which only the owner of the directory can read. The
MAC covers the address, so an answer of the true backend, relayed by a listener on another port, is worth nothing."""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["PROOF_PATH", "is_challenge", "is_proof", "new_challenge", "new_secret", "place_of", "prove"]

PROOF_PATH = "/auth/proof"
_BYTES = 32


def new_secret() -> str:
    return secrets.token_hex(_BYTES)


def new_challenge() -> str:
    return secrets.token_hex(_BYTES)


def is_challenge(text: str) -> bool:
    return len(text) == 2 * _BYTES and all(char in "0123456789abcdef" for char in text)


def place_of(port: int | None) -> str:
    """The address that a proof is good for: a port of this machine, or the socket of the data directory."""
    return "socket" if port is None else f"127.0.0.1:{port}"


def prove(secret: str, challenge: str, place: str) -> str:
    text = f"zorivest-backend-proof-v1\n{place}\n{challenge}"
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_proof(answer: object, secret: str, challenge: str, place: str) -> bool:
    """Whether an answer, of whatever type a stranger sent, is the right one; in constant time."""
    if not isinstance(answer, str):
        return False
    return hmac.compare_digest(answer.encode("utf-8", "replace"), prove(secret, challenge, place).encode())
