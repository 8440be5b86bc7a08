"""The lives of one backend: each a process of its own that runs `zorivest-rpc backend` until it is killed.

The processes are forked from one that has imported everything and done nothing else, which saves the seconds that
imports take and nothing of what a start does: the locks, the vault, the recovery of the database, the port."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from tests.places import ROOT
from zorivest_rpc.embedded.disk.paths import DataDir

__all__ = ["Life", "Nursery"]

PATIENCE = 60.0
NURSERY = """
import os, sys
import sqlcipher3.dbapi2
import zorivest_rpc.embedded.process
from zorivest_rpc.cli import backend

while sys.stdin.readline():
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os._exit(backend.run(sys.argv[1:]))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Life:
    """One process from its birth to its end."""

    def __init__(self, pid: int, nursery: Nursery) -> None:
        self.pid = pid
        self.port = 0
        self.token = ""
        self._nursery = nursery

    def kill_after(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, os.kill, (self.pid, signal.SIGKILL))
        timer.start()
        return timer

    def ready(self) -> bool:
        """Wait until it listens, and unlock it; False if it was killed before."""
        line = self._nursery.said("listening on ")
        if line is None:
            return False
        self.port = int(line.rsplit(":", 1)[1].split("/")[0])
        try:
            status, answer = self.ask("POST", "/auth/unlock", {"api_key": self._nursery.key})
        except (OSError, http.client.HTTPException):
            return False
        assert status == 200, answer
        self.token = answer["session_token"]
        return True

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self, method: str, path: str, body: Any = None, connection: http.client.HTTPConnection | None = None
    ) -> tuple[int, Any]:
        """One request; raises what the connection raises when the process dies under it."""
        used = connection or self.connect()
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            used.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
            response = used.getresponse()
            content = response.read()
            return response.status, json.loads(content) if content else None
        finally:
            if connection is None:
                used.close()


class Nursery:
    """Starts one life after the other on one data directory."""

    def __init__(self, directory: DataDir, key: str) -> None:
        self.directory = directory
        self.key = key
        self._log = directory.root.parent / "stderr.txt"
        self._read_to = 0
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
        environ |= {"ZORIVEST_KEYRING": "off", "ZORIVEST_API_KEY": key, "PYTHONPATH": str(ROOT)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", NURSERY, "--data-dir", str(directory.root), "--port", "0"],
                cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._present = 0
        self._ended = threading.Event()
        self._ended.set()
        self._code: int | None = None

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *problem: object) -> None:
        assert self._process.stdin is not None
        if not self._ended.is_set():
            os.kill(self._present, signal.SIGKILL)  # whoever looked at it stopped looking
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def bear(self) -> Life:
        """The next life; the one before must have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._read_to = self._log.stat().st_size
        self._ended.clear()
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self._present = int(self._process.stdout.readline())
        threading.Thread(target=self._watch, daemon=True).start()
        return Life(self._present, self)

    def bury(self) -> int:
        """Wait for the end of the present life; its exit code, negative for a signal."""
        assert self._ended.wait(PATIENCE), "the backend does not end"
        assert self._code is not None
        return self._code

    def said(self, words: str) -> str | None:
        """The line with these words, once the present life has said it; None if it ended without."""
        while True:
            over = self._ended.wait(0.01)
            with self._log.open() as log:
                log.seek(self._read_to)
                for line in log:
                    if words in line and line.endswith("\n"):
                        return line
            if over:
                return None

    def _watch(self) -> None:
        assert self._process.stdout is not None
        self._code = int(self._process.stdout.readline())
        self._ended.set()
