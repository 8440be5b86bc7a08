"""A program that speaks JSON-RPC in lines over its standard streams, with us in the seat of its user interface."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

Json = Any
Answer = Callable[[str, Json], Json]
"""From a request that the program makes of its user interface, method and params, to the result."""

_SECONDS = 180.0  # a bound for a hung program, not a measurement
_GOODBYE = 10.0


class Peer:
    """One running program. Notifications are kept in `notes`; requests to us go to `answer`."""

    def __init__(self, child: asyncio.subprocess.Process, answer: Answer, errors: Path) -> None:
        self._child = child
        self._answer = answer
        self._errors = errors
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self.notes: list[tuple[str, Json]] = []
        self.asked: list[tuple[str, Json]] = []
        self._changed = asyncio.Condition()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(
        cls, command: Sequence[str], answer: Answer, *, env: Mapping[str, str], cwd: Path, errors: Path
    ) -> Peer:
        with errors.open("ab") as log:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=env,
                cwd=cwd,
                limit=64 * 1024 * 1024,
                start_new_session=True,
            )
        return cls(child, answer, errors)

    def send(self, message: Json) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(message).encode() + b"\n")

    async def request(self, method: str, params: Json) -> Json:
        id = next(self._ids)
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        async with asyncio.timeout(_SECONDS):
            return await waiting

    def notify(self, method: str, params: Json = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params}))

    async def until(self, wanted: Callable[[Peer], bool]) -> None:
        """Wait for notes or questions that make `wanted` true."""
        async with asyncio.timeout(_SECONDS), self._changed:
            await self._changed.wait_for(lambda: wanted(self))

    async def _read(self) -> None:
        assert self._child.stdout is not None
        async for line in self._child.stdout:
            if not line.startswith(b"{"):
                continue
            message = json.loads(line)
            if "method" not in message:
                waiting = self._waiting.pop(message["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
                continue
            params = message.get("params")
            if "id" not in message:
                self.notes.append((message["method"], params))
            else:
                self.asked.append((message["method"], params))
                result = self._answer(message["method"], params)
                if result is not None:
                    self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})
            async with self._changed:
                self._changed.notify_all()
        for waiting in self._waiting.values():
            if not waiting.done():
                last = self._errors.read_text(errors="replace")[-2000:]
                waiting.set_exception(RuntimeError(f"the program ended:\n{last}"))

    async def close(self) -> None:
        """Close its input, as a user interface does that goes away; what does not end by itself is ended.

        The program has a process group of its own: some start themselves again, and that child holds the streams."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            async with asyncio.timeout(_GOODBYE):
                await self._reader
        except TimeoutError:
            os.killpg(self._child.pid, signal.SIGTERM)
        await self._child.wait()
        await asyncio.wait({self._reader}, timeout=_GOODBYE)
