"""The vault and the database belong together: a file that is empty, foreign or older is refused by name, with the
backup to restore; a guard that was locked does not open by exchanging files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.embedded.conftest import CHEAP, Caller, copy_live_directory
from tests.embedded.kept.answers import open_kept, unpack
from zorivest_rpc.cli import backup as backup_command
from zorivest_rpc.cli.checks.safekeeping import restore_step
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.disk import backups
from zorivest_rpc.embedded.disk.backups import Facts
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.errors import Corrupt
from zorivest_rpc.embedded.guard import Guard
from zorivest_rpc.embedded.vault.crypto import new_api_key
from zorivest_rpc.embedded.vault.keystore import store_key
from zorivest_rpc.embedded.vault.vault import Vault

KINDS = ("encrypted", "plain")
NOW = datetime(2026, 3, 2, tzinfo=UTC)


class Journal:
    """A journal that is opened, used and closed again, each time by a new process as far as it can tell."""

    def __init__(self, place: Path, kind: str) -> None:
        self.directory = DataDir(place)
        self.key = new_api_key()
        self.driver = cipher_driver() if kind == "encrypted" else None
        store_key(self.directory.create(), self.key, use_keyring=False)
        Vault.create(self.directory, self.key, encrypted=kind == "encrypted", key_source="file", kdf=CHEAP)

    async def use(self, *asks: tuple[str, str, Any]) -> list[Any]:
        """What a newly started backend answers to its owner."""
        backend = Embedded.load(self.directory)
        try:
            async with TestClient(TestServer(create_app(backend))) as client:
                owner = await Caller(client).unlock(self.key)
                answers = []
                for method, path, body in asks:
                    response = await owner.ask(method, path, body)
                    assert response.status < 300, await response.text()
                    answers.append(await response.json() if response.content_type == "application/json" else None)
                return answers
        finally:
            await backend.close()

    async def refused(self) -> dict[str, Any]:
        """The envelope with which unlocking is refused, and that nothing can be called then."""
        backend = Embedded.load(self.directory)
        try:
            async with TestClient(TestServer(create_app(backend))) as client:
                anybody = Caller(client)
                envelope: dict[str, Any] = await anybody.expect(500, "POST", "/auth/unlock", {"api_key": self.key})
                await anybody.expect(403, "GET", "/trades", headers={"X-MCP-Guard": "check"})
                return envelope
        finally:
            await backend.close()

    @property
    def vault(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.directory.bootstrap.read_text())
        return content


def trade(number: int) -> tuple[str, str, Any]:
    body = {
        "exec_id": f"T-{number}",
        "time": "2026-01-05T15:00:00Z",
        "instrument": "MSFT",
        "action": "BOT",
        "quantity": 1,
        "price": 400,
        "account_id": "A",
    }
    return ("POST", "/trades", body)


LOCK = ("POST", "/mcp-guard/lock", {"reason": "by a person"})
STATUS = ("GET", "/mcp-guard/status", None)
BACKUP = ("POST", "/backups", None)
TRADES = ("GET", "/trades", None)


@pytest.fixture(params=KINDS)
async def locked(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    """A journal with a trade, a locked guard and a backup of both."""
    journal = Journal(tmp_path / "data", request.param)
    await journal.use(trade(1), LOCK, BACKUP)
    return journal


def empty(journal: Journal) -> None:
    journal.directory.database.write_bytes(b"")


def without_tables(journal: Journal) -> None:
    """A sound database file of the same key in which there is nothing."""
    journal.directory.database.unlink()
    module: Any = journal.driver or sqlite3
    conn = module.connect(str(journal.directory.database), isolation_level=None)
    if journal.driver is not None:
        _, dek = Vault.load(journal.directory).unlock(journal.key)
        conn.execute(f"PRAGMA key = \"x'{dek.hex()}'\"")
    conn.execute("CREATE TABLE t (x)")
    conn.execute("DROP TABLE t")
    conn.close()


def of_nothing(journal: Journal) -> None:
    journal.directory.database.write_bytes(b"not a database at all " * 400)


def of_another_kind(journal: Journal) -> None:
    """A plain database of another program."""
    journal.directory.database.unlink()
    conn = sqlite3.connect(journal.directory.database, isolation_level=None)
    conn.execute("CREATE TABLE places (url)")
    conn.close()


def gone(journal: Journal) -> None:
    journal.directory.database.unlink()


LOSSES: dict[str, tuple[Callable[[Journal], None], set[str]]] = {
    "empty": (empty, {"database_emptied"}),
    "without tables": (without_tables, {"database_emptied"}),
    "no database": (of_nothing, {"database_foreign"}),
    "another program's": (of_another_kind, {"database_foreign", "database_emptied"}),
    "gone": (gone, {"database_missing"}),
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_file_that_is_not_this_journal_is_refused_by_name_with_the_backup_to_restore(
    loss: str, locked: Journal, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ZORIVEST_API_KEY", "ZORIVEST_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    (good,) = backups.list_backups(locked.directory)
    lose, codes = LOSSES[loss]
    lose(locked)
    before = locked.directory.database.read_bytes() if locked.directory.database.exists() else None
    for _ in range(2):  # and again: nothing was made of it meanwhile
        envelope = await locked.refused()
        assert envelope["error"] in codes
        assert str(locked.directory.database) in envelope["detail"]
        assert f"zorivest-rpc backup restore {good.name}" in envelope["detail"]
        after = locked.directory.database.read_bytes() if locked.directory.database.exists() else None
        assert after == before
    place = ["--data-dir", str(locked.directory.root)]
    assert backup_command.run(["restore", good.name, *place]) == 0, capsys.readouterr().err
    status, trades = await locked.use(STATUS, TRADES)
    assert (status["is_locked"], status["lock_reason"]) == (True, "by a person")
    assert trades["total"] == 1


async def test_the_file_of_another_journal_is_refused(locked: Journal, tmp_path: Path) -> None:
    other = Journal(tmp_path / "other", "plain" if locked.driver is None else "encrypted")
    await other.use(trade(1), trade(2), trade(3), trade(4), trade(5))
    shutil.copyfile(other.directory.database, locked.directory.database)
    assert (await locked.refused())["error"] == "database_foreign"
    assert locked.vault["journal_id"] != other.vault["journal_id"]


async def test_an_older_copy_does_not_open_a_guard_that_was_locked_since(tmp_path: Path) -> None:
    for kind in KINDS:
        journal = Journal(tmp_path / kind, kind)
        await journal.use(trade(1))
        older = tmp_path / f"{kind}.db"
        shutil.copyfile(journal.directory.database, older)
        await journal.use(LOCK)
        newer = tmp_path / f"{kind}-newer.db"
        shutil.copyfile(journal.directory.database, newer)
        shutil.copyfile(older, journal.directory.database)
        envelope = await journal.refused()
        assert envelope["error"] == "database_older"
        assert "backup" in envelope["detail"]
        shutil.copyfile(newer, journal.directory.database)
        (status,) = await journal.use(STATUS)
        assert status["is_locked"]


async def test_a_copy_from_before_a_lock_is_older_even_if_the_backend_was_killed_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "data", "encrypted")
    await journal.use(trade(1))
    backend = Embedded.load(journal.directory)
    try:
        async with TestClient(TestServer(create_app(backend))) as client:
            owner = await Caller(client).unlock(journal.key)
            await backend.database().write(lambda conn: conn.exec_driver_sql("SELECT 1"))
            before = copy_live_directory(journal.directory.root, tmp_path / "before")
            await owner.expect(200, *LOCK)
            killed = copy_live_directory(journal.directory.root, tmp_path / "killed")
    finally:
        await backend.close()
    journal.directory = DataDir(killed)
    for name in ("zorivest.db", "zorivest.db-wal", "zorivest.db-shm"):
        (killed / name).unlink(missing_ok=True)
        if (before / name).exists():
            shutil.copyfile(before / name, killed / name)
    assert (await journal.refused())["error"] == "database_older"


async def test_every_state_that_was_left_behind_in_good_order_or_by_a_crash_opens(tmp_path: Path) -> None:
    """A copy of the directory at any moment is what a crash leaves; the mark is never ahead of it."""
    journal = Journal(tmp_path / "data", "encrypted")
    backend = Embedded.load(journal.directory)
    moments = []
    try:
        async with TestClient(TestServer(create_app(backend))) as client:
            owner = await Caller(client).unlock(journal.key)
            for number in range(4):
                await owner.expect(201, *trade(number))
                if number == 2:
                    await owner.expect(201, "POST", "/backups")
                moments.append(copy_live_directory(journal.directory.root, tmp_path / f"moment-{number}"))
    finally:
        await backend.close()
    for number, place in enumerate(moments):
        journal.directory = DataDir(place)
        (trades,) = await journal.use(TRADES)
        assert trades["total"] == number + 1


async def test_the_mark_is_made_after_the_database_is_on_the_disk(
    locked: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut, which may take the last commits, would leave a vault that refuses its own journal."""
    order: list[str] = []
    sync, note = Database.sync, Vault.note_database

    def synced(self: Database) -> None:
        order.append("synced")
        sync(self)

    def marked(self: Vault, journal_id: str | None, mark: int) -> None:
        order.append("marked")
        note(self, journal_id, mark)

    monkeypatch.setattr(Database, "sync", synced)
    monkeypatch.setattr(Vault, "note_database", marked)
    await locked.use(trade(2), BACKUP)
    assert order == ["synced", "marked"] * 3  # opened, backed up, closed


async def test_vault_and_database_carry_one_id_and_the_mark_grows(locked: Journal) -> None:
    first = locked.vault
    assert (first["version"], first["db_created"], len(first["journal_id"])) == (2, True, 36)
    await locked.use(trade(2))
    second = locked.vault
    assert second["journal_id"] == first["journal_id"]
    assert second["mark"] > first["mark"]
    facts = backups.list_backups(locked.directory)[0].facts
    assert (facts.journal_id, facts.rows) == (first["journal_id"], 1)


async def test_a_vault_that_cannot_be_written_keeps_no_owner_out(
    locked: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zorivest_rpc.embedded.vault.vault.write_private", full)
    (status,) = await locked.use(STATUS)
    assert status["is_locked"]


# --- journals and backups of release 0.1


@pytest.mark.parametrize("variant", KINDS)
async def test_a_journal_of_release_0_1_gets_an_id_when_it_is_opened(variant: str, tmp_path: Path) -> None:
    directory = unpack(variant, tmp_path / "data")
    assert "journal_id" not in json.loads(directory.bootstrap.read_text())
    async with open_kept(directory):
        pass
    content = json.loads(directory.bootstrap.read_text())
    assert (content["version"], len(content["journal_id"])) == (2, 36)
    async with open_kept(directory) as (backend, _):
        assert backend.vault.journal_id == content["journal_id"]


@pytest.mark.parametrize("variant", KINDS)
async def test_an_emptied_journal_of_release_0_1_is_refused_too(variant: str, tmp_path: Path) -> None:
    directory = unpack(variant, tmp_path / "data")
    directory.database.write_bytes(b"")
    backend = Embedded.load(directory)
    with pytest.raises(Corrupt, match="is empty") as refused:
        await backend.open(directory.key_file.read_text().strip())
    assert refused.value.code == "database_emptied"
    await backend.close()
    assert directory.database.read_bytes() == b""


async def test_a_backup_from_before_the_upgrade_can_be_restored_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    monkeypatch.delenv("ZORIVEST_API_KEY", raising=False)
    directory = unpack("encrypted", tmp_path / "data")
    async with open_kept(directory) as (_, owner):  # the upgrade makes one before it changes the tables
        before = (await owner.get("/trades"))["total"]
        await owner.expect(200, "POST", "/mcp-guard/unlock")
        await owner.expect(204, "DELETE", "/trades/KEPT-19")
    (made,) = [backup for backup in backups.list_backups(directory) if backup.reason == "migration"]
    assert made.facts.journal_id is None
    assert backup_command.run(["restore", made.name, "--data-dir", str(directory.root)]) == 0, capsys.readouterr()
    async with open_kept(directory) as (_, owner):
        assert (await owner.get("/trades"))["total"] == before
        assert (await owner.get("/mcp-guard/status"))["is_locked"] is True
    async with open_kept(directory) as (backend, _):
        assert backend.vault.journal_id is not None


def test_a_vault_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    directory = unpack("plain", tmp_path / "data")
    content = json.loads(directory.bootstrap.read_text()) | {"version": 3}
    directory.bootstrap.write_text(json.dumps(content))
    with pytest.raises(Corrupt, match="newer release of zorivest-rpc than this one: upgrade"):
        Vault.load(directory)


# --- the guard


async def test_no_known_state_of_the_guard_means_locked(locked: Journal) -> None:
    backend = Embedded.load(locked.directory)
    try:
        await backend.open(locked.key)
        await backend.database().write(lambda conn: conn.exec_driver_sql("DELETE FROM mcp_guard"))
        guard = Guard()
        await guard.load(backend.database())
        assert guard.status()["is_locked"] is True
        verdict = await guard.check(backend.database(), "test")
        assert not verdict.allowed
    finally:
        await backend.close()


# --- backups of an emptied journal


def keep(directory: DataDir, reason: str, age: float, rows: int | None) -> str:
    def copy(path: Path) -> Facts:
        path.write_bytes(b"x")
        return Facts(12, 1, True, rows)

    return backups.make(directory, reason, copy, NOW - timedelta(days=age)).name


def names(directory: DataDir) -> list[str]:
    return [backup.name for backup in backups.list_backups(directory)]


@pytest.mark.parametrize("left", [0, 1, 49])
def test_backups_of_an_emptied_journal_never_push_out_good_ones(left: int, tmp_path: Path) -> None:
    directory = DataDir(tmp_path).create()
    good = [keep(directory, "daily", 100 + age, 100) for age in range(3)]
    for age in range(60, 0, -1):
        keep(directory, "daily", age, left)
        backups.prune(directory, 5, 90, NOW - timedelta(days=age))
    kept = names(directory)
    assert good[0] in kept  # the newest of them, whatever its age
    assert len(kept) <= 5 + 3
    best = backups.best(directory)
    assert best is not None
    assert best.name == good[0]
    assert restore_step(tmp_path) == f"zorivest-rpc backup restore {good[0]}"


def test_good_ones_are_pruned_among_themselves(tmp_path: Path) -> None:
    directory = DataDir(tmp_path).create()
    good = [keep(directory, "daily", age, 100) for age in range(30, 20, -1)]
    keep(directory, "daily", 1, 50)  # half of it is still a journal
    backups.prune(directory, 5, 90, NOW)
    assert [name for name in names(directory) if name in good] == good[:-5:-1]
    best = backups.best(directory)
    assert best is not None
    assert best.facts.rows == 50


def test_a_backup_of_release_0_1_counts_as_a_good_one(tmp_path: Path) -> None:
    directory = DataDir(tmp_path).create()
    old = keep(directory, "daily", 30, None)
    keep(directory, "daily", 1, 10)
    backups.prune(directory, 1, 90, NOW)
    assert old not in names(directory)  # one good one is kept, and the newer is as good
    old = keep(directory, "daily", 0.5, None)
    backups.prune(directory, 1, 90, NOW)
    assert names(directory) == [old]


async def test_a_backup_knows_how_much_is_in_it(locked: Journal) -> None:
    await locked.use(trade(2), trade(3), BACKUP, ("DELETE", "/trades/T-1", None), BACKUP)
    assert [backup.facts.rows for backup in backups.list_backups(locked.directory)] == [2, 3, 1]
    (listed,) = await locked.use(("GET", "/backups", None))
    assert [item["rows"] for item in listed["items"]] == [2, 3, 1]
