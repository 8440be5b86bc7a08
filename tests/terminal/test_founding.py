"""`serve` makes a journal before it listens; its key is shown once on a terminal, elsewhere its file is named."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.places import ROOT
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.embedded.vault.crypto import new_api_key

PATIENCE = 90


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "data"
    yield place
    if located := find(place):
        process = psutil.Process(located.pid)
        process.terminate()
        process.wait(PATIENCE)


def serve(place: Path, *, terminal: bool, **environ: str) -> tuple[int, str]:
    """The code and everything a server says until it listens; then it is stopped."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    clean |= {"ZORIVEST_KEYRING": "off", "ZORIVEST_PORT": "0", **environ}
    command = [sys.executable, "-m", "zorivest_rpc", "serve", "--data-dir", str(place)]
    leader, follower = pty.openpty() if terminal else os.pipe()
    server = subprocess.Popen(command, cwd=ROOT, env=clean, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower)
    os.close(follower)
    shown, deadline = b"", time.monotonic() + PATIENCE
    while b"Authorization: Bearer" not in shown and time.monotonic() < deadline and server.poll() is None:
        if select.select([leader], [], [], 0.5)[0]:
            shown += os.read(leader, 65_536)
    server.send_signal(signal.SIGINT)
    code = server.wait(PATIENCE)
    while select.select([leader], [], [], 0.5)[0]:
        try:
            data = os.read(leader, 65_536)
        except OSError:  # a terminal whose other end is closed
            break
        if not data:
            break
        shown += data
    os.close(leader)
    return code, shown.decode().replace("\r\n", "\n")


@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_the_key_of_a_new_journal_is_shown_on_the_terminal_once(place: Path) -> None:
    code, text = serve(place, terminal=True)
    key = (place / "api.key").read_text().strip()
    assert code == 0
    assert text.count(key) == 1
    assert f"A new journal was made in {place}." in text
    assert text.index(key) < text.index("listens on")  # no caller can be first
    code, text = serve(place, terminal=True)
    assert (code, key in text, "new journal" in text) == (0, False, False)


@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_without_a_terminal_the_key_file_is_named(place: Path) -> None:
    _, text = serve(place, terminal=False)
    assert f"Its admin key is kept in {place}/api.key." in text
    assert (place / "api.key").read_text().strip() not in text


@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_the_key_of_the_environment_founds_the_journal_and_is_not_repeated(place: Path) -> None:
    key = new_api_key()
    _, text = serve(place, terminal=True, ZORIVEST_API_KEY=key)
    assert "Its admin key is the one of ZORIVEST_API_KEY." in text
    assert key not in text
    assert not (place / "api.key").exists()


@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_a_journal_that_cannot_be_made_is_told_and_nothing_listens(place: Path) -> None:
    place.mkdir(mode=0o700)
    (place / "zorivest.db").write_bytes(b"precious")
    code, text = serve(place, terminal=False)
    assert code == 1
    assert "restore it" in text
    assert "listens on" not in text
