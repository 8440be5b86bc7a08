"""The one-time token that stands for a person's consent.

It lies in a file that only the owner of the data directory can read, is good for one approval, and is replaced by
the next one. No route gives it out: the approver has read the file, as `zorivest-rpc approve` does for the
person at the terminal."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from ..disk.paths import DataDir, write_private
from ..errors import Forbidden
from ..vault.crypto import same

__all__ = ["Approval", "approval_file"]

_PREFIX = "apt_"


def approval_file(directory: DataDir) -> Path:
    return directory.root / "approval.token"


class Approval:
    """The token of one running scheduler."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token: str | None = None

    def renew(self) -> None:
        """A fresh token in the file; the one before is worth nothing from now on."""
        self._token = _PREFIX + secrets.token_urlsafe(32)
        write_private(self._path, self._token.encode() + b"\n")

    def withdraw(self) -> None:
        self._token = None
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def check(self, token: str | None) -> None:
        """403 unless it is the token of the file."""
        if self._token is None or token is None or not same(token, self._token):
            raise Forbidden(
                "approval_token_required",
                "A person approves policies at the terminal: zorivest-rpc approve POLICY. No tool can do it.",
            )
