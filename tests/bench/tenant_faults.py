"""What other clients feel of one whose backend is ill: the p95 of their calls, over that while it is well.

One server, in this process. Some callers work for one client all the time, some for another; the figure is of the
others' calls alone. In each round they are taken twice, once while the first client's backend is well and once from
the moment at which it falls ill, in an order that changes; of each kind the fastest quarter of the turns counts, as
other work on the machine only ever adds to a time. Each round has a client of its own that falls ill, so that every
one begins with a sound session and a closed circuit. The backend that is ill is another process: what it burns itself
is not counted, what it makes the server burn is.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tests.bench.rows import ROOT
from tests.bench.turns import fastest_quarter
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.server import Server

__all__ = ["FAULTS", "Felt", "measure"]

CALLS: Final = 1200  # of the others, in one turn
OTHERS: Final = 2  # who make them, one after the other each
CALLERS: Final = 8  # of the client that falls ill
PAUSE: Final = 0.04  # between two calls of one of them

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Felt(NamedTuple):
    """A p95 of the others' calls: in milliseconds in one turn, or as a multiple of that beside a client that is well.

    The processor time is all that this process used from the beginning of a call to its end: what the loop did for
    others meanwhile is in it, and other work on the machine is not."""

    wall: float
    busy: float


# --- the ill backend, a process of its own


def _reply(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def well(head: bytes) -> bytes:
    """The least that makes a call succeed."""
    if b"/auth/unlock" in head:
        return _reply(200, b'{"session_token":"tok_x","expires_in":3600,"role":"admin"}')
    if b"/mcp-guard/check" in head:
        return _reply(200, b'{"allowed":true}')
    if head.startswith(b"PUT "):
        return _reply(200, b'{"status":"updated","count":1}')
    return _reply(200, b'{"items":[],"total":0}')


async def hang(head: bytes, stream: Stream) -> bool:
    await stream[0].read()  # until the other side gives up
    return False


async def reset(head: bytes, stream: Stream) -> bool:
    sock = stream[1].get_extra_info("socket")
    sock.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER 0: the close becomes a reset
    return False


async def flood(head: bytes, stream: Stream) -> bool:
    stream[1].write(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"
    while True:
        stream[1].write(chunk)
        await stream[1].drain()


async def fail(head: bytes, stream: Stream) -> bool:
    stream[1].write(_reply(500, json.dumps({"detail": "x" * 65_536}).encode()))
    return True


async def run_full(head: bytes, stream: Stream) -> bool:
    """As the embedded backend does: reading goes on, and what writes is refused."""
    told = {"error": "disk_unwritable", "detail": "Nothing can be written: the disk is full or read-only."}
    stream[1].write(_reply(503, json.dumps(told).encode()) if head.startswith(b"PUT ") else well(head))
    return True


FAULTS: Final[dict[str, Callable[[bytes, Stream], Awaitable[bool]]]] = {
    "hangs": hang,
    "resets every connection": reset,
    "floods: answers without an end": flood,
    "answers 500": fail,
    "has a full disk": run_full,
}


async def _read(reader: asyncio.StreamReader) -> bytes:
    """The head of a request; its body is read and dropped."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    await reader.readexactly(next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0))
    return head


async def _serve_ill() -> None:
    """Paths begin with a client and the number of a fault: `/ill-2-3/2/api/v1/…`; `/ill-2-3/2/fall` makes it ill."""
    ill: set[bytes] = set()
    faults = list(FAULTS.values())

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            stays = True
            while stays:
                head = await _read(reader)
                _, client, fault, path = head.split(b" ")[1].split(b"/", 3)
                if path == b"fall":
                    ill.add(client)
                    writer.write(well(head))
                elif client in ill:
                    stays = await faults[int(fault)](head, (reader, writer))
                else:
                    writer.write(well(head))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)  # until the measuring process has ended


async def _answer_well(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            writer.write(well(await _read(reader)))
    writer.close()


# --- a turn


class _Turns:
    """One server, whose clients' backend is at `port`, and the callers of one turn after the other."""

    def __init__(self, port: int, journal: Journal, fault: int) -> None:
        self.port = port
        self.fault = fault
        self.server = Server(journal.offer)
        writes = list(FAULTS.values())[fault] is run_full
        self.tool = "update_settings" if writes else "list_trades"
        self.arguments: dict[str, Any] = {"settings": {"ui.theme": "dark"}} if writes else {}

    async def take(self, client: str, *, falls: bool) -> Felt:
        callers, others = [await self._open() for _ in range(CALLERS)], [await self._open() for _ in range(OTHERS)]
        first = await callers[0].call(self.tool, clientId=client, **self.arguments)
        assert not first.get("isError"), first
        for each in others:
            await self._count(each, 20)
        if falls:
            await self._fall(client)
        busy = [asyncio.ensure_future(self._work(caller, client)) for caller in callers]
        taken = await asyncio.gather(*(self._count(other, CALLS // OTHERS) for other in others))
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        for each in (*callers, *others):
            await each.close()
            each.wire.close()  # what is still being done for it ends too
        walls, busies = zip(*(each for part in taken for each in part), strict=True)
        return Felt(statistics.quantiles(walls, n=20)[-1], statistics.quantiles(busies, n=20)[-1])

    async def _open(self) -> Any:
        from tests.tenants.wall.stage import Client

        client = Client(self.server)
        await client.open()
        return client

    async def _fall(self, client: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET /{client}/{self.fault}/fall HTTP/1.1\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def _work(self, caller: Any, client: str) -> None:
        while True:
            await caller.call(self.tool, clientId=client, **self.arguments)
            await asyncio.sleep(PAUSE)

    async def _count(self, caller: Any, calls: int) -> list[Felt]:
        taken = []
        for _ in range(calls):
            began, busy = time.perf_counter(), time.process_time()
            result = await caller.call("list_trades", clientId="other")
            taken.append(Felt((time.perf_counter() - began) * 1000, (time.process_time() - busy) * 1000))
            assert not result.get("isError"), result
        return taken


async def _compare(directory: str, port: int, fault: int, rounds: int) -> Felt:
    beside = await asyncio.start_server(_answer_well, "127.0.0.1", 0)
    places = {f"{kind}-{fault}-{turn}": port for kind in ("well", "ill") for turn in range(rounds)}
    places["other"] = beside.sockets[0].getsockname()[1]
    clients = {
        id: {"apiBaseUrl": f"http://127.0.0.1:{place}/{id}/{fault}/api/v1", "apiKeyEnv": "KEY"}
        for id, place in places.items()
    }
    given = {"CLIENTS_CONFIG": json.dumps(clients), "KEY": "zrv_sk_bench"}
    os.environ.update(given)
    journal = Journal(parse("stdio", ["--data-dir", directory], {"HOME": directory, **given}))
    del os.environ["CLIENTS_CONFIG"]
    turns = _Turns(port, journal, fault)
    taken: dict[str, list[Felt]] = {"well": [], "ill": []}
    try:
        for turn in range(rounds):
            for kind in ("well", "ill") if turn % 2 else ("ill", "well"):
                taken[kind].append(await turns.take(f"{kind}-{fault}-{turn}", falls=kind == "ill"))
    finally:
        await journal.close()
        beside.close()
    of = {kind: Felt(*map(fastest_quarter, zip(*found, strict=True))) for kind, found in taken.items()}
    return Felt(of["ill"].wall / of["well"].wall, of["ill"].busy / of["well"].busy)


def measure(directory: str, rounds: int) -> dict[str, Felt]:
    """What is felt of each kind of fault."""
    command = (sys.executable, "-m", "tests.bench.tenant_faults")
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as backend:
        assert backend.stdin is not None
        assert backend.stdout is not None
        port = int(backend.stdout.readline())
        try:
            return {name: asyncio.run(_compare(directory, port, fault, rounds)) for fault, name in enumerate(FAULTS)}
        finally:
            backend.stdin.close()


if __name__ == "__main__":
    asyncio.run(_serve_ill())
