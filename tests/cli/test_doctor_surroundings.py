"""The doctor on what surrounds the journal: misspelt variables, proxies, lost parts, places and backups."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from zorivest_rpc.cli.checks import backend, journal, machine, safekeeping, surroundings
from zorivest_rpc.cli.checks.line import Line, ok
from zorivest_rpc.embedded.disk import backups
from zorivest_rpc.embedded.disk.backups import Facts
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import Kdf, fingerprint, new_api_key
from zorivest_rpc.embedded.vault.vault import Role, Vault

CHEAP = Kdf(time_cost=1, memory_kib=64, parallelism=1)


@pytest.fixture
def directory(home: Path) -> DataDir:
    return DataDir(home / ".local" / "share" / "zorivest").create()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(machine, "packages", lambda encrypted: iter([ok("packages", "skipped")]))


def backup(directory: DataDir, age_days: float = 0.0, reason: str = "daily") -> str:
    def copy(path: Path) -> Facts:
        path.write_bytes(b"x")
        return Facts(1, 1, True)

    return backups.make(directory, reason, copy, datetime.now(UTC) - timedelta(days=age_days)).name


def statuses(lines: list[Line]) -> list[str]:
    assert all(bool(line.next) == (line.status != "ok") for line in lines)
    return [line.status for line in lines]


def test_a_misspelt_variable_is_named_with_the_one_that_was_meant() -> None:
    (line,) = surroundings.variables({"ZORIVEST_APIKEY": "zrv_sk_x", "ZORIVEST_DATA_DIR": "/x", "PATH": "/bin"})
    assert (line.status, "did you mean ZORIVEST_API_KEY?" in line.text) == ("warn", True)
    assert "zrv_sk_x" not in line.text
    known = {"ZORIVEST_API_KEY": "k", "ZORIVEST_KEYRING": "off", "ZORIVEST_IDLE_EXIT": "5", "ZORIVEST_DEMO": "1"}
    assert list(surroundings.variables(known)) == []


@pytest.mark.parametrize("around", ['"{}"', " {}", "{}\n", "'{}'", "Bearer {}"])
def test_a_key_with_something_around_it_is_recognised(around: str) -> None:
    key = new_api_key()
    (line,) = surroundings.api_key_form({"ZORIVEST_API_KEY": around.format(key)}, embedded=False)
    assert (line.status, key in line.text + line.next) == ("fail", False)


def test_a_key_that_cannot_be_one_of_an_embedded_journal_is_told_so() -> None:
    assert list(surroundings.api_key_form({"ZORIVEST_API_KEY": new_api_key()}, embedded=True)) == []
    (line,) = surroundings.api_key_form({"ZORIVEST_API_KEY": "sk-12345"}, embedded=True)
    assert line.status == "fail"
    assert list(surroundings.api_key_form({"ZORIVEST_API_KEY": "sk-12345"}, embedded=False)) == []
    assert list(surroundings.api_key_form({}, embedded=True)) == []


def test_a_port_chosen_for_the_backend_has_to_be_one_and_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chosen = {"ZORIVEST_BACKEND_PORT": str(taken.getsockname()[1])}
        (line,) = surroundings.backend_port(chosen, running=False)
        assert (line.status, line.area) == ("fail", "backend")
        assert list(surroundings.backend_port(chosen, running=True)) == []  # perhaps it is the backend itself
    assert list(surroundings.backend_port(chosen, running=False)) == []
    for wrong in ("x", "-1", "65536", "８"):
        assert statuses(list(surroundings.backend_port({"ZORIVEST_BACKEND_PORT": wrong}, running=False))) == ["fail"]
    for fine in ({}, {"ZORIVEST_BACKEND_PORT": "0"}):
        assert list(surroundings.backend_port(fine, running=False)) == []


def test_a_proxy_without_an_exception_for_this_machine_is_a_warning() -> None:
    assert list(surroundings.proxies({}, None)) == []
    (line,) = surroundings.proxies({"https_proxy": "http://user:secret@proxy:3128"}, None)
    assert (line.status, "NO_PROXY" in line.next, "secret" in line.text) == ("warn", True, False)
    (line,) = surroundings.proxies({"HTTPS_PROXY": "http://proxy", "NO_PROXY": "localhost, 127.0.0.1"}, None)
    assert line.status == "ok"
    (line,) = surroundings.proxies({"HTTP_PROXY": "http://proxy", "no_proxy": "*"}, "http://journal.example:8765")
    assert (line.status, "journal.example" in line.text) == ("warn", True)


def test_a_key_that_crosses_the_network_in_clear_is_a_warning() -> None:
    (line,) = surroundings.transport("http://journal.example:8765")
    assert (line.status, "https" in line.next) == ("warn", True)
    for fine in (
        "https://journal.example",
        "http://127.0.0.1:8765",
        "http://localhost:1",
        "http://[::1]:1",
        "http://[",
    ):
        assert list(surroundings.transport(fine)) == []


def test_another_installation_on_the_path_is_a_warning(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        command = tmp_path / name / "bin" / "zorivest-rpc"
        command.parent.mkdir(parents=True)
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)
    environ = {"PATH": str(tmp_path / "other" / "bin")}
    (line,) = surroundings.installation(environ, str(tmp_path / "mine"))
    assert (line.status, str(tmp_path / "other") in line.text) == ("warn", True)
    assert list(surroundings.installation(environ, str(tmp_path / "other"))) == []
    assert list(surroundings.installation({"PATH": ""}, str(tmp_path / "mine"))) == []


def test_a_lost_part_leads_to_the_backup_if_there_is_one(run: Run, quick: None, directory: DataDir) -> None:
    directory.database.write_bytes(b"precious")
    directory.database.chmod(0o600)
    told = {
        line["area"]: line for line in json.loads(run("doctor", "--json").out)["checks"] if line["status"] == "fail"
    }
    assert "no backup in its directory" in told["vault"]["next"]
    backup(directory)
    told = {
        line["area"]: line for line in json.loads(run("doctor", "--json").out)["checks"] if line["status"] == "fail"
    }
    (kept,) = backups.list_backups(directory)
    assert told["vault"]["next"] == f"zorivest-rpc backup restore {kept.name}"


def test_a_database_that_vanished_is_not_taken_for_a_beginning(directory: DataDir) -> None:
    vault = Vault.create(directory, new_api_key(), encrypted=True, key_source="file", kdf=CHEAP)
    assert list(safekeeping.together(str(directory.root))) == []  # made, and never opened yet
    vault.note_database(None, 0)
    (line,) = safekeeping.together(str(directory.root))
    assert (line.area, line.status) == ("journal", "fail")
    directory.database.write_bytes(b"x")
    assert list(safekeeping.together(str(directory.root))) == []


def test_a_damaged_vault_leads_to_the_backup(directory: DataDir) -> None:
    directory.bootstrap.write_text("{")
    backup(directory)
    line, vault = journal.read_bootstrap(str(directory.root))
    assert line is not None
    (kept,) = backups.list_backups(directory)
    assert (line.next, vault) == (f"zorivest-rpc backup restore {kept.name}", None)


def test_the_age_of_the_newest_backup_is_told_and_an_old_one_is_a_warning(directory: DataDir) -> None:
    where = str(directory.root)
    assert list(safekeeping.backups(where)) == []
    directory.database.write_bytes(b"x")
    assert statuses(list(safekeeping.backups(where))) == ["ok"]
    os.utime(directory.database, (time.time() - 10 * 86_400,) * 2)
    (line,) = safekeeping.backups(where)
    assert (line.status, line.next) == ("warn", "zorivest-rpc backup create")
    backup(directory, 0, "replaced")  # what a restore put aside is no backup of what there is
    assert statuses(list(safekeeping.backups(where))) == ["warn"]
    backup(directory, 9)
    assert statuses(list(safekeeping.backups(where))) == ["ok", "ok"]
    os.utime(directory.database)
    first = next(iter(safekeeping.backups(where)))
    assert (first.status, "9 days before" in first.text) == ("warn", True)


def test_a_place_that_does_not_suit_a_database_is_a_warning(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda1 / ext4 rw 0 0\nserver:/home /home nfs4 rw 0 0\n/dev/sdb1 /home/me/disk ext4 rw 0 0\n")
    assert [line.area for line in safekeeping.place("/home/me/journal", mounts)] == ["place"]
    assert list(safekeeping.place("/home/me/disk/journal", mounts)) == []
    assert list(safekeeping.place("/homework/journal", mounts)) == []
    assert list(safekeeping.place("/srv/journal", tmp_path / "absent")) == []
    (line,) = safekeeping.place("/srv/Dropbox (Me)/journal", mounts)
    assert (line.status, "Dropbox" in line.text) == ("warn", True)


def test_a_directory_inside_that_others_can_read_is_named(directory: DataDir) -> None:
    directory.backups.chmod(0o755)
    (line,) = [line for line in journal.private_files(str(directory.root)) if line.status == "fail"]
    assert line.next == f"chmod 700 {directory.backups}"


def test_a_key_that_soon_expires_is_a_warning_with_the_way_to_the_next(directory: DataDir) -> None:
    first = new_api_key()
    vault = Vault.create(directory, first, encrypted=True, key_source="file", kdf=CHEAP)
    _, soon = vault.add(vault.unlock(first)[1], "soon", Role.ADMIN, 3600)
    _, held = journal.read_bootstrap(str(directory.root))
    assert held is not None
    assert held.ends(fingerprint(first)) is None
    assert statuses(list(backend._check_stored_key(first, held, directory.root, {}))) == ["ok"]
    lines = list(backend._check_stored_key(soon, held, directory.root, {"ZORIVEST_API_KEY": soon}))
    assert statuses(lines) == ["ok", "warn"]
    assert "keys create" in lines[1].next


def test_a_lost_key_leads_to_the_passphrase_if_there_is_one(directory: DataDir) -> None:
    key = new_api_key()
    vault = Vault.create(directory, key, encrypted=True, key_source="file", kdf=CHEAP)
    _, held = journal.read_bootstrap(str(directory.root))
    (line,) = backend._check_stored_key(None, held, directory.root, {})
    assert "ZORIVEST_API_KEY" in line.next
    vault.set_passphrase(vault.unlock(key)[1], "correct horse battery")
    _, held = journal.read_bootstrap(str(directory.root))
    (line,) = backend._check_stored_key(None, held, directory.root, {})
    assert (line.status, "passphrase" in line.next) == ("fail", True)
