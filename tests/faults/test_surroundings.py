"""Bad surroundings: no core dumps where keys are held, few file descriptors, a closed stderr."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.pipe import converse
from tests.places import ROOT
from zorivest_rpc.embedded.locate import find, find_or_start

PATIENCE = 120
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "cline", "version": "1"}},
}


@pytest.fixture
def environ() -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    return clean | {"ZORIVEST_KEYRING": "off", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    if located := find(home):
        process = psutil.Process(located.pid)
        process.kill()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.wait(PATIENCE)


def wait_for_health(port: int, server: subprocess.Popen[bytes]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while True:
        assert server.poll() is None
        assert time.monotonic() < deadline
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                return json.loads(answer.read())
        except OSError:
            time.sleep(0.05)  # it is not listening yet


def lines(*messages: dict[str, Any]) -> str:
    return "".join(json.dumps(message) + "\n" for message in messages)


def call(id: int, name: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def no_dumps(pid: int) -> bool:
    limits = Path(f"/proc/{pid}/limits").read_text()
    (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    return core.split()[4:6] == ["0", "0"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the limits")
def test_processes_that_hold_keys_leave_no_core(home: Path, environ: dict[str, str], tmp_path: Path) -> None:
    located = find_or_start(home, environ=environ)
    assert no_dumps(located.pid)
    command = [sys.executable, "-m", "zorivest_rpc", "stdio", "--data-dir", str(home)]
    with subprocess.Popen(command, env=environ, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(lines(HELLO, call(2, "get_settings")).encode())
        server.stdin.flush()
        for _ in range(2):
            server.stdout.readline()
        assert no_dumps(server.pid)
        server.send_signal(signal.SIGSEGV)
        _, status = os.waitpid(server.pid, 0)
        server.returncode = -signal.SIGSEGV
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert not list(tmp_path.glob("core*"))


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirection")
def test_a_closed_stderr_costs_nothing(home: Path, environ: dict[str, str]) -> None:
    find_or_start(home, environ=environ)
    script = f'exec "{sys.executable}" -m zorivest_rpc stdio --data-dir "{home}" --log-level debug 2>&-'
    answers = converse(["bash", "-c", script], HELLO, call(2, "get_settings", key="ui.theme"), env=environ).answers
    assert answers[1]["result"]["serverInfo"]["name"] == "zorivest-rpc"
    assert answers[2]["result"]["structuredContent"]["value"] == "dark"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's redirection")
@pytest.mark.parametrize("closed", ["2>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"])
def test_a_server_whose_standard_files_are_closed_serves_and_ends_in_good_order(
    closed: str, home: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path / "log"
    command = f'exec "{sys.executable}" -m zorivest_rpc serve --no-auth --port {port} --data-dir "{home}"'
    with open(log, "wb") as out:
        server = subprocess.Popen(["bash", "-c", f"{command} {closed}"], env=environ, stdout=out)
    try:
        health = wait_for_health(port, server)
        assert health["status"] == "ok"
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
    assert log.read_bytes() == b""  # what was for stderr did not go to stdout


@pytest.mark.skipif(sys.platform == "win32", reason="a shell's limits")
def test_sixteen_file_descriptors_are_enough_to_answer_or_to_say_what_is_missing(
    home: Path, environ: dict[str, str]
) -> None:
    find_or_start(home, environ=environ)
    script = f'ulimit -n 16; exec "{sys.executable}" -m zorivest_rpc stdio --data-dir "{home}"'
    calls = [call(number, "get_settings", key="ui.theme") for number in range(2, 42)]
    ran = converse(["bash", "-c", script], HELLO, *calls, env=environ)
    answers = ran.answers
    assert set(answers) == set(range(1, 42)), ran.stderr  # every request has its answer
    for id in range(2, 42):
        result = answers[id]["result"]
        text = result["content"][0]["text"]
        assert not result.get("isError") or "too many open files" in text.lower(), text
    assert "Traceback" not in ran.stderr


DISK = """
set -eu
mount -t tmpfs -o size=12m tmpfs "$PLACE"
run() { "$PYTHON" -m zorivest_rpc "$@" --data-dir "$PLACE/data"; }
trade() {
  run tools call create_trade --confirm never exec_id="$1" instrument=MSFT action=BOT quantity=1 price=4$2 account_id=A
}
trade first 00 > /dev/null
dd if=/dev/zero of="$PLACE/fill" bs=64k 2> /dev/null || true
dd if=/dev/zero of="$PLACE/rest" bs=1k 2> /dev/null || true
echo "[write] $(trade second 01 2>&1 || true)"
echo "[read] $(run tools call list_trades 2>&1 | grep -c '"exec_id"' || true)"
kill -9 "$(cat "$PLACE/data/backend.lock")"
echo "[start] $(run tools call list_trades 2>&1 || true)"
rm "$PLACE/fill" "$PLACE/rest"
trade third 02 > /dev/null
echo "[after] $(run tools call list_trades 2>&1 | grep '"exec_id"' | tr -d '\\n')"
kill "$(cat "$PLACE/data/backend.lock")"
while [ -e "$PLACE/data/runtime.json" ]; do sleep 0.05; done
until mount -o remount,ro "$PLACE" 2> /dev/null; do sleep 0.05; done
echo "[ro-call] $(run tools call list_trades 2>&1 || true)"
echo "[ro-keys] $(run keys list 2>&1 || true)"
echo "[ro-list] $(run tools list 2>&1 | head -1)"
echo "[ro-serve] $(run serve --port 0 2>&1 || echo "code $?")"
echo "[ro-backups] $(run backup list 2>&1)"
"""


def can_mount() -> bool:
    """A file system of our own needs a name space of our own."""
    if sys.platform != "linux":
        return False
    try:
        command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


@pytest.mark.skipif(not can_mount(), reason="needs a mount name space")
@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_a_full_disk_and_a_read_only_one_refuse_in_words_and_lose_nothing(
    environ: dict[str, str], tmp_path: Path
) -> None:
    environ |= {"PLACE": str(tmp_path), "PYTHON": sys.executable}
    ran = subprocess.run(
        ["unshare", "-rm", "bash", "-c", DISK],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    said = dict(part.split("] ", 1) for part in ("\n" + ran.stdout).split("\n[")[1:])
    assert "the disk is full or read-only" in said["write"]
    assert said["read"].strip() == "1"  # a backend that runs goes on reading
    assert f"no room is left on the disk of {tmp_path}/data" in said["start"]
    assert "first" in said["after"]
    assert "third" in said["after"]
    assert "second" not in said["after"]  # it was refused, so it is not there
    for name in ("ro-call", "ro-keys", "ro-serve"):
        assert f"{tmp_path}/data cannot be used: Read-only file system" in said[name], name
    assert said["ro-list"].strip()
    assert "Read-only" not in said["ro-list"]
    assert "Read-only" not in said["ro-backups"]
    assert "Traceback" not in ran.stdout + ran.stderr
