"""The doctor in front of a remote backend that is well, not well, or not there."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.cli.doctor.lines import HEALTHY, KEY, Reply, answering, settings
from zorivest_rpc.cli.checks import backend
from zorivest_rpc.cli.checks.line import Line


def remote(url: str, environ: dict[str, str] | None = None) -> dict[str, Line]:
    given = {"ZORIVEST_API_KEY": KEY} if environ is None else environ
    return {line.area: line for line in backend.remote(settings("--api-url", url), given)}


def test_a_remote_backend_that_is_well(home: Path) -> None:
    with answering(HEALTHY) as (url, asked):
        lines = remote(url)
    assert {area: line.status for area, line in lines.items()} == {"backend": "ok", "unlock": "ok", "guard": "ok"}
    assert "as read-only" in lines["unlock"].text
    assert asked[1] == f'/api/v1/auth/unlock {{"api_key": "{KEY}"}}'


@pytest.mark.parametrize(
    ("answers", "area", "word"),
    [
        ({"/api/v1/health": (200, b"<html>")}, "backend", "not as a Zorivest backend"),
        ({"/api/v1/health": (200, [])}, "backend", "not as a Zorivest backend"),
        ({"/api/v1/health": (502, {})}, "backend", "answers 502"),
        ({"/api/v1/health": (302, b"http://127.0.0.1:1/")}, "backend", "answers 302"),
        ({"/api/v1/auth/unlock": (401, {})}, "unlock", "answered 401"),
        ({"/api/v1/auth/unlock": (403, {})}, "unlock", "answered 403"),
        ({"/api/v1/mcp-guard/status": (200, {"is_locked": True, "lock_reason": "panic"})}, "guard", "panic"),
    ],
)
def test_a_remote_backend_that_is_not_well(home: Path, answers: dict[str, Reply], area: str, word: str) -> None:
    with answering({**HEALTHY, **answers}) as (url, _):
        line = remote(url)[area]
    assert line.status == "fail"
    assert word in line.text
    assert line.next


def test_a_remote_backend_whose_clock_is_elsewhere(home: Path) -> None:
    with answering(HEALTHY, date=time.time() - 3600) as (url, _):
        assert remote(url)["clock"].text.startswith("60 minutes apart")


def test_a_remote_backend_that_is_not_there_or_wrongly_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "does not answer" in remote(f"http://127.0.0.1:{port}")["backend"].text
    assert remote("localhost:8765")["backend"].status == "fail"
    assert "ZORIVEST_API_KEY is not set" in remote(f"http://127.0.0.1:{port}", {})["key"].text
