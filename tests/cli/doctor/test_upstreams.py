"""What the doctor says of other MCP servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from zorivest_rpc.cli.checks.line import Line, fail, ok, warn
from zorivest_rpc.cli.checks.upstreams import profile
from zorivest_rpc.config import parse

SERVERS = """
[[profiles.default.mcp_servers]]
name = "ops"
endpoint = "https://a.example"
auth_bearer_env = "OPS_TOKEN"
[[profiles.default.mcp_servers]]
name = "files"
command = "x"
tool_allowlist = []
[[profiles.default.mcp_servers]]
name = "off"
command = "x"
enabled = false
"""


@pytest.fixture(autouse=True)
def _work(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")


def found(home: Path, text: str | None, **environ: str) -> list[Line]:
    surroundings = {"HOME": str(home), **environ}
    if text is not None:
        path = home / "config.toml"
        path.write_text(text)
        surroundings["ZORIVEST_CONFIG"] = str(path)
    return list(profile(parse("doctor", [], surroundings), surroundings))


def test_without_a_profile_there_is_nothing_to_say(home: Path) -> None:
    assert found(home, None) == []
    assert found(home, "[server]\nport = 1\n") == []


@pytest.mark.parametrize(
    ("token", "line"),
    [
        (None, warn("upstreams", "ops: OPS_TOKEN is not set", "Export OPS_TOKEN where the server is started.")),
        ("", warn("upstreams", "ops: OPS_TOKEN is empty", "Export OPS_TOKEN where the server is started.")),
        ("x", ok("upstreams", "ops: configured; zorivest-rpc mcp discover asks it")),
    ],
)
def test_a_token_that_is_not_set_is_found(home: Path, token: str | None, line: Line) -> None:
    given = {} if token is None else {"OPS_TOKEN": token}
    assert found(home, SERVERS, **given) == [
        line,
        ok("upstreams", "files: configured; zorivest-rpc mcp discover asks it"),
        warn(
            "upstreams",
            'MCP server "files": tool_allowlist is empty, so none of its tools is offered',
            "Name the tools, or remove the empty list.",
        ),
    ]


def test_every_problem_of_a_profile_is_a_finding(home: Path) -> None:
    path = home / "config.toml"
    assert found(home, "[profiles.default]\npin = 1\nnonsense = 2\n") == [
        fail("upstreams", f"{path}: profiles.default.pin: expected string, found integer", "Correct the file."),
        fail("upstreams", f"{path}: profiles.default.nonsense: unknown key", "Correct the file."),
    ]


def test_a_file_that_is_not_trusted_is_a_finding(home: Path) -> None:
    local = Path.cwd() / ".zorivest" / "config.toml"
    local.parent.mkdir()
    local.write_text(SERVERS)
    text = f"{local} is not used, because it may come with a repository"
    assert found(home, None) == [warn("upstreams", text, "Look at it, then run: zorivest-rpc mcp pin")]
