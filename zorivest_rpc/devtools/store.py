"""Small JSON notes of one tenant, one file each: written as a whole, within a limit of each and of all."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

import msgspec

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.private_files import write_private

__all__ = ["LARGEST_VALUE", "MOST_BYTES", "Store"]

LARGEST_VALUE: Final = 1 << 20
MOST_BYTES: Final = 10 << 20
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Store:
    """Blocks on the disk: called in a thread, one call at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, namespace: str, key: str, data: Json) -> dict[str, Json]:
        path = self._path(namespace, key)
        encoded = msgspec.json.encode(data)
        if len(encoded) > LARGEST_VALUE:
            words = f"The value has {len(encoded)} bytes; a value has at most {LARGEST_VALUE}."
            raise ToolError(words, code="value_too_large", next="Save it in parts.")
        before = path.stat().st_size if path.exists() else 0
        total = self._bytes() - before + len(encoded)
        if total > MOST_BYTES:
            words = f"All values together would have {total} bytes; at most {MOST_BYTES} are kept. Delete some first."
            raise ToolError(words, code="store_full", next="Delete values first.")
        write_private(str(path), encoded)
        return {"namespace": namespace, "key": key, "bytes": len(encoded)}

    def load(self, namespace: str, key: str) -> dict[str, Json]:
        path = self._path(namespace, key)
        try:
            data = msgspec.json.decode(path.read_bytes())
        except FileNotFoundError:
            raise self._missing(namespace, key) from None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            words = f'The value "{key}" of "{namespace}" is damaged; save it anew or delete it.'
            raise ToolError(words, code="value_damaged", next="Save it anew or delete it.") from None
        return {"namespace": namespace, "key": key, "data": data}

    def list_keys(self, namespace: str | None) -> dict[str, Json]:
        names = self.namespaces() if namespace is None else [_check(namespace, "namespace")]
        return {"namespaces": {name: self._keys(name) for name in names}}

    def delete(self, namespace: str, key: str | None) -> dict[str, Json]:
        if key is not None:
            path = self._path(namespace, key)
            try:
                path.unlink()
            except FileNotFoundError:
                raise self._missing(namespace, key) from None
            return {"namespace": namespace, "deleted": [key]}
        keys = self._keys(_check(namespace, "namespace"))
        shutil.rmtree(self._directory / namespace, ignore_errors=True)
        return {"namespace": namespace, "deleted": keys}

    def stats(self) -> dict[str, Json]:
        names = self.namespaces()
        return {
            "namespaces": len(names),
            "values": sum(len(self._keys(name)) for name in names),
            "bytes": self._bytes(),
            "limit_bytes": MOST_BYTES,
            "limit_value_bytes": LARGEST_VALUE,
        }

    def namespaces(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._directory) if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def _keys(self, namespace: str) -> list[str]:
        try:
            entries = list(os.scandir(self._directory / namespace))
        except FileNotFoundError:
            return []
        return sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))

    def _bytes(self) -> int:
        return sum(file.stat().st_size for file in self._directory.glob("*/*.json"))

    def _path(self, namespace: str, key: str) -> Path:
        return self._directory / _check(namespace, "namespace") / f"{_check(key, 'key')}.json"

    def _missing(self, namespace: str, key: str) -> ToolError:
        known = ", ".join(self._keys(namespace)) or "none"
        words = f'No value "{key}" in "{namespace}". Keys: {known}.'
        return ToolError(words, code="unknown_key", next="configure(store, list) shows what there is.")


def _check(name: str, what: str) -> str:
    if not _NAME.fullmatch(name) or name.strip(".") == "":
        words = f'The {what} "{name[:80]}" is not taken: 1 to 64 of A-Z a-z 0-9 _ . - and not dots alone.'
        raise ToolError(words, code="bad_name", next="Call again with another name.")
    return name
