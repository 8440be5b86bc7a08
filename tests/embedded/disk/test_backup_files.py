"""The files of backups: what is written of each, in which order, which of them is the best, and which are deleted."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc.embedded.disk import backups
from zorivest_rpc.embedded.disk.backups import Backup, Facts
from zorivest_rpc.embedded.disk.paths import DataDir

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
OF_PEOPLE = ("manual", "replaced", "unreadable")


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data").create()


def keep(directory: DataDir, reason: str, age_days: float, rows: int | None = 100) -> str:
    def copy(path: Path) -> Facts:
        path.write_bytes(b"database")
        return Facts(3, 40, True, rows, "journal-1", 50)

    return backups.make(directory, reason, copy, NOW - timedelta(days=age_days)).name


def names(directory: DataDir) -> list[str]:
    return [backup.name for backup in backups.list_backups(directory)]


def test_a_backup_says_what_is_in_it(directory: DataDir) -> None:
    directory.bootstrap.write_bytes(b"{}")
    old = os.umask(0)  # whatever it is, the modes are those of private files
    try:
        name = keep(directory, "daily", 0)
    finally:
        os.umask(old)
    path = directory.backups / name
    assert (name, stat.S_IMODE(path.stat().st_mode)) == ("20260304T050607Z-daily", 0o700)
    assert {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {
        "backup.json": 0o600,
        "bootstrap.json": 0o600,
        "zorivest.db": 0o600,
    }
    facts: dict[str, Any] = {
        "schema_version": 3,
        "mark": 40,
        "encrypted": True,
        "rows": 100,
        "journal_id": "journal-1",
        "last_entry": 50,
    }
    assert json.loads((path / "backup.json").read_bytes()) == {
        "version": 1,
        "created_at": "2026-03-04T05:06:07+00:00",
        "reason": "daily",
        **facts,
        "files": {
            "bootstrap.json": {"bytes": 2, "sha256": sha256(b"{}").hexdigest()},
            "zorivest.db": {"bytes": 8, "sha256": sha256(b"database").hexdigest()},
        },
    }
    (listed,) = backups.list_backups(directory)
    assert listed.view() == {
        "name": name,
        "created_at": "2026-03-04T05:06:07+00:00",
        "reason": "daily",
        "bytes": 10,
        **facts,
    }
    assert (listed.path, listed.database, listed.bootstrap) == (path, path / "zorivest.db", path / "bootstrap.json")
    assert listed.facts == Facts(**facts)


def test_all_of_a_backup_is_on_the_disk_before_it_has_its_name(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.bootstrap.write_bytes(b"{}")
    synced: list[int] = []
    at_rename: list[set[int]] = []
    sync, rename = os.fsync, Path.rename

    def watched_sync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        sync(fd)

    def watched_rename(self: Path, target: Path) -> Path:
        inside = {path.stat().st_ino for path in self.iterdir()}
        at_rename.append(inside - set(synced))
        synced.clear()
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", watched_sync)
    monkeypatch.setattr(Path, "rename", watched_rename)
    keep(directory, "daily", 0)
    assert at_rename == [set()]
    assert synced == [directory.backups.stat().st_ino]


def test_a_copy_that_fails_leaves_nothing(directory: DataDir) -> None:
    def copy(path: Path) -> Facts:
        path.write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        backups.make(directory, "daily", copy, NOW)
    assert list(directory.backups.iterdir()) == []


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which no file of the name `stuck` can be deleted."""
    delete = os.unlink

    def unlink(path: str | Path, **more: Any) -> None:
        if os.path.basename(path) == "stuck":
            raise PermissionError(13, "Permission denied")
        delete(path, **more)

    monkeypatch.setattr(os, "unlink", unlink)


@pytest.mark.usefixtures("stuck")
def test_what_cannot_be_deleted_hides_no_failure_and_keeps_nothing_else(directory: DataDir) -> None:
    def copy(path: Path) -> Facts:
        path.with_name("stuck").write_bytes(b"")
        raise ValueError("the copy failed")

    with pytest.raises(ValueError, match="the copy failed"):
        backups.make(directory, "daily", copy, NOW)
    for number in range(9):
        (directory.backups / f".partial-{number}").mkdir()
    backups.sweep(directory)
    left = [path for path in directory.backups.iterdir() if not (path / "stuck").exists()]
    assert (left, names(directory)) == ([], [])


def test_names_of_one_second_are_numbered_and_the_later_one_is_the_newer(directory: DataDir) -> None:
    made = [keep(directory, "daily", 0) for _ in range(3)]
    assert made == ["20260304T050607Z-daily", "20260304T050607Z-daily-2", "20260304T050607Z-daily-3"]
    second = timedelta(seconds=1) / timedelta(days=1)
    first, last = keep(directory, "manual", 1 - second * 0.1), keep(directory, "changes", 1 - second * 0.9)
    assert (first, last) == ("20260303T050607Z-manual", "20260303T050607Z-changes")
    assert names(directory) == [*reversed(made), last, first]


MANIFESTS: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"rows": None, "journal_id": None, "last_entry": 0}, {"rows": None, "journal_id": None, "last_entry": 0}),
    ({"encrypted": False}, {"encrypted": False}),
    ({"mark": "x"}, None),
    ({"files": {}}, None),
    ({"files": {"bootstrap.json": {"bytes": 2, "sha256": ""}}}, None),
    ({"files": {"zorivest.db": {"bytes": 9, "sha256": ""}}}, None),
]


@pytest.mark.parametrize(("changes", "read"), MANIFESTS)
def test_a_manifest_is_read_or_its_backup_is_not_offered(
    directory: DataDir, changes: dict[str, Any], read: dict[str, Any] | None
) -> None:
    directory.bootstrap.write_bytes(b"{}")
    manifest = directory.backups / keep(directory, "daily", 0) / "backup.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_bytes()) | changes))
    listed = backups.list_backups(directory)
    assert len(listed) == (read is not None)
    if read is not None:
        assert listed[0].facts._asdict().items() >= read.items()


def test_a_manifest_of_release_0_1_has_no_counts(directory: DataDir) -> None:
    manifest = directory.backups / keep(directory, "daily", 0) / "backup.json"
    content = json.loads(manifest.read_bytes())
    for name in ("rows", "journal_id", "last_entry"):
        del content[name]
    manifest.write_text(json.dumps(content))
    assert (
        [each.facts for each in backups.list_backups(directory)]
        == [(3, 40, True, None, None, 0)]
        == [Facts(3, 40, True)]
    )


def test_without_a_directory_there_are_no_backups(tmp_path: Path) -> None:
    nowhere = DataDir(tmp_path / "nowhere")
    assert backups.list_backups(nowhere) == []
    assert backups.best(nowhere) is None
    backups.sweep(nowhere)


@pytest.mark.parametrize("reason", ["replaced", "unreadable"])
def test_what_a_restore_put_aside_is_never_the_best(directory: DataDir, reason: str) -> None:
    good = keep(directory, "manual", 9)
    keep(directory, reason, 1)
    best = backups.best(directory)
    assert best is not None
    assert best.name == good


def test_the_best_is_the_newest_that_is_not_hollow(directory: DataDir) -> None:
    keep(directory, "daily", 9, 100)
    half = keep(directory, "daily", 8, 50)
    keep(directory, "daily", 7, 49)
    best = backups.best(directory)
    assert best is not None
    assert best.name == half


@pytest.mark.parametrize(
    ("rows", "beside", "hollow"),
    [(50, 100, False), (49, 100, True), (0, 1, True), (0, 0, False), (None, 100, False), (1, None, False)],
)
def test_less_than_half_is_hollow(rows: int | None, beside: int | None, hollow: bool) -> None:
    def backup(count: int | None) -> Backup:
        return Backup("x", Path("x"), NOW, "daily", Facts(1, 1, True, count), {})

    assert backups.is_hollow(backup(rows), [backup(rows), backup(beside)]) is hollow
    assert not backups.is_hollow(backup(rows), [])


def test_the_program_deletes_its_own_and_none_of_a_persons(directory: DataDir) -> None:
    newest = keep(directory, "daily", 0)
    theirs = [keep(directory, reason, age) for age, reason in enumerate(OF_PEOPLE, 100)]
    own = [keep(directory, reason, age) for age, reason in enumerate(("daily", "changes", "migration"), 200)]
    assert set(backups.prune(directory, 9, 90, NOW)) == set(own)
    assert names(directory) == [newest, *theirs]


@pytest.mark.parametrize(("reason", "keep_most", "left"), [("daily", 4, 4), ("migration", 4, 4), ("changes", 4, 3)])
def test_the_newest_of_a_number_stay(directory: DataDir, reason: str, keep_most: int, left: int) -> None:
    made = [keep(directory, reason, age) for age in range(6)]
    gone = backups.prune(directory, keep_most, 90, NOW)
    assert sorted(gone) == sorted(made[left:])
    assert names(directory) == made[:left]
    assert sorted(path.name for path in directory.backups.iterdir()) == sorted(made[:left])


def test_an_age_is_kept_to_the_day_and_the_newest_of_each_sort_at_any(directory: DataDir) -> None:
    full = [keep(directory, "daily", age) for age in (91, 120, 130)]
    hollow = [keep(directory, "daily", age, 1) for age in (80, 90, 90.001, 95)]
    assert set(backups.prune(directory, 9, 90, NOW)) == {*full[1:], *hollow[2:]}
    assert names(directory) == [*hollow[:2], full[0]]


def test_what_a_dead_process_left_is_swept_and_nothing_else(directory: DataDir) -> None:
    kept = keep(directory, "daily", 1)
    (directory.backups / ".partial-20260304T050607Z-daily-17").mkdir()
    (directory.backups / ".partial-20260304T050607Z-daily-17" / "zorivest.db").write_bytes(b"x")
    (directory.backups / "notes.txt").write_text("of a person")
    assert names(directory) == [kept]
    backups.sweep(directory)
    assert sorted(path.name for path in directory.backups.iterdir()) == [kept, "notes.txt"]
