"""The backend as a process: one per directory, found by all, restarted after a crash, gone when idle."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.embedded.asking import ask
from tests.embedded.conftest import copy_live_directory, list_live_directory
from tests.places import ROOT
from zorivest_rpc import __version__
from zorivest_rpc.app import Journal
from zorivest_rpc.cli import keys
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.database.engine import cipher_driver, examine
from zorivest_rpc.embedded.disk.backups import digest, list_backups
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.locate import BackendStartError, Located, find, find_or_start, stored_key
from zorivest_rpc.embedded.vault.crypto import is_api_key, new_api_key
from zorivest_rpc.embedded.vault.vault import Vault
from zorivest_rpc.errors import BackendError

PATIENCE = 30
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
ENVIRON["ZORIVEST_KEYRING"] = "off"  # the tests do not touch the developer's keyring


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose backend, if any is left, is ended afterwards."""
    home = tmp_path / "home"
    yield home
    for process in backends_of(home):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            process.wait(PATIENCE)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Located]]:
    """One backend for the tests that neither end it nor change what the others look at."""
    home = tmp_path_factory.mktemp("shared") / "home"
    located = start(home)
    yield home, located
    os.kill(located.pid, signal.SIGTERM)
    wait_gone(located)


def backends_of(home: Path) -> list[psutil.Process]:
    """Every process that was started as a backend of this directory, by its own command line."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if "zorivest_rpc.cli.backend" in command and str(home) in command:
            found.append(process)
    return found


def start(home: Path, **options: Any) -> Located:
    return find_or_start(home, timeout=PATIENCE, environ=options.pop("environ", ENVIRON), **options)


def unlock(located: Located, home: Path) -> str:
    token: str = ask(located, "POST", "/auth/unlock", {"api_key": stored_key(home, ENVIRON)})["session_token"]
    return token


def wait_gone(located: Located) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(located.pid).wait(PATIENCE)


def run_backend(*arguments: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A backend in the foreground that is expected to end by itself."""
    command = [sys.executable, "-m", "zorivest_rpc.cli.backend", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environ or ENVIRON, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


STARTER = """
import sys
from pathlib import Path
from zorivest_rpc.embedded.locate import find_or_start
sys.stdin.read(1)   # all of them wait here
found = find_or_start(Path(sys.argv[1]), timeout=60)
print(found.shown, found.pid, found.address.secret, found.started)
"""


def test_many_starters_at_the_same_moment_leave_exactly_one_backend(home: Path) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER, str(home)],
            cwd=ROOT,
            env=ENVIRON,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("g")
        starter.stdin.flush()
    answers = [starter.communicate(timeout=60)[0].split() for starter in starters]
    assert [starter.returncode for starter in starters] == [0] * 8
    assert len({(shown, secret) for shown, _, secret, _ in answers}) == 1
    assert [started for *_, started in answers].count("True") == 1
    (process,) = backends_of(home)  # and it outlives everybody who could have started it
    assert str(process.pid) == answers[0][1]


EDITOR = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdin=subprocess.PIPE, stdout=sys.stdout)
server.stdin.write(b"g")
server.stdin.flush()
server.wait()
"""


def test_the_backend_survives_the_editor_and_the_server_that_started_it(home: Path) -> None:
    editor = subprocess.Popen(
        [sys.executable, "-c", EDITOR, STARTER + "sys.stdout.flush()\nsys.stdin.read()", str(home)],
        cwd=ROOT,
        env=ENVIRON,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert editor.stdout is not None
    shown, pid, *_ = editor.stdout.readline().split()
    os.killpg(editor.pid, signal.SIGHUP)  # the terminal goes
    os.killpg(editor.pid, signal.SIGKILL)  # and everything the editor had started
    editor.wait(PATIENCE)
    editor.stdout.close()
    found = find(home)
    assert found is not None
    assert (found.shown, str(found.pid)) == (shown, pid)
    assert psutil.Process(found.pid).ppid() != os.getpid()
    assert ask(found, "GET", "/settings/ui.theme", token=unlock(found, home))["value"] == "dark"


def test_a_kill_during_backups_leaves_only_whole_ones_and_the_next_start_sweeps_up(home: Path) -> None:
    located = start(home)
    token = unlock(located, home)
    ask(located, "POST", "/demo", token=token)
    stop = threading.Event()

    def backing_up() -> None:
        while not stop.is_set():
            try:
                ask(located, "POST", "/backups", token=token)
            except OSError:
                return

    threads = [threading.Thread(target=backing_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    directory = DataDir(home)
    deadline = time.monotonic() + PATIENCE
    while not list_backups(directory) or not list(directory.backups.glob(".partial-*")):
        assert time.monotonic() < deadline  # until one is whole and another is being made
    os.kill(located.pid, signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
    wait_gone(located)
    assert list(directory.backups.glob(".partial-*"))
    start(home)
    assert not list(directory.backups.glob(".partial-*"))
    _, dek = Vault.load(directory).unlock(stored_key(home, ENVIRON) or "")
    found = list_backups(directory)
    assert found
    for backup in found:
        assert digest(backup.database) == backup.files["zorivest.db"][1]
        assert examine(backup.database, dek, cipher_driver()) == backup.facts


def test_a_killed_backend_is_started_again_and_the_guard_is_what_it_was(home: Path) -> None:
    first = start(home)
    token = unlock(first, home)
    ask(first, "PUT", "/mcp-guard/config", {"is_enabled": True, "calls_per_minute_limit": 7}, token)
    ask(first, "POST", "/mcp-guard/lock", {"reason": "before the crash"}, token)
    ask(first, "PUT", "/settings", {"ui.theme": "light"}, token)
    os.kill(first.pid, signal.SIGKILL)
    wait_gone(first)
    assert DataDir(home).runtime.exists()  # stale
    assert find(home) is None
    second = start(home)
    assert (second.started, second.address.secret == first.address.secret) == (True, False)
    guard = ask(second, "GET", "/mcp-guard/status")  # it opened the database by itself
    assert (guard["is_locked"], guard["lock_reason"], guard["calls_per_minute_limit"]) == (True, "before the crash", 7)
    assert ask(second, "GET", "/settings/ui.theme", token=unlock(second, home))["value"] == "light"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"port": "x"}',
        '{"port": 1, "pid": 1, "instance_id": "a"}',
        '{"generation": 2, "pid": 1, "port": 1}',
        '{"generation": 2, "pid": 1, "port": 1, "secret": "00"}',
        '{"generation": 2, "pid": 1, "secret": "00"}',
        '{"generation": "two", "pid": 1}',
    ],
)
def test_a_damaged_runtime_file_means_that_nothing_runs(content: str, home: Path) -> None:
    DataDir(home).create().runtime.write_text(content)
    assert find(home) is None


def test_a_shutdown_is_answered_and_orderly_and_the_next_start_is_a_new_instance(home: Path) -> None:
    first = start(home)
    assert ask(first, "POST", "/service/graceful-shutdown", token=unlock(first, home))["status"] == "shutting_down"
    wait_gone(first)
    directory = DataDir(home)
    assert not directory.runtime.exists()
    assert not list(home.glob("zorivest.db-*"))  # the write-ahead log is in the file
    assert '"message":"ended"' in (directory.logs / "app.jsonl").read_text()
    second = start(home, idle_exit=1)
    assert second.address.secret != first.address.secret
    wait_gone(second)  # nobody used it
    assert not backends_of(home)
    assert find(home) is None


def test_the_idle_time_of_a_backend_started_on_demand_is_the_users(home: Path) -> None:
    waiting = start(home, environ={**ENVIRON, "ZORIVEST_IDLE_EXIT": "1"})
    wait_gone(waiting)
    assert not backends_of(home)
    command = [sys.executable, "-m", "zorivest_rpc", "tools", "call", "zorivest_service_status"]
    environ = {**ENVIRON, "ZORIVEST_BACKEND_PORT": "0", "ZORIVEST_IDLE_EXIT": "5"}
    subprocess.run(
        [*command, "--data-dir", str(home), "--idle-exit", "77"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    (process,) = backends_of(home)
    words = process.cmdline()
    assert float(words[words.index("--idle-exit") + 1]) == 77


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_an_idle_time_that_is_none_is_named_and_nothing_is_started(text: str, home: Path) -> None:
    with pytest.raises(BackendStartError, match="ZORIVEST_IDLE_EXIT"):
        start(home, environ={**ENVIRON, "ZORIVEST_IDLE_EXIT": text})
    assert not backends_of(home)


def test_a_second_start_names_the_first_and_ends(shared: tuple[Path, Located]) -> None:
    home, located = shared
    assert find(home) == located._replace(started=False)
    again = run_backend("--data-dir", str(home))
    assert (again.returncode, again.stdout) == (0, "")
    assert f"already running: {located.shown} (pid {located.pid})" in again.stderr


def test_files_and_runtime_belong_to_their_owner_alone(shared: tuple[Path, Located]) -> None:
    home, located = shared
    runtime = json.loads(DataDir(home).runtime.read_text())
    assert set(runtime) == {"generation", "release", "pid", "port", "secret", "started_at", "detached"}
    assert (runtime["pid"], runtime["secret"]) == (located.pid, located.address.secret)
    assert (runtime["generation"], runtime["release"], runtime["port"]) == (2, __version__, None)
    for path, status in list_live_directory(home):
        assert stat.S_IMODE(status.st_mode) == (0o700 if stat.S_ISDIR(status.st_mode) else 0o600), path
    key = DataDir(home).key_file.read_text().strip()
    assert is_api_key(key)
    assert ask(located, "GET", "/health")["database"] == {"unlocked": True, "encrypted": True, "key_source": "file"}
    for path in DataDir(home).logs.iterdir():
        assert key not in path.read_text(), path
        assert located.address.secret not in path.read_text(), path
    addresses = psutil.Process(located.pid).net_connections(kind="inet")
    assert not [connection for connection in addresses if connection.status == "LISTEN"]  # its socket alone
    assert key not in " ".join(psutil.Process(located.pid).cmdline())


def test_a_client_that_brings_its_own_key_keeps_it(home: Path, tmp_path: Path) -> None:
    key = new_api_key()
    located = start(home, environ={**ENVIRON, "ZORIVEST_API_KEY": key})
    assert not DataDir(home).key_file.exists()
    assert ask(located, "GET", "/health")["database"]["key_source"] == "client"
    assert ask(located, "POST", "/auth/unlock", {"api_key": key})["role"] == "admin"
    assert stored_key(home, ENVIRON) is None
    assert stored_key(home, {"ZORIVEST_API_KEY": key}) == key
    for path in copy_live_directory(home, tmp_path / "copy").rglob("*"):
        assert path.is_dir() or key.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_no_bearer_founds_a_journal(host: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    monkeypatch.delenv("ZORIVEST_API_KEY", raising=False)
    journal = Journal(parse("serve", ["--data-dir", str(home), "--host", host]))
    try:
        bearer = new_api_key()
        with pytest.raises(BackendError, match="No such API key"):  # well formed, and first
            await journal.callers.authenticate(f"Bearer {bearer}")
        own = DataDir(home).key_file.read_text().strip()
        assert own != bearer
        assert await journal.callers.authenticate(f"Bearer {own}")
        assert not await journal.callers.create_embedded()
    finally:
        await journal.close()


async def test_the_key_of_the_process_that_makes_a_journal_founds_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_api_key()
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    monkeypatch.setenv("ZORIVEST_API_KEY", key)
    journal = Journal(parse("serve", ["--data-dir", str(home)]))
    try:
        assert await journal.callers.create_embedded()
        assert not DataDir(home).key_file.exists()
        assert await journal.callers.authenticate(f"Bearer {key}")
    finally:
        await journal.close()


def test_the_foreground_shows_the_new_key_once_and_takes_another_port_if_its_own_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run_backend("--data-dir", str(home), "--port", port)
    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    key = DataDir(home).key_file.read_text().strip()
    assert refused.stderr.count(key) == 1
    ended = run_backend("--data-dir", str(home), "--idle-exit", "0.2", "--port", "0")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert re.search(r"listening on http://127\.0\.0\.1:\d+/api/v1", ended.stderr)
    assert key not in ended.stderr
    ended = run_backend("--data-dir", str(home), "--idle-exit", "0.2")
    assert f"listening on unix:{home}/backend.sock" in ended.stderr
    assert not DataDir(home).socket.exists()


def test_a_database_without_its_bootstrap_file_is_not_touched(home: Path) -> None:
    directory = DataDir(home).create()
    directory.database.write_bytes(b"precious")
    with pytest.raises(BackendStartError, match="restore it"):
        start(home)
    assert directory.database.read_bytes() == b"precious"


@pytest.mark.parametrize(
    "arguments", [["--port", "99999"], ["--port", "x"], ["--idle-exit", "-1"], ["--host", "0.0.0.0"]]
)
def test_a_misused_command_is_told_so(arguments: list[str], home: Path) -> None:
    assert run_backend("--data-dir", str(home), *arguments).returncode == 2
    assert not home.exists()


def test_looking_for_a_backend_imports_nothing_heavy() -> None:
    code = """
import sys
import zorivest_rpc.embedded.locate
heavy = {"aiohttp", "sqlalchemy", "cryptography", "asyncio", "numpy", "msgspec", "orjson"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_keys_can_be_listed_created_and_revoked_from_the_terminal(
    shared: tuple[Path, Located], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZORIVEST_API_KEY", raising=False)
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    home, _ = shared
    place = ["--data-dir", str(home)]
    assert keys.run(["create", "--label", "laptop", "--role", "read-only", *place]) == 0
    raw = capsys.readouterr().out.splitlines()[0]
    assert is_api_key(raw)
    assert keys.run(["list", "--json", *place]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(key["label"], key["role"]) for key in listed] == [("first key", "admin"), ("laptop", "read-only")]
    assert keys.run(["revoke", listed[1]["key_id"], *place]) == 0
    assert keys.run(["list", *place]) == 0
    output = capsys.readouterr().out
    assert "laptop" not in output
    assert listed[0]["masked_key"] in output
    assert raw not in output
    assert keys.run(["revoke", listed[0]["key_id"], *place]) == 1
    assert "last admin key" in capsys.readouterr().err
    assert keys.run(["create", "--label", "next", "--role", "admin", "--store", *place]) == 0
    assert stored_key(home, ENVIRON) == capsys.readouterr().out.splitlines()[0]
    assert keys.run(["revoke", listed[0]["key_id"], *place]) == 0  # with the new key
    monkeypatch.setenv("ZORIVEST_API_KEY", raw)
    assert keys.run(["list", *place]) == 1
    assert "revoked" in capsys.readouterr().err
