"""Backups: made by themselves, whole or not there, as secret as the journal, pruned, and restored without a loss."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from tests.places import ROOT
from zorivest_rpc.cli import backup as command
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database import migrate
from zorivest_rpc.embedded.database.engine import Database, cipher_driver, examine
from zorivest_rpc.embedded.disk import backups
from zorivest_rpc.embedded.disk.backups import Facts
from zorivest_rpc.embedded.disk.filelock import FileLock
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.errors import Corrupt, Refusal, Unauthorized, Unavailable
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.embedded.safekeeping.keeper import Keeper
from zorivest_rpc.embedded.safekeeping.restore import restore
from zorivest_rpc.embedded.vault.crypto import new_api_key
from zorivest_rpc.embedded.vault.vault import Vault

from ..conftest import CHEAP, Caller, copy_live_directory

SECRET = "the meeting with the lender is on thursday"
NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


async def write(caller: Caller, value: str = SECRET) -> None:
    await caller.expect(201, "POST", "/journal", {"title": "t", "body": value})


async def bodies(backend: Embedded) -> list[str]:
    def job(conn: Any) -> list[str]:
        return list(conn.execute(text("SELECT body FROM journal_entries ORDER BY created_at")).scalars())

    return await backend.database().read(job)


def opener(api_key: str) -> Any:
    return lambda vault: vault.unlock(api_key)[1]


def restored(directory: DataDir, name: str, api_key: str) -> Any:
    (chosen,) = [each for each in backups.list_backups(directory) if each.name == name]
    return restore(directory, chosen, opener(api_key), cipher_driver())


def fake(directory: DataDir, reason: str, age_days: float) -> str:
    def copy(path: Path) -> Facts:
        path.write_bytes(b"x")
        return Facts(1, 1, True)

    return backups.make(directory, reason, copy, NOW - timedelta(days=age_days)).name


async def test_a_backup_is_encrypted_private_and_opens_with_the_key_beside_it(
    admin: Caller, directory: DataDir, api_key: str
) -> None:
    await write(admin)
    made = await admin.expect(201, "POST", "/backups")
    (found,) = backups.list_backups(directory)
    assert (found.name, found.reason, found.facts.schema_version) == (made["name"], "manual", migrate.CURRENT)
    assert {path.name for path in found.path.iterdir()} == {"zorivest.db", "bootstrap.json", "backup.json"}
    for path in (found.path, *found.path.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    data = found.database.read_bytes()
    for readable in (SECRET.encode(), b"SQLite format 3", b"CREATE TABLE", api_key.encode()):
        assert readable not in data
    with (
        contextlib.closing(sqlite3.connect(found.database)) as plain,
        pytest.raises(sqlite3.DatabaseError, match="not a database"),
    ):
        plain.execute("SELECT count(*) FROM sqlite_master")
    plain.close()
    _, dek = Vault.load(DataDir(found.path)).unlock(api_key)
    assert examine(found.database, dek, cipher_driver()) == found.facts
    listed = await admin.get("/backups")
    assert (listed["total"], listed["items"][0]["name"], listed["last_error"]) == (1, found.name, None)


async def test_what_is_committed_while_it_is_made_is_in_it_whole_or_not_at_all(
    admin: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    def pair(conn: Any, number: int) -> None:
        for half in ("a", "b"):
            conn.execute(
                text("INSERT INTO settings (key, value, value_type, updated_at) VALUES (:k, '1', 'str', :n)"),
                {"k": f"{half}{number}", "n": "2026-01-01 00:00:00.000000"},
            )

    async def writing() -> None:
        for number in range(60):
            await backend.database().write(functools.partial(pair, number=number))

    _, *made = await asyncio.gather(writing(), *(admin.expect(201, "POST", "/backups") for _ in range(4)))
    assert len({each["name"] for each in made}) == 4
    _, dek = backend.vault.unlock(api_key)
    for found in backups.list_backups(directory):
        copy = Database(found.database, dek, cipher_driver())
        keys = await copy.read(lambda conn: set(conn.execute(text("SELECT key FROM settings")).scalars()))
        assert {key[1:] for key in keys if key[0] == "a"} == {key[1:] for key in keys if key[0] == "b"}
        await copy.close()


async def test_one_is_due_when_something_changed_and_the_last_is_a_day_old(admin: Caller, backend: Embedded) -> None:
    keeper, now = backend.keeper(), datetime.now(UTC)
    assert await keeper.due() is None  # a journal without a deed
    await write(admin)
    assert await keeper.due() == "daily"
    await keeper.make("daily")
    assert await keeper.due() is None
    assert await keeper.due(now + timedelta(days=3)) is None  # nothing new in it
    await admin.expect(200, "PUT", "/settings", {"backup.auto_change_threshold": 2, "backup.auto_interval_seconds": 60})
    assert await keeper.due(now + timedelta(hours=1)) is None
    await write(admin, "two")
    assert await keeper.due(now + timedelta(seconds=5)) is None
    assert await keeper.due(now + timedelta(hours=1)) == "changes"
    assert await keeper.due(now + timedelta(hours=25)) == "daily"


async def test_opening_a_journal_that_was_written_to_makes_the_daily_one_by_itself(
    admin: Caller, backend: Embedded, directory: DataDir, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = asyncio.Event(), Keeper.make

    async def telling(self: Keeper, reason: str) -> backups.Backup:
        found = await make(self, reason)
        made.set()
        return found

    monkeypatch.setattr(Keeper, "make", telling)
    await write(admin)
    await backend.lock("test")
    (directory.backups / ".partial-of-a-process-that-died").mkdir()
    await backend.open(api_key)
    async with asyncio.timeout(30):
        await made.wait()
    assert [each.reason for each in backups.list_backups(directory)] == ["daily"]
    assert [path for path in directory.backups.iterdir() if path.name.startswith(".")] == []


async def test_a_migration_is_preceded_by_a_backup_of_the_version_before(
    backend: Embedded, directory: DataDir, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.open(api_key)
    await backend.lock("test")
    later = (*migrate.VERSIONS, migrate.Version(migrate.CURRENT + 1, "later", None))
    monkeypatch.setattr(migrate, "VERSIONS", later)
    monkeypatch.setattr(migrate, "CURRENT", migrate.CURRENT + 1)
    monkeypatch.setattr("zorivest_rpc.embedded.database.engine.CURRENT", migrate.CURRENT)
    monkeypatch.setattr(migrate.migrate, "__defaults__", (migrate.CURRENT, None))
    with monkeypatch.context() as patched:
        patched.setattr(backups, "publish", full)
        with pytest.raises(Unavailable, match="no backup could be made first"):
            await backend.open(api_key)
    assert backend.locked
    await backend.open(api_key)
    (made,) = backups.list_backups(directory)
    assert (made.reason, made.facts.schema_version) == ("migration", migrate.CURRENT - 1)
    assert await backend.database().read(migrate.version_of) == migrate.CURRENT
    await backend.lock("test")
    await backend.open(api_key)
    assert len(backups.list_backups(directory)) == 1


def full(*anything: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["copy", "write_private", "digest", "sync_directory"])
async def test_a_full_disk_leaves_no_half_backup_and_the_journal_works(
    step: str, admin: Caller, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(admin)
    with monkeypatch.context() as patched:
        if step == "copy":
            patched.setattr(Database, "copy_to", full)
        else:
            patched.setattr(backups, step, full)
        assert (await admin.expect(503, "POST", "/backups"))["error"] == "disk_unwritable"
        if step != "sync_directory":  # there it is complete, and only its name may not be durable
            assert list(directory.backups.iterdir()) == []
        assert "No space" in (await admin.get("/backups"))["last_error"]
    await write(admin, "after")
    await admin.expect(201, "POST", "/backups")
    assert (await admin.get("/backups"))["last_error"] is None


async def test_locking_gives_up_a_running_copy_and_leaves_nothing_of_it(
    admin: Caller, backend: Embedded, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()
    loop, real = asyncio.get_running_loop(), Database.copy_to

    def slow(self: Database, path: Path) -> Facts:
        loop.call_soon_threadsafe(begun.set)
        while not self._closed:
            real(self, path)
            path.write_bytes(b"")
        return real(self, path)

    monkeypatch.setattr(Database, "copy_to", slow)
    making = asyncio.create_task(backend.keeper().make("manual"))
    await begun.wait()
    await backend.lock("test")
    with pytest.raises(Refusal):
        await making
    assert list(directory.backups.iterdir()) == []


def test_only_the_programs_own_are_pruned_by_number_and_age(directory: DataDir) -> None:
    directory.create()
    mine = [fake(directory, "manual", 400), fake(directory, "replaced", 300)]
    old = fake(directory, "daily", 100)
    daily = [fake(directory, "daily", age) for age in range(6, 0, -1)]
    many = [fake(directory, "changes", age / 100) for age in range(8, 0, -1)]
    gone = backups.prune(directory, 6, 90, NOW)
    left = [each.name for each in reversed(backups.list_backups(directory))]
    assert left == [*mine, *daily[3:], *many[5:]]
    assert set(gone) == {old, *daily[:3], *many[:5]}
    assert len(list(directory.backups.iterdir())) == len(left)


def test_the_newest_stays_whatever_its_age(directory: DataDir) -> None:
    directory.create()
    names = [fake(directory, "daily", age) for age in (500, 400)]
    assert backups.prune(directory, 5, 30, NOW) == [names[0]]
    assert [each.name for each in backups.list_backups(directory)] == [names[1]]


@pytest.mark.parametrize("damage", ["manifest", "truncated", "missing", "hidden", "foreign"])
def test_what_is_not_whole_is_not_offered(damage: str, directory: DataDir) -> None:
    directory.create()
    path = directory.backups / fake(directory, "daily", 1)
    if damage == "manifest":
        (path / "backup.json").write_text('{"version": 1')
    elif damage == "truncated":
        (path / "zorivest.db").write_bytes(b"")
    elif damage == "missing":
        (path / "zorivest.db").unlink()
    elif damage == "hidden":
        path.rename(path.with_name(".partial-x"))
    else:
        (path / "backup.json").write_text("[]")
    assert backups.list_backups(directory) == []


async def test_a_restore_brings_back_what_was_and_can_be_undone(
    admin: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    await write(admin, "first")
    made = await admin.expect(201, "POST", "/backups")
    await write(admin, "second")
    await backend.lock("test")
    done = restored(directory, made["name"], api_key)
    assert done.keys == "current"
    backend.vault = Vault.load(directory)  # as a process that is started afterwards reads it
    await backend.open(api_key)
    assert await bodies(backend) == ["first"]
    await backend.lock("test")
    assert stat.S_IMODE(directory.database.stat().st_mode) == 0o600
    restored(directory, done.kept, api_key)
    backend.vault = Vault.load(directory)
    await backend.open(api_key)
    assert await bodies(backend) == ["first", "second"]
    assert not list(directory.root.glob(".restore*"))


async def test_a_key_that_was_revoked_since_does_not_come_back(
    admin: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    leaked = await admin.expect(201, "POST", "/auth/keys", {"label": "leaked", "role": "admin"})
    made = await admin.expect(201, "POST", "/backups")
    await admin.expect(204, "DELETE", f"/auth/keys/{leaked['key_id']}")
    await backend.lock("test")
    with pytest.raises(Refusal, match="revoked"):  # although the vault of the backup would still take it
        restored(directory, made["name"], leaked["raw_key"])
    restored(directory, made["name"], api_key)
    with pytest.raises(Refusal, match="revoked"):
        Vault.load(directory).unlock(leaked["raw_key"])


@pytest.mark.parametrize("loss", ["gone", "damaged", "another"])
async def test_without_a_vault_that_fits_the_one_of_the_backup_is_restored_too(
    loss: str, admin: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    await write(admin)
    made = await admin.expect(201, "POST", "/backups")
    await backend.lock("test")
    directory.bootstrap.unlink()
    if loss == "damaged":
        directory.bootstrap.write_text("{")
    elif loss == "another":
        Vault.create(directory, new_api_key(), encrypted=True, key_source="file", kdf=CHEAP)
        directory.database.write_bytes(os.urandom(8192))
    done = restored(directory, made["name"], api_key)
    assert done.keys == "backup"
    again = Embedded.load(directory)
    await again.open(api_key)
    assert await bodies(again) == [SECRET]
    await again.close()
    if loss == "another":
        (kept,) = [each for each in backups.list_backups(directory) if each.name == done.kept]
        assert kept.reason == "unreadable"


@pytest.mark.parametrize("damage", ["page", "manifest"])
async def test_a_damaged_backup_is_refused_and_nothing_is_touched(
    damage: str, admin: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    await write(admin)
    made = await admin.expect(201, "POST", "/backups")
    await backend.lock("test")
    (found,) = backups.list_backups(directory)
    data = bytearray(found.database.read_bytes())
    data[5000:5064] = b"\xff" * 64
    found.database.write_bytes(data)
    if damage == "manifest":  # whoever damaged it made the digests fit
        manifest = json.loads((found.path / "backup.json").read_text())
        manifest["files"]["zorivest.db"]["sha256"] = backups.digest(found.database)
        (found.path / "backup.json").write_text(json.dumps(manifest))
    before = directory.database.read_bytes(), directory.bootstrap.read_bytes()
    with pytest.raises(Corrupt):
        restored(directory, made["name"], api_key)
    assert directory.database.read_bytes() == before[0]
    assert {path.name for path in directory.backups.iterdir()} == {made["name"]}


async def test_a_wrong_key_restores_nothing(admin: Caller, backend: Embedded, directory: DataDir) -> None:
    made = await admin.expect(201, "POST", "/backups")
    await backend.lock("test")
    with pytest.raises(Unauthorized):
        restored(directory, made["name"], new_api_key())


async def test_a_write_ahead_log_of_the_old_file_does_not_reach_the_new_one(
    admin: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    """As after a kill: the last writes are in the log, not in the file."""
    await write(admin, "first")
    made = await admin.expect(201, "POST", "/backups")
    await write(admin, "second")
    crashed = DataDir(directory.root.parent / "crashed")
    copy_live_directory(directory.root, crashed.root)
    log = crashed.database.with_name("zorivest.db-wal")
    assert log.stat().st_size > 0
    done = restored(crashed, made["name"], api_key)
    again = Embedded.load(crashed)
    await again.open(api_key)
    assert await bodies(again) == ["first"]
    await again.close()
    restored(crashed, done.kept, api_key)
    again = Embedded.load(crashed)
    await again.open(api_key)
    assert await bodies(again) == ["first", "second"]
    await again.close()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from zorivest_rpc.embedded.disk import backups
from zorivest_rpc.embedded.disk.paths import DataDir
directory = DataDir(Path(sys.argv[1])).create()
step = sys.argv[2]
def die(*anything):
    os.kill(os.getpid(), signal.SIGKILL)
def copy(path):
    path.write_bytes(b"half")
    if step == "copy":
        die()
    return backups.Facts(1, 1, True)
if step != "copy":
    setattr(backups, step, die)
backups.make(directory, "daily", copy)
"""


@pytest.mark.parametrize("step", ["copy", "digest", "publish", "write_private"])
def test_killed_midway_it_leaves_nothing_that_is_offered(step: str, directory: DataDir) -> None:
    directory.create()
    directory.bootstrap.write_text("{}")
    ran = subprocess.run([sys.executable, "-c", KILLED, str(directory.root), step], cwd=ROOT, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert len(list(directory.backups.iterdir())) == 1
    assert backups.list_backups(directory) == []
    backups.sweep(directory)
    assert list(directory.backups.iterdir()) == []


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = tmp_path / "home"
    for name in [name for name in os.environ if name.startswith("ZORIVEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    monkeypatch.setenv("ZORIVEST_BACKEND_PORT", "0")
    yield home
    if located := find(home):
        process = psutil.Process(located.pid)
        process.terminate()
        process.wait(30)


def test_the_commands_make_list_and_restore(terminal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--data-dir", str(terminal)]

    def said(code: int, *words: str) -> str:
        assert command.run([*words, *place]) == code
        output = capsys.readouterr()
        return output.err if code else output.out

    assert "there are no backups" in said(1, "restore", "latest")
    assert said(0, "list") == "no backups yet\n"
    assert said(0, "create").startswith("made ")
    (listed,) = json.loads(said(0, "list", "--json"))
    assert listed["reason"] == "manual"
    assert "--stop" in said(1, "restore", "latest")
    assert "no backup 'x'" in said(1, "restore", "x", "--stop")
    before = find(terminal)
    assert before is not None
    answer = json.loads(said(0, "restore", listed["name"], "--stop", "--json"))
    assert (answer["status"], answer["keys"]) == ("restored", "current")
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(before.pid).wait(30)
    assert f"restored {listed['name']}" in said(0, "restore", "latest")  # the kept one is not the latest
    assert {each["reason"] for each in json.loads(said(0, "list", "--json"))} == {"manual", "replaced"}
    directory = DataDir(terminal)
    directory.key_file.unlink()
    assert "ZORIVEST_API_KEY" in said(1, "restore", "latest")
    with FileLock(directory.process_lock) as held:
        assert held.acquire()
        assert "does not answer" in said(1, "restore", "latest", "--stop")
