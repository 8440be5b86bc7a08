"""`devtools snippet` and `demo`: which server they find, and what they say where there is none."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from zorivest_rpc.devtools.place import Place, find_places, publish, withdraw

KEY = "zdk_" + "k" * 32


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """Something that listens, as a server does."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port: int = listening.getsockname()[1]
        yield f"http://127.0.0.1:{port}", port


def test_without_a_server_it_says_how_to_start_one(run: Run, tmp_path: Path) -> None:
    for verb in ("snippet", "demo"):
        ran = run("devtools", verb, "--data-dir", str(tmp_path))
        assert (ran.code, ran.out) == (1, "")
        assert "zorivest-rpc serve --toolsets default,devtools" in ran.err


def test_the_tag_names_the_server_that_answers_and_the_key_of_the_tenant(
    run: Run, tmp_path: Path, address: tuple[str, int]
) -> None:
    origin, port = address
    publish(tmp_path, 1, Place("http://127.0.0.1:1", 4, {"default": "zdk_dead"}))
    publish(tmp_path, port, Place(origin, os.getpid(), {"default": KEY}))
    os.utime(tmp_path / "devtools" / "1.json")  # a server that was killed is the newest
    ran = run("devtools", "snippet", "--data-dir", str(tmp_path))
    assert ran.out == f'<script src="{origin}/devtools/collector.js?k={KEY}"></script>\n'
    told = json.loads(run("devtools", "snippet", "--data-dir", str(tmp_path), "--json").out)
    assert (told["origin"], told["key"]) == (origin, KEY)


def test_of_several_tenants_one_has_to_be_named(run: Run, tmp_path: Path, address: tuple[str, int]) -> None:
    origin, port = address
    publish(tmp_path, port, Place(origin, os.getpid(), {"acme": KEY, "smith": "zdk_smith"}))
    words = ("devtools", "snippet", "--data-dir", str(tmp_path))
    assert "--tenant with one of: acme, smith" in run(*words).err
    assert "k=zdk_smith" in run(*words, "--tenant", "smith").out
    assert "No tenant 'else' is observed" in run(*words, "--tenant", "else").err


def test_where_a_server_listens_is_told_to_its_user_alone_and_taken_back_by_itself_alone(tmp_path: Path) -> None:
    publish(tmp_path, 7, Place("http://127.0.0.1:7", os.getpid(), {"default": KEY}))
    publish(tmp_path, 8, Place("http://127.0.0.1:8", 1, {"default": KEY}))
    file = tmp_path / "devtools" / "7.json"
    assert file.stat().st_mode & 0o777 == 0o600
    (tmp_path / "devtools" / "9.json").write_text("{")
    assert {place.pid for place in find_places(tmp_path)} == {os.getpid(), 1}
    for port in (7, 8, 9):
        withdraw(tmp_path, port)
    assert [place.pid for place in find_places(tmp_path)] == [1]


def test_the_demo_page_carries_the_tag_of_the_server_that_runs_now(tmp_path: Path, address: tuple[str, int]) -> None:
    origin, port = address
    publish(tmp_path, port, Place(origin, os.getpid(), {"default": KEY}))
    command = [sys.executable, "-m", "zorivest_rpc", "devtools", "demo", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            line = demo.stdout.readline()
            assert line.startswith("Open http://127.0.0.1:")
            page = line.split()[1]
            assert KEY in _get(page)
            publish(tmp_path, port, Place(origin, os.getpid(), {"default": "zdk_next"}))
            assert "zdk_next" in _get(page)
            withdraw(tmp_path, port)
            assert "No running server has the devtools toolset" in _get(page)
        finally:
            demo.send_signal(signal.SIGTERM)
        assert demo.wait(10) == 0


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        text: str = reply.read().decode()
    return text


@pytest.mark.parametrize("verb", ["why", "show", "call"])
def test_a_tool_that_exists_only_where_its_toolset_is_named_is_told_with_it(run: Run, verb: str) -> None:
    told = run("tools", verb, "analyze")
    assert told.code == 2
    assert told.err.strip().endswith("it belongs to devtools, which exists only where it is named: --toolsets devtools")
    assert "no such tool" in run("tools", verb, "../devtools/analyze").err
