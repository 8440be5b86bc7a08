"""`zorivest-rpc serve` as a child process, and a blocking client for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.mcp.transports.stdio_child import LONG, Child

COMMAND: Final = (sys.executable, "-m", "zorivest_rpc", "serve", "--showcase")
PROGRAM: Final = (sys.executable, "-m", "tests.mcp.transports.http_program")
BOTH: Final = "application/json, text/event-stream"


class Serve:
    def __init__(self, data: Path, *arguments: str, program: tuple[str, ...] = COMMAND, key: str | None = None) -> None:
        self.child = Child("--port", "0", "--data-dir", str(data), *arguments, program=program)
        self.key = key
        self.port = 0
        self.words: list[str] = []

    def ready(self) -> Serve:
        """When it listens, and has said how it is to be called."""
        for _ in range(2):
            found = self.child.errors.read().decode()
            assert found, "it ended instead of listening"
            self.words.append(found)
        port = re.search(r":(\d+)/mcp", self.words[0])
        assert port is not None, self.words
        self.port = int(port[1])
        return self

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)

    def request(
        self, method: str, path: str = "/mcp", message: Any = None, **headers: str
    ) -> tuple[http.client.HTTPResponse, http.client.HTTPConnection]:
        """The response with its body unread, and the connection to close."""
        given = {"Accept": BOTH} | {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            given.setdefault("Authorization", f"Bearer {self.key}")
        body = None
        if message is not None:
            given["Content-Type"] = "application/json"
            body = json.dumps(message).encode()
        connection = self.connect()
        connection.request(method, path, body, given)
        return connection.getresponse(), connection

    def post(self, message: Any, **headers: str) -> tuple[int, Any, dict[str, str]]:
        response, connection = self.request("POST", message=message, **headers)
        with contextlib.closing(connection), response:
            data = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, json.loads(data) if data else None, found

    def open(self, revision: str = "2025-11-25") -> str:
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        status, _, headers = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert status == 200
        id = headers["mcp-session-id"]
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, Mcp_Session_Id=id)[0] == 202
        return id

    def ask(self, session: str, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        status, found, _ = self.post(message, Mcp_Session_Id=session)
        assert status == 200, (status, found)
        return found


@contextlib.contextmanager
def serve(data: Path, *arguments: str, **more: Any) -> Iterator[Serve]:
    """Without a key unless the arguments say otherwise."""
    started = Serve(data, *arguments, **more)
    try:
        yield started
    finally:
        started.child.dispose()


def lines_of(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The lines of an event stream as they come; ends when the stream does."""
    while found := response.readline():
        yield found.rstrip(b"\n")


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
