"""A Zorivest on the usual port is told: by the diagnosis, the doctor and the log; anything else there is not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from zorivest_rpc.serving.backend import neighbour
from zorivest_rpc.serving.backend.neighbour import find_neighbour, is_zorivest

HEALTH = {"status": "ok", "version": "1.0.0", "database": {"unlocked": True}}


@pytest.fixture
def zorivest() -> Iterator[Any]:
    """Something that listens; `answer` is what it says to every question, `asked` what it was asked with."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]
            data = orjson.dumps(server.answer)  # type: ignore[attr-defined]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answer, server.asked = HEALTH, []  # type: ignore[attr-defined]
    server.url = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield server
    server.shutdown()
    server.server_close()
    serving.join()


async def test_a_zorivest_on_the_usual_port_is_found_without_a_key(zorivest: Any) -> None:
    assert await find_neighbour("http://127.0.0.1:1/api/v1", zorivest.url) == zorivest.url
    ((path, headers),) = zorivest.asked
    assert path == "/api/v1/health"
    assert "Authorization" not in headers


async def test_our_own_backend_is_no_neighbour(zorivest: Any) -> None:
    assert await find_neighbour(f"{zorivest.url}/api/v1", zorivest.url) is None
    assert zorivest.asked == []


@pytest.mark.parametrize("answer", [{"status": "ok"}, [], "ok", {"hello": 1}, {"database": {}}])
async def test_something_else_on_the_port_is_not_taken_for_one(zorivest: Any, answer: Any) -> None:
    zorivest.answer = answer
    assert await find_neighbour("", zorivest.url) is None


async def test_nobody_there_is_nobody() -> None:
    assert await find_neighbour("", "http://127.0.0.1:1") is None


async def test_the_log_the_diagnosis_and_the_doctor_tell(
    zorivest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from zorivest_rpc.app import Journal
    from zorivest_rpc.cli.checks.backend import _neighbour
    from zorivest_rpc.config import parse
    from zorivest_rpc.serving.tools.own import _beside

    monkeypatch.setattr(neighbour, "USUAL", zorivest.url)
    monkeypatch.setattr(neighbour.find_neighbour, "__defaults__", (zorivest.url,))
    journal = Journal(parse("stdio", ["--data-dir", str(tmp_path)], {"HOME": str(tmp_path)}))
    with caplog.at_level(logging.WARNING, logger="zorivest_rpc"):
        await journal.callers._tell_neighbour()
    assert f"--api-url {zorivest.url}" in caplog.text
    note = await _beside("http://127.0.0.1:1/api/v1")
    assert note is not None
    assert f"--api-url {zorivest.url}" in note
    (line,) = _neighbour("http://127.0.0.1:1/api/v1")
    assert zorivest.url in str(line)
    assert list(_neighbour(zorivest.url)) == []
    await journal.close()


@pytest.mark.parametrize("sign", ["database", "database_unlocked", "version", "scheduler"])
def test_each_sign_of_a_zorivest_is_enough_beside_a_status(sign: str) -> None:
    assert is_zorivest({"status": "ok", sign: None})
    assert not is_zorivest({sign: None})
    assert not is_zorivest({"status": "ok", sign.upper(): None})
