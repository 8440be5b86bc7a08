"""`zorivest-rpc mcp add` and `remove`: what they write, and what they leave alone."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.servers_file import TWO

# --- add, remove


def test_add_makes_a_file_and_a_second_run_changes_nothing(run: Run, config: Path) -> None:
    first = run("mcp", "add", "ops", "--url", "https://mcp.example.com/ops", "--auth-bearer-env", "OPS_TOKEN")
    assert first == (0, f'"ops" added in {config}\n', "")
    text = config.read_text()
    assert text == (
        "[[profiles.default.mcp_servers]]\n"
        'name = "ops"\nendpoint = "https://mcp.example.com/ops"\nauth_bearer_env = "OPS_TOKEN"\n'
    )
    assert config.stat().st_mode & 0o777 == 0o600
    again = run("mcp", "add", "ops", "--url", "https://mcp.example.com/ops", "--auth-bearer-env", "OPS_TOKEN")
    assert again == (0, f'nothing to change for "ops" in {config}\n', "")
    assert (config.read_text(), sorted(os.listdir(config.parent))) == (text, ["config.toml"])


def test_add_keeps_every_byte_that_was_there(run: Run, config: Path) -> None:
    config.write_text(TWO)
    ran = run("mcp", "add", "mem", "--env-pass", "A", "--env-pass", "B", "--", "npx", "-y", "server --x", "--json")
    assert ran.code == 0
    after = config.read_text()
    assert after == TWO + (
        '\n[[profiles.default.mcp_servers]]\nname = "mem"\ncommand = "npx"\nargs = ["-y", "server --x", "--json"]\n'
        'env_pass = ["A", "B"]\n'
    )
    backup = Path(f"{config}.mcp-backup")
    assert ran.out == f'"mem" added in {config}\nThe file as it was: {backup}\n'
    assert backup.read_text() == TWO
    assert run("mcp", "remove", "mem").code == 0
    assert config.read_text() == TWO


def test_add_to_another_profile(run: Run, config: Path) -> None:
    config.write_text("[profiles.work]\npin = 'off'\n")
    run("mcp", "--profile", "work", "add", "a", "--timeout-secs", "300", "--", "x")
    assert tomllib.loads(config.read_text())["profiles"] == {
        "work": {"pin": "off", "mcp_servers": [{"name": "a", "command": "x", "timeout_secs": 300}]}
    }


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_add_refuses_another_server_of_the_same_name(run: Run, config: Path, form: tuple[str, ...]) -> None:
    config.write_text(TWO)
    ran = run("mcp", "add", "wiki", "--url", "https://other.example", *form)
    assert ran.code == 1
    assert 'it has another server "wiki"' in (json.loads(ran.out)["problem"] if form else ran.err)
    assert config.read_text() == TWO


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("Bad Name", "--", "x"), 'mcp_servers[0].name: "Bad Name" is not a usable server name'),
        (("a", "--url", "nowhere"), 'mcp_servers[0].endpoint: "nowhere" is not an absolute http or https URL'),
        (("a", "--url", "https://u:hunter2@a.example"), "the URL must not carry a user name or password"),
        (("a", "--url", "http://a.example", "--auth-bearer-env", "T"), "a token may only be sent over https"),
        (("a", "--url", "https://a.example", "--auth-bearer-env", "sk-hunter2"), "a literal token is not accepted"),
        (("a", "--timeout-secs", "301", "--", "x"), "timeout_secs: must be between 1 and 300, found 301"),
        (("a", "--timeout-secs", "soon", "--", "x"), "--timeout-secs: 'soon' is not a whole number"),
    ],
)
def test_add_writes_nothing_that_would_not_load(run: Run, config: Path, words: tuple[str, ...], problem: str) -> None:
    ran = run("mcp", "add", *words)
    assert (ran.code, ran.out, config.exists()) == (2, "", False)
    assert problem in ran.err
    assert "hunter2" not in ran.err


def test_a_dry_run_shows_the_change_and_writes_nothing(run: Run, config: Path) -> None:
    config.write_text(TWO)
    for words in (("add", "mem", "--dry-run", "--", "npx"), ("remove", "files", "--dry-run")):
        ran = run("mcp", *words)
        assert ran.code == 0
        assert ran.out.endswith("; nothing was written\n")
        assert any(line.startswith(("+[[", "-[[")) for line in ran.out.splitlines())
    assert (config.read_text(), os.listdir(config.parent)) == (TWO, ["config.toml"])


def test_remove_takes_out_one_server_with_its_tables_and_no_comment(run: Run, config: Path) -> None:
    config.write_text(TWO)
    assert run("mcp", "remove", "files").code == 0
    after = config.read_text()
    assert [server["name"] for server in tomllib.loads(after)["profiles"]["default"]["mcp_servers"]] == [
        "ops-tools",
        "wiki",
    ]
    for comment in ("# my servers", "# mine", "# files, for reading only"):
        assert comment in after
    assert "tool_timeouts" not in after
    again = run("mcp", "remove", "files")
    assert (again.code, again.out) == (0, f'nothing to change for "files" in {config}\n')
    assert config.read_text() == after


@pytest.mark.parametrize("name", ["ops-tools", "files", "wiki"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_remove_leaves_the_others_as_they_were(run: Run, config: Path, name: str, newline: str) -> None:
    config.write_bytes(TWO.replace("\n", newline).encode())
    before = tomllib.loads(TWO)
    assert run("mcp", "remove", name).code == 0
    after = tomllib.loads(config.read_bytes().decode())
    servers = before["profiles"]["default"]["mcp_servers"]
    before["profiles"]["default"]["mcp_servers"] = [server for server in servers if server["name"] != name]
    assert after == before
    lines = iter(TWO.splitlines())
    assert all(line in lines for line in config.read_bytes().decode().splitlines()), "no line is new or moved"


def test_servers_in_one_piece_are_refused_with_what_to_do(run: Run, config: Path) -> None:
    text = '[profiles.default]\nmcp_servers = [{ name = "a", command = "x" }]\n'
    config.write_text(text)
    for words in (("add", "b", "--", "y"), ("remove", "a")):
        ran = run("mcp", *words)
        assert (ran.code, config.read_text()) == (1, text)
        assert "Write each server as a table of its own, [[profiles.default.mcp_servers]]" in ran.err


def test_the_result_for_programs(run: Run, config: Path) -> None:
    facts = json.loads(run("mcp", "add", "a", "--json", "--", "x").out)
    diff = facts.pop("diff")
    assert facts == {
        "schema": "zorivest.mcp.edit.v1",
        "name": "a",
        "status": "added",
        "file": str(config),
        "backup": None,
        "dry_run": False,
    }
    assert '+name = "a"' in diff
    assert json.loads(run("mcp", "remove", "a", "--json").out)["status"] == "removed"
    assert json.loads(run("mcp", "remove", "a", "--json").out)["status"] == "unchanged"


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (("--url", "https://a.example/mcp?api_key=hunter2"), "--auth-bearer-env"),
        (("--", "npx", "x", "--token", "hunter2"), "--env-pass"),
    ],
)
def test_what_looks_like_a_secret_is_warned_of_and_not_repeated(
    run: Run, config: Path, words: tuple[str, ...], instead: str
) -> None:
    ran = run("mcp", "add", "x", *words)
    assert ran.code == 0
    assert f"name a variable with {instead} if the server takes one" in ran.err
    assert "hunter2" not in ran.out + ran.err
    assert run("mcp", "add", "y", "--", "npx", "-y", "@scope/server@1.2.3", "/home/me/docs").err == ""
