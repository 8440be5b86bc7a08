"""Where the generated first key lives: the operating system's keyring, or a file only its owner can read.

A key file beside the database protects against someone who gets hold of the database file alone (a backup, a copy in
the cloud), not against someone who has the whole directory; `key_source` tells which of the two it is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..disk.paths import DataDir, write_private

__all__ = ["read_key", "store_key"]

_SERVICE = "zorivest"


def store_key(directory: DataDir, api_key: str, *, use_keyring: bool = True) -> str:
    """Keep the key and return where: `keyring` or `file`."""
    ring = _keyring() if use_keyring else None
    if ring is not None:
        try:
            ring.set_password(_SERVICE, _name(directory), api_key)
            if ring.get_password(_SERVICE, _name(directory)) == api_key:
                return "keyring"
        except Exception:  # noqa: BLE001 - a keyring of the system may raise anything; the key goes to the file then
            pass
    write_private(directory.key_file, api_key.encode() + b"\n")
    return "file"


def read_key(directory: DataDir, *, use_keyring: bool = True) -> str | None:
    """The stored key, if there is one."""
    try:
        text = directory.key_file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if text:
        return text
    ring = _keyring() if use_keyring else None
    if ring is None:
        return None
    try:
        return ring.get_password(_SERVICE, _name(directory)) or None
    except Exception:  # noqa: BLE001 - the same; the key may be in the file
        return None


def _name(directory: DataDir) -> str:
    return str(directory.root.resolve())


def _keyring() -> Any:
    """The keyring package with a backend that keeps secrets; it is optional and may be absent."""
    try:
        keyring: Any = import_module("keyring")
    except ImportError:
        return None
    try:
        chosen = keyring.get_keyring()
        return keyring if getattr(chosen, "priority", 0) >= 1 else None
    except Exception:  # noqa: BLE001 - a broken installation of the library counts as none
        return None
