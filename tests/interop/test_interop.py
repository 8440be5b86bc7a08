"""The official clients, unmodified, take the same tour of the installed command over every transport they have."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import node
from tests.conformance.cache import REPOSITORY
from tests.conformance.run import free_port, stop, wait_for_port
from tests.interop.environments import modules_with, python_with

pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parent / "clients"
LEGACY, MODERN, AUTO = "2025-11-25", "2026-07-28", "auto"
TOOLS = {"echo", "count", "wait", "running", "ask_name", "log", "toggle_extra"}
GREETING = "grüße, 世界 🌍"
LIMIT = 120.0


@dataclass(frozen=True)
class Case:
    """One client library over one transport, made to speak one era or left to find out."""

    client: str
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.client}-{self.transport}-{self.era}"

    @property
    def revision(self) -> str:
        """A client that is left to find out finds the modern era."""
        return LEGACY if self.era == LEGACY else MODERN

    @property
    def mode(self) -> str:
        return "legacy" if self.era == LEGACY else self.era


BOTH_ERAS = ("mcp-2.3.0", "fastmcp-4.1.4", "client-2.4.0", "inspector-2.12.0")
HANDSHAKE_ONLY = ("mcp-1.30.0", "sdk-1.32.2")
DRIVERS = {
    "mcp-2.3.0": "mcp_2.py",
    "mcp-1.30.0": "mcp_1.py",
    "fastmcp-4.1.4": "fastmcp_4.py",
    "client-2.4.0": "ts_2.mjs",
    "sdk-1.32.2": "ts_1.mjs",
    "inspector-2.12.0": "inspector.py",
}
CASES = [
    *(Case(client, transport, LEGACY) for client in DRIVERS for transport in ("stdio", "http", "sse")),
    *(Case(client, transport, MODERN) for client in BOTH_ERAS for transport in ("stdio", "http")),
    *(Case(client, transport, AUTO) for client in ("mcp-2.3.0", "client-2.4.0") for transport in ("stdio", "http")),
]


def server_command() -> list[str]:
    """The installed command; `INTEROP_SERVER` names another one that serves the same tour."""
    if other := os.environ.get("INTEROP_SERVER"):
        return shlex.split(other)
    return [str(Path(sysconfig.get_path("scripts")) / "zorivest-rpc")]


def surroundings(home: Path) -> dict[str, str]:
    """Our environment with a home of its own, so that nothing a server or client keeps outlives the test."""
    return os.environ | {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
    }


@contextlib.contextmanager
def http_server(home: Path) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [*server_command(), "serve", "--port", str(port), "--no-auth", "--showcase"],
        cwd=REPOSITORY,
        env=surroundings(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


def driver_command(case: Case, directory: Path) -> list[str]:
    """How to run the client's driver, with what its library needs within reach."""
    driver = DRIVERS[case.client]
    directory.mkdir(exist_ok=True)
    if driver == "inspector.py":
        return [sys.executable, str(CLIENTS / driver)]
    if driver.endswith(".py"):
        return [str(python_with(case.client)), "-W", "ignore", str(CLIENTS / driver)]
    for module in CLIENTS.glob("*.mjs"):
        shutil.copy(module, directory)
    (directory / "node_modules").symlink_to(modules_with(case.client), target_is_directory=True)
    return [str(node.node()), str(directory / driver)]


def driver_config(case: Case, config: dict[str, Any]) -> dict[str, Any]:
    if case.client.startswith("inspector"):
        config |= {"node": str(node.node()), "modules": str(modules_with(case.client))}
    return config | {"mode": case.mode}


def driver_environment(directory: Path) -> dict[str, str]:
    foreign = {"PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS", "VIRTUAL_ENV"}  # ours; they would follow the client home
    return {name: value for name, value in surroundings(directory).items() if name not in foreign}


def take_tour(case: Case, config: dict[str, Any], directory: Path) -> dict[str, Any]:
    done = subprocess.run(
        [*driver_command(case, directory), case.transport, json.dumps(driver_config(case, config))],
        cwd=REPOSITORY,
        env=driver_environment(directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{case} ended with {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def tour_of(case: Case, directory: Path) -> dict[str, Any]:
    if case.transport == "stdio":
        inherited = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return take_tour(case, {"command": [*server_command(), "stdio", "--showcase"], "env": inherited}, directory)
    with http_server(directory) as base:
        return take_tour(case, {"url": f"{base}/{'sse' if case.transport == 'sse' else 'mcp'}"}, directory)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_client_takes_the_tour(case: Case, tmp_path: Path) -> None:
    seen = tour_of(case, tmp_path)
    inspector = case.client.startswith("inspector")
    if inspector:
        assert seen["era"] == ("legacy" if case.era == LEGACY else "modern")
    else:
        assert seen["revision"] == case.revision
        assert seen["refused"] is True

    assert set(seen["tools"]) >= TOOLS
    assert "extra" not in seen["tools"]
    assert seen["echo"] == {"texts": [GREETING], "structured": {"text": GREETING}, "failed": False}

    assert seen["count"]["texts"] == ["counted to 4"]
    if not inspector:  # its command lines keep progress to themselves
        assert seen["count"]["steps"] == [[1, 4], [2, 4], [3, 4], [4, 4]]

    assert seen["logs"] == [{"level": "debug", "data": "first light"}, {"level": "error", "data": "heavy weather"}]

    assert (seen["ask"]["accepted"], seen["ask"]["declined"]) == (["hello Ada"], ["declined"])
    for question in seen["ask"]["asked"]:
        assert question["message"]
        assert list(question["properties"]) == ["name"]
        assert question["properties"]["name"]["type"] == "string"
    assert len(seen["ask"]["asked"]) == 2

    if not inspector or (case.transport, case.era) == ("http", MODERN):  # it can only cancel by going away
        assert seen["cancel"] == {"ended": "cancelled", "before": 0, "after": 0}
    assert seen["change"] == {"extra": [True, False]}

    assert "Ada" in seen["greeting"]
    assert "42" in seen["note"]
    if not inspector:  # each of its commands is a process; the others list for nothing
        assert "greet" in seen["prompts"]
        assert "showcase://readme" in seen["resources"]
        assert "showcase://note/{id}" in seen["templates"]
        assert seen["readme"]
