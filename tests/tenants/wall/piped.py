"""Callers on pipes, to whom every tenant is granted: of a process that was started for them, or in this one."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.tenants.wall.eye import Leak, check, look, part, search
from tests.tenants.wall.stage import LEGACY, MODERN, Client
from tests.tenants.wall.walker import BOUNDED, READS, SYNC, TENANTS, Place, Walker, weigh

__all__ = ["OverPipe", "Pipe", "Talk", "pipe"]

_LONGEST = 16 << 20  # bytes of a line


class Pipe:
    """The stdin and stdout of a process, as the wire of a client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout

    def send(self, frame: bytes) -> None:
        self._input.write(frame + b"\n")

    async def receive(self) -> bytes:
        line = await self._output.readline()
        if not line:
            raise EOFError("the server closed its pipe")
        return line


@asynccontextmanager
async def pipe(options: list[str], environ: dict[str, str]) -> AsyncIterator[Pipe]:
    """A server of its own on stdio, which ends when its pipe does. What it says on stderr shows."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zorivest_rpc", "stdio", *options),
        stdin=-1,
        stdout=-1,
        env={"PATH": os.environ["PATH"], **environ},
        limit=_LONGEST,
    )
    try:
        yield Pipe(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(20):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


class Talk:
    """One connection, which several callers may share, and what is known of it."""

    def __init__(self, client: Client, place: Place) -> None:
        self.client = client
        self.place = place
        self.followed: set[str] = set()
        client.watch = self._watch

    def _watch(self, frame: bytes) -> None:
        try:
            self._judge(frame)
        except Leak as leak:
            self.place.expected.faults.append(leak)

    def _judge(self, frame: bytes) -> None:
        search(frame.decode(), TENANTS, "a line")
        for note in self.client.notes:
            look(note, TENANTS, None, "a notification")
            if note["method"] == "notifications/resources/updated":
                check(note["params"]["uri"] in self.followed, "an update of what is not followed", note)
                self.place.expected.done["an update was heard on a pipe"] += 1
        self.client.notes.clear()


class OverPipe(Walker):
    """One of the callers of a connection, in its era."""

    def __init__(self, talk: Talk, rng: random.Random, place: Place, name: str) -> None:
        super().__init__(TENANTS, rng, place)
        self.name = name
        self.talk = talk
        self.client = talk.client
        self.able = talk.client.able

    def acts(self) -> dict[str, int]:
        return super().acts() | weigh("cancelled 8 subscription 4 brake 2 question 4")

    def can_modern(self) -> bool:
        return self.client.revision == MODERN

    async def ask(self, method: str, params: dict[str, Any], era: str | None = None) -> dict[str, Any]:
        answer = await self.client.request(method, params)
        if answer.get("result", {}).get("resultType") == "task":
            return await self.finish(answer["result"]["taskId"])
        return answer

    async def cancelled(self) -> None:
        tool = self.rng.choice((*READS, "common__echo"))
        params = {"name": tool, "arguments": {"clientId": self.pick()}}
        id, waiting = self.client.start("tools/call", params)
        await asyncio.sleep(0)
        self.client.cancel(id)
        waiting.cancel()

    async def subscription(self) -> None:
        if self.client.revision == MODERN:
            return
        uri = f"zorivest://guard?clientId={self.pick()}"
        method = "resources/unsubscribe" if uri in self.talk.followed else "resources/subscribe"
        self.talk.followed.add(uri)  # what is on its way when it ends may still come
        answer = await self.ask(method, {"uri": uri})
        check("result" in answer, method, answer)

    async def brake(self) -> None:
        """A lock that nobody waits for: the guard's subscribers may hear of it, and of no other."""
        tenant = self.pick()
        self.place.backends.locked.add(tenant)
        answer = await self.call("list_trades", tenant)
        self.place.backends.locked.discard(tenant)
        if not part(answer, "result").get("isError"):  # another walker released it meanwhile
            self.expected.calls[tenant] += 1

    async def question(self) -> None:
        """A legacy client is asked while its call waits: for the client that the call is for."""
        if self.client.revision == MODERN or "elicitation" not in self.able:
            return
        tenant = self.pick()
        answer = await self.call("sync_broker", tenant, **SYNC)
        asked = [json.dumps(each) for each in self.client.asked]
        if tenant != BOUNDED and "guard_blocked" not in json.dumps(answer):
            check(any(f"For client Desk of {tenant}: " in each for each in asked), f"nobody asked for {tenant}", asked)
            self.did("a legacy client was asked")
        del self.client.asked[:-20]


async def open_talk(wire: Any, revision: str, able: dict[str, Any], place: Place) -> Talk:
    client = Client(wire, revision, able)
    talk = Talk(client, place)
    await client.open()
    if revision == LEGACY:
        await client.request("logging/setLevel", {"level": "debug"})
    return talk
