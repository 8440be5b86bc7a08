"""The passphrase: a second way to the same database, set and typed by a person, told to nobody."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from tests.places import ROOT
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.errors import Unauthorized
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.embedded.vault.vault import Vault

from ..conftest import Caller, Clock, copy_live_directory

WORDS = "correct horse battery staple"


async def opened(anybody: Caller, words: str = WORDS) -> Caller:
    answer = await anybody.expect(200, "POST", "/auth/unlock", {"passphrase": words})
    assert (answer["role"], answer["scopes"]) == ("admin", ["read", "write", "admin"])
    return Caller(anybody.client, answer["session_token"])


async def test_it_opens_the_same_journal_as_the_key_and_after_a_lock_too(
    admin: Caller, anybody: Caller, backend: Embedded
) -> None:
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    assert await admin.get("/auth/passphrase") == {"set": False}
    assert (await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": WORDS}))["set"] is True
    await admin.expect(200, "POST", "/auth/lock")
    owner = await opened(anybody)
    assert (await owner.get("/settings/ui.theme"))["value"] == "light"
    assert (await owner.get("/auth/passphrase"))["last_used_at"] is not None
    await owner.expect(201, "POST", "/auth/keys", {"label": "made by the owner", "role": "admin"})


async def test_it_survives_a_restart_and_is_in_no_file(
    admin: Caller, anybody: Caller, backend: Embedded, directory: DataDir
) -> None:
    await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": WORDS})
    await opened(anybody)
    await backend.lock("test")
    for path in copy_live_directory(directory.root, directory.root.parent / "copy").rglob("*"):
        assert path.is_dir() or WORDS.encode() not in path.read_bytes(), path
    held = json.loads(directory.bootstrap.read_text())["passphrase"]
    assert set(held) == {"salt_b64", "wrapped_dek", "created_at", "last_used_at"}
    assert Vault.load(directory).unlock_by_passphrase(WORDS)
    with pytest.raises(Unauthorized):
        Vault.load(directory).unlock_by_passphrase(WORDS + "!")


async def test_two_keyboards_type_the_same_passphrase(admin: Caller, anybody: Caller) -> None:
    await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": "Zürich im Café"})
    await opened(anybody, "Zürich im Cafe\u0301")


async def test_changing_and_removing_it_ends_what_the_old_one_opened(admin: Caller, anybody: Caller) -> None:
    await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": WORDS})
    owner = await opened(anybody)
    await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": "another one altogether"})
    assert (await owner.expect(403, "GET", "/settings"))["error"] == "key_revoked"
    refused = await anybody.expect(401, "POST", "/auth/unlock", {"passphrase": WORDS})
    assert refused["error"] == "invalid_passphrase"
    owner = await opened(anybody, "another one altogether")
    await admin.expect(204, "DELETE", "/auth/passphrase")
    await owner.expect(403, "GET", "/settings")
    await anybody.expect(401, "POST", "/auth/unlock", {"passphrase": "another one altogether"})
    assert (await admin.expect(409, "DELETE", "/auth/passphrase"))["error"] == "no_passphrase"
    assert await admin.get("/auth/passphrase") == {"set": False}


async def test_without_one_every_attempt_is_wrong_like_any_other(anybody: Caller, admin: Caller) -> None:
    refused = await anybody.expect(401, "POST", "/auth/unlock", {"passphrase": WORDS})
    assert (refused["error"], WORDS in json.dumps(refused)) == ("invalid_passphrase", False)


@pytest.mark.parametrize("words", ["short", " " * 20, "", 5, None, "eleven char"])
async def test_a_weak_or_malformed_one_is_refused_and_not_repeated(words: object, admin: Caller) -> None:
    refused = await admin.expect(422, "PUT", "/auth/passphrase", {"passphrase": words})
    assert list(refused["detail"]["errors"]) == ["passphrase"]
    assert await admin.get("/auth/passphrase") == {"set": False}


@pytest.mark.parametrize("role", ["read-only", "read-write"])
async def test_only_an_admin_has_to_do_with_it(role: str, with_role: Callable[[str], Awaitable[Caller]]) -> None:
    caller = await with_role(role)
    for method, body in (("GET", None), ("PUT", {"passphrase": WORDS}), ("DELETE", None)):
        assert (await caller.expect(403, method, "/auth/passphrase", body))["error"] == "role_too_low"


async def test_whoever_guesses_has_to_wait_and_the_owner_with_a_key_does_not(
    admin: Caller, anybody: Caller, api_key: str, clock: Clock
) -> None:
    await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": WORDS})
    guesses = [anybody.ask("POST", "/auth/unlock", {"passphrase": f"guess number {n:04d}"}) for n in range(20)]
    statuses = [response.status for response in await asyncio.gather(*guesses)]
    assert statuses.count(401) == 5
    assert statuses.count(429) == 15
    waiting = await anybody.expect(429, "POST", "/auth/unlock", {"passphrase": WORDS})
    assert waiting["error"] == "too_many_attempts"
    await anybody.unlock(api_key)
    clock.now += 1.0
    await anybody.expect(401, "POST", "/auth/unlock", {"passphrase": "one more guess"})
    clock.now += 1.0
    await anybody.expect(429, "POST", "/auth/unlock", {"passphrase": WORDS})  # each wrong one doubles the pause
    clock.now += 1.0
    await opened(anybody)
    await anybody.expect(401, "POST", "/auth/unlock", {"passphrase": "a slip of the finger"})
    await opened(anybody)  # the right one made good for the wrong ones


async def test_a_passphrase_that_cannot_be_written_down_is_not_set(
    admin: Caller, anybody: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    await admin.expect(200, "PUT", "/auth/passphrase", {"passphrase": WORDS})
    with monkeypatch.context() as patched:
        patched.setattr("zorivest_rpc.embedded.vault.vault.write_private", full)
        refused = await admin.expect(503, "PUT", "/auth/passphrase", {"passphrase": "this one does not get through"})
        assert refused["error"] == "disk_unwritable"
    await opened(anybody)


def type_at(command: list[str], environ: dict[str, str], answers: list[str]) -> tuple[int, str]:
    """Run a command on a terminal of its own and type; returns its exit code and everything the terminal showed."""
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=follower, stdout=follower, stderr=follower, start_new_session=True
    )
    os.close(follower)
    shown, waiting, deadline = b"", list(answers), time.monotonic() + 60
    while time.monotonic() < deadline:
        readable, _, _ = select.select([leader], [], [], 0.2)
        if readable:
            try:
                data = os.read(leader, 4096)
            except OSError:
                break
            shown += data
            if waiting and data.rstrip().endswith(b":"):
                os.write(leader, waiting.pop(0).encode() + b"\n")
        elif child.poll() is not None:
            break
    os.close(leader)
    return child.wait(30), shown.decode(errors="replace")


def test_it_is_typed_at_the_terminal_without_being_shown_and_recovers_a_lost_key(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
    environ |= {"ZORIVEST_DATA_DIR": str(home), "ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0"}
    keys = [sys.executable, "-m", "zorivest_rpc", "keys"]
    try:
        assert type_at([*keys, "passphrase", "set"], environ, [WORDS, "another"])[0] == 1
        code, shown = type_at([*keys, "passphrase", "set"], environ, [WORDS, WORDS])
        assert (code, "a passphrase opens this journal" in shown, WORDS in shown) == (0, True, False), shown
        (home / "api.key").unlink()
        piped = subprocess.run(
            [*keys, "list"],
            cwd=ROOT,
            env=environ,
            input=WORDS,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        assert (piped.returncode, "typed at a terminal" in piped.stderr) == (1, True), piped.stderr
        code, shown = type_at([*keys, "create", "--label", "again", "--role", "admin", "--store"], environ, [WORDS])
        assert (code, WORDS in shown) == (0, False), shown
        assert (home / "api.key").read_text().strip() in shown
        listed = subprocess.run([*keys, "list", "--json"], cwd=ROOT, env=environ, capture_output=True, check=True)
        assert [key["label"] for key in json.loads(listed.stdout)] == ["first key", "again"]
        for path in (home / "logs").iterdir():
            assert WORDS not in path.read_text(), path
    finally:
        if located := find(home):
            process = psutil.Process(located.pid)
            process.terminate()
            process.wait(30)
