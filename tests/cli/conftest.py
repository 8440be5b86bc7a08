"""A home directory of its own for every test, and the commands run in it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from zorivest_rpc.__main__ import main


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]

SCRUBBED = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "CLINE_MCP_SETTINGS_PATH")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import os

    for name in [
        *SCRUBBED,
        "CLINE_DATA_DIR",
        "CLAUDECODE",
        "CLIENTS_CONFIG",
        *(name for name in os.environ if name.startswith("ZORIVEST_")),
    ]:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    return home


@pytest.fixture
def run(home: Path) -> Run:
    """The command line in this process: exit code, stdout, stderr."""

    def command(*words: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(list(words))
            except SystemExit as exit:
                code = int(exit.code or 0)
        return Ran(code, out.getvalue(), err.getvalue())

    return command


@pytest.fixture
def config(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, and a working directory without one."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    path = home / ".config" / "zorivest" / "config.toml"
    path.parent.mkdir(parents=True)
    return path
