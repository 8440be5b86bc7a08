"""A stdio server as a child process, driven over its descriptors; every wait has a bound and none is a sleep."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

LONG: Final = 30.0  # a bound for what must come, on a machine that is busy with other things
HELLO: Final = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
READY: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}
META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
PROGRAM: Final = (sys.executable, "-m", "tests.mcp.transports.stdio_program")


def call(id: int | str, name: str, token: str | None = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def ping(id: int | str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def line(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Lines from a descriptor, one at a time."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = b""
        self.taken = 0

    def read(self, seconds: float = LONG) -> bytes:
        """The next line without its end; b"" at the end of the stream."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._held:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise TimeoutError(f"no line within {seconds} s; held {self._held[:200]!r}")
            try:
                data = os.read(self.fd, 1 << 20)
            except OSError:  # the other side of a pseudo terminal is gone
                data = b""
            if not data:
                rest, self._held = self._held, b""
                return rest
            self.taken += len(data)
            self._held += data
        found, _, self._held = self._held.partition(b"\n")
        return found

    def rest(self, seconds: float = LONG) -> list[bytes]:
        """Everything up to the end of the stream."""
        found = []
        while one := self.read(seconds):
            found.append(one)
        return found


class Child:
    def __init__(
        self, *arguments: str, program: tuple[str, ...] = PROGRAM, stdin: int | None = None, stdout: int | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=subprocess.PIPE if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stderr is not None
        self.errors = Lines(self.process.stderr.fileno())
        self.answers = Lines(self.process.stdout.fileno() if self.process.stdout is not None else -1)

    @property
    def pid(self) -> int:
        return self.process.pid

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[os.write(self.process.stdin.fileno(), view) :]

    def send(self, *messages: Any) -> None:
        self.write(b"".join(line(message) for message in messages))

    def receive(self, seconds: float = LONG) -> Any:
        found = self.answers.read(seconds)
        assert found, "the server ended instead of answering"
        return json.loads(found)

    def greet(self) -> Child:
        self.send(HELLO, READY)
        assert self.receive()["id"] == "hello"
        return self

    def ask(self, message: dict[str, Any]) -> Any:
        """The answer to this one; others may come before it."""
        self.send(message)
        while (found := self.receive()).get("id") != message["id"]:
            pass
        return found

    def await_error_line(self, words: str) -> None:
        while words not in (found := self.errors.read().decode(errors="replace")):
            assert found, f"stderr ended without {words!r}"

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def ended(self, seconds: float = LONG) -> int:
        return self.process.wait(seconds)

    def dispose(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.wait(LONG)


@contextlib.contextmanager
def running(*arguments: str, **more: Any) -> Iterator[Child]:
    child = Child(*arguments, **more)
    try:
        yield child
    finally:
        child.dispose()


def gone_within(pid: int, seconds: float = LONG) -> bool:
    """Whether any process, ours or not, ends in that time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], seconds)[0])
    finally:
        os.close(fd)


def children_of(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
    return []


def rss_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(one.split()[1]) for one in file if one.startswith("VmRSS"))


def interrupt(child: Child) -> None:
    child.process.send_signal(signal.SIGINT)


def terminate(child: Child) -> None:
    child.process.send_signal(signal.SIGTERM)
