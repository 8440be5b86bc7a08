"""Random calls, locks, unlocks, kills and a full disk on the whole product: no call runs while the history says locked.

The seed is in the test's id. The checker itself is tried first on histories that are known to be right or wrong."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import psutil
import pytest

from tests.properties.guard_history import CALL, FULL, LOCK, RESTART, ROOM, UNLOCK, Operation, violations
from tests.serving.product.conftest import Client
from zorivest_rpc.app import Journal
from zorivest_rpc.cli.admin import Admin, RequestRefused
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.errors import ZorivestError


def op(kind: str, began: float, ended: float, by: str = "", succeeded: bool = True, note: str = "") -> Operation:
    return Operation(kind, began, ended, succeeded, by, note)


RIGHT = {
    "a call before the lock": [op(CALL, 0, 1), op(LOCK, 2, 3, "tool")],
    "a call beside the lock": [op(LOCK, 0, 2, "tool"), op(CALL, 1, 3)],
    "a refused call": [op(LOCK, 0, 1, "tool"), op(CALL, 2, 3, succeeded=False)],
    "a call after the unlock": [op(LOCK, 0, 1, "tool"), op(UNLOCK, 2, 3, "tool"), op(CALL, 4, 5)],
    "a call beside the unlock": [op(LOCK, 0, 1, "tool"), op(UNLOCK, 2, 5, "tool"), op(CALL, 3, 4)],
    "an unlock beside the lock": [op(LOCK, 0, 2, "tool"), op(UNLOCK, 1, 3, "tool"), op(CALL, 4, 5)],
    "an unlock whose answer was lost": [
        op(LOCK, 0, 1, "tool"),
        op(UNLOCK, 2, 3, "tool", False, "lost"),
        op(CALL, 4, 5),
    ],
    "a lock that was not acknowledged": [op(LOCK, 0, 1, "tool", False), op(CALL, 2, 3)],
    "a person's release": [op(LOCK, 0, 1, "person"), op(UNLOCK, 2, 3, "person"), op(CALL, 4, 5)],
}
WRONG = {
    "a call after the lock": [op(LOCK, 0, 1, "tool"), op(CALL, 2, 3)],
    "an unlock that was over before": [op(UNLOCK, 0, 1, "tool"), op(LOCK, 2, 3, "tool"), op(CALL, 4, 5)],
    "an unlock that was refused": [op(LOCK, 0, 1, "tool"), op(UNLOCK, 2, 3, "tool", False), op(CALL, 4, 5)],
    "an unlock that began later": [op(LOCK, 0, 1, "tool"), op(CALL, 2, 3), op(UNLOCK, 4, 5, "tool")],
    "a lock that a restart forgot": [op(LOCK, 0, 1, "tool"), op(RESTART, 2, 3), op(CALL, 4, 5)],
    "a tool that undid a person": [op(LOCK, 0, 1, "person"), op(UNLOCK, 2, 3, "tool")],
    "a call after a tool undid a person": [
        op(LOCK, 0, 1, "person"),
        op(UNLOCK, 2, 3, "tool", False, "lost"),
        op(CALL, 4, 5),
    ],
    "a second lock": [op(LOCK, 0, 1, "tool"), op(UNLOCK, 2, 3, "tool"), op(LOCK, 4, 5, "tool"), op(CALL, 6, 7)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_checker_accepts_what_some_order_allows(name: str) -> None:
    assert violations(RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_the_checker_finds_what_no_order_allows(name: str) -> None:
    assert len(violations(WRONG[name])) >= 1


class World:
    """A journal on a real backend process, its clients and its person, and what they saw."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.random = place, Random(seed)
        self.history: list[Operation] = []
        self.full = False
        self._environ = {"HOME": str(place), "ZORIVEST_KEYRING": "off"}
        self.clients: list[Client] = []
        self._trades = 0

    async def open(self) -> None:
        for name in ("claude-code", "Cline"):
            options = ["--data-dir", str(self.place), "--confirm", "never" if name == "claude-code" else "always"]
            client = Client(Journal(parse("stdio", options, self._environ)), name, {"elicitation": {}}, "2025-11-25")
            client.answers = _Always()  # type: ignore[assignment]
            await client.open()
            self.clients.append(client)
        await self.clients[0].call("get_settings")

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        if (located := find(self.place)) is not None:
            process = psutil.Process(located.pid)
            process.kill()
            process.wait(30)

    async def note(self, kind: str, work: Awaitable[tuple[bool, str]], by: str = "") -> None:
        began = time.monotonic()
        succeeded, note = await work
        self.history.append(Operation(kind, began, time.monotonic(), succeeded, by, note))

    # --- what can happen

    async def read(self) -> None:
        client = self.random.choice(self.clients)
        await self.note(CALL, self._tool(client, "get_settings", key="ui.theme"))

    async def write(self) -> None:
        """A gated call: of one client it is not asked, of the other the user answers a form first."""
        self._trades += 1
        trade = {"exec_id": f"H-{self._trades}", "instrument": "SPY STK", "action": "BOT", "quantity": 1, "price": 1}
        client = self.random.choice(self.clients)
        await self.note(CALL, self._tool(client, "create_trade", **trade, account_id="H"))

    async def tool_lock(self) -> None:
        await self.note(LOCK, self._tool(self.clients[0], "zorivest_emergency_stop", reason="history"), "tool")

    async def tool_unlock(self) -> None:
        await self.note(UNLOCK, self._tool(self.clients[0], "zorivest_emergency_unlock", confirm="UNLOCK"), "tool")

    async def person_lock(self) -> None:
        await self.note(LOCK, self._person("lock"), "person")

    async def person_unlock(self) -> None:
        await self.note(UNLOCK, self._person("unlock"), "person")

    async def kill(self) -> None:
        async def work() -> tuple[bool, str]:
            located = await asyncio.to_thread(find, self.place)
            if located is not None:
                process = psutil.Process(located.pid)
                os.kill(located.pid, signal.SIGKILL)
                await asyncio.to_thread(process.wait, 30)
                self.full = False  # the limit was the process's own
            return True, ""

        await self.note(RESTART, work())

    async def fill(self) -> None:
        await self._limit(FULL, 0)

    async def make_room(self) -> None:
        await self._limit(ROOM, resource.RLIM_INFINITY)

    async def _limit(self, kind: str, size: int) -> None:
        """No file of the backend process may grow beyond `size`: a full disk for it alone."""

        async def work() -> tuple[bool, str]:
            located = await asyncio.to_thread(find, self.place)
            if located is None:
                return False, ""
            try:
                resource.prlimit(located.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            except ProcessLookupError:
                return False, ""
            return True, ""

        await self.note(kind, work())

    async def _tool(self, client: Client, name: str, **arguments: Any) -> tuple[bool, str]:
        result = await client.call(name, **arguments)
        if not result.get("isError"):
            return True, name
        code = result["_meta"]["com.zorivest/error"]["code"]
        return False, "lost" if code in ("outcome_unknown", "backend_timeout") else code

    async def _person(self, verb: str) -> tuple[bool, str]:
        def work() -> tuple[bool, str]:
            try:
                status = Admin(self.place, environ=self._environ).ask("POST", f"/mcp-guard/{verb}", {"by": "person"})
            except RequestRefused as error:
                return False, "lost" if "does not answer" in str(error) else str(error)
            except (ZorivestError, OSError, ValueError):
                return False, "lost"
            return status["is_locked"] is (verb == "lock"), ""

        return await asyncio.to_thread(work)


class _Always:
    """A user who says yes to every form, whatever it asks."""

    def pop(self, index: int) -> dict[str, Any]:
        content = {"confirm": True, "release": "no", "instrument": "SPY", "quantity": 1}
        return {"action": "accept", "content": content}


async def run(place: Path, seed: int, steps: int) -> list[Operation]:
    """Steps of up to four operations at once, drawn from the seed; after each, what the guard lets through is tried."""
    world = World(place, seed)
    await world.open()
    common: list[Callable[[], Awaitable[None]]] = [world.read, world.write]
    locks: list[Callable[[], Awaitable[None]]] = [world.tool_lock, world.person_lock]
    others: list[Callable[[], Awaitable[None]]] = [
        world.tool_unlock,
        world.tool_unlock,
        world.person_unlock,
        world.fill,
        world.make_room,
    ]
    try:
        for step in range(steps):
            if step % 3 == 2:  # a person's lock would otherwise be the end of most histories
                await world.make_room()
                await world.person_unlock()
            if step % 10 == 9:  # the calls of this step meet a backend that has to be started
                if world.random.random() < 0.7:
                    await world.fill()
                    await world.random.choice(locks)()
                await world.kill()
            first = world.random.choice(others if step % 3 == 1 else locks if step % 10 < 9 else common)
            beside = [world.random.choice([*common, *locks, *others]) for _ in range(world.random.randint(0, 3))]
            async with asyncio.timeout(120):
                await asyncio.gather(first(), *(work() for work in beside))
                await asyncio.gather(world.read(), world.write())
    finally:
        await world.close()
    return world.history


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_no_call_runs_while_the_history_says_locked(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZORIVEST_KEYRING", "off")
    history = await run(tmp_path / "data", seed, 40)
    assert violations(history) == []
    done = {(each.kind, each.succeeded) for each in history}
    assert {(CALL, True), (CALL, False), (LOCK, True), (UNLOCK, True)} <= done
