"""`zorivest-rpc mcp pin` of a file that came with a directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.servers_file import TWO, write_local

# --- pin

LOCAL = """\
[profiles.default]
approve_tool = ["create_trade"]
[[profiles.default.mcp_servers]]
name = "evil"
command = "x"
"""


def test_a_file_of_the_working_directory_counts_once_it_is_pinned(run: Run, config: Path) -> None:
    config.write_text(TWO)
    local = write_local(LOCAL)
    listed = run("mcp", "list").out.splitlines()
    assert listed[0].startswith("profile default: 2 enabled MCP servers")
    assert listed[3].split() == ["evil", "stdio", "x", "untrusted"]
    assert listed[4] == f'untrusted: {local} (look at it, then run "zorivest-rpc mcp pin" to use it)'
    states = [server["state"] for server in json.loads(run("mcp", "list", "--json").out)["servers"]]
    assert states == ["configured", "configured", "untrusted"]

    pinned = run("mcp", "pin", "--yes")
    assert pinned.code == 0
    assert pinned.out.splitlines() == [
        f"{local} sets:",
        "  profiles.default.approve_tool = ['create_trade']",
        "  profiles.default.mcp_servers[0].name = 'evil'",
        "  profiles.default.mcp_servers[0].command = 'x'",
        f"pinned {local}; a changed file has to be pinned again",
    ]
    assert run("mcp", "list").out.splitlines()[1].split()[:2] == ["evil", "stdio"]

    local.write_text(LOCAL + "# more\n")
    assert "untrusted" in run("mcp", "list").out
    assert json.loads(run("mcp", "pin", "--yes", "--json").out)["status"] == "pinned"


def test_pin_asks_a_person(run: Run, config: Path) -> None:
    write_local(LOCAL)
    ran = run("mcp", "pin")
    assert ran.code == 2
    assert "run this at a terminal, or with --yes" in ran.err
    assert "untrusted" in run("mcp", "list").out


def test_a_wrong_file_is_not_pinned(run: Run, config: Path) -> None:
    local = write_local("[server]\nprot = 1\n[profiles.default]\npin = 3\n")
    ran = run("mcp", "pin", "--yes")
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f'{local}: server.prot: unknown key; did you mean "port"?',
        f"{local}: profiles.default.pin: expected string, found integer",
    ]
    assert "untrusted" in run("mcp", "list").out


def test_what_is_shown_of_an_untrusted_file_cannot_hide_itself(run: Run, config: Path) -> None:
    write_local('[[profiles.default.mcp_servers]]\nname = "a\\u001b[2K\\u202e"\nendpoint = "https://x.example/?k=1"\n')
    out = run("mcp", "list").out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "k=1" not in out


def test_what_is_wrong_with_such_a_file_is_told_without_its_control_characters(run: Run, config: Path) -> None:
    write_local('[[profiles.default.mcp_servers]]\nname = "a\\u001b[2K\\u202e"\ncommand = "x"\n')
    ran = run("mcp", "pin", "--yes")
    assert ran.code == 2
    assert '"a\\x1b[2K\\u202e" is not a usable server name' in ran.err


def test_our_own_edit_of_a_pinned_file_keeps_it_pinned(run: Run, config: Path) -> None:
    local = write_local(LOCAL)
    run("mcp", "pin", "--yes")
    assert run("mcp", "add", "more", "--", "y").out.startswith(f'"more" added in {local}')
    assert "untrusted" not in run("mcp", "list").out
    assert not config.exists()


def test_an_edit_beside_an_untrusted_file_goes_to_the_users_own(run: Run, config: Path) -> None:
    local = write_local(LOCAL)
    assert run("mcp", "add", "more", "--", "y").out == f'"more" added in {config}\n'
    assert local.read_text() == LOCAL


def test_a_pin_is_an_event(run: Run, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZORIVEST_TELEMETRY", str(tmp_path / "events"))
    write_local(LOCAL)
    run("mcp", "pin", "--yes")
    assert json.loads((tmp_path / "events").read_text())["event"] == "mcp.pin.accepted"
