"""One life of the backend inside the test: what it says, where it listens, what it publishes, and when it ends."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.embedded.conftest import CHEAP
from zorivest_rpc import __version__
from zorivest_rpc.embedded import process
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.filelock import FileLock
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.process import Options, run
from zorivest_rpc.embedded.runtime import GENERATION
from zorivest_rpc.embedded.vault.crypto import is_api_key, new_api_key

HANGS = 60  # seconds after which a step that should have come is not coming


class Life:
    """A running backend: its words, its task and itself."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.backend: Embedded | None = None
        self.listens = asyncio.Event()
        self.task: asyncio.Task[int] | None = None

    def say(self, text: str) -> None:
        self.said.append(text)
        if text.startswith("listening on"):
            self.listens.set()


Begin = Callable[..., Any]


def logged(directory: DataDir) -> str:
    return "".join(path.read_text() for path in directory.logs.iterdir())


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "home")


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What a backend does to its own process is noted instead, because this one goes on."""
    asked: list[int] = []
    monkeypatch.setattr(os, "umask", asked.append)
    monkeypatch.setattr(process, "forbid_core_dumps", lambda: asked.append(-1))
    monkeypatch.setattr(Embedded, "create", functools.partial(Embedded.create, kdf=CHEAP))
    return asked


@pytest.fixture
def live(directory: DataDir, masks: list[int], monkeypatch: pytest.MonkeyPatch) -> Begin:
    @asynccontextmanager
    async def begin(**options: Any) -> AsyncIterator[Life]:
        life = Life()

        def make_app(backend: Embedded) -> Any:
            life.backend = backend
            return create_app(backend)

        monkeypatch.setattr(process, "create_app", make_app)
        given = Options(directory.root, use_keyring=False, **options)
        life.task = asyncio.create_task(run(given, life.say))
        async with asyncio.timeout(HANGS):
            await asyncio.wait(
                [life.task, waiting := asyncio.ensure_future(life.listens.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )
            waiting.cancel()
            yield life
            if life.backend is not None:
                life.backend.stop_requested.set()
            await life.task

    return begin


async def test_a_first_start_tells_the_key_once_and_publishes_its_socket(
    live: Begin, directory: DataDir, masks: list[int]
) -> None:
    async with live() as life:
        created, key, listening = life.said
        assert (created, listening) == (
            f"created a journal in {directory.root}",
            f"listening on unix:{directory.socket}",
        )
        words, _, shown = key.rpartition(" ")
        assert words == f"admin API key (shown once, kept in {directory.key_file}):"
        assert is_api_key(shown)
        assert directory.key_file.read_text().strip() == shown
        assert stat.S_IMODE(directory.socket.stat().st_mode) == 0o600
        assert not life.backend.locked
        published = json.loads(directory.runtime.read_bytes())
        assert published.pop("secret") == life.backend.proof_secret
        assert published == {
            "generation": GENERATION,
            "release": __version__,
            "pid": os.getpid(),
            "port": None,
            "started_at": life.backend.started_at.isoformat(),
            "detached": False,
        }
        assert masks == [0o077, -1]
    assert life.task.result() == 0
    assert not directory.runtime.exists()
    assert not directory.socket.exists()
    async with live() as again:
        assert again.said == [f"listening on unix:{directory.socket}"]
        assert not again.backend.locked  # with the stored key


async def test_its_log_files_are_written_while_it_lives_and_no_longer(live: Begin, directory: DataDir) -> None:
    before = list(logging.getLogger("zorivest").handlers)
    async with live():
        assert len(logging.getLogger("zorivest").handlers) == len(before) + 1
    assert logging.getLogger("zorivest").handlers == before
    written = logged(directory)
    assert f"listening on unix:{directory.socket}" in written
    assert "ended" in written


async def test_a_backend_that_is_just_ending_is_waited_for(live: Begin, directory: DataDir) -> None:
    directory.create()
    with FileLock(directory.process_lock) as ending:
        assert ending.acquire()
        asyncio.get_running_loop().call_later(0.3, ending.release)
        async with live(detached=True) as life:
            assert life.said[-1] == f"listening on unix:{directory.socket}"


async def test_what_a_server_starts_shows_no_key_and_says_so_in_what_it_publishes(
    live: Begin, directory: DataDir
) -> None:
    async with live(detached=True) as life:
        assert life.said == [f"created a journal in {directory.root}", f"listening on unix:{directory.socket}"]
        assert json.loads(directory.runtime.read_bytes())["detached"] is True


async def test_the_key_of_the_process_is_adopted_and_not_stored(live: Begin, directory: DataDir) -> None:
    own = new_api_key()
    async with live(api_key=own) as life:
        assert life.said == [f"created a journal in {directory.root}", f"listening on unix:{directory.socket}"]
        assert not life.backend.locked
    assert not directory.key_file.exists()
    async with live() as life:
        assert life.backend.locked  # no key is at hand
    async with live(api_key=new_api_key()) as life:
        assert life.backend.locked  # another one does not open it
    assert "the key from the environment does not open the database" in logged(directory)
    async with live(api_key=own) as life:
        assert not life.backend.locked


async def test_what_is_no_key_founds_no_journal(live: Begin, directory: DataDir) -> None:
    async with live(api_key="no key of ours") as life:
        assert is_api_key(directory.key_file.read_text().strip())
        assert not life.backend.locked  # the stored key is tried after the one that does not fit


async def test_without_a_cipher_the_journal_says_so(
    live: Begin, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "cipher_driver", lambda: None)
    async with live(detached=True) as life:
        assert life.said[0] == (f"created a journal in {directory.root} (NOT encrypted: SQLCipher is not installed)")


async def test_a_chosen_port_is_taken_or_told(live: Begin, directory: DataDir) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with live(port=port) as life:
            assert life.task.done()
            assert life.said[-1] == f"cannot listen on 127.0.0.1:{port}: Address already in use"
            assert life.task.result() == 1
        assert not directory.runtime.exists()
    async with live(port=0) as life:
        published = json.loads(directory.runtime.read_bytes())
        assert life.said[-1] == f"listening on http://127.0.0.1:{published['port']}/api/v1"
        assert published["port"] > 0
        assert not directory.socket.exists()


async def test_without_sockets_it_is_the_usual_port_and_where_that_is_taken_another(
    live: Begin, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "socket_path", lambda directory: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        monkeypatch.setattr(process, "DEFAULT_PORT", usual)
        async with live() as life:
            assert life.said[-1].startswith("listening on http://127.0.0.1:")
            assert json.loads(directory.runtime.read_bytes())["port"] not in (None, usual)


async def test_a_file_system_without_sockets_means_a_port(
    live: Begin, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "socket_path", lambda directory: str(directory.root / "gone" / "backend.sock"))
    monkeypatch.setattr(process, "DEFAULT_PORT", 0)
    async with live() as life:
        assert life.said[-1].startswith("listening on http://127.0.0.1:")
    assert "(No such file or directory): listening on a port instead" in logged(directory)


async def test_a_socket_that_a_dead_backend_left_is_replaced(live: Begin, directory: DataDir) -> None:
    directory.create()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(directory.socket))
        async with live() as life:
            assert life.said[-1] == f"listening on unix:{directory.socket}"
            reader, writer = await asyncio.open_unix_connection(str(directory.socket))
            writer.write(b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()


async def test_a_database_without_its_vault_is_not_touched(live: Begin, directory: DataDir) -> None:
    directory.create().database.write_bytes(b"something")
    async with live() as life:
        assert life.said == [
            f"cannot start: {directory.bootstrap} is gone and {directory.database} needs it: restore it."
        ]
        assert life.task.result() == 1
    assert directory.database.read_bytes() == b"something"
    assert not directory.bootstrap.exists()


@pytest.mark.parametrize(("locked", "words"), [(False, ["demo data: 3 trades, already loaded"]), (True, [])])
async def test_demo_data_is_loaded_into_an_open_journal(
    live: Begin, monkeypatch: pytest.MonkeyPatch, locked: bool, words: list[str]
) -> None:
    async def load(backend: Embedded) -> dict[str, Any]:
        return {"trades": 3, "status": "already_loaded"}

    monkeypatch.setattr(process, "load_into", load)
    own = new_api_key()
    async with live(api_key=own):
        pass
    async with live(demo=True, api_key=None if locked else own) as life:
        assert life.said[:-1] == words


# --- the idle end


class Idle:
    """A backend that can be busy for one reason or another; the clock moves with each wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, busy: dict[int, dict[str, Any]]) -> None:
        self.now = 0.0
        self.last_used = 0.0
        self.waits: list[float] = []
        self.stop_requested = asyncio.Event()
        self.running_requests = 0
        self.scheduling = SimpleNamespace(busy=False)
        self.guard = SimpleNamespace(is_saved=True)
        self._busy = busy

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)
            self.now += seconds
            self._become(busy.get(len(self.waits), {}))

        monkeypatch.setattr(asyncio, "sleep", sleep)
        self._become(busy.get(0, {}))

    def _become(self, state: dict[str, Any]) -> None:
        self.running_requests = state.get("running", 0)
        self.scheduling.busy = state.get("scheduled", False)
        self.guard.is_saved = state.get("saved", True)
        self.last_used = state.get("used", self.last_used)

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("busy", "waits"),
    [
        ({}, [10]),
        ({1: {"running": 1}}, [10, 10]),
        ({1: {"scheduled": True}}, [10, 10]),
        ({1: {"saved": False}}, [10, 10]),
        ({1: {"used": 4.0}}, [10, 4]),
        ({1: {"used": 0.01}}, [10, 0.05]),
        ({0: {"running": 1}, 1: {"running": 1}, 2: {"running": 1}}, [10, 10, 10]),
    ],
)
async def test_a_backend_ends_when_it_was_not_used_for_its_idle_time(
    monkeypatch: pytest.MonkeyPatch, busy: dict[int, dict[str, Any]], waits: list[float]
) -> None:
    backend: Any = Idle(monkeypatch, busy)
    await process._watch_idle(backend, 10)
    assert backend.waits == waits
    assert backend.stop_requested.is_set()


@pytest.mark.parametrize("seconds", [0, -1])
async def test_without_an_idle_time_it_stays(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    backend: Any = Idle(monkeypatch, {})
    await process._watch_idle(backend, seconds)
    assert (backend.waits, backend.stop_requested.is_set()) == ([], False)


def test_unless_told_otherwise_it_is_a_persons_on_the_socket_for_ever_with_the_keyring() -> None:
    assert Options(Path("d")) == Options(Path("d"), None, 0.0, None, use_keyring=True, detached=False, demo=False)
    assert process.DEFAULT_PORT == 8765  # where clients and the neighbour of this machine look
