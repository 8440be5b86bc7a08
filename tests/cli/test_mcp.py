"""`zorivest-rpc mcp`: what it prints, for people and for programs, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

TWO = """\
# my servers
[server]
port = 8800  # mine

[profiles.default]
tool_confirmation_mode = "mcp-only"

[[profiles.default.mcp_servers]]
name = "ops-tools"
endpoint = "https://mcp.example.com/ops?view=all"
auth_bearer_env = "OPS_MCP_TOKEN"
tool_allowlist = ["search_incidents", "get_runbook"]

# files, for reading only
[[profiles.default.mcp_servers]]
name = "files"
command = "mcp-files"
args = ["--root", "/srv"]

[profiles.default.mcp_servers.tool_timeouts]
slow = 90

[[profiles.default.mcp_servers]]
name = "wiki"
endpoint = "https://wiki.example.com/mcp"
enabled = false
"""


@pytest.fixture
def config(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, and a working directory without one."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    path = home / ".config" / "zorivest" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def write_local(text: str) -> Path:
    path = Path.cwd() / ".zorivest" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


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
