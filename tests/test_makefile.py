"""What `make run` and `make setup` install, and when again; pip itself is replaced by a word that is printed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT

RUN, ALL = "pip -e .[speed]", "pip -e .[dev,speed]"
SERVE = "serve --demo"


class Clone:
    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, root / name)
            os.utime(root / name, (1_000_000, 1_000_000))  # older than every stamp
        command = root / ".venv" / "bin" / "zorivest-rpc"
        command.parent.mkdir(parents=True)
        command.write_text('#!/bin/sh\necho "$@"\n')
        command.chmod(0o755)

    def make(self, target: str, install: str = "echo pip", *, fails: bool = False) -> list[str]:
        """The installs and the start that a target comes to, in order."""
        done = subprocess.run(
            ["make", target, "PYTHON=true", f"INSTALL={install}"],
            cwd=self.root,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) is fails, done.stderr
        return [line for line in done.stdout.splitlines() if line.startswith(("pip", "serve"))]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def test_running_installs_what_it_needs_and_only_once(clone: Clone) -> None:
    assert clone.make("run") == [RUN, SERVE]
    assert clone.make("run") == [SERVE]


def test_setting_up_adds_the_rest(clone: Clone) -> None:
    assert clone.make("run") == [RUN, SERVE]
    assert clone.make("setup") == [ALL]
    assert clone.make("setup") == []
    assert clone.make("run") == [SERVE]


def test_setting_up_first_leaves_nothing_to_install_for_running(clone: Clone) -> None:
    assert clone.make("setup") == [RUN, ALL]
    assert clone.make("run") == [SERVE]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_change_of_the_versions_installs_both_again(clone: Clone, name: str) -> None:
    clone.make("setup")
    for stamp in (".runnable", ".ready"):
        os.utime(clone.root / ".venv" / stamp, (2_000_000, 2_000_000))
    os.utime(clone.root / name, (3_000_000, 3_000_000))
    assert clone.make("run") == [RUN, SERVE]
    assert clone.make("setup") == [ALL], "what the first part changed, the second has to fit again"
    assert clone.make("setup") == []


def test_an_install_that_failed_is_taken_up_again(clone: Clone) -> None:
    assert clone.make("run", "false", fails=True) == []
    assert clone.make("run") == [RUN, SERVE]
    assert clone.make("setup", "false", fails=True) == []
    assert clone.make("run") == [SERVE]
    assert clone.make("setup") == [ALL]
