"""What holds for every command: it has a help, and what it does not know is misuse."""

from __future__ import annotations

from importlib import import_module

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


@pytest.mark.parametrize(
    "words", [("now",), ("--verbose",), ("--json", "x"), ("--as", "cursor", "x"), ("--start", "x")]
)
def test_a_word_that_doctor_does_not_know_is_misuse_and_named(run: Run, words: tuple[str, ...]) -> None:
    ran = run("doctor", *words)
    assert (ran.code, ran.out) == (2, "")
    assert f"{words[-1]}: unknown option of doctor" in ran.err


@pytest.mark.parametrize("command", ["tools", "toolsets", "budget", "doctor"])
def test_a_flag_without_its_value_is_misuse(run: Run, command: str) -> None:
    for flag in ("--as", "--data-dir"):
        ran = run(command, flag)
        assert (ran.code, ran.out) == (2, "")
        assert f"{flag}: a value is missing" in ran.err


@pytest.mark.parametrize("words", [("--read-only", "list"), ("list", "--read-only"), ("--read-only=yes", "list")])
def test_a_switch_takes_no_word_after_it(run: Run, words: tuple[str, ...]) -> None:
    ran = run("toolsets", *words)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("TOOLSET")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_module_is_entered_by_run_and_by_nothing_else(command: str) -> None:
    module = import_module(f"zorivest_rpc.cli.{command}")
    assert "run" in module.__all__
    assert not hasattr(module, "main")
