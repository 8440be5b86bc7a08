"""The watch over the guard, with a backend that knows how to wait and with one that does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from zorivest_rpc.errors import BackendUnreachable
from zorivest_rpc.serving.tools.guard_watch import GuardWatch

OPEN: dict[str, Any] = {"is_locked": False, "lock_reason": None, "is_enabled": False, "call_count": 1}
LOCKED: dict[str, Any] = {"is_locked": True, "lock_reason": "test", "is_enabled": False, "call_count": 2}


class Guard:
    """Answers what a test puts into it, in turn; `asked` are the versions that were known."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.changes = 0
        self.heard = asyncio.Event()
        self.looked = asyncio.Event()
        self.answered = 0
        self.wanted = True
        self.watch = GuardWatch(self.look, self.changed, poll=0.0, after_failure=0.0)

    async def look(self, version: str | None) -> Any:
        self.asked.append(version)
        self.looked.set()
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def changed(self) -> None:
        self.changes += 1
        self.heard.set()

    async def tells(self, *states: Any) -> int:
        """How many changes were told after these answers."""
        before = self.changes
        for state in states:
            self.answers.put_nowait(state)
        self.answered += len(states)
        await self.has_asked(self.answered + 1)  # with the next question the last answer has been dealt with
        return self.changes - before

    async def has_asked(self, times: int) -> None:
        async with asyncio.timeout(10):
            while len(self.asked) < times:
                self.looked.clear()
                await self.looked.wait()

    def start(self) -> None:
        self.watch.want(self.want)

    def want(self) -> bool:
        return self.wanted


@pytest.fixture
async def guard() -> Any:
    guard = Guard()
    yield guard
    guard.wanted = False
    await guard.watch.close()


async def test_nothing_is_asked_while_nobody_subscribes(guard: Guard) -> None:
    await asyncio.sleep(0)
    assert guard.asked == []


async def test_a_backend_that_does_not_wait_is_asked_again_and_again(guard: Guard) -> None:
    guard.start()
    assert await guard.tells(OPEN, {**OPEN, "call_count": 9}) == 0
    assert await guard.tells(LOCKED, {**LOCKED, "call_count": 10}) == 1
    assert await guard.tells({**LOCKED, "lock_reason": "another"}) == 1
    assert await guard.tells(OPEN) == 1
    assert set(guard.asked) == {None}


async def test_a_lock_that_was_there_before_the_first_look_is_told(guard: Guard) -> None:
    guard.start()
    assert await guard.tells(LOCKED) == 1


async def test_what_was_shown_before_is_what_news_is_measured_by(guard: Guard) -> None:
    guard.watch.note(LOCKED)
    guard.start()
    assert await guard.tells(LOCKED) == 0
    assert await guard.tells(OPEN) == 1


async def test_what_was_shown_to_one_stays_news_to_the_others(guard: Guard) -> None:
    guard.start()
    await guard.tells(OPEN)
    guard.watch.note(LOCKED)
    assert await guard.tells(LOCKED) == 1


async def test_a_lock_that_was_taken_back_between_two_looks_is_told(guard: Guard) -> None:
    guard.start()
    assert await guard.tells({**OPEN, "version": "a.1"}) == 0
    assert await guard.tells({**OPEN, "version": "a.3"}) == 1
    assert await guard.tells({**OPEN, "version": "b.1"}) == 0, "another process begins to count anew"
    assert guard.asked[:3] == [None, "a.1", "a.3"]


async def test_a_failure_and_nonsense_are_no_news_and_no_end(guard: Guard) -> None:
    guard.start()
    await guard.tells(OPEN)
    assert (
        await guard.tells(BackendUnreachable("down", next="wait"), None, [], {"is_locked": "yes"}, TimeoutError()) == 0
    )
    assert await guard.tells(LOCKED) == 1


async def test_a_call_that_met_a_lock_wakes_the_watch(guard: Guard) -> None:
    guard.start()
    await guard.tells({**OPEN, "version": "a.1"})
    guard.watch.wake(False)  # no news
    await asyncio.sleep(0)
    assert len(guard.asked) == 2
    guard.watch.wake(True)
    await guard.has_asked(3)
    assert guard.asked[2] is None, "not held: the state as it is now"
    guard.answers.put_nowait({**LOCKED, "version": "a.2"})
    async with asyncio.timeout(10):
        await guard.heard.wait()


async def test_the_watch_ends_with_its_last_subscriber_and_begins_with_the_next(guard: Guard) -> None:
    guard.start()
    await guard.tells(OPEN)
    guard.wanted = False
    guard.answers.put_nowait(OPEN)
    task = guard.watch._task
    assert task is not None
    async with asyncio.timeout(10):
        await task
    guard.wanted = True
    guard.watch.note(OPEN)
    guard.start()
    guard.answers.put_nowait(LOCKED)
    async with asyncio.timeout(10):
        await guard.heard.wait()
