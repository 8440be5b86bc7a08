"""Who decides what is listed at start: flag, environment, the toolset file for this client, its default, ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.catalogue import ALWAYS, count
from tests.serving.product.conftest import Connect

FILE = {
    "defaultToolsets": ["tax"],
    "clientOverrides": {"cursor": ["behavioral"], "claude-code": ["all"], "gemini-cli": ["accounts", "market-data"]},
    "clientModes": {"zed": "static"},
}
OWN = {
    "core": "get_settings",
    "tax": "get_tax_lots",
    "behavioral": "track_mistake",
    "scheduling": "list_policies",
    "market-data": "get_stock_quote",
    "accounts": "list_brokers",
    "trade-planning": "create_trade_plan",
}


def written(path: Path, content: Any) -> dict[str, str]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return {"ZORIVEST_TOOLSET_CONFIG": str(path)}


async def shown(connect: Connect, name: str, *options: str, environ: dict[str, str]) -> set[str]:
    names = set(await (await connect(name, *options, environ=environ)).names())
    return {toolset for toolset, tool in OWN.items() if tool in names}


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        (("--toolsets", "scheduling"), {"ZORIVEST_TOOLSETS": "market-data"}, {"core", "scheduling"}),
        ((), {"ZORIVEST_TOOLSETS": "market-data"}, {"core", "market-data"}),
        ((), {}, {"core", "behavioral"}),
    ],
)
async def test_the_flag_beats_the_variable_and_the_variable_the_file(
    connect: Connect, tmp_path: Path, options: tuple[str, ...], environ: dict[str, str], expected: set[str]
) -> None:
    file = written(tmp_path / "toolsets.json", FILE)
    assert await shown(connect, "cursor", *options, environ={**file, **environ}) == expected


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("cursor-vscode", {"core", "behavioral"}),  # every alias of the client that a key names
        ("Windsurf", {"core", "tax"}),  # nobody named it, so the file's default
        ("gemini-cli-mcp-client", {"core", "accounts", "market-data"}),
        ("claude-code", set(OWN)),
    ],
)
async def test_the_file_decides_per_client_and_then_for_the_rest(
    connect: Connect, tmp_path: Path, client: str, expected: set[str]
) -> None:
    assert await shown(connect, client, environ=written(tmp_path / "toolsets.json", FILE)) == expected


async def test_the_file_can_decide_the_mode(connect: Connect, tmp_path: Path) -> None:
    environ = written(tmp_path / "toolsets.json", FILE)
    client = (await (await connect("Zed", environ=environ)).call("zorivest_diagnose"))["structuredContent"]["client"]
    assert client["mode"] == "static"
    assert "clientModes" in client["reason"] or "toolset" in client["reason"]


async def test_the_file_in_the_data_directory_is_read_without_being_named(connect: Connect, data_dir: Path) -> None:
    path = data_dir / "toolset-config.json"
    written(path, {"defaultToolsets": ["scheduling"]})
    try:
        assert await shown(connect, "cursor", environ={}) == {"core", "scheduling"}
    finally:
        os.unlink(path)
    assert await shown(connect, "cursor", environ={}) == {"core", "trade-planning"}


async def test_an_option_of_the_configuration_file_is_below_flag_and_variable(connect: Connect, tmp_path: Path) -> None:
    config = tmp_path / "zorivest.toml"
    config.write_text('toolsets = "tax"\n')
    named = ("--config", str(config))
    assert await shown(connect, "cursor", *named, environ={}) == {"core", "tax"}
    assert await shown(connect, "cursor", *named, environ={"ZORIVEST_TOOLSETS": "behavioral"}) == {"core", "behavioral"}
    assert await shown(connect, "cursor", *named, "--toolsets", "scheduling", environ={}) == {"core", "scheduling"}


async def test_tools_alone_are_listed_beside_what_is_always_loaded(connect: Connect) -> None:
    names = await (await connect("cursor", "--tools", "list_trades,get_tax_lots")).names()
    assert len(names) == ALWAYS + 2
    both = await (await connect("cursor", "--toolsets", "behavioral", "--tools", "list_trades")).names()
    assert len(both) == ALWAYS + count("behavioral") + 1


async def test_an_anthropic_client_with_a_choice_lists_the_chosen_ones_marked_alike(connect: Connect) -> None:
    tools = await (await connect("claude-code", "--toolsets", "tax")).tools()
    deferred = {tool["name"] for tool in tools if tool["_meta"].get("defer_loading")}
    eager = {tool["name"] for tool in tools if tool["_meta"].get("anthropic/alwaysLoad")}
    assert (len(tools), len(deferred), len(eager)) == (ALWAYS + count("tax"), count("tax"), ALWAYS)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "toolsets.json"),
        ('{"defaultToolset": ["tax"]}', "defaultToolset"),
        ('{"defaultToolsets": ["taxes"]}', 'did you mean "tax"?'),
        ('{"clientOverrides": {"cursor": ["behaviour"]}}', "clientOverrides.cursor"),
        ('{"clientModes": {"cursor": "lively"}}', "lively"),
        (None, "does not exist"),
    ],
)
@pytest.mark.parametrize("command", ["stdio", "serve"])
def test_a_toolset_file_that_cannot_be_meant_stops_the_start_with_2(
    command: str, content: str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "toolsets.json"
    if content is not None:
        path.write_text(content)
    environ = {**os.environ, "HOME": str(tmp_path), "ZORIVEST_TOOLSET_CONFIG": str(path)}
    done = subprocess.run(
        [sys.executable, "-m", "zorivest_rpc", command],
        env=environ,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
