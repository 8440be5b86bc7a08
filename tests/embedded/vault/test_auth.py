"""Unlock, sessions, roles, keys: every status code that guards the journal."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO

import pytest

from zorivest_rpc.embedded.app import API_PREFIX, create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.rest.routes import AREAS
from zorivest_rpc.embedded.rest.routing import Access
from zorivest_rpc.embedded.vault.crypto import new_api_key
from zorivest_rpc.embedded.vault.vault import Vault

from ..conftest import Caller, Clock

Roles = Callable[[str], Awaitable[Caller]]
OPEN = {
    ("GET", "/health"),
    ("GET", "/version"),
    ("POST", "/auth/unlock"),
    ("GET", "/auth/status"),
    ("GET", "/auth/proof"),
    ("GET", "/mcp-guard/status"),
    ("POST", "/calculator/position-size"),
}
ALL = [route for area in AREAS for route in area]


async def test_unlocking_gives_a_session_with_role_scopes_and_the_inline_guard(anybody: Caller, api_key: str) -> None:
    answer = await anybody.expect(200, "POST", "/auth/unlock", {"api_key": api_key})
    assert re.fullmatch(r"tok_[0-9a-f]{32}", answer.pop("session_token"))
    assert answer == {
        "role": "admin",
        "scopes": ["read", "write", "admin"],
        "expires_in": 3600,
        "inline_guard": True,
    }


@pytest.mark.parametrize(
    "key", ["", "nonsense", new_api_key(), "zrv_sk_" + "é" * 32], ids=["none", "nonsense", "new", "odd"]
)
async def test_a_wrong_key_is_refused(anybody: Caller, key: str) -> None:
    response = await anybody.ask("POST", "/auth/unlock", {"api_key": key})
    assert response.status == (422 if key == "" else 401)


async def test_a_locked_backend_tells_nothing_but_its_open_routes(anybody: Caller) -> None:
    assert (await anybody.get("/auth/status")) == {"locked": True, "active_sessions": 0, "role": None}
    assert (await anybody.get("/health"))["database"]["unlocked"] is False
    refused = await anybody.expect(403, "GET", "/mcp-guard/status")
    assert refused["error"] == "database_locked"


async def test_a_caller_without_a_session_cannot_tell_which_routes_exist(admin: Caller, anybody: Caller) -> None:
    for method, path in [("GET", "/settings"), ("GET", "/nothing/here"), ("PATCH", "/settings"), ("GET", "/../x")]:
        refused = await anybody.expect(403, method, path)
        assert refused["error"] == "no_session"
    assert (await admin.expect(404, "GET", "/nothing/here"))["error"] == "route_not_found"
    assert (await admin.expect(405, "PATCH", "/settings"))["error"] == "method_not_allowed"


async def test_a_route_not_declared_open_needs_a_session(anybody: Caller, admin: Caller) -> None:
    for route in ALL:
        where = (route.method, route.path)
        response = await anybody.ask(route.method, re.sub(r"\{[^}]+\}", "x", route.path))
        if where in OPEN:
            assert route.access is Access.OPEN, where
            assert response.status != 403, where
        else:
            assert response.status == 403, where
            assert (await response.json())["error"] == "no_session", where
    assert {(route.method, route.path) for route in ALL} >= OPEN


@pytest.mark.parametrize("role", ["read-only", "read-write"])
async def test_a_role_reaches_its_own_routes_and_none_above(role: str, with_role: Roles) -> None:
    caller = await with_role(role)
    level = {"read-only": Access.READ, "read-write": Access.WRITE}[role]
    for route in ALL:
        if route.access is Access.OPEN:
            continue
        response = await caller.ask(route.method, re.sub(r"\{[^}]+\}", "x", route.path))
        answer = await response.json() if response.content_type == "application/json" else {}
        too_low = response.status == 403 and answer["error"] == "role_too_low"
        assert too_low == (route.access > level), (route.method, route.path, response.status)


async def test_a_session_expires_and_can_be_renewed_while_the_database_is_open(
    admin: Caller, anybody: Caller, api_key: str, clock: Clock
) -> None:
    clock.now += 3599
    await admin.get("/settings")
    clock.now += 2
    assert (await admin.expect(401, "GET", "/settings"))["error"] == "session_expired"
    again = await anybody.unlock(api_key)
    await again.get("/settings")


async def test_an_unknown_token_is_told_to_unlock_again(admin: Caller) -> None:
    stranger = Caller(admin.client, "tok_" + "0" * 32)
    assert (await stranger.expect(401, "GET", "/settings"))["error"] == "session_unknown"


async def test_locking_ends_every_session_for_good(admin: Caller, with_role: Roles, api_key: str) -> None:
    reader = await with_role("read-only")
    assert await admin.expect(200, "POST", "/auth/lock") == {"status": "locked"}
    for stolen in (admin, reader):
        assert (await stolen.expect(403, "GET", "/settings"))["error"] == "database_locked"
    await Caller(admin.client).unlock(api_key)
    for stolen in (admin, reader):
        assert (await stolen.expect(401, "GET", "/settings"))["error"] == "session_unknown"


@pytest.mark.parametrize("role", ["read-only", "read-write"])
async def test_only_an_admin_closes_the_database_for_everybody(admin: Caller, with_role: Roles, role: str) -> None:
    other = await with_role(role)
    assert (await other.expect(403, "POST", "/auth/lock"))["error"] == "role_too_low"
    await admin.get("/settings")


async def test_settings_survive_a_lock_and_the_next_unlock(admin: Caller, api_key: str) -> None:
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    await admin.expect(200, "POST", "/auth/lock")
    again = await Caller(admin.client).unlock(api_key)
    assert (await again.get("/settings/ui.theme"))["value"] == "light"


async def test_a_new_key_is_shown_once_and_listed_masked(admin: Caller) -> None:
    made = await admin.expect(201, "POST", "/auth/keys", {"name": "laptop", "role": "read-only"})
    assert re.fullmatch(r"zrv_sk_[A-Za-z0-9_-]{32}", made["raw_key"])
    listed = await admin.get("/auth/keys")
    assert made["raw_key"] not in str(listed)
    (entry,) = [key for key in listed if key["key_id"] == made["key_id"]]
    assert entry["masked_key"] == "zrv_sk_..." + made["raw_key"][-4:]
    assert (entry["label"], entry["role"], entry["last_used_at"]) == ("laptop", "read-only", None)


async def test_a_key_with_a_wrong_role_or_without_a_label_is_refused(admin: Caller) -> None:
    refused = await admin.expect(422, "POST", "/auth/keys", {"role": "root"})
    assert set(refused["detail"]["errors"]) == {"label", "role"}


async def test_a_revoked_key_is_refused_at_once_and_stays_a_tombstone(
    admin: Caller, anybody: Caller, directory: DataDir
) -> None:
    made = await admin.expect(201, "POST", "/auth/keys", {"label": "old", "role": "read-write"})
    caller = await anybody.unlock(made["raw_key"])
    await admin.expect(204, "DELETE", f"/auth/keys/{made['key_id']}")
    assert (await caller.expect(403, "GET", "/settings"))["error"] == "key_revoked"
    assert (await anybody.expect(403, "POST", "/auth/unlock", {"api_key": made["raw_key"]}))["error"] == "key_revoked"
    await admin.expect(404, "DELETE", f"/auth/keys/{made['key_id']}")
    assert made["key_id"] in directory.bootstrap.read_text()
    assert made["key_id"] not in str(await admin.get("/auth/keys"))


async def test_the_last_admin_key_cannot_be_revoked(admin: Caller) -> None:
    (only,) = await admin.get("/auth/keys")
    assert (await admin.expect(409, "DELETE", f"/auth/keys/{only['key_id']}"))["error"] == "last_admin_key"


async def test_a_key_past_its_time_is_refused(admin: Caller, anybody: Caller, backend: Embedded) -> None:
    made = await admin.expect(201, "POST", "/auth/keys", {"label": "brief", "expires_in": 120})
    answer = await anybody.expect(200, "POST", "/auth/unlock", {"api_key": made["raw_key"]})
    assert 0 < answer["expires_in"] <= 120  # a session does not outlive its key
    entry = next(key for key in backend.vault.active() if key.key_id == made["key_id"])
    entry.expires_at = entry.created_at
    assert (await anybody.expect(403, "POST", "/auth/unlock", {"api_key": made["raw_key"]}))["error"] == "key_expired"


async def test_a_database_held_by_another_backend_is_busy(admin: Caller, directory: DataDir, api_key: str) -> None:
    from aiohttp.test_utils import TestClient, TestServer

    other = Embedded.load(directory)
    async with TestClient(TestServer(create_app(other))) as client:
        refused = await Caller(client).expect(423, "POST", "/auth/unlock", {"api_key": api_key})
        assert refused["error"] == "database_busy"
        await admin.expect(200, "POST", "/auth/lock")
        await Caller(client).unlock(api_key)
    await other.close()


async def test_a_damaged_database_is_reported_as_such(
    anybody: Caller, admin: Caller, api_key: str, directory: DataDir
) -> None:
    await admin.expect(200, "POST", "/auth/lock")
    directory.database.write_bytes(b"\x00" * 8192)
    refused = await anybody.expect(500, "POST", "/auth/unlock", {"api_key": api_key})
    assert refused["error"] == "database_foreign"  # nothing in it says that it was this journal's
    assert (await anybody.get("/auth/status"))["locked"] is True


async def test_a_lost_database_is_not_replaced_by_an_empty_one(
    anybody: Caller, admin: Caller, api_key: str, directory: DataDir
) -> None:
    await admin.expect(200, "POST", "/auth/lock")
    content = directory.database.read_bytes()
    directory.database.unlink()
    refused = await anybody.expect(500, "POST", "/auth/unlock", {"api_key": api_key})
    assert refused["error"] == "database_missing"
    assert not directory.database.exists()
    directory.database.write_bytes(content)
    await anybody.unlock(api_key)


async def test_many_callers_unlock_at_once_and_all_get_their_own_session(anybody: Caller, api_key: str) -> None:
    callers = await asyncio.gather(*(anybody.unlock(api_key) for _ in range(8)))
    assert len({caller.token for caller in callers}) == 8
    assert (await anybody.get("/auth/status"))["active_sessions"] == 8
    assert (await callers[0].get("/auth/status"))["role"] == "admin"


async def test_every_answer_has_its_own_request_id_and_the_envelope_repeats_it(anybody: Caller) -> None:
    first, second = await anybody.ask("GET", "/health"), await anybody.ask("GET", "/settings/")
    assert first.headers["X-Request-ID"] != second.headers["X-Request-ID"]
    assert (await second.json())["request_id"] == second.headers["X-Request-ID"]


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example:8765"}, {"Host": "["}, {"Origin": "https://evil.example"}, {"Origin": "null"}]
)
async def test_web_pages_and_foreign_names_are_refused(anybody: Caller, headers: dict[str, str]) -> None:
    refused = await anybody.expect(403, "GET", "/health", headers=headers)
    assert refused["error"] in {"bad_host", "bad_origin"}


async def test_routes_answer_with_and_without_a_trailing_slash(admin: Caller) -> None:
    assert await admin.get("/settings") == await admin.get("/settings/")
    assert await admin.get("/version") == await admin.get("/version/")
    await admin.expect(200, "PUT", "/settings/", {"ui.theme": "light"}, allow_redirects=False)


async def test_bodies_that_are_too_large_or_no_json_are_refused(admin: Caller) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 600_000

    assert (await admin.expect(413, "PUT", "/settings", data=BytesIO(b" " * 1_100_000)))["error"] == "too_large"
    assert (await admin.expect(413, "PUT", "/settings", data=chunks()))["error"] == "too_large"
    for body in (b"{", b"\xff\xfe", b"[" * 100_000, b'{"ui.theme": NaN}', b'{"a": 1e999999999}'):
        assert (await admin.expect(422, "PUT", "/settings", data=body))["error"] in {"invalid_json", "validation_error"}
    assert (await admin.expect(422, "PUT", "/settings", ["list"]))["error"] == "validation_error"


def test_the_prefix_is_part_of_the_contract() -> None:
    assert API_PREFIX == "/api/v1"


async def test_every_key_is_compared_in_constant_time_and_in_full_number(
    admin: Caller, backend: Embedded, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time an answer takes must not tell where in the list a key stands, nor how much of a guess was right."""
    made = [await admin.expect(201, "POST", "/auth/keys", {"label": f"{number}"}) for number in range(3)]
    keys = [api_key, *(key["raw_key"] for key in made)]
    compared: list[str] = []

    def counted(left: bytes, right: bytes) -> bool:
        compared.append("one")
        return real(left, right)

    real = hmac.compare_digest
    monkeypatch.setattr("zorivest_rpc.embedded.vault.crypto.hmac.compare_digest", counted)
    for guess in (*keys, keys[0][:-1] + "x", new_api_key()):
        compared.clear()
        backend.vault._find(guess)
        assert len(compared) == len(keys)


async def test_a_stolen_token_is_worth_nothing_after_a_lock_nor_after_the_next_unlock(
    admin: Caller, anybody: Caller, api_key: str
) -> None:
    stolen = Caller(admin.client, admin.token)
    await stolen.get("/trades")
    await admin.expect(200, "POST", "/auth/lock")
    assert (await stolen.expect(403, "GET", "/trades"))["error"] == "database_locked"
    await anybody.unlock(api_key)
    assert (await stolen.expect(401, "GET", "/trades"))["error"] == "session_unknown"
    await stolen.expect(401, "POST", "/auth/keys", {"label": "mine", "role": "admin"})


async def test_a_key_that_opened_the_database_is_not_stretched_again_while_it_is_open(
    admin: Caller, anybody: Caller, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await admin.expect(201, "POST", "/auth/keys", {"name": "laptop", "role": "read-only"})
    stretched: list[str] = []
    plain = Vault._derive

    def derive(vault: Vault, secret: str, salt: bytes) -> bytes:
        stretched.append(secret)
        return plain(vault, secret, salt)

    monkeypatch.setattr(Vault, "_derive", derive)
    for _ in range(2):
        await anybody.unlock(api_key)
    assert stretched == []
    for _ in range(2):
        await anybody.unlock(made["raw_key"])
    assert stretched == [made["raw_key"]]
    assert (await anybody.expect(401, "POST", "/auth/unlock", {"api_key": api_key[:-1] + "~"}))["error"]
    await admin.expect(204, "DELETE", f"/auth/keys/{made['key_id']}")
    refused = await anybody.expect(403, "POST", "/auth/unlock", {"api_key": made["raw_key"]})
    assert refused["error"] == "key_revoked"
    await admin.expect(200, "POST", "/auth/lock")
    await anybody.unlock(api_key)
    assert stretched == [made["raw_key"], api_key]
