"""The command as a person or a script runs it: real processes, with a data directory and a backend of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.places import ROOT
from zorivest_rpc.embedded.locate import find, find_or_start


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def widest(self) -> int:
        return max(map(len, self.out.splitlines()), default=0)


Command = Callable[..., Done]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose journal is served by a running backend."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZORIVEST_KEYRING", "off")
        find_or_start(home / "data")
        yield home
    located = find(home / "data")
    if located is not None:
        os.kill(located.pid, signal.SIGTERM)


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    return {
        **kept,
        "HOME": str(home),
        "ZORIVEST_DATA_DIR": str(home / "data"),
        "ZORIVEST_KEYRING": "off",
        "PYTHONPATH": str(ROOT),
        **more,
    }


@pytest.fixture
def command(home: Path) -> Command:
    """`command("tools", "list", "--as", "cursor")`"""

    def run(*words: str, environ: dict[str, str] | None = None) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "zorivest_rpc", *words],
            env=environment(home, **(environ or {})),
            cwd=home,
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run
