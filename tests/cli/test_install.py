"""install and uninstall on files of each client's documented shape, through the command line."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from zorivest_rpc.clients import files, jsonc
from zorivest_rpc.clients.apply import put_in
from zorivest_rpc.clients.command import own_command
from zorivest_rpc.clients.entries import CLIENTS, Launch, find_client
from zorivest_rpc.clients.places import locate

SECRET = "sk-planted-0123456789"
COMMAND = own_command()
PROGRAM, FIRST = COMMAND[0], list(COMMAND[1:])

# Each client's file as its documentation shows it, lived in: comments where the client allows them, other entries, odd
# spacing, settings that have nothing to do with servers. Small ones are written out here.
FILES = sorted((Path(__file__).parent / "shapes").iterdir())
SMALL = [
    ("claude-code", '{"numStartups":3,"mcpServers":{}}'),
    ("claude-desktop", ""),
    ("cursor", '{\r\n  "mcpServers": {}\r\n}\r\n'),
    ("vscode", '{ "servers": { } }'),
    ("windsurf", "{}\n"),
    ("codex", ""),
    ("codex", 'model = "gpt"'),
    ("codex", "model = \"gpt\"\r\n[tui]\r\ntheme = 'x'\r\n"),
    ("zed", "// nothing yet\n"),
]


def client_of(file: Path) -> str:
    return file.stem.removesuffix("-2")


CASES = [pytest.param(client_of(file), file.read_bytes().decode(), id=file.stem) for file in FILES] + [
    pytest.param(client, text, id=f"{client}-small-{n}") for n, (client, text) in enumerate(SMALL)
]


def write(client: str, text: str) -> Path:
    path = Path(locate(client, os.environ))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def read(client: str, path: Path) -> dict[str, Any]:
    text = path.read_bytes().decode()
    value: dict[str, Any] = tomllib.loads(text) if find_client(client).toml else jsonc.parse(text).value
    return value


def entry(client: str, path: Path) -> Any:
    document = read(client, path)
    servers = document[find_client(client).keys[0]]
    return servers.get("servers", servers)["zorivest"]


def test_every_client_has_a_documented_shape() -> None:
    assert {client_of(file) for file in FILES} == {client.id for client in CLIENTS}


@pytest.mark.parametrize(("client", "text"), CASES)
def test_install_and_uninstall_give_the_original_bytes_back(run: Run, client: str, text: str) -> None:
    path = write(client, text)
    before = read(client, path) if text.strip() and not text.startswith("// nothing") else {}
    assert run("install", client).code == 0
    after = read(client, path)
    keys = find_client(client).keys
    assert {key: value for key, value in after.items() if key != keys[0]} == {
        key: value for key, value in before.items() if key != keys[0]
    }
    assert PROGRAM in json.dumps(entry(client, path))
    assert Path(f"{path}.zorivest-backup").read_bytes() == text.encode()
    assert run("uninstall", client).code == 0
    assert path.read_bytes() == text.encode()
    assert sorted(each.name for each in path.parent.iterdir()) == [path.name]


@pytest.mark.parametrize(("client", "text"), CASES)
def test_a_second_run_changes_nothing(run: Run, client: str, text: str) -> None:
    path = write(client, text)
    run("install", client)
    first, when = path.read_bytes(), path.stat().st_mtime_ns
    again = run("install", client)
    assert again.code == 0
    assert "nothing to change" in again.out
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (first, when)


@pytest.mark.parametrize(("client", "text"), CASES)
def test_a_dry_run_shows_the_change_and_writes_nothing(run: Run, client: str, text: str) -> None:
    path = write(client, text)
    ran = run("install", client, "--dry-run")
    assert ran.code == 0
    assert "\n+" in ran.out
    assert PROGRAM in ran.out
    assert SECRET not in ran.out
    assert path.read_bytes() == text.encode()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("client", [client.id for client in CLIENTS])
def test_a_file_that_was_made_for_the_entry_goes_with_it(run: Run, client: str, home: Path) -> None:
    path = Path(locate(client, os.environ))
    assert run("install", client).code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("install", client, "--", "--read-only").code == 0  # an update on the way
    assert run("uninstall", client).code == 0
    assert [each for each in home.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize(("client", "text"), CASES)
def test_edits_made_in_between_survive_the_uninstall(run: Run, client: str, text: str) -> None:
    path = write(client, text)
    run("install", client)
    newcomer = "\n# added later\n[later]\nx = 1\n" if find_client(client).toml else "\n// added later\n"
    with path.open("ab") as file:
        file.write(newcomer.encode())
    before = read(client, path)
    assert run("uninstall", client).code == 0
    after = read(client, path)
    assert "added later" in path.read_text()
    key = find_client(client).keys[0]
    assert {other: after[other] for other in after if other != key} == {o: before[o] for o in before if o != key}
    assert "zorivest-rpc" not in path.read_text()
    original = {} if not text.strip() or text.startswith("// nothing") else _parsed(client, text)
    assert (key in after) == (key in original)  # the object that was made for us is gone, another stays


def _parsed(client: str, text: str) -> dict[str, Any]:
    value: dict[str, Any] = tomllib.loads(text) if find_client(client).toml else jsonc.parse(text).value
    return value


URL = "http://127.0.0.1:8766/mcp"
BEARER = "Bearer ${env:ZORIVEST_API_KEY}"
STDIO = {"command": PROGRAM, "args": FIRST}
ENTRIES: list[tuple[str, list[str], dict[str, Any]]] = [
    ("claude-code", [], {"type": "stdio", **STDIO}),
    ("claude-desktop", [], STDIO),
    ("cursor", [], STDIO),
    ("vscode", [], {"type": "stdio", **STDIO}),
    ("windsurf", [], STDIO),
    ("gemini-cli", [], STDIO),
    ("codex", [], STDIO),
    ("cline", [], STDIO),
    ("opencode", [], {"type": "local", "command": list(COMMAND), "enabled": True}),
    ("zed", [], STDIO),
    (
        "claude-code",
        ["--http", URL],
        {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${ZORIVEST_API_KEY:-}"}},
    ),
    ("cursor", ["--http", URL], {"url": URL, "headers": {"Authorization": BEARER}}),
    ("vscode", ["--http", URL], {"type": "http", "url": URL, "headers": {"Authorization": BEARER}}),
    ("windsurf", ["--http", URL], {"serverUrl": URL, "headers": {"Authorization": BEARER}}),
    ("gemini-cli", ["--http", URL], {"httpUrl": URL, "headers": {"Authorization": "Bearer ${ZORIVEST_API_KEY}"}}),
    ("codex", ["--http", URL], {"url": URL, "bearer_token_env_var": "ZORIVEST_API_KEY"}),
    ("cline", ["--http", URL], {"type": "streamableHttp", "url": URL, "headers": {"Authorization": BEARER}}),
    (
        "opencode",
        ["--http", URL],
        {"type": "remote", "url": URL, "headers": {"Authorization": "Bearer {env:ZORIVEST_API_KEY}"}, "enabled": True},
    ),
    ("zed", ["--http", URL, "--no-auth"], {"url": URL}),
    ("codex", ["--http", URL, "--no-auth"], {"url": URL}),
]


@pytest.mark.parametrize(("client", "options", "expected"), ENTRIES)
def test_the_entry_has_the_shape_that_the_client_reads(
    run: Run, client: str, options: list[str], expected: dict[str, Any]
) -> None:
    ran = run("install", client, *options)
    assert ran.code == 0, ran.err
    assert entry(client, Path(locate(client, os.environ))) == expected


def test_opencode_s_second_version_gets_its_own_shape(run: Run) -> None:
    path = write("opencode", (Path(__file__).parent / "shapes" / "opencode-2.jsonc").read_text())
    run("install", "opencode")
    assert read("opencode", path)["mcp"]["servers"]["zorivest"] == {"type": "local", "command": list(COMMAND)}


def test_options_after_two_dashes_reach_the_server(run: Run) -> None:
    run("install", "cursor", "--", "--toolsets", "core,tax", "--read-only")
    assert entry("cursor", Path(locate("cursor", os.environ)))["args"] == [
        *FIRST,
        "--toolsets",
        "core,tax",
        "--read-only",
    ]


def test_a_data_directory_that_only_a_variable_names_is_written_down(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZORIVEST_DATA_DIR", "/srv/journal")
    run("install", "cursor")
    assert entry("cursor", Path(locate("cursor", os.environ)))["args"] == [*FIRST, "--data-dir", "/srv/journal"]


def test_a_backend_that_only_a_variable_names_is_written_down_without_its_key(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_API_URL", "http://localhost:8765")
    monkeypatch.setenv("ZORIVEST_API_KEY", "zrv_sk_" + "p" * 32)
    ran = run("install", "codex")
    path = Path(locate("codex", os.environ))
    assert entry("codex", path) == {
        "command": PROGRAM,
        "args": [*FIRST, "--api-url", "http://localhost:8765"],
        "env_vars": ["ZORIVEST_API_KEY"],
    }
    assert "zrv_sk_" not in path.read_text() + ran.out
    assert "start the client with ZORIVEST_API_KEY" in ran.out


def test_keys_that_the_client_added_to_our_entry_stay_when_it_is_updated(run: Run) -> None:
    path = write(
        "cline",
        '{"mcpServers": {"zorivest": {"command": "/old/zorivest-rpc", "disabled": false, "autoApprove": ["get_sqn"]}}}',
    )
    assert run("install", "cline").code == 0
    assert entry("cline", path) == {**STDIO, "disabled": False, "autoApprove": ["get_sqn"]}


def test_keys_that_the_user_added_to_our_table_stay_when_it_is_updated(run: Run) -> None:
    text = (
        '[mcp_servers.zorivest] # journal\nstartup_timeout_sec = 20 # slow\ncommand = "/old/zorivest-rpc"\n'
        'args = [\n "a"\n]\n'
        '\n[mcp_servers.zorivest.env]\nX = "1"\n[tui]\n'
    )
    path = write("codex", text)
    assert run("install", "codex").code == 0
    assert entry("codex", path) == {**STDIO, "startup_timeout_sec": 20, "env": {"X": "1"}}
    assert "startup_timeout_sec = 20 # slow\n" in path.read_text()


def test_switching_from_a_command_to_a_url_leaves_no_command_behind(run: Run) -> None:
    run("install", "vscode")
    run("install", "vscode", "--http", URL, "--no-auth")
    assert entry("vscode", Path(locate("vscode", os.environ))) == {"type": "http", "url": URL}


@pytest.mark.parametrize("verb", ["install", "uninstall"])
@pytest.mark.parametrize(
    ("client", "text", "words"),
    [
        ("cursor", '{"mcpServers": {', ["line 1, column 17", "expected"]),
        ("cursor", '{"mcpServers": []}', ["mcpServers", "something else"]),
        ("cursor", "[]", ["does not hold an object"]),
        (
            "cursor",
            '{"mcpServers": {"zorivest": {"command": "node", "args": ["x"]}}}',
            ["starts another program", "--name"],
        ),
        ("zed", '{"context_servers": {}, "context_servers": {"zorivest": {"command": "zorivest-rpc"}}}', ["twice"]),
        ("codex", "model = \n", ["line 1", "not TOML"]),
        ("codex", 'mcp_servers = { zorivest = { command = "zorivest-rpc" } }\n', []),
        ("codex", "mcp_servers = 1\n", ["something else"]),
        ("codex", '[mcp_servers.zorivest]\ncommand = "node"\n', ["starts another program"]),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused_and_not_touched(
    run: Run, verb: str, client: str, text: str, words: list[str]
) -> None:
    path = write(client, text)
    ran = run(verb, client)
    assert ran.code == 1
    assert str(path) in ran.err
    for word in words:
        assert word in ran.err
    assert path.read_text() == text
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_no_text_is_refused(run: Run) -> None:
    path = Path(locate("cursor", os.environ))
    path.parent.mkdir()
    path.write_bytes(b'{\n"a": "\xff\xfe"}')
    assert "line 2: it is not UTF-8" in run("install", "cursor").err
    assert path.read_bytes() == b'{\n"a": "\xff\xfe"}'


def test_a_refusal_is_json_too(run: Run) -> None:
    write("cursor", "{")
    ran = run("install", "cursor", "--json")
    told = json.loads(ran.out)
    assert ran.code == 1
    assert (told["status"], told["where"].endswith("line 1, column 2")) == ("refused", True)
    assert told["next"]


def test_the_outcome_is_json_too(run: Run) -> None:
    told = json.loads(run("install", "cursor", "--json").out)
    assert (told["client"], told["name"], told["status"], told["backup"]) == ("cursor", "zorivest", "added", None)
    assert json.loads(run("uninstall", "cursor", "--json", "--dry-run").out)["dry_run"] is True
    assert json.loads(run("uninstall", "cursor", "--json").out)["status"] == "removed"
    assert json.loads(run("uninstall", "cursor", "--json").out)["status"] == "unchanged"


def test_a_linked_file_is_followed_and_stays_a_link(run: Run, home: Path) -> None:
    real = home / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text('{"mcpServers": {}}')
    link = Path(locate("cursor", os.environ))
    link.parent.mkdir()
    link.symlink_to(real)
    assert run("install", "cursor").code == 0
    assert link.is_symlink()
    assert "zorivest" in real.read_text()
    assert run("uninstall", "cursor").code == 0
    assert (link.is_symlink(), real.read_text()) == (True, '{"mcpServers": {}}')


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_of_the_file_is_kept_and_its_backup_is_no_wider(run: Run, mode: int) -> None:
    path = write("cursor", "{}")
    path.chmod(mode)
    run("install", "cursor")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE(Path(f"{path}.zorivest-backup").stat().st_mode) == mode


def test_a_read_only_file_is_refused(run: Run) -> None:
    path = write("cursor", "{}")
    path.chmod(0o444)
    ran = run("install", "cursor")
    assert (ran.code, path.read_text()) == (1, "{}")
    assert "read-only (mode 0444)" in ran.err


def test_what_the_client_writes_meanwhile_is_not_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("claude-code", '{"numStartups": 1}')
    write_file, busy = files._write, [True]

    def interrupted(name: str, *rest: Any, **named: Any) -> None:
        if named.get("unchanged") and busy.pop():
            busy.append(False)
            path.write_text('{"numStartups": 2}')
        write_file(name, *rest, **named)

    monkeypatch.setattr(files, "_write", interrupted)
    put_in(find_client("claude-code"), str(path), "zorivest", Launch(("/bin/zorivest-rpc",)), dry_run=False)
    assert read("claude-code", path)["numStartups"] == 2
    assert read("claude-code", path)["mcpServers"]["zorivest"]["command"] == "/bin/zorivest-rpc"


def test_two_entries_with_different_names_live_side_by_side(run: Run) -> None:
    path = write("cursor", '{\n  "mcpServers": {\n    "x": {"command": "y"}\n  }\n}\n')
    original = path.read_bytes()
    run("install", "cursor")
    run("install", "cursor", "--name", "zorivest-tax", "--", "--toolsets", "tax")
    assert list(read("cursor", path)["mcpServers"]) == ["x", "zorivest", "zorivest-tax"]
    run("uninstall", "cursor")
    run("uninstall", "cursor", "--name", "zorivest-tax")
    assert path.read_bytes() == original


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["install", "curser"], "did you mean cursor?"),
        (["install", "vs code insider"], "did you mean vscode?"),
        (["uninstall", "claude-desktp"], "did you mean claude-desktop?"),
        (["install", "emacs"], "known are claude-code"),
        (["install"], "CLIENT"),
        (["install", "cursor", "--name", "a b"], "--name"),
        (["install", "cursor", "--http", "ftp://x"], "--http"),
        (["install", "cursor", "--http", "http://u:p@x/mcp"], "key does not belong"),
        (["install", "cursor", "--no-auth"], "goes with --http"),
        (["install", "claude-desktop", "--http", URL], "Connectors"),
        (["install", "zed", "--http", URL], "--no-auth"),
        (["install", "cursor", "--", "--toolset", "core"], "did you mean --toolsets?"),
        (["install", "cursor", "--", "--data-dir", "here"], "must be absolute"),
        (["install", "cursor", "--", "--api-url", "http://x/?k=zrv_sk_" + "a" * 32], "key does not belong"),
        (["install", "cursor", "--http", URL, "--", "--read-only"], "server options"),
    ],
)
def test_misuse_ends_with_two_and_the_next_step(run: Run, home: Path, words: list[str], told: str) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert told in ran.err
    assert "zrv_sk_" not in ran.err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "id"),
    [("VS Code", "vscode"), ("Claude", "claude-code"), ("Gemini", "gemini-cli"), ("open_code", "opencode")],
)
def test_a_client_answers_to_the_names_people_give_it(name: str, id: str) -> None:
    assert find_client(name).id == id


def test_a_clone_that_was_never_installed_is_not_written_into_a_file(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    ran = run("install", "cursor")
    assert ran.code == 1
    assert f"{python} -m pip install" in ran.err
    assert list(home.iterdir()) == []
    python.write_text("#!/bin/sh\nexit 0\n")
    assert run("install", "cursor").code == 0
    assert entry("cursor", Path(locate("cursor", os.environ)))["args"] == ["-m", "zorivest_rpc"]


def test_the_command_is_the_installed_program_else_the_module(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    script = tmp_path / "bin" / "zorivest-rpc"
    python.parent.mkdir()
    assert own_command("-c", str(python)) == (str(python), "-m", "zorivest_rpc")
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert own_command("-c", str(python)) == (str(script),)
    link = tmp_path / "zorivest-rpc"
    link.symlink_to(script)
    assert own_command(str(link), sys.executable) == (str(link),)
    assert os.path.isabs(own_command()[0])
