"""Every command and every sample of the guide to connecting a client is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.places import ROOT
from zorivest_rpc.clients import jsonc
from zorivest_rpc.clients.command import own_command
from zorivest_rpc.clients.entries import CLIENTS, find_client
from zorivest_rpc.clients.places import locate, places

GUIDE = (ROOT / "docs" / "guide" / "connect-a-client.md").read_text()
SAMPLES = re.findall(r"```(json|toml) ([a-z-]+)\n(.*?)```", GUIDE, re.DOTALL)
PREAMBLE = f"""
set -euo pipefail
zorivest-rpc() {{ "{sys.executable}" -m zorivest_rpc "$@"; }}
"""


def test_the_commands_of_the_guide_run_from_top_to_bottom(home: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 8
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        ["bash", "-c", PREAMBLE + "\n".join(blocks)],
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert 'Cursor: "zorivest" added' in ran.stdout
    assert "nothing was written" in ran.stdout
    assert 'Cursor: "zorivest" updated' in ran.stdout
    assert "0 failed" in ran.stdout
    assert '"status": "removed"' in ran.stdout
    left = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert left == {".config/Code/User/mcp.json", ".config/opencode/opencode.json"}


@pytest.mark.parametrize(("kind", "client", "sample"), SAMPLES, ids=[client for _, client, _ in SAMPLES])
def test_a_sample_is_what_install_writes(run: Run, kind: str, client: str, sample: str) -> None:
    assert run("install", client).code == 0
    written = Path(locate(client, os.environ)).read_text()
    command = own_command()
    if kind == "toml":
        expected = tomllib.loads(written)
        entry = expected["mcp_servers"]["zorivest"]
        assert tomllib.loads(sample)["mcp_servers"]["zorivest"].keys() == entry.keys()
    else:
        expected = jsonc.parse(written).value
    if len(command) == 1:
        assert sample.replace("/path/to/zorivest-rpc", command[0]) == written
    assert find_client(client).keys[0] in expected


def test_the_table_names_every_client_s_file_and_keys() -> None:
    for client in CLIENTS:
        place = places(client.id, "linux", {"HOME": "~"})[-1]
        assert f"| {client.title} | `{client.id}` | `{place.path}` | `{client.container}` |" in GUIDE


def test_clients_that_share_a_sample_share_a_shape(run: Run) -> None:
    texts = set()
    for client in ("claude-desktop", "cursor", "windsurf", "gemini-cli", "cline"):
        run("install", client)
        texts.add(Path(locate(client, os.environ)).read_text())
    assert len(texts) == 1
