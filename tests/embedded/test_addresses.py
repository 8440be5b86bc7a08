"""Where a backend is said to listen, and whether that may be believed; no backend runs here."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc import __version__
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.link import BackendConnection, LocalAddress, Stranger, is_private, socket_path
from zorivest_rpc.embedded.runtime import Runtime, is_newer, is_older, publish, read_runtime

FACTS: dict[str, Any] = {
    "generation": 2,
    "release": __version__,
    "pid": 4711,
    "port": None,
    "secret": "ab" * 32,
    "started_at": "2026-03-02T08:00:00+00:00",
    "detached": True,
}


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data").create()


def read(directory: DataDir, **changes: Any) -> Runtime | None:
    facts = {name: value for name, value in {**FACTS, **changes}.items() if value is not ...}
    directory.runtime.write_text(json.dumps(facts))
    return read_runtime(directory)


def test_what_a_backend_publishes_is_read_as_it_was_written(directory: DataDir) -> None:
    """The numbers are written out: a server and a backend of two builds meet by this file."""
    publish(directory, Runtime(**FACTS))
    assert json.loads(directory.runtime.read_text()) == FACTS
    found = read_runtime(directory)
    assert found == Runtime(**FACTS)
    assert (is_older(found), is_newer(found)) == (False, False)
    assert found.address(directory) == LocalAddress(str(directory.socket), None, "ab" * 32)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"port": 8765}, (None, 8765)),
        ({"port": 8765, "secret": ""}, None),
        ({"secret": ...}, None),
        ({"generation": 1, "instance_id": "x", "port": 8765}, None),
        ({"generation": ..., "instance_id": "x", "port": 8765, "secret": ...}, None),
        ({"generation": 3}, ("socket", None)),
    ],
)
def test_only_a_backend_that_can_prove_itself_has_an_address(
    directory: DataDir, changes: dict[str, Any], expected: tuple[str | None, int | None] | None
) -> None:
    found = read(directory, **changes)
    assert found is not None
    address = found.address(directory)
    if expected is None:
        assert address is None
    else:
        path = str(directory.socket) if expected[0] else None
        assert address == LocalAddress(path, expected[1], "ab" * 32)


@pytest.mark.parametrize(
    "changes",
    [{"pid": ...}, {"pid": "many"}, {"port": "x"}, {"generation": 1}, {"generation": ...}, {"generation": None}],
)
def test_what_no_release_writes_is_nothing(directory: DataDir, changes: dict[str, Any]) -> None:
    assert read(directory, **changes) is None


@pytest.mark.parametrize(
    ("word", "detached"), [(True, True), (False, False), (..., False), ("true", False), (1, False)]
)
def test_only_a_backend_that_says_so_was_started_by_a_server(directory: DataDir, word: Any, detached: bool) -> None:
    found = read(directory, detached=word)
    assert found is not None
    assert found.detached is detached


@pytest.mark.parametrize(
    ("release", "standing"),
    [("", "older"), ("unknown", "older"), ("0.1", "same"), ("0.1.0.7", "same"), ("0.1.1", "newer"), ("0", "older")],
)
def test_a_release_counts_by_its_first_three_numbers(release: str, standing: str) -> None:
    runtime = Runtime(**{**FACTS, "release": release})
    assert (is_older(runtime), is_newer(runtime)) == (standing == "older", standing == "newer")


def test_where_the_system_has_no_unix_sockets_there_is_none(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert socket_path(directory) == str(directory.socket)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "platform", "win32")
        assert socket_path(directory) is None
    with monkeypatch.context() as patched:
        patched.delattr(socket, "AF_UNIX")
        assert socket_path(directory) is None


def test_an_address_is_shown_without_its_secret() -> None:
    by_socket, by_port = LocalAddress("/x/backend.sock", None, "ab" * 32), LocalAddress(None, 8765, "ab" * 32)
    assert (by_socket.base_url, by_socket.shown) == ("http://localhost/api/v1", "unix:/x/backend.sock")
    assert by_port.base_url == by_port.shown == "http://127.0.0.1:8765/api/v1"
    assert "ab" * 32 not in f"{by_socket!r} {by_port!r}"


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o701, 0o750, 0o755, 0o744])
def test_a_directory_that_others_may_look_into_keeps_its_socket_private(directory: DataDir, mode: int) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(directory.socket))
        directory.root.chmod(mode)
        assert is_private(str(directory.socket))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize(("user", "trusts"), [(65534, True), (0, True), (65533, False)])
def test_a_socket_is_for_the_owner_of_its_directory_and_for_root(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch, user: int, trusts: bool
) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(directory.socket))
        for path in (directory.root, directory.socket):
            os.chown(path, 65534, 65534)
        monkeypatch.setattr(os, "geteuid", lambda: user)
        assert is_private(str(directory.socket)) is trusts


def test_a_connection_that_was_refused_leaves_nothing_open(directory: DataDir) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(directory.socket))  # bound, and not listening
        connection = BackendConnection(LocalAddress(str(directory.socket), None, "ab" * 32), 5)
        with pytest.raises(ConnectionRefusedError):
            connection.connect()
        assert connection.sock is None


@pytest.mark.parametrize(
    "body",
    [b'{"proof": "%b"}' % (b"0" * 64), b"{}", b"[]", b"no JSON", b'{"proof": 7}', b'{"proof": "' + b"0" * 9000 + b'"}'],
)
def test_a_stranger_is_hung_up_on(body: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.recv(65_536)
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                assert peer.recv(1) == b"", "it is closed from the other side"

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        connection = BackendConnection(LocalAddress(None, server.getsockname()[1], "ab" * 32), 20)
        with pytest.raises(Stranger, match="is not the backend of this directory"):
            connection.connect()
        assert connection.sock is None
        thread.join(20)
        assert not thread.is_alive()
