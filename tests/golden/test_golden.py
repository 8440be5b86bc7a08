"""What clients see does not change by accident: every tool in three modes and two eras, every family's opening."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.record import CLIENTS, ERAS, HERE, STAMP, journal, listing, opening, record, text
from zorivest_rpc.server import Server
from zorivest_rpc.transports.memory import MemoryClient


async def test_every_golden_file_is_what_a_client_gets_today(tmp_path: Path) -> None:
    files = await record(str(tmp_path))
    there = {path for folder in ("tools", "handshakes") for path in (HERE / folder).glob("*.json")}
    assert there | {STAMP} == set(files), "run make golden and read the diff"
    for path, value in files.items():
        assert path.read_text() == text(value), f"{path.name}: run make golden and read the diff"


def test_every_tool_has_a_definition_in_every_mode_and_era() -> None:
    for path in (HERE / "tools").glob("*.json"):
        shown = json.loads(path.read_text())
        assert set(shown) == {f"{mode} {era}" for mode in CLIENTS for era in ERAS}, path.name


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_is_the_same_bytes_after_a_restart(era: str, tmp_path: Path) -> None:
    def frame() -> bytes:
        client = MemoryClient(Server(journal(str(tmp_path)).offer))
        info = {"name": "cline", "version": "1"}
        opening(client, era, info, {})
        return text(listing(client, era, info, {})).encode()

    assert frame() == frame()
