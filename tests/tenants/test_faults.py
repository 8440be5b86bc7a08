"""One client's backend fails, in every way: the others notice nothing, and it works again once its backend does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.serving.backend.misbehaving import Behaviour, Misbehaving, Seen, Write, answer, never
from tests.tenants.wall.stage import Client, Stage, mark, stage

CONNECTIONS = 4  # of the client whose backend fails
CALLS = 100  # of the other one, while it does
MIB = 1024 * 1024
FULL = {"error": "disk_unwritable", "detail": "Nothing can be written: the disk is full or read-only."}


class Flood:
    """Bodies without an end, and how many bytes of them were taken."""

    def __init__(self) -> None:
        self.taken = 0

    async def __call__(self, seen: Seen, write: Write) -> bool:
        write.write(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            write.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await write.drain()
            self.taken += 0x10000


async def reset(seen: Seen, write: Write) -> bool:
    write.get_extra_info("socket").setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER 0: the close becomes a reset
    return False


def be_well(backend: Misbehaving) -> None:
    backend.routes = {
        "/auth/unlock": answer({"session_token": "tok_x", "expires_in": 3600, "role": "admin"}),
        "/mcp-guard/check": answer({"allowed": True}),
        "/settings": answer({"status": "updated", "count": 1}),
    }
    backend.otherwise = answer({"items": [], "total": 0})


def fall_ill(backend: Misbehaving, behave: Behaviour) -> None:
    backend.routes.clear()
    backend.otherwise = behave


def fill_disk(backend: Misbehaving, behave: Behaviour) -> None:
    """Reading goes on, as it does in the embedded backend."""
    backend.routes["/settings"] = behave


class Pair:
    """`acme`, whose backend does what a test says, and `beta`, whose backend is always well."""

    def __init__(self, place: Stage, backend: Misbehaving, client: Client) -> None:
        self.place, self.backend, self.client = place, backend, client

    async def call(self, tool: str = "list_trades", **more: Any) -> dict[str, Any]:
        return await self.client.call(tool, clientId="acme", **more)

    async def others(self, count: int = CALLS) -> None:
        """Calls of the other client, each of which has to be answered with its own data."""
        for _ in range(count):
            result = await self.client.call("list_trades", clientId="beta")
            assert not result.get("isError")
            assert mark("beta") in json.dumps(result)
            assert self.backend.open <= CONNECTIONS

    async def works_again(self, tool: str = "list_trades", **more: Any) -> None:
        """Once the circuit has had its look, which calls that are refused do not keep from it."""
        async with asyncio.timeout(30):
            while (await self.call(tool, **more)).get("isError"):
                pass


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    backend = Misbehaving()
    await backend.start()
    be_well(backend)
    async with asyncio.timeout(120):
        stages = []

        async def pair(*options: str, **more: Any) -> Pair:
            own = {"apiBaseUrl": f"{backend.url}/api/v1", "maxConcurrency": CONNECTIONS, **more}
            made = stage(monkeypatch, tmp_path, ["acme", "beta"], *options, acme=own)
            place = await made.__aenter__()
            stages.append(made)
            found = Pair(place, backend, await place.client())
            assert not (await found.call()).get("isError")
            await found.others(1)
            return found

        yield pair
        for made in stages:
            await made.__aexit__(None, None, None)
    await backend.stop()


def told(result: dict[str, Any]) -> str:
    assert result["isError"] is True
    assert result["_meta"]["com.zorivest/client"]["id"] == "acme"
    return str(result["content"][0]["text"])


async def test_calls_of_others_pass_those_that_hang_and_these_end_well_with_their_backend(make: Any) -> None:
    pair: Pair = await make()
    going_on = asyncio.Event()

    async def hang(seen: Seen, write: Write) -> bool:
        await going_on.wait()
        return await answer({"allowed": True, "items": [], "total": 0})(seen, write)

    fall_ill(pair.backend, hang)
    waiting = [asyncio.ensure_future(pair.call()) for _ in range(40)]
    await pair.others()
    assert not any(task.done() for task in waiting)
    assert pair.backend.open == CONNECTIONS, "the rest of them waits here, without a connection"
    going_on.set()
    assert not any(result.get("isError") for result in await asyncio.gather(*waiting))


async def test_one_that_hangs_holds_a_share_of_the_calls_of_the_server_and_no_more(make: Any) -> None:
    pair: Pair = await make("--calls-per-server", "40")
    fall_ill(pair.backend, never)
    waiting = [asyncio.ensure_future(pair.call()) for _ in range(10)]
    await pair.others(1)
    refused = await pair.call()
    words = 'Client "acme": 10 of its calls are being done already; wait for one to end and try again.'
    assert told(refused) == words
    error = refused["_meta"]["com.zorivest/error"]
    assert (error["class"], error["code"]) == ("BACKEND", "client_busy")
    await pair.others()
    assert not any(task.done() for task in waiting)
    for task in waiting:
        task.cancel()


async def test_a_backend_that_hangs_is_waited_for_as_long_as_its_client_says(make: Any) -> None:
    pair: Pair = await make(httpTimeoutMs=200)
    fall_ill(pair.backend, never)
    waiting = [asyncio.ensure_future(pair.call()) for _ in range(10)]
    await pair.others()
    texts = [told(result) for result in await asyncio.gather(*waiting)]
    assert 'Client "acme": the backend gave no answer within 200 ms.' in texts
    assert all('Client "acme": ' in text for text in texts)
    be_well(pair.backend)
    await pair.works_again()


FAULTS: list[tuple[Any, Behaviour, str, dict[str, Any], str]] = [
    (fall_ill, reset, "list_trades", {}, "did not answer"),
    (fall_ill, answer({"detail": "out of order"}, 500), "list_trades", {}, "out of order"),
    (fill_disk, answer(FULL, 503), "update_settings", {"settings": {"ui.theme": "dark"}}, "the disk is full"),
]


@pytest.mark.parametrize(
    ("begin", "behave", "tool", "arguments", "words"), FAULTS, ids=["resets", "answers 500", "full disk"]
)
async def test_a_failing_backend_fails_its_own_client_alone(
    make: Any, begin: Any, behave: Behaviour, tool: str, arguments: dict[str, Any], words: str
) -> None:
    pair: Pair = await make()
    begin(pair.backend, behave)
    failing = [asyncio.ensure_future(pair.call(tool, **arguments)) for _ in range(40)]
    await pair.others()
    texts = [told(result) for result in await asyncio.gather(*failing)]
    assert all('Client "acme": ' in text for text in texts)
    assert any(words in text for text in texts), texts[0]
    assert not any("beta" in text for text in texts)
    if begin is fill_disk:
        assert not (await pair.call()).get("isError"), "what only reads goes on"
    be_well(pair.backend)
    await pair.works_again(tool, **arguments)


async def test_a_flood_is_cut_off_one_answer_after_the_other_and_takes_no_turn_of_others(make: Any) -> None:
    pair: Pair = await make()
    flood = Flood()
    fall_ill(pair.backend, flood)
    flooded = [asyncio.ensure_future(pair.call()) for _ in range(CONNECTIONS)]
    while flood.taken < 8 * MIB:
        await pair.others(1)
    await pair.others()
    done, _ = await asyncio.wait(flooded, return_when=asyncio.FIRST_COMPLETED)
    # 64 MiB of one answer, and of each other one the first and what the system holds of a connection
    assert flood.taken < (64 + CONNECTIONS * 12) * MIB
    text = told(done.pop().result())
    assert 'Client "acme": ' in text
    assert "larger than 67108864 bytes" in text
    be_well(pair.backend)
    await pair.works_again()
    for task in flooded:
        task.cancel()
