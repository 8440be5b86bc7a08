"""Eight servers on one data directory, two hundred calls at once: one backend, nothing lost, nobody told of a lock."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.test_process import ENVIRON, PATIENCE, backends_of, wait_gone
from tests.places import ROOT
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.locate import find

SERVERS = 8
CALLS = 25  # of each
KINDS = ("create_trade", "create_trade", "create_trade", "list_trades", "get_round_trips")


class Server:
    """A client of one server process, with many calls in flight."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.get_running_loop().create_task(self._read())
        self._errors = asyncio.get_running_loop().create_task(self._complaints())

    @classmethod
    async def start(cls, data: Path) -> Server:
        command = ("-m", "zorivest_rpc", "stdio", "--data-dir", str(data), "--toolsets", "all")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, limit=1 << 24, env=ENVIRON
        )
        return cls(process)

    async def open(self) -> None:
        info = {"name": "claude-code", "version": "2.1.280"}  # asks its user itself, so nothing waits for a token
        await self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        id = next(self._ids)
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self._send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        async with asyncio.timeout(PATIENCE):
            answer: dict[str, Any] = await waiting
        return answer

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return await self.request("tools/call", {"name": name, "arguments": arguments})

    async def works(self, name: str, /, **arguments: Any) -> Any:
        answer = await self.call(name, **arguments)
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]

    async def close(self) -> tuple[int, str]:
        """Hang up; the exit code and what was said on stderr."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            code = await self.process.wait()
            await self._reader
            return code, await self._errors

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self._waiting.pop(message["id"]).set_result(message)

    async def _complaints(self) -> str:
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A fresh directory whose backend, if a failed test leaves one, is ended."""
    data = tmp_path / "data"
    yield data
    for process in backends_of(data):
        process.kill()
        process.wait(PATIENCE)


async def test_two_hundred_calls_over_eight_servers_lose_nothing_and_share_one_backend(data: Path) -> None:
    servers = list(await asyncio.gather(*(Server.start(data) for _ in range(SERVERS))))
    try:
        await asyncio.gather(*(server.open() for server in servers))
        asked = [
            (server, kind, _arguments(kind, f"S{which}-{number}"))
            for number in range(CALLS)
            for which, server in enumerate(servers)
            for kind in (KINDS[number % len(KINDS)],)
        ]
        answers = await asyncio.gather(*(server.call(kind, **arguments) for server, kind, arguments in asked))
        assert len(answers) == 200
        for answer in answers:
            assert "result" in answer, answer
            assert not answer["result"].get("isError"), answer
            assert "is locked" not in json.dumps(answer).lower()
            assert "database_busy" not in json.dumps(answer)
        wanted = [arguments["exec_id"] for _, kind, arguments in asked if kind == "create_trade"]
        first, last = servers[0], servers[-1]
        kept = await first.works("list_trades", limit=500)
        assert Counter(trade["exec_id"] for trade in kept["items"]) == Counter(wanted)
        (trip,) = (await last.works("get_round_trips"))["items"]  # each server bought one more of the same
        assert (trip["status"], trip["total_quantity"]) == ("open", len(wanted))
        (backend,) = backends_of(data)
        located = find(data)
        assert located is not None
        assert located.pid == backend.pid
    finally:
        ends = await asyncio.gather(*(server.close() for server in servers))
    assert [code for code, _ in ends] == [0] * SERVERS
    assert not [text for _, text in ends if "Traceback" in text or "is locked" in text]
    assert "database is locked" not in "".join(path.read_text() for path in DataDir(data).logs.iterdir())
    os.kill(located.pid, signal.SIGTERM)
    await asyncio.to_thread(wait_gone, located)
    assert not backends_of(data)
    assert not [name for name in os.listdir(data) if name.startswith("zorivest.db-")]


def _arguments(kind: str, name: str) -> dict[str, Any]:
    if kind != "create_trade":
        return {}
    return {
        "exec_id": name,
        "instrument": "SPY STK",
        "action": "BOT",
        "quantity": 1,
        "price": 500.25,
        "account_id": "SHARED",
    }
