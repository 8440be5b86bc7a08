"""What `serve --demo` says at its start: on a terminal with the key, elsewhere without it, and every snippet usable."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.places import ROOT
from zorivest_rpc.clients.entries import CLIENTS
from zorivest_rpc.embedded.locate import find

PATIENCE = 60


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("welcome") / "data"
    yield place
    if located := find(place):
        process = psutil.Process(located.pid)
        process.terminate()
        process.wait(PATIENCE)


def said(place: Path, *, terminal: bool) -> str:
    """What the server tells until it says how to stop it; then it is stopped that way."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    environ |= {"ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0", "ZORIVEST_PORT": "0"}
    command = [sys.executable, "-m", "zorivest_rpc", "serve", "--demo", "--data-dir", str(place)]
    leader, follower = pty.openpty() if terminal else os.pipe()
    server = subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower
    )
    os.close(follower)
    shown, deadline = b"", time.monotonic() + PATIENCE
    while b"the journal stays" not in shown and time.monotonic() < deadline:
        if select.select([leader], [], [], 1.0)[0]:
            shown += os.read(leader, 65_536)
    server.send_signal(signal.SIGINT)
    assert server.wait(PATIENCE) == 0
    os.close(leader)
    return shown.decode().replace("\r\n", "\n")


def snippets(text: str) -> dict[str, dict[str, object]]:
    """Every JSON document in it, by the titles of the clients it is for."""
    lines = text.splitlines()
    found = {}
    for before, line in zip(["", *lines], lines, strict=False):
        title, _, rest = line.strip().partition(": ")
        if line.startswith("    {"):
            found[before.strip().rstrip(":")] = json.loads(line)
        elif rest.startswith("{"):
            found[f"http {title}"] = json.loads(rest)
    return found


@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_on_a_terminal_everything_is_there_and_can_be_pasted(place: Path) -> None:
    text = said(place, terminal=True)
    key = (place / "api.key").read_text().strip()
    assert f"Your key: {key}" in text
    url = text.split("listens on ")[1].split()[0]
    assert f'claude mcp add --transport http zorivest {url} --header "Authorization: Bearer {key}"' in text
    found = snippets(text)
    titles = ", ".join(found) + text
    assert [client.title for client in CLIENTS if client.title not in titles] == []
    for name, document in found.items():
        if name.startswith("http "):
            assert url in json.dumps(document)
            assert f"Bearer {key}" in json.dumps(document)
        else:
            assert str(place) in json.dumps(document)  # the same journal, wherever it is
            assert key not in json.dumps(document)
    assert found["http Windsurf"] == {
        "mcpServers": {"zorivest": {"serverUrl": url, "headers": {"Authorization": f"Bearer {key}"}}}
    }
    (codex,) = [line.strip() for line in text.splitlines() if line.strip().startswith("mcp_servers.")]
    assert tomllib.loads(codex)["mcp_servers"]["zorivest"]["args"][-1] == str(place)
    assert sum(line.startswith("  - ") for line in text.splitlines()) == 3


@pytest.mark.one_journal(
    "serve without --no-auth asks for access rules where clients are configured, and founds no journal"
)
def test_elsewhere_the_key_is_not_told_and_the_snippets_refer_to_its_variable(place: Path) -> None:
    text = said(place, terminal=False)
    key = (place / "api.key").read_text().strip()
    assert key not in text
    assert f"Your key is kept in {place}/api.key" in text
    assert "zrv_sk_" not in text.replace("zrv_sk_…", "")
    for name, document in snippets(text).items():
        if name.startswith("http "):
            assert "ZORIVEST_API_KEY" in json.dumps(document)
