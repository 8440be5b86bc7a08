"""The scheduler in its real process: approved at a terminal, killed in the middle, started again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.embedded.asking import ask
from tests.places import ROOT
from zorivest_rpc.cli import approve
from zorivest_rpc.embedded.locate import find_or_start, stored_key
from zorivest_rpc.embedded.process import _watch_idle

from .conftest import MAIL, RENDER, REPORT, document
from .mailbox import Mailbox, serve

ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
ENVIRON["ZORIVEST_KEYRING"] = "off"


class Home:
    """A data directory with a backend process, and a caller of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pid = 0
        self._token = ""

    def start(self) -> None:
        located = find_or_start(self.path, port=0, environ=ENVIRON)
        self.pid, self._located, self._token = located.pid, located, ""
        key = stored_key(self.path, {"ZORIVEST_KEYRING": "off"})
        self._token = self.ask("POST", "/auth/unlock", {"api_key": key})["session_token"]

    def kill(self) -> None:
        process = psutil.Process(self.pid)
        process.send_signal(signal.SIGKILL)
        with contextlib.suppress(psutil.NoSuchProcess):
            process.wait(20)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return ask(self._located, method, path, body, self._token)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    monkeypatch.delenv("ZORIVEST_API_KEY", raising=False)
    home = Home(tmp_path / "home")
    home.start()
    yield home
    with contextlib.suppress(psutil.NoSuchProcess):
        home.kill()


def at_terminal(home: Home, name: str, answer: str) -> tuple[int, str]:
    """What `approve` says to somebody at a terminal who types an answer."""
    ours, theirs = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-m", "zorivest_rpc", "approve", name, "--data-dir", str(home.path)],
            cwd=ROOT,
            env=ENVIRON,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        os.write(ours, f"{answer}\n".encode())
        output, _ = child.communicate(timeout=60)
        return child.returncode, output.decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_person_approves_at_a_terminal_and_a_pipe_cannot(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = {**document(REPORT, RENDER, MAIL), "metadata": {"description": "fine\x1b[2K\rhidden"}}
    policy = home.ask("POST", "/scheduling/policies", {"policy_json": hostile})
    path = f"/scheduling/policies/{policy['id']}"

    sys_stdin, sys.stdin = sys.stdin, io.StringIO("approve\n")
    try:
        assert approve.run([policy["id"], "--data-dir", str(home.path)]) == 1
    finally:
        sys.stdin = sys_stdin
    assert "needs a person at a terminal" in capsys.readouterr().err
    assert not home.ask("GET", path)["approved"]

    code, said = at_terminal(home, "Daily", "no")
    assert (code, "Not approved." in said) == (1, True)
    for shown in (policy["content_hash"], "me@example.org", "SELECT count(*) AS n FROM accounts", "0 8 * * * (UTC)"):
        assert shown in said
    assert "\x1b" not in said
    assert not home.ask("GET", path)["approved"]

    code, said = at_terminal(home, "Daily", "approve")
    assert (code, 'Approved "Daily". Next run:' in said) == (0, True)
    approved = home.ask("GET", path)
    assert approved["approved"]
    token = (home.path / "approval.token").read_text().strip()
    assert token not in said
    logs = "".join(file.read_text() for file in (home.path / "logs").iterdir())
    assert token not in logs

    assert approve.run([policy["id"][:8], "--data-dir", str(home.path)]) == 0
    assert approve.run(["--data-dir", str(home.path)]) == 0
    assert f"{policy['id']}  approved  Daily" in capsys.readouterr().out
    assert approve.run(["nothing", "--data-dir", str(home.path)]) == 1
    assert 'there is no policy "nothing"' in capsys.readouterr().err


async def test_a_kill_while_a_mail_is_sent_is_told_and_the_mail_is_not_repeated(home: Home) -> None:
    box = Mailbox()
    box.go = asyncio.Event()
    async with serve(box):
        server = {"host": "127.0.0.1", "port": box.port, "security": "none", "from_email": "j@example.org"}
        await asyncio.to_thread(home.ask, "PUT", "/scheduling/email", server)
        body = {"policy_json": document(REPORT, RENDER, MAIL)}
        policy = await asyncio.to_thread(home.ask, "POST", "/scheduling/policies", body)
        code, _ = await asyncio.to_thread(at_terminal, home, "Daily", "approve")
        assert code == 0
        path = f"/scheduling/policies/{policy['id']}/run"
        under_way = asyncio.create_task(asyncio.to_thread(home.ask, "POST", path, {}))
        async with asyncio.timeout(30):
            await box.arrived.wait()  # the whole content is with the server, which has not answered yet
        await asyncio.to_thread(home.kill)
        with pytest.raises((OSError, ValueError)):
            await under_way
        box.go.set()

        await asyncio.to_thread(home.start)
        (killed,) = await asyncio.to_thread(home.ask, "GET", "/scheduling/runs")
        assert (killed["status"], killed["error"]) == ("failed", 'The process ended during step "deliver".')
        assert [one["status"] for one in killed["steps"]] == ["success", "success", "failed"]
        again = await asyncio.to_thread(home.ask, "POST", path, {})
        assert again["status"] == "failed"
        assert "may have arrived and is not sent again" in again["error"]
    assert len(box.messages) <= 1


async def test_a_schedule_keeps_an_idle_process_alive() -> None:
    class Busy:
        busy = True

    class Backend:
        running_requests = 0
        last_used = 0.0
        scheduling = Busy()
        stop_requested = asyncio.Event()

        @staticmethod
        def clock() -> float:
            return 1000.0

    backend: Any = Backend()
    watching = asyncio.create_task(_watch_idle(backend, 5.0))
    await asyncio.sleep(0)
    assert backend.last_used == 1000.0
    assert not backend.stop_requested.is_set()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
