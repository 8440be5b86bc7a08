"""Planted secrets: no key, token or password reaches a log line, an error, a report, an argv or a metrics label."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.transports.serve_child import Serve, serve
from tests.mcp.transports.stdio_child import Child, call
from tests.serving.product.http import make_key, revoke_key

STDIO = (sys.executable, "-m", "zorivest_rpc", "stdio")
SERVE = (sys.executable, "-m", "zorivest_rpc", "serve")
PASSWORD = "hunter2-planted"


@pytest.fixture
def key(data_dir: Path) -> Iterator[str]:
    key_id, key = make_key(data_dir, "planted", "admin")
    yield key
    revoke_key(data_dir, key_id)


def argv_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def tour(secret: str) -> list[dict[str, Any]]:
    """Calls that succeed, fail in every layer, and carry a secret where a careless client might put one."""
    return [
        call(1, "zorivest_diagnose", verbose=True),
        call(2, "get_settings"),
        call(3, "get_settings", key=f"api.{secret}"),
        call(4, "create_trade", exec_id=secret),
        call(5, "sync_broker", broker_id="b", confirmation_token=secret),
        call(6, "list_market_providers"),
        call(7, "zorivest_service_status"),
        call(8, "get_confirmation_token", action="sync_broker", params_summary="x"),
    ]


def test_a_stdio_server_keeps_its_key_to_itself(data_dir: Path, tmp_path: Path, key: str) -> None:
    log = tmp_path / "server.log"
    arguments = ("--data-dir", str(data_dir), "--log-level", "debug", "--log-file", str(log))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_API_KEY", key)
        patch.setenv("ZORIVEST_KEYRING", "off")
        child = Child(*arguments, program=STDIO)
    try:
        answers = [child.greet().ask(message) for message in tour("zrv_sk_other")]
        assert answers[1]["result"].get("isError") is None, answers[1]
        seen = json.dumps(answers).encode() + argv_of(child.pid) + log.read_bytes()
    finally:
        child.dispose()
    assert key.encode() not in seen


@pytest.mark.one_journal("a caller shows a key of the backend; with clients it is an access key of the server")
def test_an_http_server_keeps_the_keys_of_its_callers_to_itself(data_dir: Path, tmp_path: Path, key: str) -> None:
    log = tmp_path / "server.log"
    options = ("--log-level", "debug", "--log-file", str(log), "--confirm", "auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_KEYRING", "off")
        with serve(data_dir, *options, program=SERVE, key=key) as started:
            started.ready()
            answers = list(_answers(started, key))
            argv = argv_of(started.child.pid)
    seen = json.dumps(answers).encode() + argv + log.read_bytes() + "".join(started.words).encode()
    assert key.encode() not in seen
    for path in data_dir.glob("*"):
        if path.is_file() and path.name not in ("api-key", "api_key", "key") and "key" not in path.suffix:
            assert key.encode() not in path.read_bytes(), path.name


def _answers(started: Serve, key: str) -> Iterator[Any]:
    session = started.open()
    for message in tour("zrv_sk_other"):
        yield started.post(message, Mcp_Session_Id=session)[1]
    yield started.post(tour("x")[1], Mcp_Session_Id="made-up")[1]
    yield started.post(tour("x")[1], Authorization="Bearer zrv_sk_" + "w" * 43)[1]
    response, connection = started.request("GET", "/metrics")
    yield response.read().decode()
    connection.close()


@pytest.mark.parametrize("command", [("stdio",), ("serve",), ("tools", "call", "zorivest_diagnose")])
@pytest.mark.one_journal("the one address is not used where each client has its own")
def test_a_password_in_the_address_is_refused_at_the_start_and_not_repeated(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    environ = {**os.environ, "HOME": str(tmp_path), "ZORIVEST_API_URL": f"http://me:{PASSWORD}@127.0.0.1:9/api/v1"}
    done = subprocess.run(
        [sys.executable, "-m", "zorivest_rpc", *command],
        env=environ,
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "takes no credentials" in done.stderr
    assert PASSWORD not in done.stdout + done.stderr


def test_the_key_is_in_no_answer_of_a_server_whose_backend_is_away(tmp_path: Path) -> None:
    key = "zrv_sk_planted_key_that_is_long_enough"
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "ZORIVEST_API_KEY": key,
        "ZORIVEST_API_URL": "http://127.0.0.1:9",
    }
    for tool in ("zorivest_diagnose", "get_settings", "zorivest_service_status"):
        done = subprocess.run(
            [sys.executable, "-m", "zorivest_rpc", "tools", "call", tool, "--json"],
            env=environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout, done.stderr
        assert key not in done.stdout + done.stderr, tool
