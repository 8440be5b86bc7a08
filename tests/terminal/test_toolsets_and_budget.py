"""`toolsets list | show` and `budget` on the terminal."""

from __future__ import annotations

import pytest

from tests.catalogue import ALL, count, toolsets
from tests.terminal.conftest import Command


@pytest.mark.one_journal("a command shows the list as a server has it, and list_clients is one more in it")
def test_the_toolsets_are_a_table_with_counts_and_sizes(command: Command) -> None:
    done = command("toolsets", "list")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["TOOLSET", "TOOLS", "LISTED", "BYTES", "COVERS"]
    assert [line[1] for line in lines[1:]] == [str(count(name)) for name in toolsets()]
    assert done.widest <= 80
    assert "\x1b" not in done.out


def test_the_toolsets_as_json_say_what_is_listed_for_that_client(command: Command) -> None:
    told = {each["name"]: each for each in command("toolsets", "list", "--as", "cursor", "--json").json}
    assert [name for name, each in told.items() if each["loaded"]] == [
        "core",
        "discovery",
        "trade-analytics",
        "trade-planning",
    ]
    rich = {each["name"]: each for each in command("toolsets", "list", "--as", "claude-code", "--json").json}
    assert all(each["loaded"] for each in rich.values())
    assert rich["tax"]["bytes"] > told["tax"]["bytes"] > 1000


def test_one_toolset_is_shown_with_its_tools(command: Command) -> None:
    done = command("toolsets", "show", "tax")
    assert done.code == 0
    assert len(done.out.splitlines()) == 1 + count("tax")
    assert done.widest <= 80
    told = command("toolsets", "show", "trade-planning", "--as", "cursor", "--json").json
    assert [each["name"] for each in told] == ["calculate_position_size", "create_trade_plan", "create_trade"]
    assert all(each["listed"] for each in told)
    sizes = command("toolsets", "list", "--as", "cursor", "--json").json
    assert sum(each["bytes"] for each in told) == next(
        each["bytes"] for each in sizes if each["name"] == "trade-planning"
    )


def test_misuse_of_toolsets_ends_with_2_and_the_nearest_name(command: Command) -> None:
    for words in ((), ("show",), ("lsit",)):
        assert command("toolsets", *words).code == 2
    assert "did you mean list?" in command("toolsets", "lsit").err
    done = command("toolsets", "show", "taxes")
    assert done.code == 2
    assert "did you mean tax?" in done.err


def test_the_budget_compares_the_kinds_of_client(command: Command) -> None:
    done = command("budget")
    assert done.code == 0
    assert done.widest <= 80
    assert [line.split()[0] for line in done.out.splitlines()] == ["CLIENT", "Claude", "Visual", "Cursor"]


def test_the_budget_says_when_a_list_is_too_long(command: Command) -> None:
    done = command("budget", "--toolsets", "all")
    assert done.out.splitlines()[-1] == "Cursor works best with at most 40 tools; choose fewer with --toolsets."
    assert done.widest <= 80


@pytest.mark.one_journal("a command shows the list as a server has it, and list_clients is one more in it")
def test_the_budget_of_one_client_is_the_size_of_its_list(command: Command) -> None:
    (told,) = command("budget", "--as", "cursor", "--json").json
    listed = command("tools", "list", "--as", "cursor", "--json").json
    assert (told["tools"], told["tool_limit"], told["share_of_limit"]) == (len(listed), 40, round(len(listed) / 40, 2))
    assert told["estimated_tokens"] == told["bytes"] // 4
    (more,) = command("budget", "--as", "cursor", "--toolsets", "all", "--json").json
    assert more["tools"] == ALL
    assert more["share_of_limit"] > 1
    assert more["bytes"] > told["bytes"]


def test_misuse_of_the_budget_ends_with_2(command: Command) -> None:
    assert command("budget", "all").code == 2
    done = command("budget", "--as", "nobody-knows-it")
    assert done.code == 2
    assert "no client" in done.err
