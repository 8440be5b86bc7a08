"""One server under churn: clients of both eras and of the HTTP+SSE pair come, vanish and come again; its backend is
killed under load; what the process takes is sampled once a second."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import msgspec
import psutil

from zorivest_rpc.embedded.locate import find

__all__ = ["Figures", "soak"]

MODERN: Final = "2026-07-28"
PER_VANISHED: Final = 10_000  # bytes that a session whose client vanished may take until it is forgotten
ROOM: Final = 40 << 20  # bytes that caches, pools and the allocator may take beside
KILL_EVERY: Final = 25.0
PATIENCE: Final = 60.0


class Sample(msgspec.Struct):
    at: float
    rss: int
    descriptors: int
    processor: float  # seconds so far
    sessions: int
    vanished: int


class Figures(msgspec.Struct):
    samples: list[Sample]
    kills: int
    refused: int  # calls that found no backend, which is what a kill is for
    broken: list[str]

    @property
    def start(self) -> Sample:
        return self.samples[len(self.samples) // 6]  # behind the warm-up

    def cost(self, first: Sample, last: Sample) -> float:
        """Processor time of a session, in milliseconds."""
        return 1000 * (last.processor - first.processor) / max(1, last.sessions - first.sessions)

    @property
    def costs(self) -> tuple[float, float, float]:
        """Of the first, the middle and the last third."""
        marks = [self.samples[len(self.samples) * part // 3 - (part == 3)] for part in range(4)]
        return tuple(self.cost(*pair) for pair in pairwise(marks))  # type: ignore[return-value]

    def problems(self) -> list[str]:
        start, end = self.start, self.samples[-1]
        allowed = ROOM + PER_VANISHED * (end.vanished - start.vanished)
        found = list(self.broken)
        if end.rss - start.rss > allowed:
            found.append(f"memory grew by {(end.rss - start.rss) >> 20} MiB, {allowed >> 20} are allowed")
        if end.descriptors > start.descriptors + 40:
            found.append(f"file descriptors grew from {start.descriptors} to {end.descriptors}")
        first, _, last = self.costs
        if last > 1.6 * first + 1:
            found.append(f"a session took {first:.1f} ms of processor time at first and {last:.1f} ms at last")
        return found

    def lines(self) -> list[str]:
        peak = max(self.samples, key=lambda sample: sample.rss)
        most = max(sample.descriptors for sample in self.samples)
        rows = [("start", self.start), ("peak", peak), ("end", self.samples[-1])]
        told = [
            f"{name:>6}: {sample.at:6.0f} s  {sample.rss >> 20:5} MiB  {sample.descriptors:4} descriptors  "
            f"{sample.sessions:7} sessions, {sample.vanished} of them vanished"
            for name, sample in rows
        ]
        costs = ", ".join(f"{cost:.1f}" for cost in self.costs)
        told.append(f"processor time of a session, by thirds: {costs} ms; most descriptors {most}")
        told.append(f"{self.kills} kills of the backend, {self.refused} calls refused meanwhile")
        return told


class _Run:
    def __init__(self, data: Path, port: int, seed: int) -> None:
        self.data = data
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.random = Random(seed)
        self.sessions = self.vanished = self.kills = self.refused = 0
        self.broken: list[str] = []
        self.http: aiohttp.ClientSession

    def check(self, answer: Any, what: str) -> None:
        if "error" in answer:
            self.broken.append(f"{what}: {str(answer['error'])[:200]}")
        elif answer.get("result", {}).get("isError"):
            self.refused += 1

    async def post(self, message: Any, headers: dict[str, str], path: str = "/mcp") -> tuple[int, Any, Any]:
        given = {"Accept": "application/json, text/event-stream", **headers}
        async with self.http.post(self.url + path, json=message, headers=given) as reply:
            text = await reply.text()
            if reply.content_type == "text/event-stream":
                datas = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
                text = datas[-1] if datas else ""
            return reply.status, json.loads(text) if text.strip() else None, reply.headers

    # --- kinds of clients

    async def legacy(self) -> None:
        status, _, given = await self.post(_hello("2025-11-25"), {})
        session = {"Mcp-Session-Id": given.get("Mcp-Session-Id", "")}
        if status != 200:
            self.broken.append(f"initialize: {status}")
            return
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        for number, (method, params) in enumerate(self._talk()):
            status, answer, _ = await self.post(_request(number, method, params), session)
            if status != 200 or answer is None:
                self.broken.append(f"{method}: {status}")
            else:
                self.check(answer, method)
        if self.random.random() < 0.2:
            self.vanished += 1
        else:
            async with self.http.delete(self.url + "/mcp", headers=session) as reply:
                if reply.status != 204:
                    self.broken.append(f"DELETE: {reply.status}")

    def _talk(self) -> list[tuple[str, Any]]:
        return [
            ("tools/list", {}),
            ("logging/setLevel", {"level": self.random.choice(("info", "error"))}),
            ("resources/subscribe", {"uri": "zorivest://guard"}),
            ("tools/call", {"name": "list_available_toolsets", "arguments": {}}),
            ("tools/call", {"name": "get_settings", "arguments": {}}),
        ]

    async def modern(self) -> None:
        about = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
        }
        for method, params in (("server/discover", {}), ("tools/call", {"name": "get_settings", "arguments": {}})):
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            if "name" in params:
                headers["Mcp-Name"] = str(params["name"])
            status, answer, _ = await self.post(_request(1, method, {**params, "_meta": about}), headers)
            if status != 200:
                self.broken.append(f"modern {method}: {status}")
            else:
                self.check(answer, method)

    async def pair(self) -> None:
        async with self.http.get(self.url + "/sse") as stream:
            endpoint = await _data(stream)
            for message in (_hello("2024-11-05"), _request(2, "ping", {}), _request(3, "tools/list", {})):
                await self.post(message, {}, endpoint)
                self.check(json.loads(await _data(stream)), "over the pair")

    async def vanish(self) -> None:
        """A stream, a body in the middle, or a call that nobody waits for; then a reset."""
        kind = self.random.randrange(3)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"Host: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
        if kind == 0:
            writer.write(f"GET /sse HTTP/1.1\r\n{head}\r\n".encode())
            await reader.readline()
        elif kind == 1:
            writer.write(f"POST /mcp HTTP/1.1\r\n{head}Content-Length: 5000\r\n\r\n{{".encode())
        else:
            body = json.dumps(_hello("2025-06-18"))
            writer.write(f"POST /mcp HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    # --- all of it

    async def client(self, until: float) -> None:
        kinds = [self.legacy, self.legacy, self.modern, self.pair, self.vanish]
        while time.monotonic() < until:
            kind = self.random.choice(kinds)
            try:
                async with asyncio.timeout(PATIENCE):
                    await kind()
                self.sessions += 1
            except (TimeoutError, aiohttp.ClientError, OSError) as exc:
                self.broken.append(f"{kind.__name__}: {exc!r}")

    async def killer(self, until: float) -> None:
        while time.monotonic() + KILL_EVERY < until:
            await asyncio.sleep(KILL_EVERY)
            located = await asyncio.to_thread(find, self.data)
            if located is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(located.pid, signal.SIGKILL)
                self.kills += 1


async def _data(stream: aiohttp.ClientResponse) -> str:
    while True:
        line = (await stream.content.readline()).decode()
        if line.startswith("data: "):
            return line[6:].strip()
        if not line:
            raise ConnectionError("the stream ended")


def _hello(revision: str) -> Any:
    about = {"name": "soak", "version": "1"}
    return _request(0, "initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": about})


def _request(id: int, method: str, params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def soak(data: Path, minutes: float, clients: int, seed: int) -> Figures:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (data / "server.log").open("wb")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zorivest_rpc", "serve", "--no-auth", "--port", str(port), "--data-dir", str(data)),
        env={**os.environ, "ZORIVEST_KEYRING": "off"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    run = _Run(data, port, seed)
    figures = Figures([], 0, 0, run.broken)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as run.http:
        try:
            await _ready(run)
            began, process = time.monotonic(), psutil.Process(child.pid)
            until = began + 60 * minutes
            async with asyncio.TaskGroup() as group:
                for _ in range(clients):
                    group.create_task(run.client(until))
                group.create_task(run.killer(until))
                while time.monotonic() < until:
                    figures.samples.append(_sample(process, began, run))
                    await asyncio.sleep(1.0)
            figures.samples.append(_sample(process, began, run))
        finally:
            child.send_signal(signal.SIGTERM)
            await child.wait()
            log.close()
            located = await asyncio.to_thread(find, data)
            if located is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    backend = psutil.Process(located.pid)
                    backend.terminate()
                    await asyncio.to_thread(backend.wait, PATIENCE)  # it writes until then
    figures.kills, figures.refused = run.kills, run.refused
    return figures


def _sample(process: psutil.Process, began: float, run: _Run) -> Sample:
    spent = process.cpu_times()
    at, rss, descriptors = time.monotonic() - began, process.memory_info().rss, process.num_fds()
    return Sample(at, rss, descriptors, spent.user + spent.system, run.sessions, run.vanished)


async def _ready(run: _Run) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                async with run.http.get(run.url + "/ready") as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
