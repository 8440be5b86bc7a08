"""`zorivest-rpc mcp list`, and what all of `mcp` has in common: forms, misuse and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.servers_file import TWO

# --- list


def test_list_as_the_contract_shows_it(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(TWO)
    monkeypatch.setenv("OPS_MCP_TOKEN", "hunter2")
    golden = """\
profile default: 2 enabled MCP servers (mode mcp-only, 2 attempts, 500 ms delay, 45 s per call)
ops-tools  http   https://mcp.example.com/ops  15 s  token OPS_MCP_TOKEN: set  tools search_incidents,get_runbook
files      stdio  mcp-files                    15 s  token: none               tools all
"""
    assert run("--profile", "default", "mcp", "list") == (0, golden, "")


@pytest.mark.parametrize(("value", "state"), [(None, "NOT SET"), ("", "EMPTY"), ("  ", "EMPTY"), ("x", "set")])
def test_list_says_whether_a_token_is_set(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, state: str
) -> None:
    config.write_text(TWO)
    monkeypatch.delenv("OPS_MCP_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("OPS_MCP_TOKEN", value)
    ran = run("mcp", "list")
    assert (ran.code, f"token OPS_MCP_TOKEN: {state} " in ran.out) == (0, True)
    facts = json.loads(run("mcp", "list", "--json").out)
    assert facts["servers"][0]["tokens"] == [{"variable": "OPS_MCP_TOKEN", "state": state}]


def test_list_all_shows_the_disabled_ones_too(run: Run, config: Path) -> None:
    config.write_text(TWO)
    lines = run("mcp", "list", "--all").out.splitlines()
    assert lines[0].startswith("profile default: 2 enabled MCP servers")
    assert lines[3].split() == [
        "wiki",
        "http",
        "https://wiki.example.com/mcp",
        *["15", "s", "token:", "none", "tools", "all"],
        "disabled",
    ]


def test_list_without_servers(run: Run, config: Path) -> None:
    assert run("mcp", "list") == (0, "profile default: no enabled MCP servers\n", "")
    config.write_text("[profiles.work]\n")
    assert run("mcp", "list", "--profile", "work") == (0, "profile work: no enabled MCP servers\n", "")


def test_list_for_programs(run: Run, config: Path) -> None:
    config.write_text(TWO)
    ran = run("mcp", "list", "--json", "--all")
    assert ran.code == 0
    assert json.loads(ran.out) == {
        "schema": "zorivest.mcp.list.v1",
        "profile": "default",
        "file": str(config),
        "untrusted_file": None,
        "tool_confirmation_mode": "mcp-only",
        "tool_retry_attempts": 2,
        "tool_retry_delay_ms": 500,
        "tool_timeout_secs": 45,
        "servers": [
            {
                "name": "ops-tools",
                "state": "configured",
                "transport": "http",
                "target": "https://mcp.example.com/ops",
                "timeout_secs": 15,
                "tokens": [{"variable": "OPS_MCP_TOKEN", "state": "NOT SET"}],
                "tool_allowlist": ["search_incidents", "get_runbook"],
            },
            {
                "name": "files",
                "state": "configured",
                "transport": "stdio",
                "target": "mcp-files",
                "timeout_secs": 15,
                "tokens": [],
                "tool_allowlist": None,
            },
            {
                "name": "wiki",
                "state": "disabled",
                "transport": "http",
                "target": "https://wiki.example.com/mcp",
                "timeout_secs": 15,
                "tokens": [],
                "tool_allowlist": None,
            },
        ],
    }


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_wrong_file_is_a_misuse_in_both_forms(run: Run, config: Path, form: tuple[str, ...]) -> None:
    config.write_text("[profiles.default]\npin = 3\n[[profiles.default.mcp_servers]]\nname = 'x'\n")
    assert run("mcp", "list", *form) == (
        2,
        "",
        f"{config}: profiles.default.pin: expected string, found integer\n"
        f"{config}: profiles.default.mcp_servers[0]: set endpoint or command\n",
    )


def test_an_alias_may_not_be_one_of_our_tools(run: Run, config: Path) -> None:
    config.write_text('[[profiles.default.mcp_servers]]\nname="a"\ncommand="x"\ntool_aliases={t="create_trade"}\n')
    ran = run("mcp", "list")
    assert (ran.code, ran.err.splitlines()[0].endswith('alias "create_trade" is the name of a built-in tool')) == (
        2,
        True,
    )


def test_an_empty_allowlist_is_warned_of(run: Run, config: Path) -> None:
    config.write_text('[[profiles.default.mcp_servers]]\nname="a"\ncommand="x"\ntool_allowlist=[]\n')
    ran = run("mcp", "list")
    assert (ran.code, "tools none" in ran.out) == (0, True)
    assert ran.err == 'zorivest-rpc: MCP server "a": tool_allowlist is empty, so none of its tools is offered\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mcp",), "usage: zorivest-rpc mcp list"),
        (("mcp", "lst"), "no command mcp lst; did you mean list?"),
        (("mcp", "list", "x"), "mcp list: takes no word"),
        (("mcp", "list", "--sever", "x"), "--sever: unknown option of mcp"),
        (("mcp", "add"), "takes one NAME, found 0"),
        (("mcp", "add", "x"), "takes either --url URL or -- COMMAND ARGS…"),
        (("mcp", "add", "x", "--url", "https://a.example", "--", "y"), "takes either --url URL or"),
        (("mcp", "add", "x", "--"), "takes either --url URL or"),
        (("mcp", "remove"), "takes one NAME, found 0"),
        (("mcp", "adopt"), "takes one CLIENT, found 0"),
        (("mcp", "adopt", "cursr"), "did you mean cursor?"),
        (("mcp", "pin", "x"), "mcp pin: takes no word"),
    ],
)
def test_a_misuse_is_told(run: Run, config: Path, words: tuple[str, ...], said: str) -> None:
    ran = run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_help_is_no_misuse(run: Run, config: Path) -> None:
    ran = run("mcp", "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "mcp adopt CLIENT" in ran.out
    assert "--tool-confirmation-mode never|mcp-only|always" in ran.out
