"""Embedded tenants: who gets one of the few places, and what becomes of the processes; real backends throughout."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.locate import Located, find, is_held, stored_key
from zorivest_rpc.embedded.wake import LEAD, read_due
from zorivest_rpc.serving.backend.interface import Address
from zorivest_rpc.tenants.embedded import EmbeddedTenants, NoPlace, clean_environ, directory_of, left_behind

ENVIRON = {**os.environ, "ZORIVEST_API_KEY": "zrv_sk_of_the_server", "CLIENTS_CONFIG": "{}", "B_KEY": "planted"}
WAIT = 30.0


class Journals:
    """Three tenants in one data directory, and what is asked of their backends beside the server."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir

    def server(self, most: int = 2, **more: Any) -> EmbeddedTenants:
        return EmbeddedTenants(self.data_dir, ("a", "b", "c"), environ=ENVIRON, secrets=("B_KEY",), most=most, **more)

    def located(self, id: str) -> Located:
        located = find(directory_of(self.data_dir, id))
        assert located is not None
        return located

    def runs(self, id: str) -> bool:
        return is_held(directory_of(self.data_dir, id))

    def ask(self, id: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        directory = directory_of(self.data_dir, id)
        key = stored_key(directory, {"ZORIVEST_KEYRING": "off"})
        with closing(self.located(id).connect(20)) as connection:
            _, data, _ = connection.ask("POST", "/auth/unlock", {"api_key": key})
            token = json.loads(data)["session_token"]
            status, data, _ = connection.ask(
                method, path, body, {**(headers or {}), "Authorization": f"Bearer {token}"}
            )
        assert status < 400, data
        return json.loads(data) if data else None

    def hold(self, id: str) -> socket.socket:
        """A connection with a request that the backend has begun to handle, because it asked for its body."""
        path = self.located(id).address.socket
        assert path is not None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(WAIT)
        connection.connect(path)
        head = "POST /api/v1/auth/unlock HTTP/1.1", "Host: localhost", "Content-Length: 9", "Expect: 100-continue"
        connection.sendall("\r\n".join((*head, "", "")).encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100")
        return connection

    def end(self) -> None:
        for id in ("a", "b", "c"):
            located = find(directory_of(self.data_dir, id))
            if located is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process = psutil.Process(located.pid)
                    process.terminate()
                    process.wait(20)


@pytest.fixture
def journals(tmp_path: Path) -> Iterator[Journals]:
    made = Journals(tmp_path / "data")
    yield made
    made.end()


@pytest.fixture
async def embedded(journals: Journals) -> AsyncIterator[EmbeddedTenants]:
    made = journals.server()
    yield made
    await made.close()


async def call(embedded: EmbeddedTenants, id: str) -> int:
    """One call; its backend's process."""
    async with embedded.use(id, WAIT):
        await embedded.locate(id)
        located = await asyncio.to_thread(find, embedded.directory(id))
    assert located is not None
    return located.pid


async def until_gone(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(psutil.Process(pid).wait, WAIT)


# --- one of its own


async def test_each_tenant_has_a_journal_of_its_own(embedded: EmbeddedTenants, journals: Journals) -> None:
    first = await call(embedded, "a")
    assert await call(embedded, "a") == first
    assert await call(embedded, "b") != first
    directories = [embedded.directory(id) for id in ("a", "b")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (*directories, directories[0].parent)] == [0o700] * 3
    keys = [embedded.key(id) for id in ("a", "b")]
    assert len({*keys, "zrv_sk_of_the_server", None}) == 4
    assert [DataDir(path).key_file.read_text().strip() for path in directories] == keys
    journals.ask(
        "a",
        "POST",
        "/trades",
        {
            "account_id": "ACC",
            "exec_id": "E1",
            "instrument": "AAPL",
            "action": "BOT",
            "quantity": 1,
            "price": 1.0,
            "time": "2026-01-05T15:00:00Z",
        },
    )
    found = [journals.ask(id, "GET", "/trades")["total"] for id in ("a", "b")]
    assert found == [1, 0]


def test_the_process_of_a_tenant_is_handed_no_secret_of_another() -> None:
    kept = clean_environ(ENVIRON, ("B_KEY",))
    assert [name for name in kept if name.startswith("ZORIVEST_") or name in ("CLIENTS_CONFIG", "B_KEY")] == [
        "ZORIVEST_KEYRING"
    ]
    assert kept["PATH"] == ENVIRON["PATH"]


async def test_what_is_not_configured_as_embedded_has_no_backend(embedded: EmbeddedTenants) -> None:
    with pytest.raises(KeyError):
        await embedded.locate("../a")
    with pytest.raises(KeyError):
        async with embedded.use("ghost", 1.0):
            pass


def test_a_journal_without_an_entry_is_told_and_left(tmp_path: Path) -> None:
    for name in ("a", "old"):
        directory = directory_of(tmp_path, name)
        directory.mkdir(parents=True)
        DataDir(directory).bootstrap.write_text("{}")
    (tmp_path / "tenants" / "empty").mkdir()
    assert left_behind(tmp_path, ("a", "b")) == ["old"]
    assert left_behind(tmp_path / "none", ()) == []


# --- few at once


async def test_the_one_idle_for_longest_ends_for_another(embedded: EmbeddedTenants, journals: Journals) -> None:
    pids = [await call(embedded, id) for id in ("a", "b", "a", "c")]
    await until_gone(pids[1])
    assert (journals.runs("a"), journals.runs("b"), journals.runs("c")) == (True, False, True)
    assert embedded.running == ("a", "c")


async def test_one_in_use_never_ends_and_a_call_without_a_place_is_told_in_time(
    embedded: EmbeddedTenants, journals: Journals
) -> None:
    async with embedded.use("a", WAIT), embedded.use("b", WAIT):
        pids = [await embedded.locate(id) and journals.located(id).pid for id in ("a", "b")]
        with pytest.raises(NoPlace, match=r'"c" within 0\.2 s; 2 are in use'):
            async with embedded.use("c", 0.2):
                pass
        assert [journals.located(id).pid for id in ("a", "b")] == pids
    assert await call(embedded, "c")


async def test_places_go_to_those_who_wait_longest(embedded: EmbeddedTenants) -> None:
    order: list[str] = []
    both = contextlib.AsyncExitStack()
    for id in ("a", "b"):
        await both.enter_async_context(embedded.use(id, WAIT))
    entered = asyncio.Event()

    async def wait_for(id: str, number: int) -> None:
        async with embedded.use(id, WAIT):
            order.append(f"{id}{number}")
            entered.set()

    async with asyncio.TaskGroup() as waiting:
        for number in range(3):
            waiting.create_task(wait_for("c", number))
        await asyncio.sleep(0)
        assert order == []
        async with asyncio.timeout(WAIT):
            await both.aclose()
            await entered.wait()
    assert order == ["c0", "c1", "c2"]


async def test_a_call_that_is_cancelled_while_it_waits_blocks_no_other(embedded: EmbeddedTenants) -> None:
    async with embedded.use("a", WAIT):
        async with embedded.use("b", WAIT):
            first = asyncio.create_task(call(embedded, "c"))
            await asyncio.sleep(0)
            second = asyncio.create_task(call(embedded, "c"))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
        async with asyncio.timeout(WAIT):
            assert await second
    assert "c" in embedded.running


async def test_one_that_is_used_by_another_program_is_not_ended(journals: Journals) -> None:
    """The backend knows: here a request of another program still runs in it."""
    embedded = journals.server(most=1)
    pid = await call(embedded, "a")
    with closing(await asyncio.to_thread(journals.hold, "a")):
        with pytest.raises(NoPlace):
            async with embedded.use("b", 0.5):
                pass
        assert journals.located("a").pid == pid
    async with embedded.use("b", WAIT):
        assert not journals.runs("a")


async def test_those_of_an_earlier_life_count_and_are_ended(embedded: EmbeddedTenants, journals: Journals) -> None:
    """As after `kill -9` of the server: its backends go on, and the next one counts them."""
    pids = [await call(embedded, id) for id in ("a", "b")]
    later = journals.server()
    await call(later, "c")
    assert sum(psutil.pid_exists(pid) and journals.runs(id) for id, pid in zip("ab", pids, strict=True)) == 1


async def test_a_backend_that_died_is_started_again(embedded: EmbeddedTenants, journals: Journals) -> None:
    pid = await call(embedded, "a")
    os.kill(pid, signal.SIGKILL)
    await until_gone(pid)
    assert await call(embedded, "a") != pid


async def test_without_its_server_a_backend_ends_by_itself(journals: Journals) -> None:
    embedded = journals.server(idle_exit=0.5)
    pid = await call(embedded, "a")
    del embedded
    await until_gone(pid)


# --- the schedule of one that sleeps


async def test_a_schedule_does_not_keep_a_backend_and_its_next_moment_is_known(journals: Journals) -> None:
    embedded = journals.server(idle_exit=0.5)
    await call(embedded, "a")
    due = read_due(DataDir(embedded.directory("a")))
    assert due is not None
    assert due.next is None


async def test_who_sleeps_and_is_due_is_woken_and_no_other(journals: Journals) -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    now = [moment - LEAD - timedelta(seconds=10)]
    for id, due in (("a", moment), ("b", None), ("c", moment + timedelta(days=1))):
        directory = DataDir(directory_of(journals.data_dir, id)).create()
        directory.bootstrap.write_text("{}")
        directory.due.write_text(json.dumps({"next_due": due and due.isoformat()}))
    embedded = journals.server(now=lambda: now[0])
    assert embedded._look() == ({}, 10.0)
    now[0] += timedelta(seconds=10)
    assert embedded._look() == ({"a": moment}, 30.0)
    DataDir(directory_of(journals.data_dir, "b")).due.unlink()
    assert embedded._look()[0] == {"a": moment, "b": None}


class Watched(EmbeddedTenants):
    """Tells when a backend was started."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.started = asyncio.Event()

    async def locate(self, id: str) -> Address:
        address = await super().locate(id)
        self.started.set()
        return address


async def test_a_schedule_is_kept_while_its_backend_sleeps(journals: Journals) -> None:
    """It ends in spite of its schedule, is started shortly before the moment, and not twice for the same one."""
    embedded = journals.server(idle_exit=1.0)
    pid = await call(embedded, "a")
    now = datetime.now(UTC)
    policy = {
        "name": "yearly",
        "trigger": {"cron_expression": f"0 8 1 {(now.month + 5) % 12 + 1} *"},
        "steps": [{"id": "load", "type": "query", "params": {"queries": [{"name": "rows", "sql": "SELECT 1 AS one"}]}}],
    }
    made = await asyncio.to_thread(journals.ask, "a", "POST", "/scheduling/policies", {"policy_json": policy})
    token = (embedded.directory("a") / "approval.token").read_text().strip()
    path = f"/scheduling/policies/{made['id']}/approve"
    approved = await asyncio.to_thread(journals.ask, "a", "POST", path, {}, {"X-Approval-Token": token})
    await until_gone(pid)
    due = read_due(DataDir(embedded.directory("a")))
    assert due is not None
    assert due.next == datetime.fromisoformat(approved["next_run"])

    early = due.next - LEAD - timedelta(seconds=5)
    asleep = Watched(journals.data_dir, ("a", "b"), environ=ENVIRON, idle_exit=1.0, now=lambda: early)
    await asleep.start()
    assert asleep._look() == ({}, 5.0)
    await asleep.close()
    assert not asleep.started.is_set()

    server = Watched(journals.data_dir, ("a", "b"), environ=ENVIRON, idle_exit=1.0, now=lambda: due.next - LEAD)
    await server.start()
    async with asyncio.timeout(WAIT):
        await server.started.wait()
    pid = journals.located("a").pid
    assert server.running == ("a",)
    await until_gone(pid)
    assert server._look()[0] == {}  # it did not do what was due, so it is left alone for a while
    await server.close()


def test_what_says_nothing_is_no_due_time(tmp_path: Path) -> None:
    directory = DataDir(tmp_path)
    for text in ("", "{}", "[]", '{"next_due": 5}', '{"next_due": "soon"}', "\xff"):
        directory.due.write_text(text)
        assert read_due(directory) is None
    assert read_due(DataDir(tmp_path / "none")) is None


async def test_many_calls_that_wait_for_one_tenant_come_in_together(journals: Journals) -> None:
    embedded = journals.server(most=1)
    inside, everybody = 0, asyncio.Event()

    async def wait_for(id: str) -> None:
        nonlocal inside
        async with embedded.use(id, WAIT):
            inside += 1
            if inside == 200:
                everybody.set()
            await everybody.wait()

    async with asyncio.TaskGroup() as waiting:
        async with embedded.use("a", WAIT):
            for _ in range(200):
                waiting.create_task(wait_for("b"))
            await asyncio.sleep(0)
            assert (inside, embedded.running) == (0, ("a",))
        async with asyncio.timeout(WAIT):
            await everybody.wait()
    assert embedded.running == ("b",)


async def test_a_tenant_that_is_taken_out_serves_what_runs_and_is_woken_no_more(
    embedded: EmbeddedTenants, journals: Journals
) -> None:
    async with embedded.use("a", WAIT):
        embedded.change(("b", "new"))
        await embedded.locate("a")
        assert journals.runs("a")
    assert embedded.ids == {"b", "new"}
    DataDir(directory_of(journals.data_dir, "c")).create().bootstrap.write_text("{}")
    assert embedded._look()[0] == {}
