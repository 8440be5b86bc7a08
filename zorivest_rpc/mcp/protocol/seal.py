"""Text that only we can have written: session ids, cursors, request state and task ids.

A seal binds a payload to a purpose and to everything it must be presented with; opening it with anything else
fails, and says no more than that. The clock is an argument.
"""

from __future__ import annotations

from typing import Final

import msgspec

from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["BadSeal", "Seal"]

_MAC: Final = 16


class BadSeal(ValueError):
    """Not ours, altered, presented for something else, or too old."""


class Seal:
    """Tokens are lower-case hexadecimal: some clients fold the case of what they send back."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) < 16:
            raise ValueError("a sealing key has at least 16 bytes")
        self._key = key

    def close(self, purpose: str, payload: Json, *, bound_to: Json = None, expires: float = 0) -> str:
        """`expires` is a time of the caller's clock; 0 means never."""
        body = msgspec.msgpack.encode((expires, payload))
        return (self._mac(purpose, body, bound_to) + body).hex()

    def open(self, purpose: str, token: str, *, bound_to: Json = None, now: float = 0) -> Json:
        try:
            raw = bytes.fromhex(token)
        except ValueError:
            raise BadSeal("not a token of this server") from None
        if len(raw) <= _MAC or raw.hex() != token:
            raise BadSeal("not a token of this server")
        from hmac import compare_digest

        mac, body = raw[:_MAC], raw[_MAC:]
        if not compare_digest(mac, self._mac(purpose, body, bound_to)):
            raise BadSeal("not a token of this server, or presented for something else")
        expires, payload = msgspec.msgpack.decode(body)
        if expires and now > expires:
            raise BadSeal("expired")
        return payload

    def _mac(self, purpose: str, body: bytes, bound_to: Json) -> bytes:
        from hashlib import blake2b

        bound = b"" if bound_to is None else msgspec.msgpack.encode(bound_to)
        mac = blake2b(key=self._key, digest_size=_MAC, person=purpose.encode()[:16])
        mac.update(len(bound).to_bytes(8, "big"))
        mac.update(bound)
        mac.update(body)
        return mac.digest()
