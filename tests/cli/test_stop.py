"""`zorivest-rpc stop` and `unlock`: a person's brake on a real backend, with a full disk and with a weak key."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.embedded.vault.test_passphrase import type_at
from tests.places import ROOT
from zorivest_rpc.cli.admin import Admin, RequestRefused
from zorivest_rpc.embedded.locate import find


class Journal:
    """A data directory, its commands and its backend process."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
        self.environ |= {"ZORIVEST_DATA_DIR": str(home), "ZORIVEST_KEYRING": "off"}

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "zorivest_rpc", *words],
            cwd=ROOT,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            start_new_session=True,
        )

    def type(self, answer: str, *words: str) -> tuple[int, str]:
        return type_at([sys.executable, "-m", "zorivest_rpc", *words], self.environ, [answer])

    def admin(self) -> Admin:
        return Admin(self.home, environ=self.environ)

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.admin().ask("GET", "/mcp-guard/status")
        return status

    @property
    def pid(self) -> int:
        located = find(self.home)
        assert located is not None
        return located.pid

    def kill(self) -> None:
        process = psutil.Process(self.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def end(self) -> None:
        if located := find(self.home):
            process = psutil.Process(located.pid)
            process.terminate()
            process.wait(30)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "home")
    yield journal
    journal.end()


def test_a_person_stops_and_only_a_person_at_a_terminal_releases_it(journal: Journal) -> None:
    stopped = journal.run("stop", "--reason", "enough")
    assert stopped.returncode == 0, stopped.stderr
    assert "zorivest-rpc unlock" in stopped.stdout
    assert "locked by a person" in stopped.stdout
    assert "reason: enough" in stopped.stdout
    tool = journal.run("tools", "call", "zorivest_emergency_unlock", "confirm=UNLOCK", "--json")
    assert tool.returncode == 1
    assert json.loads(tool.stdout)["_meta"]["com.zorivest/error"]["code"] == "locked_by_person"
    piped = journal.run("unlock")
    assert (piped.returncode, "terminal" in piped.stderr) == (1, True)
    code, shown = journal.type("no", "unlock")
    assert (code, "Still locked" in shown) == (1, True), shown
    assert journal.status()["locked_by"] == "person"
    code, shown = journal.type("unlock", "unlock")
    assert (code, "Unlocked" in shown) == (0, True), shown
    assert journal.status()["is_locked"] is False
    again = journal.run("unlock", "--json")
    assert (again.returncode, json.loads(again.stdout)["is_locked"]) == (0, False)


def test_a_stop_works_with_a_key_that_may_only_read_and_through_a_named_backend(journal: Journal) -> None:
    reader = journal.admin().ask("POST", "/auth/keys", {"label": "reader", "role": "read-only"})["raw_key"]
    located = find(journal.home)
    assert located is not None
    given = {"ZORIVEST_API_KEY": reader}
    stopped = journal.run("stop", "--json", **given)
    assert (stopped.returncode, json.loads(stopped.stdout)["locked_by"]) == (0, "person"), stopped.stderr
    journal.admin().ask("POST", "/mcp-guard/unlock", {"by": "person"})
    tool = journal.run("tools", "call", "zorivest_emergency_stop", "--confirm", "never", **given)
    assert (tool.returncode, journal.status()["locked_by"]) == (0, "tool"), tool.stderr
    journal.admin().ask("POST", "/mcp-guard/unlock")
    assert reader not in stopped.stdout + stopped.stderr + tool.stdout + tool.stderr


def test_a_stop_with_a_full_disk_holds_and_survives_a_kill(journal: Journal) -> None:
    """No file of the backend process may grow: what a full disk does, done by the kernel."""
    admin = journal.admin()
    admin.ask("GET", "/settings")
    resource.prlimit(journal.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    with pytest.raises(RequestRefused):
        admin.ask("PUT", "/settings", {"ui.theme": "light"})
    stopped = journal.run("stop", "--reason", "full", "--json")
    assert stopped.returncode == 0, stopped.stderr
    status = json.loads(stopped.stdout)
    assert (status["is_locked"], status["locked_by"], status["lock_reason"]) == (True, "person", "full")
    assert admin.ask("POST", "/mcp-guard/check")["allowed"] is False
    journal.kill()
    status = journal.status()  # a new process, which may write again
    assert (status["is_locked"], status["locked_by"], status["is_saved"]) == (True, "person", True)


def test_a_lock_in_memory_alone_is_told(journal: Journal) -> None:
    journal.admin()
    resource.prlimit(journal.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    for by in ("person", "tool", "rate"):  # a directory in the way of each mark
        (journal.home / f"guard.locked-by-{by}").symlink_to("/proc/nowhere/nothing")
    stopped = journal.run("stop")
    assert stopped.returncode == 0
    assert "in memory alone" in stopped.stderr
    assert "Free some space" in stopped.stderr


@pytest.mark.parametrize("words", [["stop", "--reason", ""], ["stop", "--reason", "x" * 101], ["stop", "now"]])
def test_a_misused_stop_is_told_and_stops_nothing(journal: Journal, words: list[str]) -> None:
    assert journal.run(*words).returncode == 2
    assert find(journal.home) is None


def test_a_stop_that_cannot_be_sent_is_no_stop(journal: Journal) -> None:
    key = "zrv_sk_" + "x" * 32
    refused = journal.run("stop", "--api-url", "http://127.0.0.1:9", ZORIVEST_API_KEY=key)
    assert (refused.returncode, "does not answer" in refused.stderr) == (1, True)
    assert journal.run("stop", "--api-url", "http://127.0.0.1:9").returncode == 1
    assert journal.run("stop", "--api-url", "nonsense", ZORIVEST_API_KEY=key).returncode == 2


def test_a_reason_cannot_move_the_cursor(journal: Journal) -> None:
    journal.admin().ask("POST", "/mcp-guard/lock", {"reason": "\x1b[2K\x1b[1AThe guard is open"})
    piped = journal.run("unlock")
    assert "\x1b" not in piped.stderr
    assert "locked by a tool" in piped.stderr


def test_neither_command_is_a_tool(journal: Journal) -> None:
    listed = journal.run("tools", "list", "--json", "--toolsets", "all")
    names = {tool["name"] for tool in json.loads(listed.stdout)}
    assert not {"stop", "unlock"} & names
    assert "zorivest_emergency_stop" in names
