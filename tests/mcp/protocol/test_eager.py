"""A coroutine that is stepped at once behaves as it would in a task, whatever it awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from zorivest_rpc.mcp.eager import begin


def start(coro: Coroutine[Any, Any, Any]) -> Any:
    return begin(coro, asyncio.get_running_loop())


async def test_what_never_waits_is_there_at_once() -> None:
    async def inner() -> int:
        return 2

    async def outer() -> int:
        return await inner() + 1

    assert start(outer()) == 3


async def test_an_exception_without_waiting_is_raised_at_once() -> None:
    async def fails() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        start(fails())


async def test_what_waits_becomes_a_task() -> None:
    gate = asyncio.Event()

    async def waits() -> str:
        await gate.wait()
        return "done"

    task = start(waits())
    assert isinstance(task, asyncio.Task)
    gate.set()
    assert await task == "done"


async def test_a_bare_yield_waits_one_turn() -> None:
    async def yields() -> list[int]:
        seen = []
        for number in range(3):
            await asyncio.sleep(0)
            seen.append(number)
        return seen

    assert await start(yields()) == [0, 1, 2]


async def test_a_future_that_failed_is_raised_inside() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def waits() -> str:
        try:
            await future
        except ValueError:
            return "caught"
        return "missed"

    task = start(waits())
    future.set_exception(ValueError())
    assert await task == "caught"


async def test_a_timeout_begun_in_the_first_step_fires() -> None:
    async def waits() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "missed"

    assert await start(waits()) == "timed out"


async def test_a_timeout_of_no_time_fires() -> None:
    async def waits() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "missed"

    assert await start(waits()) == "timed out"


async def test_a_timeout_that_is_not_needed_leaves_nothing_behind() -> None:
    async def quick() -> str:
        async with asyncio.timeout(10):  # noqa: ASYNC100
            return "quick"

    assert start(quick()) == "quick"

    async def later() -> int:
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert await start(later()) == 0


async def test_nested_timeouts_keep_apart() -> None:
    async def waits() -> str:
        async with asyncio.timeout(10):
            try:
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            except TimeoutError:
                await asyncio.sleep(0)
                return "inner"
        return "missed"

    assert await start(waits()) == "inner"


async def test_a_task_group_begun_in_the_first_step_gathers() -> None:
    async def part(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def groups() -> int:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part(number)) for number in range(4)]
        return sum(task.result() for task in parts)

    assert await start(groups()) == 6


async def test_a_task_group_with_a_failing_part_raises_and_stops_the_others() -> None:
    stopped = asyncio.Event()

    async def fails() -> None:
        raise ValueError("part")

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def groups() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(waits())
                await asyncio.sleep(0)
                group.create_task(fails())
                await asyncio.Event().wait()
        except* ValueError:
            pass
        return "caught"

    assert await start(groups()) == "caught"
    assert stopped.is_set()


async def test_cancelling_before_the_first_wake_up_is_seen_inside() -> None:
    seen = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = start(waits())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_cleaning_up_after_a_cancellation_may_wait() -> None:
    async def waits() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "cleaned up"
        return "missed"

    for turns in range(3):
        task = start(waits())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        assert await task == "cleaned up"


async def test_cancelling_later_is_seen_inside() -> None:
    gate = asyncio.Event()

    async def waits() -> str:
        await gate.wait()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "seen"
        return "missed"

    task = start(waits())
    gate.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "seen"


async def test_there_is_a_current_task_during_the_first_step_and_it_is_put_back() -> None:
    outer = asyncio.current_task()
    seen = []

    async def looks() -> None:
        seen.append(asyncio.current_task())

    start(looks())
    assert seen[0] is not None
    assert seen[0] is not outer
    assert asyncio.current_task() is outer


async def test_it_can_be_begun_within_another_first_step() -> None:
    gate = asyncio.Event()

    async def inner() -> int:
        await gate.wait()
        return 1

    async def outer() -> int:
        task = start(inner())
        gate.set()
        return int(await task) + 1

    assert await start(outer()) == 2


async def test_locks_queues_and_gather_work_from_the_first_step() -> None:
    lock, queue = asyncio.Lock(), asyncio.Queue[int]()

    async def takes() -> int:
        async with lock:
            return await queue.get()

    async def both() -> int:
        return sum(await asyncio.gather(takes(), takes()))

    task = start(both())
    queue.put_nowait(1)
    queue.put_nowait(2)
    assert await task == 3


async def test_wait_for_works_from_the_first_step() -> None:
    async def waits() -> str:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        except TimeoutError:
            return "timed out"
        return "missed"

    assert await start(waits()) == "timed out"


async def test_code_in_a_thread_can_be_awaited_in_the_first_step() -> None:
    async def threads() -> int:
        return await asyncio.to_thread(lambda: 5)

    assert await start(threads()) == 5


async def test_cancelling_oneself_in_the_first_step_is_seen_at_the_first_wait() -> None:
    async def gives_up() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return "seen"
        return "missed"

    assert await start(gives_up()) == "seen"
