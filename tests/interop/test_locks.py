"""The lock files pin what the tests claim to run, and nothing about where it was fetched from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.environments import HERE
from tests.interop.test_interop import DRIVERS

# driven by `make agents`; their transcripts are replayed
AGENTS = {"codex-0.169.0", "claude-code-2.1.326", "gemini-cli-0.61.0", "opencode-1.18.33"}
UPSTREAMS = {"servers-2026.8.31", "server-2.4.0"}  # servers that stand behind the gateway
LOCKS = [
    *sorted((HERE / "npm").glob("*/package-lock.json")),
    HERE.parent / "conformance" / "package-lock.json",
    HERE.parent / "browser" / "package-lock.json",
]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.parent.name)
def test_an_npm_lock_file_names_no_registry_and_checks_every_package(lock: Path) -> None:
    packages = json.loads(lock.read_bytes())["packages"]
    installed = {name: package for name, package in packages.items() if name}
    assert installed
    assert [name for name, package in installed.items() if "resolved" in package] == []
    assert [name for name, package in installed.items() if not package.get("integrity")] == []


@pytest.mark.parametrize("requirements", sorted((HERE / "requirements").glob("*.txt")), ids=lambda file: file.stem)
def test_a_python_environment_is_pinned_to_the_last_package(requirements: Path) -> None:
    lines = [line for line in requirements.read_text().splitlines() if not line.startswith("#")]
    assert requirements.stem.replace("-", "==", 1) in lines
    assert [line for line in lines if line.count("==") != 1] == []


def test_every_client_has_a_driver_and_a_lock_file() -> None:
    locked = {file.stem for file in (HERE / "requirements").iterdir()} | {
        path.name for path in (HERE / "npm").iterdir()
    }
    assert locked == set(DRIVERS) | AGENTS | UPSTREAMS
    assert all((HERE / "clients" / driver).is_file() for driver in DRIVERS.values())
