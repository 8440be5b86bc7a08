"""The doctor tries out what clients start: entries that answer, that do not, and that cannot work."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.doctor.lines import KEY, answering, answering_program, client_lines, cursor, script
from tests.places import ROOT
from zorivest_rpc import __version__
from zorivest_rpc.cli.checks import clients
from zorivest_rpc.clients.command import own_command
from zorivest_rpc.clients.places import locate


def test_an_entry_that_answers_is_well_and_starts_no_backend(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cursor(home, {"command": sys.executable, "args": ["-m", "zorivest_rpc", "--toolsets", "core"]})
    assert [line.status for line in client_lines()] == ["ok"]
    assert not (home / ".local").exists()


@pytest.mark.parametrize(
    ("body", "patience", "word"),
    [
        ("import time; time.sleep(60)", 0.3, "did not answer within 0.3 s"),
        ("raise SystemExit(3)", 20.0, "exit code 3"),
        ("print('hello')", 20.0, "ended without an answer"),
    ],
)
def test_an_entry_that_does_not_answer_is_named(home: Path, body: str, patience: float, word: str) -> None:
    cursor(home, {"command": script(home, body), "args": []})
    line = client_lines(patience)[0]
    assert line.status == "fail"
    assert word in line.text
    assert "zorivest-rpc install cursor" in line.next


@pytest.mark.parametrize(
    ("entry", "status", "word"),
    [
        ({"command": "/gone/zorivest-rpc", "args": []}, "fail", "which is not there"),
        ({"command": "node", "args": ["server.js"]}, "fail", "starts another program"),
        ("nonsense", "fail", "starts another program"),
        ({"command": "uvx", "args": ["zorivest-rpc"]}, "ok", "through uvx; not tried"),
        ({"url": "http://127.0.0.1:1/mcp"}, "fail", "nothing answers"),
        ({"url": "nowhere"}, "fail", "an address that is none"),
    ],
)
def test_an_entry_that_cannot_work_is_named(home: Path, entry: Any, status: str, word: str) -> None:
    cursor(home, entry)
    line = client_lines()[0]
    assert (line.status, word in line.text) == (status, True), line


def test_an_entry_for_a_server_that_runs_is_well(home: Path) -> None:
    with answering({"/health": (200, {"status": "ok"})}) as (url, _):
        cursor(home, {"url": url + "/mcp?token=x"})
        line = client_lines()[0]
    assert (line.status, "token" in line.text) == ("ok", False)


def test_more_tools_than_the_client_takes_is_a_warning(home: Path) -> None:
    program = answering_program(home, __version__)
    cursor(home, {"command": program, "args": ["--toolsets", "all"]})
    lines = client_lines()
    assert [line.status for line in lines] == ["ok", "warn"]
    assert "Cursor takes 40" in lines[1].text
    cursor(home, {"command": program, "args": ["--toolset", "all"]})
    assert [line.status for line in client_lines()] == ["ok", "fail"]


def test_another_version_and_a_switched_off_entry_are_warnings(home: Path) -> None:
    cursor(home, {"command": answering_program(home, "0.0.1"), "args": [], "disabled": True})
    assert [line.status for line in client_lines()] == ["warn", "ok", "warn"]


def test_an_entry_that_loses_the_variable_that_names_the_journal_is_a_warning(home: Path) -> None:
    cursor(home, {"command": answering_program(home, __version__), "args": []})
    lines = [line for line in clients.set_up(os.environ, "/srv/journal") if line.area == "client cursor"]
    assert lines[-1].status == "warn"
    assert "and not the one in /srv/journal" in lines[-1].text
    cursor(home, {"command": answering_program(home, __version__), "args": ["--data-dir", "/srv/journal"]})
    assert {line.status for line in clients.set_up(os.environ, "/srv/journal")} == {"ok"}


def test_comments_in_a_file_that_its_client_reads_as_plain_json_are_a_warning(home: Path) -> None:
    (home / ".claude.json").write_text('{"mcpServers": {} /* none */}')
    (home / ".cursor").mkdir()
    (home / ".cursor" / "mcp.json").write_text('{"mcpServers": {} /* none */}')
    lines = list(clients.set_up(os.environ))
    assert [line.area for line in lines if "plain JSON" in line.text] == ["client claude-code"]


def test_a_malformed_client_file_is_named_with_its_place(home: Path) -> None:
    cursor(home, {})
    path = Path(locate("cursor", os.environ))
    path.write_text('{"mcpServers": }')
    line = client_lines()[0]
    assert (line.status, "line 1, column 16" in line.text) == ("fail", True)


def test_a_trial_gets_no_key_and_no_backend(home: Path) -> None:
    said = """import json, os
facts = [os.environ.get("ZORIVEST_API_URL"), "ZORIVEST_API_KEY" in os.environ]
print(json.dumps({"result": {"serverInfo": {"version": facts}}}))"""
    trial = clients.try_out((script(home, said),), {**os.environ, "ZORIVEST_API_KEY": KEY}, 20.0)
    assert trial.version == "['http://127.0.0.1:9', False]"


def test_the_command_of_this_installation_can_be_tried_out(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert clients.try_out(own_command(), os.environ, 20.0).version is not None
