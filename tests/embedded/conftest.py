"""A backend on a fresh directory with a cheap key derivation, and callers with each role."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from aiohttp import ClientResponse
from pytest_aiohttp import AiohttpClient

from tests.embedded.upstream import NOWHERE, addresses
from tests.places import ROOT
from zorivest_rpc.embedded.app import API_PREFIX, create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import Kdf, new_api_key
from zorivest_rpc.embedded.vault.vault import Vault

if TYPE_CHECKING:
    from tests.embedded.driver import Journal

CHEAP = Kdf(time_cost=1, memory_kib=64, parallelism=1)


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Caller:
    """One caller with at most one session."""

    def __init__(self, client: Any, token: str | None = None) -> None:
        self.client = client
        self.token = token

    async def ask(self, method: str, path: str, json: Any = None, **options: Any) -> ClientResponse:
        headers = dict(options.pop("headers", {}))
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        response: ClientResponse = await self.client.request(
            method, API_PREFIX + path, json=json, headers=headers, **options
        )
        return response

    async def expect(self, status: int, method: str, path: str, json: Any = None, **options: Any) -> Any:
        """The decoded answer; fails with the answer's text on another status."""
        response = await self.ask(method, path, json, **options)
        assert response.status == status, await response.text()
        return await response.json() if response.content_type == "application/json" else None

    async def get(self, path: str, **options: Any) -> Any:
        return await self.expect(200, "GET", path, **options)

    async def unlock(self, api_key: str) -> Caller:
        answer = await self.expect(200, "POST", "/auth/unlock", {"api_key": api_key})
        return Caller(self.client, answer["session_token"])


def list_live_directory(root: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The directory and all below it. A backup in progress renames and removes files meanwhile; those are left out."""
    yield root, root.stat()
    for directory, below, files in os.walk(root):  # passes over directories that have vanished; rglob raises
        for name in (*below, *files):
            with contextlib.suppress(FileNotFoundError):
                yield Path(directory, name), Path(directory, name).stat()


def copy_live_directory(source: Path, target: Path) -> Path:
    """Copy the files that a kill would leave."""
    for path, status in list_live_directory(source):
        copy = target / path.relative_to(source)
        if stat.S_ISDIR(status.st_mode):
            copy.mkdir()
        elif stat.S_ISREG(status.st_mode):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy2(path, copy)
    return target


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


@pytest.fixture(scope="session")
def founded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A new vault beside a database with every table and no row, and its key. Making the tables takes 0.14 s of
    processor time, two thirds of what a test of a route takes, so each test gets a copy."""
    directory = DataDir(tmp_path_factory.mktemp("founded") / "data").create()
    key, driver = new_api_key(), cipher_driver()
    _, dek = Vault.create(directory, key, encrypted=driver is not None, key_source="file", kdf=CHEAP).unlock(key)
    database = Database(directory.database, dek if driver is not None else None, driver)
    with ThreadPoolExecutor(1) as apart:  # on a loop of its own, whatever loop the test runs on
        apart.submit(asyncio.run, database.close()).result()
    return directory.root, key


@pytest.fixture
def api_key(founded: tuple[Path, str]) -> str:
    return founded[1]


@pytest.fixture
async def backend(founded: tuple[Path, str], directory: DataDir, clock: Clock) -> AsyncIterator[Embedded]:
    """Created, not yet unlocked."""
    shutil.copytree(founded[0], directory.root, dirs_exist_ok=True)
    backend = Embedded.load(directory, clock=clock)
    backend.outbound.addresses |= addresses(NOWHERE)  # a test never leaves this machine
    yield backend
    await backend.close()


@pytest.fixture
async def anybody(backend: Embedded, aiohttp_client: AiohttpClient) -> Caller:
    """A caller without a session."""
    return Caller(await aiohttp_client(create_app(backend)))


@pytest.fixture
async def admin(anybody: Caller, api_key: str) -> Caller:
    return await anybody.unlock(api_key)


@pytest.fixture
async def with_role(admin: Caller, anybody: Caller) -> Callable[[str], Awaitable[Caller]]:
    async def make(role: str) -> Caller:
        key = await admin.expect(201, "POST", "/auth/keys", {"label": role, "role": role})
        return await anybody.unlock(key["raw_key"])

    return make


@pytest.fixture
async def journal(admin: Caller) -> Journal:
    from tests.embedded.driver import Journal

    return Journal(admin)


@pytest.fixture(scope="session")
def satisfies() -> Callable[[str, Any], None]:
    """Check an answer against the output schema of a tool, where that has one."""

    def check(tool: str, answer: Any) -> None:
        (path,) = (ROOT / "schemas" / "tools").glob(f"*/{tool}.json")
        schema = json.loads(path.read_text(encoding="utf-8")).get("outputSchema")
        if schema is not None:
            jsonschema.validate(answer, schema)

    return check
