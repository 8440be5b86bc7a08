"""Kill the embedded backend under many callers and measure when the first of them is served again.

`python -m tests.faults.kills --callers 32 --kills 20` prints one line per kill. The callers are tools of one server in
this process; each calls without a pause, whatever it was answered. A thread of its own asks `/health` of whatever
`runtime.json` names, so that what is measured begins when the new process answers, not when this server notices."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient

__all__ = ["Kill", "run"]

_PATIENCE = 90.0  # seconds for one kill; an embedded backend that is not back by then never comes back
_LOOK = 0.005


@dataclass
class Kill:
    """What one kill cost; times are seconds after it."""

    healthy: float = 0.0
    served: float = 0.0
    refusals: Counter[str] = field(default_factory=Counter)
    texts: set[str] = field(default_factory=set)

    @property
    def lag(self) -> float:
        """From the new process's first answer to the first success of a caller."""
        return self.served - self.healthy


class Callers:
    """Clients that call one tool each, again and again."""

    def __init__(self, journal: Journal, count: int) -> None:
        self._server = Server(journal.offer)
        self._count = count
        self._tasks: list[asyncio.Task[None]] = []
        self.since = 0.0  # successes of calls that began before do not count
        self.kill = Kill()
        self.success = asyncio.Event()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._call(number)) for number in range(self._count)]
        await self.next_success(0.0, Kill())

    async def next_success(self, since: float, kill: Kill) -> float:
        self.since, self.kill, self.success = since, kill, asyncio.Event()
        async with asyncio.timeout(_PATIENCE):
            await self.success.wait()
        return time.monotonic()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _call(self, number: int) -> None:
        import orjson

        wire = MemoryClient(self._server)
        client = {"name": "claude-code", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        wire.send(orjson.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))
        await wire.receive()
        wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        params = {"name": "list_trades", "arguments": {"limit": 1}}
        if number % 4 == 3:  # a write among three reads, which is never sent twice
            params = {"name": "update_settings", "arguments": {"settings": {"ui.theme": "dark"}}}
        for id in itertools.count(1):
            began = time.monotonic()
            wire.send(orjson.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
            while (answer := orjson.loads(await wire.receive())).get("id") != id:
                pass  # a notification
            self._note(began, answer["result"])

    def _note(self, began: float, result: dict[str, Any]) -> None:
        if began < self.since:
            return
        if not result.get("isError"):
            self.success.set()
            return
        self.kill.refusals[result["_meta"]["com.zorivest/error"]["code"]] += 1
        self.kill.texts.add(f"{result['content'][0]['text']} {result['_meta']['com.zorivest/error'].get('next')}")


class Health:
    """When another process than the killed one first answers, as a thread of its own sees it."""

    def __init__(self, place: Path, killed: int) -> None:
        self._place, self._killed = place, killed
        self._over = threading.Event()
        self.at = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.is_set():
            located = find(self._place, timeout=0.5)
            if located is not None and located.pid != self._killed:
                self.at = time.monotonic()
                return
            self._over.wait(_LOOK)

    def end(self) -> float:
        self._thread.join(_PATIENCE)
        self._over.set()
        return self.at


async def run(place: Path, *, callers: int, kills: int) -> list[Kill]:
    """`kills` kills in a row under `callers` callers; the backend of `place` is ended at the end."""
    environ = {"HOME": str(place), "ZORIVEST_KEYRING": "off"}
    journal = Journal(parse("stdio", ["--data-dir", str(place)], environ))
    busy = Callers(journal, callers)
    done: list[Kill] = []
    try:
        await busy.start()
        for _ in range(kills):
            located = await asyncio.to_thread(find, place)
            assert located is not None
            health = Health(place, located.pid)
            kill, at = Kill(), time.monotonic()
            os.kill(located.pid, signal.SIGKILL)
            served = await busy.next_success(at, kill)
            kill.healthy, kill.served = await asyncio.to_thread(health.end) - at, served - at
            done.append(kill)
    finally:
        await busy.stop()
        await journal.close()
        if (located := await asyncio.to_thread(find, place)) is not None:
            backend = psutil.Process(located.pid)
            backend.terminate()
            await asyncio.to_thread(backend.wait, _PATIENCE)  # it writes into the directory until it has ended
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the embedded backend under load; bounded, on loopback.")
    parser.add_argument("--callers", type=int, default=32)
    parser.add_argument("--kills", type=int, default=20)
    arguments = parser.parse_args()
    os.environ["ZORIVEST_KEYRING"] = "off"
    with tempfile.TemporaryDirectory(prefix="zorivest-kills-") as place:
        kills = asyncio.run(run(Path(place), callers=arguments.callers, kills=arguments.kills))
    for number, kill in enumerate(kills, 1):
        print(
            f"kill {number:2}: healthy after {kill.healthy:5.2f} s, first success {kill.lag:+5.2f} s later; "
            f"refused meanwhile: {dict(kill.refusals) or 'none'}"
        )
    worst = max(kill.lag for kill in kills)
    print(
        f"{arguments.callers} callers, {len(kills)} kills: first success at most {worst:.2f} s after /health answered"
    )
    return 0 if worst <= 1.0 else 1


if __name__ == "__main__":
    sys.exit(main())
