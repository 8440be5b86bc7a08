"""`zorivest-rpc mcp adopt`: the servers that a client has already."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.servers_file import TWO

# --- adopt

SECRET = "hunter2-hunter2"
ENTRIES: dict[str, Any] = {
    "zorivest": {"command": "/usr/bin/zorivest-rpc", "args": []},
    "github": {"command": "npx", "args": ["-y", "gh"], "env": {"GITHUB_TOKEN": SECRET}},
    "My Wiki": {
        "url": "https://wiki.example.com/mcp",
        "headers": {"Authorization": f"Bearer {SECRET}", "X-Team": SECRET},
    },
    "leaky": {"command": "x", "args": ["--api-key", SECRET]},
}
FILES = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "gemini-cli": (".gemini/settings.json", "mcpServers"),
}
CODEX = f"""
[mcp_servers.zorivest]
command = "zorivest-rpc"
[mcp_servers.github]
command = "npx"
args = ["-y", "gh"]
env = {{ GITHUB_TOKEN = "{SECRET}" }}
[mcp_servers."My Wiki"]
url = "https://wiki.example.com/mcp"
http_headers = {{ Authorization = "Bearer {SECRET}", X-Team = "{SECRET}" }}
[mcp_servers.leaky]
command = "x"
args = ["--api-key", "{SECRET}"]
"""
ADOPTED = [
    {"name": "github", "command": "npx", "args": ["-y", "gh"], "env_pass": ["GITHUB_TOKEN"]},
    {
        "name": "my-wiki",
        "endpoint": "https://wiki.example.com/mcp",
        "auth_bearer_env": "MY_WIKI_TOKEN",
        "headers_env": {"X-Team": "MY_WIKI_X_TEAM"},
    },
]


def write_client(home: Path, client: str, entries: dict[str, Any] = ENTRIES) -> Path:
    if client == "codex":
        path = home / ".codex" / "config.toml"
        text = CODEX
    else:
        path = home / FILES[client][0]
        text = json.dumps({"other": 1, FILES[client][1]: entries}, indent=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("client", [*FILES, "codex"])
def test_the_servers_of_a_client_are_taken_over_without_a_secret(
    run: Run, home: Path, config: Path, client: str
) -> None:
    path = write_client(home, client)
    before = path.read_bytes()
    ran = run("mcp", "adopt", client)
    assert (ran.code, ran.err) == (0, "")
    text = config.read_text()
    assert tomllib.loads(text)["profiles"]["default"]["mcp_servers"] == ADOPTED
    assert SECRET not in text + ran.out
    assert ran.out.splitlines()[1:] == [
        "left out  zorivest              it is this server itself",
        "added     github                stdio npx",
        "added     My Wiki   as my-wiki  http https://wiki.example.com/mcp",
        "left out  leaky                 an argument of its command holds a secret; give it by a variable instead",
        "Set GITHUB_TOKEN for github: its environment.",
        "Set MY_WIKI_TOKEN for my-wiki: its bearer token.",
        "Set MY_WIKI_X_TEAM for my-wiki: its header X-Team.",
        f"written to {config}",
    ]
    assert path.read_bytes() == before
    assert run("mcp", "list").code == 0
    again = run("mcp", "adopt", client)
    assert (again.code, again.out.splitlines()[-1]) == (0, f"nothing to change in {config}")
    assert config.read_text() == text


def test_adopt_takes_the_named_servers_and_keeps_the_file(run: Run, home: Path, config: Path) -> None:
    write_client(home, "cursor")
    config.write_text(TWO)
    assert run("mcp", "adopt", "cursor", "--server", "github").code == 0
    assert config.read_text().startswith(TWO)
    assert Path(f"{config}.mcp-backup").read_text() == TWO
    names = [server["name"] for server in tomllib.loads(config.read_text())["profiles"]["default"]["mcp_servers"]]
    assert names == ["ops-tools", "files", "wiki", "github"]
    ran = run("mcp", "adopt", "cursor", "--server", "nope")
    assert (ran.code, ran.out) == (1, "")
    assert 'it has no server "nope". There are: zorivest, github, My Wiki, leaky.' in ran.err


def test_adopt_leaves_an_entry_that_the_user_changed_alone(run: Run, home: Path, config: Path) -> None:
    write_client(home, "cursor")
    run("mcp", "adopt", "cursor", "--server", "github")
    text = config.read_text() + 'tool_allowlist = ["a"]\n'
    config.write_text(text)
    assert run("mcp", "adopt", "cursor", "--server", "github").out.splitlines()[1].startswith("unchanged")
    assert config.read_text() == text


def test_adopt_replaces_no_other_server_of_that_name(run: Run, home: Path, config: Path) -> None:
    write_client(home, "cursor", {"files": {"command": "another"}})
    config.write_text(TWO)
    ran = run("mcp", "adopt", "cursor")
    assert 'left out  files    there is another server "files" in the profile' in ran.out
    assert config.read_text() == TWO


def test_a_dry_run_of_adopt_writes_nothing(run: Run, home: Path, config: Path) -> None:
    write_client(home, "cursor")
    ran = run("mcp", "adopt", "cursor", "--dry-run")
    assert ran.code == 0
    assert '+name = "github"' in ran.out
    assert '+auth_bearer_env = "MY_WIKI_TOKEN"' in ran.out  # the name of a variable is no secret
    assert '+headers_env = { X-Team = "MY_WIKI_X_TEAM" }' in ran.out
    assert ran.out.endswith(f"nothing was written to {config}\n")
    assert not config.exists()
    assert SECRET not in ran.out


def test_adopt_for_programs(run: Run, home: Path, config: Path) -> None:
    path = write_client(home, "cursor")
    ran = run("mcp", "adopt", "cursor", "--json")
    facts = json.loads(ran.out)
    assert SECRET not in ran.out
    assert {key: value for key, value in facts.items() if key not in ("servers", "diff")} == {
        "schema": "zorivest.mcp.adopt.v1",
        "client": "cursor",
        "client_file": str(path),
        "status": "added",
        "profile": "default",
        "file": str(config),
        "backup": None,
        "dry_run": False,
    }
    assert [(each["name"], each["as"], each["status"], each["variables"]) for each in facts["servers"]] == [
        ("zorivest", "zorivest", "left_out", []),
        ("github", "github", "added", ["GITHUB_TOKEN"]),
        ("My Wiki", "my-wiki", "added", ["MY_WIKI_TOKEN", "MY_WIKI_X_TEAM"]),
        ("leaky", "leaky", "left_out", []),
    ]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_client_file_that_cannot_be_read_is_refused(
    run: Run, home: Path, config: Path, form: tuple[str, ...]
) -> None:
    path = write_client(home, "cursor")
    path.write_text("{ broken")
    ran = run("mcp", "adopt", "cursor", *form)
    assert (ran.code, config.exists()) == (1, False)
    assert "line 1" in (ran.out if form else ran.err)


def test_a_client_without_a_file_has_no_servers(run: Run, config: Path) -> None:
    ran = run("mcp", "adopt", "cursor")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("Cursor: 0 servers in ")
    assert not config.exists()


def test_claude_codes_servers_of_this_project_are_found(run: Run, home: Path, config: Path) -> None:
    project = {os.getcwd(): {"mcpServers": {"here": {"command": "x"}}}, "/elsewhere": {"mcpServers": {"no": {}}}}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {}, "projects": project}))
    assert "added  here" in run("mcp", "adopt", "claude-code").out


@pytest.mark.parametrize(
    ("client", "beside"),
    [
        (
            "claude-code",
            {"projects": {"HERE": {"disabledMcpServers": ["b"]}, "/elsewhere": {"disabledMcpServers": ["a"]}}},
        ),
        ("gemini-cli", {"mcp": {"excluded": ["b"]}}),
        ("gemini-cli", {"mcp": {"allowed": ["a"]}}),
        ("gemini-cli", {"mcp": {"allowed": ["a", "b"], "excluded": ["b"]}}),
    ],
)
def test_a_server_that_is_switched_off_beside_its_entry_stays_off(
    run: Run, home: Path, config: Path, client: str, beside: dict[str, Any]
) -> None:
    path = home / FILES[client][0]
    path.parent.mkdir(exist_ok=True)
    document = json.dumps({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}, **beside})
    path.write_text(document.replace("HERE", os.getcwd()))
    assert run("mcp", "adopt", client).code == 0
    servers = tomllib.loads(config.read_text())["profiles"]["default"]["mcp_servers"]
    assert servers == [{"name": "a", "command": "x"}, {"name": "b", "command": "y", "enabled": False}]
