"""The cryptography of the vault: a key-encryption key from an API key, the wrapped database key, encrypted fields.

An API key is stretched with Argon2id and a salt of its own; the result wraps the one random database key (Fernet). So
any number of API keys open one database, and withdrawing one never re-encrypts it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from typing import Any

import msgspec
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

__all__ = [
    "KEY_PREFIX",
    "FieldCipher",
    "Kdf",
    "fingerprint",
    "is_api_key",
    "mask",
    "new_api_key",
    "same",
    "unwrap_dek",
    "wrap_dek",
]

KEY_PREFIX = "zrv_sk_"
DEK_BYTES = 32
SALT_BYTES = 16
_FIELD_PREFIX = "ENC:"
_FIELD_INFO = b"zorivest-field-v1"
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class Kdf(msgspec.Struct, frozen=True):
    """How API keys of a vault are stretched; kept beside them, so that stronger settings can come later."""

    algorithm: str = "argon2id"
    time_cost: int = 3
    memory_kib: int = 65_536
    parallelism: int = 4
    hash_len: int = 32

    @staticmethod
    def preferred() -> Kdf:
        """Argon2id, or PBKDF2 with 600 000 rounds where no Argon2 is installed."""
        try:
            import argon2.low_level  # noqa: F401
        except ImportError:
            return Kdf("pbkdf2-hmac-sha256", 600_000, 0, 1, 32)
        return Kdf()

    def derive(self, api_key: str, salt: bytes) -> bytes:
        """The key-encryption key; slow on purpose, never call it on the event loop."""
        if self.algorithm == "pbkdf2-hmac-sha256":
            return hashlib.pbkdf2_hmac("sha256", api_key.encode(), salt, self.time_cost, self.hash_len)
        if self.algorithm != "argon2id":
            raise ValueError(f"unknown key derivation {self.algorithm!r}")
        from argon2.low_level import Type, hash_secret_raw

        return hash_secret_raw(
            api_key.encode(), salt, self.time_cost, self.memory_kib, self.parallelism, self.hash_len, Type.ID
        )


def new_api_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(24)  # 24 bytes are exactly 32 characters


def is_api_key(text: str) -> bool:
    """Well formed: the prefix and 32 URL-safe characters."""
    return text.startswith(KEY_PREFIX) and len(text) == len(KEY_PREFIX) + 32 and _ALPHABET.issuperset(text[7:])


def mask(api_key: str) -> str:
    return f"{KEY_PREFIX}...{api_key[-4:]}"


def fingerprint(secret: str) -> str:
    """SHA-256, hex: how a secret is looked up without being stored."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def same(left: str, right: str) -> bool:
    """Equality in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())


def wrap_dek(dek: bytes, kek: bytes) -> str:
    return Fernet(base64.urlsafe_b64encode(kek)).encrypt(dek).decode()


def unwrap_dek(wrapped: str, kek: bytes) -> bytes | None:
    """The database key, or None if this is not the key it was wrapped with."""
    try:
        dek = Fernet(base64.urlsafe_b64encode(kek)).decrypt(wrapped.encode())
    except (InvalidToken, ValueError):
        return None
    return dek if len(dek) == DEK_BYTES else None


def new_dek() -> bytes:
    return os.urandom(DEK_BYTES)


def new_salt() -> bytes:
    return os.urandom(SALT_BYTES)


class FieldCipher:
    """Encrypts single values (provider keys, passwords) inside the already encrypted database.

    A copy of the decrypted database, a report or a log then still holds no usable secret."""

    def __init__(self, dek: bytes) -> None:
        key = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_FIELD_INFO).derive(dek)
        self._fernet = Fernet(base64.urlsafe_b64encode(key))

    def encrypt(self, value: str) -> str:
        """Empty and already encrypted values pass through."""
        if not value or value.startswith(_FIELD_PREFIX):
            return value
        return _FIELD_PREFIX + self._fernet.encrypt(value.encode()).decode()

    def decrypt(self, value: str) -> str:
        """Values without the prefix pass through; ValueError when the key does not fit."""
        if not value.startswith(_FIELD_PREFIX):
            return value
        try:
            return self._fernet.decrypt(value[len(_FIELD_PREFIX) :].encode()).decode()
        except InvalidToken:
            raise ValueError("an encrypted field does not belong to this database") from None

    def __repr__(self) -> str:
        return "FieldCipher(...)"

    def __reduce__(self) -> Any:
        raise TypeError("a cipher is not to be copied or stored")
