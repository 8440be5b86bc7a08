"""A doctor that is patient, quick where imports do not matter, and a data directory for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zorivest_rpc.cli.checks import machine, web
from zorivest_rpc.cli.checks.line import ok
from zorivest_rpc.serving.backend import neighbour


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is slow, and that is not what these tests are about."""
    monkeypatch.setattr(web, "PATIENCE", 60.0)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Without the imports, which take a second and have a test of their own, and without the developer's Zorivest."""
    monkeypatch.setattr(machine, "packages", lambda encrypted: iter([ok("packages", "skipped")]))
    monkeypatch.setattr(neighbour, "USUAL", "http://localhost:1")


@pytest.fixture
def data(home: Path) -> Path:
    path = home / ".local" / "share" / "zorivest"
    path.mkdir(parents=True, mode=0o700)
    return path
