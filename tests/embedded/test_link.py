"""How servers and commands reach the backend of a directory: never a stranger, and never two backends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.embedded.asking import ask
from tests.embedded.test_process import ENVIRON, PATIENCE, backends_of, start, wait_gone
from tests.places import ROOT
from zorivest_rpc import __version__
from zorivest_rpc.cli import backup, keys
from zorivest_rpc.cli.admin import Admin
from zorivest_rpc.embedded import link
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.link import BackendConnection, LocalAddress, Stranger, is_private, socket_path
from zorivest_rpc.embedded.locate import BackendStartError, find, stored_key
from zorivest_rpc.embedded.runtime import GENERATION, Runtime, is_newer, is_older, publish


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in [name for name in os.environ if name.startswith("ZORIVEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    home = tmp_path / "home"
    yield home
    for process in backends_of(home):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
            process.wait(PATIENCE)


class Listener:
    """A program that takes every connection, keeps what it is sent and answers like a backend of release 0.1."""

    def __init__(self, sock: socket.socket, instance: str = "ours") -> None:
        self.received = bytearray()
        self.connections = 0
        self._instance = instance
        self._sock = sock
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        body = json.dumps({"status": "ok", "instance_id": self._instance, "proof": "0" * 64}).encode()
        while True:
            try:
                peer, _ = self._sock.accept()
            except OSError:
                return
            self.connections += 1
            with peer, contextlib.suppress(OSError):
                peer.settimeout(PATIENCE)
                while data := peer.recv(65_536):
                    self.received += data
                    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
                        body
                    )
                    peer.sendall(head + body)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        self._thread.join(PATIENCE)


def assert_nothing_secret(listener: Listener, home: Path) -> None:
    assert listener.connections
    assert (stored_key(home, ENVIRON) or "?").encode() not in listener.received
    assert b"tok_" not in listener.received
    assert b"Authorization" not in listener.received
    assert b"api_key" not in listener.received


def test_a_port_that_became_free_and_was_taken_gets_neither_key_nor_token(home: Path) -> None:
    first = start(home, port=0)
    stale = Admin(home)
    os.kill(first.pid, signal.SIGKILL)
    wait_gone(first)
    assert first.address.port is not None
    listener = Listener(socket.create_server(("127.0.0.1", first.address.port)))
    try:
        assert find(home) is None
        with pytest.raises(Exception, match="does not answer"):
            stale.ask("GET", "/auth/keys")
        with contextlib.closing(first.connect(5)) as connection, pytest.raises(Stranger):
            connection.ask("POST", "/auth/unlock", {"api_key": stored_key(home, ENVIRON)})
        assert keys.run(["list", "--data-dir", str(home)]) == 0  # a new backend was started and asked
        assert_nothing_secret(listener, home)
    finally:
        listener.close()
    found = find(home)
    assert found is not None
    assert found.pid != first.pid


def test_a_planted_file_of_runtime_facts_leads_nobody_to_a_listener(home: Path) -> None:
    """As release 0.1 would have believed it: the right instance id, and another program on the port."""
    directory = DataDir(home).create()
    sock = socket.create_server(("127.0.0.1", 0))
    old = {"port": sock.getsockname()[1], "pid": os.getpid(), "instance_id": "ours", "started_at": "2026"}
    new = Runtime(GENERATION, __version__, os.getpid(), sock.getsockname()[1], "00" * 32, "2026", True)
    listener = Listener(sock)
    try:
        directory.runtime.write_text(json.dumps(old))
        assert find(home) is None
        publish(directory, new)
        assert find(home) is None
        assert start(home).started
        assert_nothing_secret(listener, home)
    finally:
        listener.close()


def test_the_backend_puts_its_own_socket_in_the_place_of_one_that_was_left_there(home: Path) -> None:
    directory = DataDir(home).create()
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(directory.socket))
    sock.listen()
    listener = Listener(sock)
    try:
        publish(directory, Runtime(GENERATION, __version__, os.getpid(), None, "00" * 32, "2026", True))
        assert find(home) is None  # it listens, and knows no secret
        located = start(home)
        assert ask(located, "GET", "/health")["status"] == "ok"
        assert keys.run(["list", "--data-dir", str(home)]) == 0
        assert_nothing_secret(listener, home)
    finally:
        listener.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_a_socket_of_another_user_is_not_spoken_to(home: Path) -> None:
    directory = DataDir(home).create()
    home.chmod(0o777)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(directory.socket))
    os.chown(directory.socket, 65534, 65534)
    sock.listen()
    listener = Listener(sock)
    try:
        for mode in (0o777, 0o720, 0o702, 0o700):
            home.chmod(mode)
            assert not is_private(str(directory.socket))
            with pytest.raises(Stranger):
                BackendConnection(LocalAddress(str(directory.socket), None, "00"), 5).connect()
        assert not listener.connections
    finally:
        listener.close()


def test_only_a_socket_of_the_owner_in_a_directory_that_others_cannot_write_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = DataDir(home).create()
    path = str(directory.socket)
    assert not is_private(path)  # there is none
    directory.socket.write_text("a file")
    assert not is_private(path)
    directory.socket.unlink()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        assert is_private(path)
        for mode in (0o770, 0o720, 0o702, 0o777):
            home.chmod(mode)
            assert not is_private(path), oct(mode)
        home.chmod(0o700)
        monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
        assert not is_private(path)
        monkeypatch.undo()
        link_path = home / "link.sock"
        link_path.symlink_to(directory.socket)
        assert not is_private(str(link_path))


def test_a_path_too_long_for_a_socket_means_a_port_that_proves_itself(tmp_path: Path, home: Path) -> None:
    short, long = tmp_path / "s", tmp_path
    while len(str(long)) < link.LONGEST_SOCKET:
        long = long / "directory-with-a-long-name"
    assert socket_path(DataDir(long)) is None
    assert socket_path(DataDir(short)) == str(short / "backend.sock")
    located = start(long)
    try:
        assert located.address.port is not None
        assert located.shown == f"http://127.0.0.1:{located.address.port}/api/v1"
        assert keys.run(["list", "--data-dir", str(long)]) == 0
        short.symlink_to(long)  # another name for the same directory leads to the same backend
        assert find(short) == located._replace(started=False)
    finally:
        os.kill(located.pid, signal.SIGKILL)
        wait_gone(located)


def test_the_longest_path_that_fits_is_a_socket(tmp_path: Path) -> None:
    rest = link.LONGEST_SOCKET - len(str(tmp_path)) - len("//backend.sock")
    fits, over = tmp_path / ("x" * rest), tmp_path / ("x" * (rest + 1))
    assert socket_path(DataDir(fits)) is not None
    assert socket_path(DataDir(over)) is None
    fits.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(socket_path(DataDir(fits)) or "")


OLDER = """
import fcntl, http.server, json, os, signal, sys
home, log = sys.argv[1:3]
lock = os.open(home + "/backend.lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.ftruncate(lock, 0)
os.write(lock, str(os.getpid()).encode())

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(log, "ab") as file:
            file.write(f"{self.requestline} {self.headers} ".encode())
            file.write(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        body = b'{"status": "ok", "instance_id": "older"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *args): pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(home + "/runtime.json", "w") as file:
    json.dump({"port": server.server_port, "pid": os.getpid(), "instance_id": "older", "started_at": "2026"}, file)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print("ready", flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def older_backend(home: Path, log: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that behaves towards the directory as a backend of release 0.1 does."""
    DataDir(home).create()
    command = [sys.executable, "-c", OLDER, str(home), str(log), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_backend_of_an_older_release_is_ended_and_never_shown_a_key(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "seen"
    with older_backend(home, log, "zorivest_rpc.cli.backend", "--detached") as older:
        located = start(home)
        assert older.wait(PATIENCE) == 0  # in good order, by SIGTERM
        assert located.started
        assert ask(located, "GET", "/health")["status"] == "ok"
    assert not log.exists() or b"zrv_sk_" not in log.read_bytes()
    assert len(backends_of(home)) == 1


def test_an_older_backend_that_a_person_started_is_told_to_be_restarted(home: Path, tmp_path: Path) -> None:
    with older_backend(home, tmp_path / "seen", "zorivest_rpc.cli.backend", "--port", "8765") as older:
        with pytest.raises(BackendStartError, match=f"process {older.pid}.*Restart it with this release"):
            start(home)
        assert older.poll() is None
    assert not backends_of(home)


def test_a_server_of_an_older_release_is_told_to_restart(home: Path) -> None:
    """Release 0.1 starts a backend with these words, and shows its client the last line that the process writes."""
    located = start(home)
    command = [sys.executable, "-P", "-m", "zorivest_rpc.cli.backend", "--detached"]
    command += ["--data-dir", str(home), "--idle-exit", "900.0"]
    environ = {**ENVIRON, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith("older release than the one installed now: restart that server")
    assert find(home) == located._replace(started=False)


@pytest.mark.parametrize(("generation", "release"), [(GENERATION, "99.0.0"), (GENERATION + 1, __version__)])
def test_a_server_that_meets_a_newer_backend_is_told_to_restart(home: Path, generation: int, release: str) -> None:
    located = start(home)
    directory = DataDir(home)
    runtime = Runtime(generation, release, located.pid, None, located.address.secret, "2026", True)
    publish(directory, runtime)
    with pytest.raises(BackendStartError, match=r"newer than this server .* Restart this server"):
        start(home)
    assert psutil.pid_exists(located.pid)
    os.kill(located.pid, signal.SIGKILL)
    wait_gone(located)
    publish(directory, runtime)  # left behind by a newer one that was killed: it holds nothing any more
    assert start(home).started


@pytest.mark.parametrize(
    ("generation", "release", "standing"),
    [
        (1, "", "older"),
        (GENERATION, "0.0.9", "older"),
        (GENERATION, __version__, "same"),
        (GENERATION, __version__ + ".dev3+g1234", "same"),
        (GENERATION, "0.1.10", "newer"),
        (GENERATION, "1.0", "newer"),
        (GENERATION + 1, "0.0.1", "newer"),
    ],
)
def test_releases_are_compared_by_generation_and_number(generation: int, release: str, standing: str) -> None:
    runtime = Runtime(generation, release, 1, None, "", "", True)
    assert (is_older(runtime), is_newer(runtime)) == (standing == "older", standing == "newer")


def test_restoring_while_a_backend_listens_on_a_port_stops_that_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    located = start(home, port=0)
    assert backup.run(["create", "--data-dir", str(home)]) == 0
    assert backup.run(["restore", "latest", "--stop", "--data-dir", str(home)]) == 0
    wait_gone(located)
    assert "restored" in capsys.readouterr().out
    assert find(home) is None


def test_health_names_no_instance(home: Path) -> None:
    health: dict[str, Any] = ask(start(home), "GET", "/health")
    assert "instance_id" not in health
    assert health["started_at"]
