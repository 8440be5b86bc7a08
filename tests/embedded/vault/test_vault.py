"""The vault and its files: nothing readable without a key, nothing left of a revoked one, modes, atomic writes."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.database.schema.journal import journal_entries
from zorivest_rpc.embedded.disk.paths import DataDir, write_private
from zorivest_rpc.embedded.errors import Conflict, Corrupt, Forbidden, Invalid, NotFound, Unauthorized
from zorivest_rpc.embedded.vault.crypto import FieldCipher, Kdf, is_api_key, new_api_key, unwrap_dek, wrap_dek
from zorivest_rpc.embedded.vault.vault import Role, Vault

from ..conftest import CHEAP, Caller, list_live_directory

SECRET = "the meeting with the lender is on thursday"


def entry(body: str) -> dict[str, object]:
    now = datetime.now(UTC)
    return {"entry_id": "j1", "title": "t", "body": body, "entry_date": now.date(), "tags": [], "created_at": now}


def full_disk(path: Path, data: bytes) -> None:
    raise OSError(28, "No space left on device")


async def test_the_database_file_is_unreadable_without_the_key(admin: Caller, backend: Embedded) -> None:
    await backend.database().write(lambda conn: conn.execute(journal_entries.insert().values(**entry(SECRET))))
    database = backend.directory.database
    for file in database.parent.glob("zorivest.db*"):
        data = file.read_bytes()
        for readable in (SECRET.encode(), b"SQLite format 3", b"CREATE TABLE", b"journal_entries"):
            assert readable not in data, file.name
    await backend.lock("test")  # everything is in the main file now
    data = database.read_bytes()
    assert len(data) > 4096
    assert SECRET.encode() not in data
    assert b"SQLite format 3" not in data
    with closing(sqlite3.connect(database)) as plain, pytest.raises(sqlite3.DatabaseError, match="not a database"):
        plain.execute("SELECT count(*) FROM sqlite_master")
    plain.close()


async def test_another_key_does_not_open_the_database_and_the_right_one_does(admin: Caller, backend: Embedded) -> None:
    await backend.database().write(lambda conn: conn.execute(journal_entries.insert().values(**entry(SECRET))))
    dek = bytes(backend._dek)
    await backend.lock("test")
    with pytest.raises(Corrupt) as refused:
        Database(backend.directory.database, bytes(32), cipher_driver())
    assert refused.value.code == "db_corrupt"
    again = Database(backend.directory.database, dek, cipher_driver())
    assert await again.read(lambda conn: conn.execute(select(journal_entries.c.body)).scalar()) == SECRET
    await again.close()


async def test_locking_wipes_the_key_in_memory(admin: Caller, backend: Embedded) -> None:
    held = backend._dek
    assert any(held)
    await backend.lock("test")
    assert not any(held)


async def test_every_file_belongs_to_its_owner_alone(admin: Caller, directory: DataDir) -> None:
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    seen = dict(list_live_directory(directory.root))
    assert {"bootstrap.json", "zorivest.db", "zorivest.db-wal"} <= {path.name for path in seen}
    for path, status in seen.items():
        assert stat.S_IMODE(status.st_mode) == (0o700 if stat.S_ISDIR(status.st_mode) else 0o600), path


async def test_a_full_disk_does_not_keep_the_owner_out(
    anybody: Caller, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await anybody.unlock(api_key)
    monkeypatch.setattr("zorivest_rpc.embedded.vault.vault.write_private", full_disk)
    await anybody.unlock(api_key)


async def test_a_key_that_could_not_be_saved_does_not_exist(
    admin: Caller, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would count as the other admin that lets the only real one go, and its text was never shown."""
    (first,) = await admin.get("/auth/keys")
    with monkeypatch.context() as patched:
        patched.setattr("zorivest_rpc.embedded.vault.vault.write_private", full_disk)
        refused = await admin.expect(503, "POST", "/auth/keys", {"label": "second", "role": "admin"})
    assert refused["error"] == "disk_unwritable"
    assert [key["label"] for key in await admin.get("/auth/keys")] == ["first key"]
    assert (await admin.expect(409, "DELETE", f"/auth/keys/{first['key_id']}"))["error"] == "last_admin_key"
    await admin.expect(201, "POST", "/auth/keys", {"label": "second", "role": "admin"})
    assert len(await admin.get("/auth/keys")) == 2


async def test_a_key_whose_revocation_could_not_be_saved_is_still_listed_and_can_be_revoked(
    admin: Caller, anybody: Caller, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await admin.expect(201, "POST", "/auth/keys", {"label": "lost laptop"})
    path = f"/auth/keys/{made['key_id']}"
    with monkeypatch.context() as patched:
        patched.setattr("zorivest_rpc.embedded.vault.vault.write_private", full_disk)
        assert (await admin.expect(503, "DELETE", path))["error"] == "disk_unwritable"
    assert "lost laptop" in [key["label"] for key in await admin.get("/auth/keys")]
    await anybody.unlock(made["raw_key"])  # as it would after a restart: the file still has it
    await admin.expect(204, "DELETE", path)
    assert json.loads(directory.bootstrap.read_text())["keys"][1]["wrapped_dek"] is None
    refused = await anybody.expect(403, "POST", "/auth/unlock", {"api_key": made["raw_key"]})
    assert refused["error"] == "key_revoked"


def test_what_could_not_be_noted_of_the_database_is_noted_the_next_time(
    vault: Vault, directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("zorivest_rpc.embedded.vault.vault.write_private", full_disk)
        with pytest.raises(OSError, match="No space"):
            vault.note_database("another", 7)
    assert (vault.database_created, vault.mark) == (False, 0)
    vault.note_database("another", 7)
    later = Vault.load(directory)
    assert (later.database_created, later.journal_id, later.mark) == (True, "another", 7)


async def test_the_bootstrap_file_holds_no_key_and_follows_its_layout(
    admin: Caller, directory: DataDir, api_key: str
) -> None:
    made = await admin.expect(201, "POST", "/auth/keys", {"label": "second"})
    text = directory.bootstrap.read_text()
    for secret in (api_key, made["raw_key"], api_key[7:], made["raw_key"][7:]):
        assert secret not in text
    content = json.loads(text)
    assert (content["version"], content["db_file"], content["cipher"]) == (2, "zorivest.db", "sqlcipher4")
    assert set(content["kdf"]) == {"algorithm", "time_cost", "memory_kib", "parallelism", "hash_len"}
    first, second = content["keys"]
    assert set(first) == {
        *("key_id", "label", "role", "lookup_sha256", "salt_b64", "wrapped_dek", "mask"),
        *("created_at", "last_used_at", "expires_at", "revoked"),
    }
    assert first["last_used_at"] is not None
    assert first["salt_b64"] != second["salt_b64"]
    await admin.expect(204, "DELETE", f"/auth/keys/{made['key_id']}")
    assert json.loads(directory.bootstrap.read_text())["keys"][1]["wrapped_dek"] is None


def test_the_key_derivation_is_as_strong_as_promised() -> None:
    assert Kdf() == Kdf("argon2id", 3, 65_536, 4, 32)
    salt = b"0123456789abcdef"
    kek = Kdf().derive("zrv_sk_x", salt)
    assert len(kek) == 32
    assert kek != Kdf().derive("zrv_sk_y", salt)
    assert kek != Kdf().derive("zrv_sk_x", salt[::-1])


def test_without_argon2_keys_are_stretched_with_pbkdf2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "argon2.low_level", None)
    kdf = Kdf.preferred()
    assert (kdf.algorithm, kdf.time_cost) == ("pbkdf2-hmac-sha256", 600_000)
    assert len(kdf.derive("zrv_sk_x", b"0123456789abcdef")) == 32


async def test_a_vault_whose_key_derivation_is_missing_is_refused_with_the_reason(
    backend: Embedded, anybody: Caller, directory: DataDir, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(__import__("sys").modules, "argon2.low_level", None)
        refused = await anybody.expect(500, "POST", "/auth/unlock", {"api_key": api_key})
        assert refused["error"] == "argon2_missing"
    await anybody.unlock(api_key)
    directory.bootstrap.write_text(directory.bootstrap.read_text().replace('"argon2id"', '"rot13"'))
    with pytest.raises(Corrupt, match="rot13"):
        Vault.load(directory).unlock(api_key)


def test_a_wrapped_key_opens_with_its_own_kek_only() -> None:
    dek, kek = bytes(range(32)), b"k" * 32
    wrapped = wrap_dek(dek, kek)
    assert unwrap_dek(wrapped, kek) == dek
    assert unwrap_dek(wrapped, b"x" * 32) is None
    assert unwrap_dek(wrapped[:-4] + "AAAA", kek) is None
    assert unwrap_dek("", kek) is None


def test_api_keys_have_their_form() -> None:
    key = new_api_key()
    assert is_api_key(key)
    assert len(key) == 39
    for wrong in (key[:-1], key + "x", "zrv_pk_" + key[7:], key[:-1] + "!", key[:-1] + "é"):
        assert not is_api_key(wrong)


def test_fields_are_encrypted_once_and_only_with_their_database() -> None:
    cipher, other = FieldCipher(b"a" * 32), FieldCipher(b"b" * 32)
    stored = cipher.encrypt("provider-secret")
    assert stored.startswith("ENC:")
    assert "provider-secret" not in stored
    assert cipher.encrypt(stored) == stored
    assert cipher.encrypt("") == ""
    assert cipher.decrypt(stored) == "provider-secret"
    assert cipher.decrypt("plain") == "plain"
    with pytest.raises(ValueError, match="does not belong"):
        other.decrypt(stored)


async def test_without_sqlcipher_the_journal_works_and_says_that_it_is_not_encrypted(
    directory: DataDir, api_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    backend = Embedded.create(directory, api_key, key_source="file", driver=None, kdf=CHEAP)
    async with TestClient(TestServer(create_app(backend))) as client:
        caller = await Caller(client).unlock(api_key)
        health = await caller.get("/health")
        assert health["database"] == {"unlocked": True, "encrypted": False, "key_source": "file"}
        await caller.expect(200, "PUT", "/settings", {"ui.theme": "light"})
        await backend.close()
    assert any(record.levelname == "WARNING" and "NOT encrypted" in record.message for record in caplog.records)
    with closing(sqlite3.connect(directory.database)) as plain:
        assert plain.execute("SELECT value FROM settings").fetchall() == [("light",)]
    later = Embedded.load(directory)  # SQLCipher is there now; what was plain stays plain, and says so
    await later.open(api_key)
    assert later.encrypted is False
    assert await later.settings().value("ui.theme") == "light"
    await later.close()


async def test_an_encrypted_journal_without_sqlcipher_is_refused_with_the_reason(
    directory: DataDir, api_key: str
) -> None:
    created = Embedded.create(directory, api_key, key_source="file", driver=cipher_driver(), kdf=CHEAP)
    await created.open(api_key)
    await created.close()
    without = Embedded(directory, Vault.load(directory), driver=None)
    with pytest.raises(Corrupt) as refused:
        await without.open(api_key)
    assert refused.value.code == "sqlcipher_missing"
    assert without.locked


def test_a_damaged_bootstrap_file_is_reported_without_its_content(directory: DataDir, api_key: str) -> None:
    directory.create()
    Vault.create(directory, api_key, encrypted=True, key_source="file", kdf=CHEAP)
    directory.bootstrap.write_text(directory.bootstrap.read_text()[:-40])
    with pytest.raises(Corrupt) as refused:
        Vault.load(directory)
    assert "wrapped_dek" not in str(refused.value)


@pytest.fixture
def vault(directory: DataDir, api_key: str) -> Vault:
    directory.create()
    return Vault.create(directory, api_key, encrypted=True, key_source="file", kdf=CHEAP)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 0}, "bootstrap_corrupt"),
        ({"version": 1}, None),
        ({"version": 2}, None),
        ({"version": 3}, "bootstrap_too_new"),
        ({"db_file": "../zorivest.db"}, "bootstrap_corrupt"),
        ({"db_file": "C:\\zorivest.db"}, "bootstrap_corrupt"),
    ],
)
def test_a_vault_of_another_kind_is_refused_by_name(
    vault: Vault, directory: DataDir, api_key: str, change: dict[str, object], code: str | None
) -> None:
    directory.bootstrap.write_text(json.dumps(json.loads(directory.bootstrap.read_text()) | change))
    if code is None:
        assert Vault.load(directory).unlock(api_key)[0].role == "admin"
    else:
        with pytest.raises(Corrupt) as refused:
            Vault.load(directory)
        assert (refused.value.code, str(directory.bootstrap) in str(refused.value)) == (code, True)


async def test_a_key_whose_wrapped_copy_is_damaged_is_refused_and_opens_nothing(
    anybody: Caller, backend: Embedded, directory: DataDir, api_key: str
) -> None:
    content = json.loads(directory.bootstrap.read_text())
    content["keys"][0]["wrapped_dek"] = wrap_dek(bytes(32), b"k" * 32)
    directory.bootstrap.write_text(json.dumps(content))
    damaged = Vault.load(directory)
    with pytest.raises(Unauthorized) as refused:
        damaged.unlock(api_key)
    assert refused.value.code == "invalid_api_key"
    backend.vault = damaged
    assert (await anybody.expect(401, "POST", "/auth/unlock", {"api_key": api_key}))["error"] == "invalid_api_key"
    assert backend.locked


def test_a_passphrase_that_is_no_text_is_refused_before_it_is_stretched(vault: Vault, api_key: str) -> None:
    """A terminal with another encoding hands over lone surrogates."""
    _, dek = vault.unlock(api_key)
    with pytest.raises(Invalid, match="not well-formed"):
        vault.set_passphrase(dek, "twelve and more \udcff")
    with pytest.raises(Invalid, match="not well-formed"):
        vault.unlock_by_passphrase("twelve and more \udcff")
    assert vault.passphrase is None


def test_a_vault_that_others_could_read_is_closed_to_them(vault: Vault, directory: DataDir) -> None:
    directory.bootstrap.chmod(0o644)
    Vault.load(directory)
    assert stat.S_IMODE(directory.bootstrap.stat().st_mode) == 0o600


def test_a_key_ends_at_the_instant_it_expires(vault: Vault, api_key: str) -> None:
    _, dek = vault.unlock(api_key)
    entry, text = vault.add(dek, "short", Role.READ_ONLY, expires_in=60)
    ends = entry.expires_at
    assert ends is not None
    assert abs(ends - entry.created_at - timedelta(seconds=60)) < timedelta(seconds=5)
    before = ends - timedelta(microseconds=1)
    assert (vault.unlock(text, before)[1], vault.recognise(text, before)) == (dek, entry)
    assert [key.label for key in vault.active(before)] == ["first key", "short"]
    for use in (vault.unlock, vault.recognise):
        with pytest.raises(Forbidden) as refused:
            use(text, ends)
        assert refused.value.code == "key_expired"
    assert [key.label for key in vault.active(ends)] == ["first key"]


def test_what_was_used_last_is_on_the_disk(vault: Vault, directory: DataDir, api_key: str) -> None:
    def used() -> object:
        return json.loads(directory.bootstrap.read_text())["keys"][0]["last_used_at"]

    first, second = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    vault.unlock(api_key, first)
    assert used() == "2026-01-01T00:00:00Z"
    vault.recognise(api_key, second)
    assert used() == "2026-01-02T00:00:00Z"


def test_only_another_admin_that_can_still_unlock_lets_an_admin_go(vault: Vault, api_key: str) -> None:
    entry, dek = vault.unlock(api_key)
    reader, _ = vault.add(dek, "reader", Role.READ_ONLY)
    vault.add(dek, "late", Role.ADMIN, expires_in=-1)
    with pytest.raises(Conflict) as refused:
        vault.revoke(entry.key_id)
    assert refused.value.code == "last_admin_key"
    second, _ = vault.add(dek, "second", Role.ADMIN)
    assert vault.revoke(entry.key_id) is entry
    with pytest.raises(NotFound):
        vault.revoke(entry.key_id)
    assert vault.revoke(reader.key_id).wrapped_dek is None
    assert [key.label for key in vault.active()] == ["second"]
    assert second.revoked is False


@pytest.mark.parametrize(
    ("role", "label", "scopes"),
    [
        (Role.READ_ONLY, "read-only", ["read"]),
        (Role.READ_WRITE, "read-write", ["read", "write"]),
        (Role.ADMIN, "admin", ["read", "write", "admin"]),
    ],
)
def test_a_role_includes_those_below_it(role: Role, label: str, scopes: list[str]) -> None:
    assert (role.label, role.scopes, Role.from_label(label)) == (label, scopes, role)
    with pytest.raises(ValueError, match="use read-only, read-write, admin"):
        Role.from_label("owner")


def test_a_key_of_another_form_founds_no_vault(directory: DataDir) -> None:
    directory.create()
    with pytest.raises(ValueError, match="well-formed"):
        Vault.create(directory, "zrv_sk_short", encrypted=True, key_source="file", kdf=CHEAP)
    assert not Vault.exists(directory)


def test_an_existing_vault_is_never_overwritten(directory: DataDir, api_key: str) -> None:
    directory.create()
    Vault.create(directory, api_key, encrypted=True, key_source="file", kdf=CHEAP)
    with pytest.raises(FileExistsError):
        Vault.create(directory, new_api_key(), encrypted=True, key_source="file", kdf=CHEAP)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "file"
    write_private(target, b"old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_private(target, b"new")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]
