"""What holds for every command: it has a help, and what it does not know is misuse."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Run
from tests.docs.__main__ import help_of
from zorivest_rpc.__main__ import COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_that_begins_with_its_usage(command: str) -> None:
    assert help_of(command).startswith(f"usage: zorivest-rpc {command}")


def test_the_help_of_serve_names_every_path_that_is_served(run: Run) -> None:
    told = run("serve", "--help").out
    assert [path for path in ("/mcp", "/sse", "/messages", "/health", "/ready", "/metrics") if path not in told] == []
    assert "/metrics" in run("--help").out


@pytest.mark.parametrize("words", [("--verbose",), ("now",), ("--json", "x")])
def test_a_word_that_version_does_not_know_is_misuse(run: Run, words: tuple[str, ...]) -> None:
    ran = run("version", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "usage: zorivest-rpc version" in ran.err
