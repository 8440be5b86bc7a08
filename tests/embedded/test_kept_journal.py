"""A journal made by an earlier release opens without a question: guard as it was left, every row, every figure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.embedded.kept.answers import (
    AREAS,
    GROWING,
    REBUILT,
    VARIANTS,
    answers_of,
    changes,
    golden,
    open_kept,
    rows_of,
    unpack,
)
from tests.embedded.kept.clock import fixed_clock
from tests.embedded.kept.make import PASSPHRASE, WRITES
from zorivest_rpc.embedded.database.engine import cipher_driver

EVERY = [pytest.param(variant, id=variant) for variant in VARIANTS]


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    with fixed_clock():
        yield


@pytest.mark.parametrize("variant", EVERY)
async def test_every_row_of_an_earlier_release_is_as_it_was(variant: str, tmp_path: Path) -> None:
    tables = sorted(golden(variant, "rows", "").parent.glob("*.json"))
    assert len(tables) > 30
    async with open_kept(unpack(variant, tmp_path)) as (backend, _):
        for path in tables:
            before = json.loads(path.read_text())
            if path.stem in REBUILT:
                continue
            now = await backend.database().read(partial(rows_of, table=path.stem, columns=before["columns"]))
            if path.stem in GROWING:
                known = [json.dumps(row) for row in now["rows"]]
                assert all(json.dumps(row) in known for row in before["rows"]), path.stem
            else:
                assert now == before, path.stem


@pytest.mark.parametrize("area", sorted(AREAS))
@pytest.mark.parametrize("variant", EVERY)
async def test_every_figure_of_an_earlier_release_is_as_it_was(variant: str, area: str, tmp_path: Path) -> None:
    async with open_kept(unpack(variant, tmp_path)) as (_, owner):
        answers = await answers_of(owner, area)
    expected = json.loads(golden(variant, "answers", area).read_text())
    assert {name: answer["status"] for name, answer in answers.items()} == dict.fromkeys(answers, 200)
    for name, answer in answers.items():
        lost = changes(expected[name], answer)
        assert not lost, f"{name}; if that is meant: python -m tests.embedded.kept.answers --write\n" + "\n".join(lost)


async def test_a_guard_that_was_left_locked_is_locked(tmp_path: Path) -> None:
    directory = unpack("encrypted", tmp_path)
    for _ in range(2):
        async with open_kept(directory) as (_, owner):
            status = await owner.get("/mcp-guard/status")
            assert (status["is_locked"], status["lock_reason"]) == (True, "left locked")
            assert (status["calls_per_minute_limit"], status["calls_per_hour_limit"]) == (7, 77)
            refused = await owner.expect(403, "GET", "/trades", headers={"X-MCP-Guard": "check"})
            assert refused["detail"]["reason"] == "left locked"


async def test_a_guard_that_was_left_open_is_open(tmp_path: Path) -> None:
    async with open_kept(unpack("plain", tmp_path)) as (_, owner):
        status = await owner.get("/mcp-guard/status")
        assert (status["is_enabled"], status["is_locked"]) == (True, False)
        await owner.expect(200, "GET", "/trades", headers={"X-MCP-Guard": "check"})


@pytest.mark.parametrize("variant", EVERY)
async def test_the_passphrase_and_every_key_of_an_earlier_release_open_it(variant: str, tmp_path: Path) -> None:
    async with open_kept(unpack(variant, tmp_path)) as (backend, owner):
        assert [key["role"] for key in await owner.get("/auth/keys")] == ["admin", "read-write"]
        await owner.expect(200, "POST", "/auth/lock")
        _, session, _ = await backend.unlock_by_passphrase(PASSPHRASE)
        assert session.role.label == "admin"


@pytest.mark.parametrize("variant", EVERY)
async def test_a_kept_journal_takes_new_rows_and_opens_again(variant: str, tmp_path: Path) -> None:
    directory = unpack(variant, tmp_path)
    trade = next(body for _, path, body in WRITES if path == "/trades")
    async with open_kept(directory) as (_, owner):
        before = (await owner.get("/trades"))["total"]
        await owner.expect(201, "POST", "/trades", {**trade, "exec_id": "LATER-1"})
    async with open_kept(directory) as (_, owner):
        assert (await owner.get("/trades"))["total"] == before + 1


@pytest.mark.skipif(cipher_driver() is None, reason="no SQLCipher here")
def test_the_kept_database_is_encrypted(tmp_path: Path) -> None:
    data = unpack("encrypted", tmp_path).database.read_bytes()
    assert not data.startswith(b"SQLite format 3")
    assert b"KEPT-1" not in data
