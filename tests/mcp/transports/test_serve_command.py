"""`zorivest-rpc serve` as a command: its key, its directory, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.mcp.transports.serve_child import COMMAND, PROGRAM, lines_of, serve
from tests.mcp.transports.stdio_child import LONG, gone_within

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def call(id: int, name: str, **arguments: str) -> dict[str, object]:
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def refused(*arguments: str) -> str:
    """The one line with which the command refuses to start."""
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_key_is_made_for_its_owner_alone_and_is_never_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serve(data) as started:
        started.ready()
        key = (data / "serve.key").read_text().strip()
        assert len(key) >= 32
        assert stat.S_IMODE((data / "serve.key").stat().st_mode) == 0o600
        assert stat.S_IMODE((data / "session.key").stat().st_mode) == 0o600
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert started.post(PING)[0] == 401
        started.key = "wrong"
        assert started.post(PING)[0] == 401
        started.key = key
        assert started.open()
        started.child.process.terminate()
        assert started.child.ended() == 0
        said = " ".join(started.words) + b" ".join(started.child.errors.rest()).decode()
    assert key not in said
    assert "serve.key" in said
    with serve(data) as again:
        again.ready()
        again.key = key
        assert again.open(), "the key stays the same"


def test_the_key_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZORIVEST_API_KEY", "from-the-environment")
    with serve(tmp_path, key="from-the-environment") as started:
        assert started.ready().open()
        assert "from-the-environment" not in " ".join(started.words)
        assert not (tmp_path / "serve.key").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com"])
def test_no_key_is_for_loopback_alone(tmp_path: Path, host: str) -> None:
    assert "--no-auth" in refused("--no-auth", "--host", host, "--data-dir", str(tmp_path))


def test_no_key_on_loopback_is_said_aloud(tmp_path: Path) -> None:
    with serve(tmp_path, "--no-auth") as started:
        assert started.ready().open()
        assert "No key" in started.words[1]


def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with serve(tmp_path, "--no-auth") as first:
        first.ready()
        words = refused("--no-auth", "--port", "0", "--data-dir", str(tmp_path))
        assert "--data-dir" in words
        assert "in use" in words
        assert first.open(), "the first one goes on"
        first.child.process.kill()
        first.child.ended()
    with serve(tmp_path, "--no-auth") as next_one:
        assert next_one.ready().open(), "a dead one holds nothing"


def test_a_port_that_is_taken_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert port in refused("--no-auth", "--port", port, "--data-dir", str(tmp_path))


def test_a_directory_or_log_that_cannot_be_used_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--data-dir" in refused("--no-auth", "--port", "0", "--data-dir", str(tmp_path / "file" / "below"))
    assert "--log-file" in refused(
        "--no-auth", "--port", "0", "--data-dir", str(tmp_path), "--log-file", str(tmp_path / "none" / "log")
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_server_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serve(tmp_path, "--no-auth") as started:
        started.ready().child.process.send_signal(number)
        assert started.child.ended() == 0
        assert b"Traceback" not in b"".join(started.child.errors.rest())


@pytest.mark.parametrize("writer", ["direct", "plain"])
def test_running_calls_finish_and_streams_are_closed_at_shutdown(tmp_path: Path, writer: str) -> None:
    """One call answers as JSON, one on a stream; a standing stream ends; nobody new gets in."""
    go = tmp_path / "go"
    with serve(tmp_path / "data", "--no-auth", "--http-writer", writer, "--grace", "20", program=PROGRAM) as started:
        session = started.ready().open()
        results: dict[str, object] = {}

        def run(id: int, name: str) -> None:
            response, connection = started.request("POST", message=call(id, name, file=str(go)), Mcp_Session_Id=session)
            with contextlib.closing(connection), response:
                results[name] = response.read()

        threads = [threading.Thread(target=run, args=(n, name)) for n, name in enumerate(("wait", "stream"))]
        for thread in threads:
            thread.start()
        for _ in threads:
            started.child.await_error_line("running ")
        standing, connection = started.request("GET", Accept="text/event-stream", Mcp_Session_Id=session)
        os.kill(started.child.pid, signal.SIGTERM)
        _await_refusal(started.port)
        assert started.child.process.poll() is None, "it waits for the calls"
        go.touch()
        for thread in threads:
            thread.join(LONG)
        assert list(lines_of(standing))[-1] == b"", "the standing stream ended cleanly"
        connection.close()
        assert started.child.ended() == 0
    waited, streamed = results["wait"], results["stream"]
    assert isinstance(waited, bytes)
    assert isinstance(streamed, bytes)
    assert json.loads(waited)["result"]["content"][0]["text"] == "waited"
    assert b'"waited"' in streamed
    assert streamed.endswith(b"\n\n")


def _await_refusal(port: int) -> None:
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            probe.settimeout(LONG)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
    raise TimeoutError("new connections are still accepted")


def test_a_call_that_outlasts_the_grace_is_told_so(tmp_path: Path) -> None:
    with serve(tmp_path / "data", "--no-auth", "--grace", "0", program=PROGRAM) as started:
        session = started.ready().open()
        found: list[object] = []
        waiting = threading.Thread(
            target=lambda: found.append(
                started.post(call(7, "wait", file=str(tmp_path / "never")), Mcp_Session_Id=session)[1]
            )
        )
        waiting.start()
        started.child.await_error_line("running wait")
        started.child.process.terminate()
        waiting.join(LONG)
        assert started.child.ended() == 0
    (answer,) = found
    assert isinstance(answer, dict)
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert "stopped" in answer["error"]["message"]


def test_a_thread_that_blocks_does_not_keep_the_server_alive(tmp_path: Path) -> None:
    with serve(tmp_path / "data", "--no-auth", "--grace", "0", program=PROGRAM) as started:
        session = started.ready().open()
        response = threading.Thread(
            target=lambda: started.post(call(1, "block_thread"), Mcp_Session_Id=session), daemon=True
        )
        response.start()
        started.child.await_error_line("running block_thread")
        started.child.process.terminate()
        assert gone_within(started.child.pid, 15)
        assert started.child.ended() == 0
        response.join(LONG)


def test_stdio_too_says_in_one_line_that_its_log_cannot_be_written(tmp_path: Path) -> None:
    command = [*COMMAND[:-2], "stdio", "--showcase", "--log-file", str(tmp_path / "none" / "log")]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--log-file" in done.stderr


def test_a_second_signal_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    with serve(tmp_path / "data", "--no-auth", "--grace", "600", program=PROGRAM) as started:
        session = started.ready().open()
        waiting = threading.Thread(
            target=lambda: started.post(call(1, "wait", file=str(tmp_path / "never")), Mcp_Session_Id=session)
        )
        waiting.start()
        started.child.await_error_line("running wait")
        started.child.process.terminate()
        _await_refusal(started.port)
        started.child.process.send_signal(signal.SIGINT)
        assert started.child.ended() == 0
        waiting.join(LONG)
