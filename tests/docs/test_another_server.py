"""The server of the guide page is real: its code runs as it stands there."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.connect import PREFIX
from tests.pipe import converse
from tests.places import ROOT


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = (ROOT / "docs" / "another-server.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 20
    place = tmp_path_factory.mktemp("server") / "thermometer.py"
    place.write_text(code)
    return place


def answers_of(program: Path, *messages: dict[str, Any]) -> list[Any]:
    run = converse([sys.executable, str(program)], *({"jsonrpc": "2.0", **each} for each in messages))
    assert run.code == 0, run.stderr
    return [json.loads(line) for line in run.lines]


CALL = {"name": "to_fahrenheit", "arguments": {"celsius": 100}}


def test_the_oldest_revision_is_served(program: Path) -> None:
    about = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    hello, listed, called, refused = answers_of(
        program,
        {"id": 1, "method": "initialize", "params": about},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": CALL},
        {"id": 4, "method": "tools/call", "params": {"name": "to_fahrenheit", "arguments": {"celsius": "warm"}}},
    )
    assert hello["result"]["serverInfo"] == {"name": "thermometer", "version": "1.0"}
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["to_fahrenheit"]
    assert json.loads(called["result"]["content"][0]["text"]) == {"fahrenheit": 212}
    assert refused["result"]["isError"] is True
    assert "celsius" in refused["result"]["content"][0]["text"]


def test_the_newest_revision_is_served(program: Path) -> None:
    about = {
        PREFIX + "protocolVersion": "2026-07-28",
        PREFIX + "clientCapabilities": {},
        PREFIX + "clientInfo": {"name": "a", "version": "1"},
    }
    (called,) = answers_of(program, {"id": 1, "method": "tools/call", "params": {**CALL, "_meta": about}})
    assert called["result"]["structuredContent"] == {"fahrenheit": 212}
