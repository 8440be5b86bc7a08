"""Commands that look at the catalogue reach the tools of other servers: listed, found, explained, called, priced."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.gateway.fake import TOOL
from tests.serving.product.far import Far, serve_far

ENTRY = '[[profiles.default.mcp_servers]]\nname = "{name}"\nendpoint = "{url}"\ntimeout_secs = 60\n{more}\n'


@pytest.fixture
def far() -> Iterator[Far]:
    """A backend and another server on a loop of their own, because the command has the loop of this thread."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    done = asyncio.Event()
    found: list[Far] = []

    async def run() -> None:
        async with serve_far() as each:
            found.append(each)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(60)
    yield found[0]
    loop.call_soon_threadsafe(done.set)
    thread.join(60)
    loop.close()


Words = Callable[..., list[str]]


@pytest.fixture
def words(home: Path, far: Far, monkeypatch: pytest.MonkeyPatch) -> Words:
    """The words of a command with the server configured."""

    def make(*command: str, profile: str = "", more: str = "", away: bool = False) -> list[str]:
        config = home / "config.toml"
        others = ENTRY.format(name="wiki", url="http://127.0.0.1:9/mcp", more="") if away else ""
        entry = ENTRY.format(name="ops", url=far.server, more=more)
        config.write_text(f"[profiles.default]\n{profile}\n{entry}{others}")
        data = str(home / "data")
        return [*command, "--config", str(config), "--data-dir", data, "--api-url", far.backend]

    monkeypatch.setenv("ZORIVEST_API_KEY", "zrv_sk_of_a_test")
    return make


@pytest.mark.one_journal("list_clients takes one of the places that are counted")
def test_list_search_and_show_reach_them(run: Run, words: Words) -> None:
    listed = run(*words("tools", "list"))
    assert listed.code == 0
    assert "ops__read" in listed.out
    assert "mcp-ops" in listed.out
    found = json.loads(run(*words("tools", "search", "echo", "--json")).out)
    assert {each["name"] for each in found if each["toolset"] == "mcp-ops"} == {
        "ops__read",
        "ops__write",
        "ops__destroy",
    }
    shown = json.loads(run(*words("tools", "show", "ops__read", "--json")).out)
    assert list(shown["inputSchema"]["properties"]) == ["text", "confirmation_token"]


def test_call_runs_one_and_asks_nobody_where_nobody_is(run: Run, words: Words, far: Far) -> None:
    refused = run(*words("tools", "call", "ops__write", "text=x"))
    assert refused.code == 1
    assert far.fake.of("tools/call") == []
    done = run(*words("tools", "call", "ops__write", "text=x", profile='approve_tool = ["ops__write"]'))
    assert (done.code, done.out) == (0, "x\n")
    through = words("tools", "call", "call_tool", "name=ops__write", 'arguments={"text": "y"}')
    assert run(*through).code == 1, "the policy of the file as it is now asks first"
    assert len(far.fake.of("tools/call")) == 1


def test_a_call_of_ours_waits_for_no_server(run: Run, words: Words, far: Far) -> None:
    assert run(*words("tools", "call", "list_trades")).code in (0, 1)
    assert far.fake.seen == []


def test_budget_counts_them(run: Run, words: Words) -> None:
    with_server = json.loads(run(*words("budget", "--as", "cline", "--json")).out)[0]
    without = json.loads(run("budget", "--as", "cline", "--json").out)[0]
    assert with_server["tools"] == without["tools"] + 3
    assert with_server["bytes"] > without["bytes"]


def test_toolsets_show_each_server_with_its_state(run: Run, words: Words) -> None:
    told = {each["name"]: each for each in json.loads(run(*words("toolsets", "list", "--json", away=True)).out)}
    assert (told["mcp-ops"]["tools"], told["mcp-ops"]["status"], told["mcp-ops"]["error"]) == (3, "ready", None)
    assert (told["mcp-wiki"]["tools"], told["mcp-wiki"]["status"]) == (0, "unavailable")
    assert "cannot be reached" in told["mcp-wiki"]["error"]
    assert "status" not in told["core"]


@pytest.mark.parametrize(
    ("name", "profile", "more", "said"),
    [
        ("ops__write", "", 'tool_allowlist = ["read"]', "ops__write is not offered: not in tool_allowlist (MCP server"),
        ("ops__write", 'pin = "strict"', "", "it was not pinned yet"),
        ("ops__write", 'deny_tool = ["ops__*"]', "", "Refused: it is blocked by deny_tool."),
        ("list_trades", 'deny_tool = ["list_*"]', "", "Refused: it is blocked by deny_tool."),
        ("wiki__page", "", "", 'wiki__page is not offered: MCP server "wiki" cannot be reached'),
    ],
)  # fmt: skip
def test_why_explains_a_tool_that_is_not_there(
    run: Run, words: Words, name: str, profile: str, more: str, said: str
) -> None:
    told = run(*words("tools", "why", name, profile=profile, more=more, away=True))
    assert told.code == 0
    assert said in " ".join(told.out.split())


@pytest.mark.parametrize("through", [(), ("call_tool",)])
def test_a_script_is_told_what_lets_a_tool_of_another_server_run(
    run: Run, words: Words, through: tuple[str, ...]
) -> None:
    given = {"name": "ops__write", "arguments": {"text": "x"}} if through else {"text": "x"}
    called = words("tools", "call", *(through or ("ops__write",)), "--json-args", json.dumps(given))
    for more in ((), ("--confirm", "never")):
        refused = run(*called, *more)
        assert refused.code == 1
        assert "for a script, name ops__write in approve_tool" in refused.err
    assert run(*called, "--approve-tool", "ops__write").out.strip() == "x"


def test_why_tells_programs_the_reason_and_the_policy(run: Run, words: Words) -> None:
    absent = json.loads(run(*words("tools", "why", "ops__write", "--json", more='tool_allowlist = ["read"]')).out)
    assert absent["absent"] == {
        "server": "ops", "state": "dropped", "reason": "not_allowed", "detail": "not in tool_allowlist",
    }  # fmt: skip
    offered = json.loads(run(*words("tools", "why", "ops__write", "--json")).out)
    assert (offered["callable"], offered["policy"]) == (True, {"verdict": "confirm", "reason": "upstream tool"})
    unknown = run(*words("tools", "why", "nothing_like_it"))
    assert unknown.code == 2


def test_without_servers_nothing_is_asked_and_nothing_is_different(run: Run, far: Far) -> None:
    told = json.loads(run("tools", "why", "list_trades", "--json").out)
    assert "policy" not in told
    assert far.fake.seen == []


@pytest.mark.one_journal("list_clients takes one of the places that are counted")
def test_a_client_with_a_fixed_list_sees_them_as_far_as_its_limit_reaches(run: Run, words: Words, far: Far) -> None:
    far.fake.tools = [{**TOOL, "name": f"t{number:02}"} for number in range(30)]
    listed = json.loads(run(*words("tools", "list", "--as", "cursor", "--json")).out)
    names = [each["name"] for each in listed]
    assert len(names) == 40
    assert [name for name in names if name.startswith("ops__")] == ["ops__t00", "ops__t01"]
    assert len(json.loads(run(*words("tools", "list", "--as", "cline", "--json")).out)) == 68
    asked_for = json.loads(run(*words("tools", "list", "--as", "cursor", "--json", "--toolsets", "mcp-ops")).out)
    assert sum(each["name"].startswith("ops__") for each in asked_for) == 30, "what is asked for is obeyed"
