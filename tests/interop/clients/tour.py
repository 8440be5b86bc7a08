"""What every Python client can be made to do: the tour of the showcase, or one order after the other from stdin.

Either way what it saw is printed as JSON: the tour as one object, orders as one line each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

LIMIT = 15.0
STEPS = 4


@dataclass
class Diary:
    """What the server told the client without being asked, and how the client answers when it is asked."""

    logs: list[dict[str, Any]] = field(default_factory=list)
    changes: int = 0
    asked: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, message: str, schema: dict[str, Any]) -> dict[str, Any]:
        self.asked.append({"message": message, "properties": schema.get("properties", {})})
        return self.answers.pop(0)


@dataclass(frozen=True)
class Answer:
    texts: list[str]
    structured: Any
    failed: bool
    wire: dict[str, Any]  # the whole result as the library hands it out, spelled as on the wire


Progress = Callable[[float, float | None, str | None], Awaitable[None]]


class Client(Protocol):
    """One connected client, whatever library it comes from."""

    revision: str

    async def tools(self) -> list[str]: ...
    async def call(self, name: str, arguments: dict[str, Any], progress: Progress | None = None) -> Answer: ...
    async def call_and_cancel(self, name: str, arguments: dict[str, Any], ready: Callable[[], Awaitable[None]]) -> str:
        """Start a call, cancel it once `ready` returns, and say how it ended."""

    def watching(self) -> contextlib.AbstractAsyncContextManager[None]:
        """While entered, changes of the tool list are counted in the diary."""

    async def loosen_log_level(self) -> None: ...
    async def prompts(self) -> list[str]: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> str: ...
    async def resources(self) -> list[str]: ...
    async def templates(self) -> list[str]: ...
    async def read(self, uri: str) -> str: ...


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {LIMIT:g} s for {what}")
        await asyncio.sleep(0.02)


async def until_noted(condition: Callable[[], bool], what: str) -> None:
    async def noted() -> bool:
        return condition()

    await until(noted, what)


async def tour(client: Client, diary: Diary) -> dict[str, Any]:
    seen: dict[str, Any] = {"revision": client.revision, "tools": await client.tools()}

    echo = await client.call("echo", {"text": "grüße, 世界 🌍"})
    seen["echo"] = {"texts": echo.texts, "structured": echo.structured, "failed": echo.failed}
    refused = await client.call("echo", {"text": 7})
    seen["refused"] = refused.failed

    steps: list[list[float | None]] = []

    async def progress(done: float, total: float | None, _message: str | None) -> None:
        steps.append([done, total])

    counted = await client.call("count", {"to": STEPS, "delay_ms": 60}, progress)
    await until_noted(lambda: len(steps) >= STEPS, "progress")
    seen["count"] = {"texts": counted.texts, "steps": steps}

    await client.loosen_log_level()
    await client.call("log", {"message": "first light", "level": "debug"})
    await client.call("log", {"message": "heavy weather", "level": "error"})
    await until_noted(lambda: len(diary.logs) >= 2, "log messages")
    seen["logs"] = diary.logs

    diary.answers = [{"action": "accept", "content": {"name": "Ada"}}, {"action": "decline"}]
    accepted = await client.call("ask_name", {})
    declined = await client.call("ask_name", {})
    seen["ask"] = {"accepted": accepted.texts, "declined": declined.texts, "asked": diary.asked}

    seen["cancel"] = await cancellation(client)
    seen["change"] = await list_change(client, diary)

    seen["prompts"] = await client.prompts()
    seen["greeting"] = await client.prompt("greet", {"name": "Ada"})
    seen["resources"] = await client.resources()
    seen["templates"] = await client.templates()
    seen["readme"] = await client.read("showcase://readme")
    seen["note"] = await client.read("showcase://note/42")
    return seen


async def waiting(client: Client) -> int:
    answer = await client.call("running", {})
    count: int = answer.structured["waiting"]
    return count


async def cancellation(client: Client) -> dict[str, Any]:
    before = await waiting(client)

    async def started() -> None:
        async def one_more() -> bool:
            return await waiting(client) == before + 1

        await until(one_more, "the call to run")

    ended = await client.call_and_cancel("wait", {"seconds": 60}, started)

    async def freed() -> bool:
        return await waiting(client) == before

    await until(freed, "the cancelled call to stop running")
    return {"ended": ended, "before": before, "after": await waiting(client)}


async def list_change(client: Client, diary: Diary) -> dict[str, Any]:
    seen = []
    async with client.watching():
        for _ in range(2):
            changes = diary.changes
            await client.call("toggle_extra", {})
            await until_noted(lambda changes=changes: diary.changes > changes, "the tool list to change")
            seen.append("extra" in await client.tools())
    return {"extra": seen}


async def obey(client: Client, diary: Diary) -> None:
    """Orders from stdin, one JSON array a line, until there are no more; each is answered with one line."""
    print(json.dumps({"revision": client.revision}), flush=True)
    async with contextlib.AsyncExitStack() as stack:
        while line := await asyncio.to_thread(sys.stdin.readline):
            order, *given = json.loads(line)
            try:
                seen = await follow(client, diary, stack, order, given)
            except Exception as exc:  # noqa: BLE001 - a refusal of the protocol, by whatever class this library knows it
                seen = {"refused": f"{type(exc).__name__}: {exc}"}
            print(json.dumps(seen), flush=True)


async def follow(client: Client, diary: Diary, stack: contextlib.AsyncExitStack, order: str, given: list[Any]) -> Any:
    if order == "call":
        return (await client.call(given[0], given[1])).wire
    if order == "progress":
        return await count_steps(client, given[0], given[1])
    if order == "withdraw":
        return await withdraw(client, *given)
    if order == "tools":
        return await client.tools()
    if order == "answer":
        diary.answers.extend(given[0])
        return None
    if order == "asked":
        return diary.asked
    if order == "watch":
        await stack.enter_async_context(client.watching())
        return None
    if order == "changes":
        await until_noted(lambda: diary.changes >= given[0], "the tool list to change")
        return diary.changes
    return await getattr(client, order)(*given)


async def count_steps(client: Client, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    steps: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        steps.append(done)

    answer = await client.call(name, arguments, progress)
    return {"steps": steps, "texts": answer.texts}


async def withdraw(client: Client, name: str, arguments: dict[str, Any], running: str | None, quick: list[Any]) -> str:
    """Cancel a call that is under way: the tool `running` counts those, or one quick call has been answered since."""

    async def count() -> int:
        return int((await client.call(running, {})).texts[0]) if running else 0

    async def started() -> None:
        async def one() -> bool:
            return await count() == 1

        await (until(one, "the call to run") if running else client.call(*quick))

    ended = await client.call_and_cancel(name, arguments, started)

    async def none() -> bool:
        return await count() == 0

    await until(none, "the cancelled call to stop running")
    return ended


@contextlib.asynccontextmanager
async def nothing() -> AsyncIterator[None]:
    yield


def main(connect: Callable[[str, dict[str, Any], Diary], contextlib.AbstractAsyncContextManager[Client]]) -> None:
    """`driver <stdio|http|sse> <json-config>`: take the tour or obey, print what was seen."""
    transport, config = sys.argv[1], json.loads(sys.argv[2])

    async def travel() -> None:
        diary = Diary()
        async with connect(transport, config, diary) as client:
            if config.get("obey"):
                await obey(client, diary)
            else:
                print(json.dumps(await tour(client, diary)))

    asyncio.run(travel())
