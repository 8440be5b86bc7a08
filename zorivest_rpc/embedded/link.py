"""A connection to the backend of a data directory on which a key may be sent: its Unix socket, or a port that proves
itself first.

Standard library only: servers look for their backend with it before anything heavy is imported."""

from __future__ import annotations

import http.client
import json
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any, NamedTuple

from zorivest_rpc.proof import PROOF_PATH, is_proof, new_challenge, place_of

from .disk.paths import DataDir

__all__ = ["API_PREFIX", "BackendConnection", "LocalAddress", "Stranger", "is_private", "socket_path"]

API_PREFIX = "/api/v1"
LONGEST_SOCKET = 100  # bytes; sun_path has 104 on macOS and the BSDs, 108 on Linux, with the terminating zero
_ANSWER = 4096


class Stranger(OSError):
    """What listens there is not the backend of this directory; nothing secret was sent."""


class LocalAddress(NamedTuple):
    """Where a backend listens: a socket in its data directory, or a port of this machine."""

    socket: str | None
    port: int | None
    secret: str

    @property
    def base_url(self) -> str:
        """The API's root; with a socket the host is only a name."""
        return f"http://localhost{API_PREFIX}" if self.socket else f"http://127.0.0.1:{self.port}{API_PREFIX}"

    def __repr__(self) -> str:
        return f"LocalAddress({self.shown})"  # without the secret: a tuple is easily logged

    @property
    def shown(self) -> str:
        return f"unix:{self.socket}" if self.socket else self.base_url


def socket_path(directory: DataDir) -> str | None:
    """The path of the directory's socket in a form that the system can take; None where there is none."""
    if not hasattr(socket, "AF_UNIX") or sys.platform == "win32":
        return None
    for root in (directory.root.absolute(), Path(os.path.realpath(directory.root))):
        path = str(DataDir(root).socket)
        if len(os.fsencode(path)) <= LONGEST_SOCKET:
            return path
    return None


def is_private(path: str) -> bool:
    """A socket that only the owner of its directory can have put there, and that owner is this process's user."""
    try:
        file, parent = os.lstat(path), os.stat(os.path.dirname(path))
    except OSError:
        return False
    mine = os.geteuid() in (0, parent.st_uid)
    return stat.S_ISSOCK(file.st_mode) and file.st_uid == parent.st_uid and mine and not parent.st_mode & 0o022


class BackendConnection(http.client.HTTPConnection):
    """Connects to an address and lets nothing pass before it is known who listens there, at every reconnection too."""

    def __init__(self, address: LocalAddress, timeout: float) -> None:
        super().__init__("localhost" if address.socket else "127.0.0.1", address.port, timeout=timeout)
        self._address = address
        self._timeout = timeout

    def connect(self) -> None:
        path = self._address.socket
        if path is None:
            super().connect()
        else:
            if not is_private(path):
                raise Stranger(f"{path} is not a socket of this user's")
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(self._timeout)
            try:
                self.sock.connect(path)
            except OSError:
                self.close()
                raise
        try:
            self._check_proof()
        except BaseException:
            self.close()
            raise

    def _check_proof(self) -> None:
        """On this very connection: one that was made later could end at another process."""
        challenge = new_challenge()
        head = f"GET {API_PREFIX}{PROOF_PATH}?challenge={challenge} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.sock.sendall(head.encode())
        response = http.client.HTTPResponse(self.sock, method="GET")
        try:
            response.begin()
            body = response.read(_ANSWER)
            whole = response.isclosed() or response.read(1) == b""
            answer: Any = json.loads(body) if response.status == 200 and whole else None
        except (http.client.HTTPException, ValueError):
            answer = None
        finally:
            response.close()
        proof = answer.get("proof") if isinstance(answer, dict) else None
        if not is_proof(proof, self._address.secret, challenge, place_of(self._address.port)):
            raise Stranger(f"what listens at {self._address.shown} is not the backend of this directory")

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, str | None]:
        """One request below the API's root: the status, the body and the `Date` of the answer."""
        given = {"Content-Type": "application/json", **(headers or {})}
        self.request(method, API_PREFIX + path, None if body is None else json.dumps(body), given)
        response = self.getresponse()
        return response.status, response.read(), response.headers.get("Date")
