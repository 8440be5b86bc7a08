"""The vault: `bootstrap.json`, its API keys, and the way from a key to the open database's key.

Rule 1: nothing in the file opens the database without an API key, and no API key is in the file.
Rule 2: a revoked key loses its wrapped copy of the database key for good; its tombstone keeps the answer 403, not 401.
Rule 3: the file is replaced whole; one process writes it, the backend that holds the directory. A change that cannot be
written is taken back.
Rule 4: a passphrase is a second way to the same database key, for a person instead of a program: as strong as what was
typed, so its length has a floor, and the file says only that there is one."""

from __future__ import annotations

import base64
import contextlib
import threading
import unicodedata
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

import msgspec

from ..database.identity import new_journal_id
from ..disk.paths import DataDir, write_private
from ..errors import Conflict, Corrupt, Forbidden, Invalid, NotFound, Unauthorized
from .crypto import Kdf, fingerprint, is_api_key, mask, new_api_key, new_dek, new_salt, same, unwrap_dek, wrap_dek

__all__ = ["PASSPHRASE", "SHORTEST", "KeyEntry", "Passphrase", "Role", "Vault"]

PASSPHRASE = "passphrase"  # stands where a key's id would: in sessions and in the audit log
_VERSION = 2
SHORTEST = 12  # characters; with a stolen file, guesses are as fast as Argon2id allows


class Role(IntEnum):
    """What a key may do; each role includes the ones below it."""

    READ_ONLY = 1
    READ_WRITE = 2
    ADMIN = 3

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")

    @property
    def scopes(self) -> list[str]:
        return ["read", "write", "admin"][: self.value]

    @classmethod
    def from_label(cls, label: str) -> Role:
        """ValueError for a label that is no role."""
        for role in cls:
            if role.label == label:
                return role
        raise ValueError(f'"{label}" is not a role; use {", ".join(role.label for role in cls)}')


class KeyEntry(msgspec.Struct):
    """One API key as the file knows it."""

    key_id: str
    label: str
    role: str
    lookup_sha256: str
    salt_b64: str
    wrapped_dek: str | None
    mask: str
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    revoked: bool = False

    def view(self) -> dict[str, Any]:
        """What may be shown of it."""
        return {
            "key_id": self.key_id,
            "label": self.label,
            "role": self.role,
            "created_at": self.created_at,
            "last_used_at": self.last_used_at,
            "expires_at": self.expires_at,
            "masked_key": self.mask,
        }


class Passphrase(msgspec.Struct):
    """The owner's passphrase as the file knows it: a salt, and the database key wrapped with what it stretches to."""

    salt_b64: str
    wrapped_dek: str
    created_at: datetime
    last_used_at: datetime | None = None

    def view(self) -> dict[str, Any]:
        return {"created_at": self.created_at, "last_used_at": self.last_used_at}


class _Bootstrap(msgspec.Struct):
    version: int
    db_file: str
    cipher: str  # "sqlcipher4", or "none" where the database was created without SQLCipher and stays readable
    kdf: Kdf
    keys: list[KeyEntry]
    key_source: str = "file"
    db_created: bool = False  # from then on a missing database file is a loss, not a beginning
    passphrase: Passphrase | None = None
    journal_id: str | None = None  # the database carries the same; None: made by release 0.1 and not opened since
    mark: int = 0  # the last audit entry of the database that was known to be on the disk


class Vault:
    """The keys of one data directory; slow methods are marked and belong on a worker thread."""

    def __init__(self, directory: DataDir, content: _Bootstrap) -> None:
        self._directory = directory
        self._content = content
        self._writing = threading.Lock()

    @staticmethod
    def exists(directory: DataDir) -> bool:
        return directory.bootstrap.exists()

    @classmethod
    def create(
        cls, directory: DataDir, api_key: str, *, encrypted: bool, key_source: str, kdf: Kdf | None = None
    ) -> Vault:
        """A new database key, wrapped for a first key with the admin role (slow)."""
        if cls.exists(directory):
            raise FileExistsError(directory.bootstrap)
        content = _Bootstrap(
            version=_VERSION,
            db_file=directory.database.name,
            cipher="sqlcipher4" if encrypted else "none",
            kdf=kdf or Kdf.preferred(),
            keys=[],
            key_source=key_source,
            journal_id=new_journal_id(),
        )
        vault = cls(directory, content)
        vault._add(api_key, new_dek(), "first key", Role.ADMIN, None)
        return vault

    @classmethod
    def load(cls, directory: DataDir) -> Vault:
        """Read `bootstrap.json`; a damaged one is an error with its path and no content."""
        try:
            content = msgspec.json.decode(directory.bootstrap.read_bytes(), type=_Bootstrap)
        except msgspec.MsgspecError as exc:
            raise Corrupt("bootstrap_corrupt", f"{directory.bootstrap} cannot be read: {exc}") from None
        if content.version > _VERSION:
            text = "was written by a newer release of zorivest-rpc than this one: upgrade it"
            raise Corrupt("bootstrap_too_new", f"{directory.bootstrap} {text}.")
        if content.version < 1 or "/" in content.db_file or "\\" in content.db_file:
            raise Corrupt("bootstrap_corrupt", f"{directory.bootstrap} is not of a kind this program knows")
        directory.bootstrap.chmod(0o600)
        return cls(directory, content)

    @property
    def encrypted(self) -> bool:
        return self._content.cipher != "none"

    @property
    def database_created(self) -> bool:
        return self._content.db_created

    @property
    def journal_id(self) -> str | None:
        return self._content.journal_id

    @property
    def mark(self) -> int:
        return self._content.mark

    def note_database(self, journal_id: str | None, mark: int) -> None:
        """Remember which database belongs to this vault and how far it has come; the caller has synced it."""
        with self._writing:
            content = self._content
            before = content.db_created, content.journal_id, content.mark

            def restore() -> None:
                content.db_created, content.journal_id, content.mark = before

            if before != (True, journal_id, mark):
                content.db_created, content.journal_id, content.mark = True, journal_id, mark
                self._write_or_undo(restore)

    @property
    def key_source(self) -> str:
        return self._content.key_source

    def unlock(self, api_key: str, now: datetime | None = None) -> tuple[KeyEntry, bytes]:
        """The entry of a key and the database key it opens (slow); 401 unknown or wrong, 403 revoked or expired."""
        now = now or datetime.now(UTC)
        entry = self._find(api_key)
        if entry is None:
            raise Unauthorized("invalid_api_key", "No such API key.")
        self.check(entry, now)
        kek = self._derive(api_key, base64.b64decode(entry.salt_b64))
        dek = unwrap_dek(entry.wrapped_dek or "", kek)
        if dek is None:
            raise Unauthorized("invalid_api_key", "The API key does not open this database.")
        entry.last_used_at = now
        with contextlib.suppress(OSError):  # a full disk must not keep the owner out
            self._save()
        return entry, dek

    def recognise(self, api_key: str, now: datetime | None = None) -> KeyEntry | None:
        """The entry of a key by its hash alone, without stretching it; 403 revoked or expired. It opens nothing: it is
        for a key that has opened the database before, while that is still open."""
        now = now or datetime.now(UTC)
        entry = self._find(api_key)
        if entry is not None:
            self.check(entry, now)
            entry.last_used_at = now
            with contextlib.suppress(OSError):
                self._save()
        return entry

    @property
    def passphrase(self) -> Passphrase | None:
        return self._content.passphrase

    def unlock_by_passphrase(self, passphrase: str, now: datetime | None = None) -> bytes:
        """The database key (slow); 401 if there is no passphrase or this is not it, and nothing tells which."""
        held = self._content.passphrase
        salt = base64.b64decode(held.salt_b64) if held is not None else new_salt()
        kek = self._derive(_normal(passphrase), salt)
        dek = unwrap_dek(held.wrapped_dek, kek) if held is not None else None
        if dek is None or held is None:
            raise Unauthorized("invalid_passphrase", "This is not the passphrase of this journal.")
        held.last_used_at = now or datetime.now(UTC)
        with contextlib.suppress(OSError):
            self._save()
        return dek

    def set_passphrase(self, dek: bytes, passphrase: str) -> Passphrase:
        """A second wrapped copy of the database key (slow); a former passphrase opens nothing from then on."""
        text = _normal(passphrase)
        if len(text) < SHORTEST:
            raise Invalid({"passphrase": [f"must have at least {SHORTEST} characters"]})
        salt = new_salt()
        wrapped = wrap_dek(dek, self._derive(text, salt))
        held = Passphrase(base64.b64encode(salt).decode(), wrapped, datetime.now(UTC))
        self._replace_passphrase(held)
        return held

    def remove_passphrase(self) -> None:
        """409 if there is none."""
        if self._content.passphrase is None:
            raise Conflict("no_passphrase", "No passphrase is set.")
        self._replace_passphrase(None)

    def _replace_passphrase(self, held: Passphrase | None) -> None:
        with self._writing:
            before, self._content.passphrase = self._content.passphrase, held
            self._write_or_undo(lambda: setattr(self._content, "passphrase", before))

    @staticmethod
    def check(entry: KeyEntry, now: datetime) -> None:
        """403 if the key was revoked or its time is over."""
        if entry.revoked:
            raise Forbidden("key_revoked", f"The API key {entry.mask} was revoked.")
        if entry.expires_at is not None and entry.expires_at <= now:
            raise Forbidden("key_expired", f"The API key {entry.mask} expired at {entry.expires_at.isoformat()}.")

    def add(self, dek: bytes, label: str, role: Role, expires_in: int | None = None) -> tuple[KeyEntry, str]:
        """A new key for the same database (slow); the only moment at which its text exists."""
        api_key = new_api_key()
        expires = None if expires_in is None else datetime.now(UTC) + timedelta(seconds=expires_in)
        return self._add(api_key, dek, label, role, expires), api_key

    def revoke(self, key_id: str) -> KeyEntry:
        """Turn a key into a tombstone; 404 if there is none, 409 if no administrator would be left."""
        with self._writing:
            entry = next((key for key in self._content.keys if key.key_id == key_id and not key.revoked), None)
            if entry is None:
                raise NotFound("API key", key_id)
            others = [key for key in self.active() if key.role == Role.ADMIN.label and key is not entry]
            if entry.role == Role.ADMIN.label and not others:
                raise Conflict("last_admin_key", "This is the last admin key; create another first.")
            wrapped, entry.wrapped_dek, entry.revoked = entry.wrapped_dek, None, True

            def restore() -> None:
                entry.wrapped_dek, entry.revoked = wrapped, False

            self._write_or_undo(restore)
        return entry

    def active(self, now: datetime | None = None) -> list[KeyEntry]:
        """Keys that could unlock at this moment."""
        now = now or datetime.now(UTC)
        keys = (key for key in self._content.keys if not key.revoked)
        return [key for key in keys if key.expires_at is None or key.expires_at > now]

    def _add(self, api_key: str, dek: bytes, label: str, role: Role, expires_at: datetime | None) -> KeyEntry:
        if not is_api_key(api_key):
            raise ValueError("not a well-formed API key")
        salt = new_salt()
        entry = KeyEntry(
            key_id=uuid.uuid4().hex,
            label=label,
            role=role.label,
            lookup_sha256=fingerprint(api_key),
            salt_b64=base64.b64encode(salt).decode(),
            wrapped_dek=wrap_dek(dek, self._derive(api_key, salt)),
            mask=mask(api_key),
            created_at=datetime.now(UTC),
            expires_at=expires_at,
        )
        with self._writing:
            self._content.keys.append(entry)
            self._write_or_undo(lambda: self._content.keys.remove(entry))
        return entry

    def _derive(self, secret: str, salt: bytes) -> bytes:
        try:
            return self._content.kdf.derive(secret, salt)
        except ImportError:
            raise Corrupt(
                "argon2_missing", "The keys are stretched with Argon2, and argon2-cffi is not here."
            ) from None
        except ValueError as exc:
            raise Corrupt("bootstrap_corrupt", f"{self._directory.bootstrap}: {exc}") from None

    def _find(self, api_key: str) -> KeyEntry | None:
        """Every entry is compared, in constant time: neither a key's place nor a near miss shows in the duration."""
        wanted, found = fingerprint(api_key), None
        for entry in self._content.keys:
            if same(entry.lookup_sha256, wanted):
                found = entry
        return found

    def _save(self) -> None:
        with self._writing:
            self._write()

    def _write_or_undo(self, undo: Callable[[], None]) -> None:
        """Write a change, or take it back: what is on the disk is what counts, and a restart would show it."""
        try:
            self._write()
        except BaseException:
            undo()
            raise

    def _write(self) -> None:
        self._content.version = _VERSION  # release 0.1 would drop what it does not know, so it must not open this
        data = msgspec.json.format(msgspec.json.encode(self._content), indent=2)
        write_private(self._directory.bootstrap, data + b"\n")


def _normal(passphrase: str) -> str:
    """One form for what two keyboards may encode differently; 422 for what is no text."""
    try:
        return unicodedata.normalize("NFKC", passphrase).encode().decode()
    except UnicodeEncodeError:
        raise Invalid({"passphrase": ["is not well-formed text"]}) from None
