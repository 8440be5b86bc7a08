"""Reading what the doctor says, a backend with answers of its own, and entries of a client to examine."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from zorivest_rpc.cli.checks import clients
from zorivest_rpc.cli.checks.line import Line
from zorivest_rpc.clients.places import locate
from zorivest_rpc.config import Settings, parse

KEY = "zrv_sk_" + "k" * 32


def failing(ran: Any) -> dict[str, dict[str, str]]:
    return {line["area"]: line for line in json.loads(ran.out)["checks"] if line["status"] == "fail"}


def settings(*words: str) -> Settings:
    return parse("doctor", list(words), os.environ)


def one(lines: Iterator[Line] | list[Line], area: str) -> Line:
    found = [line for line in lines if line.area == area]
    assert len(found) == 1, found
    return found[0]


# --- a remote backend

Reply = tuple[int, Any]


@contextmanager
def answering(answers: dict[str, Reply], date: float | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server with these answers by path, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path + " " + self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
            status, body = answers.get(self.path, (404, {}))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", data.decode())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(date)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HEALTHY: dict[str, Reply] = {
    "/api/v1/health": (200, {"status": "ok", "version": "2.1", "database": {"unlocked": True}}),
    "/api/v1/auth/unlock": (200, {"session_token": "t", "role": "read-only"}),
    "/api/v1/mcp-guard/status": (200, {"is_locked": False, "is_enabled": True}),
}


# --- clients


def cursor(home: Path, entry: Any) -> None:
    path = Path(locate("cursor", os.environ))
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": {"zorivest": entry}}))


def client_lines(patience: float = 20.0) -> list[Line]:
    return [line for line in clients.set_up(os.environ, patience=patience) if line.area == "client cursor"]


def script(home: Path, body: str) -> str:
    path = home / "zorivest-rpc"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def answering_program(home: Path, version: str) -> str:
    reply = {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"version": version}}}
    return script(home, f"print({json.dumps(json.dumps(reply))})")
