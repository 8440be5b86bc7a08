"""The shipped definitions, and one recorded opening per client family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import ClientTable, Definitions

HANDSHAKES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "handshakes.json").read_text())


@pytest.fixture(scope="session")
def definitions() -> Definitions:
    return load()


@pytest.fixture(scope="session")
def table(definitions: Definitions) -> ClientTable:
    return definitions.clients


@pytest.fixture(params=HANDSHAKES, ids=lambda handshake: handshake["family"])
def handshake(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found
