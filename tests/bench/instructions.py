"""`python -m tests.bench.instructions`: what a forwarded call costs beside the floor, in instructions instead of time.

Counted by valgrind's callgrind, which has to be installed: slow, but the same figure on a busy machine and on a quiet
one. Only instructions of the server's own process are counted, none of the kernel's. A start is not part of it: each
server is run twice, and the difference between many calls and few is what counts.

Exit code 0: counted; 1: a server failed or answered wrongly; 2: no valgrind.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from tests.bench.catalog import CALL_ARGUMENTS, write_catalog
from tests.bench.processes import free_port
from tests.bench.product import _backend_process, rows
from tests.bench.rows import CACHE, FLOOR, ROOT, Row, environment

FEW, MANY = 192, 1216
IN_FLIGHT = 64
CONNECTIONS = 16
_COUNT: Final = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
_OPENING: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def request(id: int, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id: int) -> dict[str, Any]:
    return request(id, "tools/call", {"name": "forward", "arguments": CALL_ARGUMENTS})


def counted(told: str) -> int:
    found = re.search(r"Collected : (\d+)", told)
    if found is None:
        raise ValueError(f"valgrind counted nothing: {told[-500:]}")
    return int(found[1])


def over_stdio(row: Row, variables: dict[str, str], calls: int) -> int:
    process = subprocess.Popen(
        [*_COUNT, *(row.stdio or ())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables,
        cwd=ROOT,
    )
    given, answers, told = process.stdin, process.stdout, process.stderr
    assert given is not None
    assert answers is not None
    assert told is not None

    def send(message: dict[str, Any]) -> None:
        given.write(json.dumps(message).encode() + b"\n")
        given.flush()

    send(request(0, "initialize", _OPENING))
    answers.readline()
    send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for id in range(1, IN_FLIGHT + 1):
        send(call(id))
    for id in range(IN_FLIGHT + 1, IN_FLIGHT + calls + 1):
        answer = answers.readline()
        if b"backend-1k" not in answer:
            raise ValueError(f"not the backend's answer: {answer[:300]!r}")
        if id <= calls:
            send(call(id))
    given.close()
    words = told.read().decode()
    process.wait()
    return counted(words)


def over_http(row: Row, variables: dict[str, str], calls: int) -> int:
    port = free_port()
    command = [word.replace("{port}", str(port)) for word in row.http or ()]
    process = subprocess.Popen(
        [*_COUNT, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=variables, cwd=ROOT
    )
    assert process.stderr is not None
    try:
        asyncio.run(_load(f"http://127.0.0.1:{port}/mcp", calls))
    finally:
        process.send_signal(signal.SIGINT)
    told = process.stderr.read().decode()
    process.wait()
    return counted(told)


async def _load(url: str, calls: int) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as http, asyncio.timeout(300):
        while True:
            try:
                async with http.post(url, headers=_HEADERS, json=request(0, "initialize", _OPENING)) as opened:
                    await opened.read()
                    break
            except aiohttp.ClientConnectorError:  # it does not listen yet; under valgrind that takes a while
                await asyncio.sleep(0.2)
        headers = {
            **_HEADERS,
            "MCP-Protocol-Version": "2025-11-25",
            "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
        }
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with http.post(url, headers=headers, json=initialized) as accepted:
            await accepted.read()
        ids = iter(range(1, calls + 1))

        async def work() -> None:
            for id in ids:
                async with http.post(url, headers=headers, json=call(id)) as answer:
                    body = await answer.read()
                    if b"backend-1k" not in body:
                        raise ValueError(f"not the backend's answer: {body[:300]!r}")

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


def main() -> int:
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 2
    catalog = write_catalog(CACHE)
    ways: dict[str, Callable[[Row, dict[str, str], int], int]] = {
        f"stdio, {IN_FLIGHT} in flight": over_stdio,
        f"HTTP, {CONNECTIONS} connections": over_http,
    }
    with tempfile.TemporaryDirectory() as data, _backend_process(catalog) as address:
        product = rows(data)[1][0]
        for name, way in ways.items():
            taken = []
            for row in (FLOOR, product):
                variables = {**environment(row, catalog, BENCH_BACKEND=address), "PYTHONHASHSEED": "0"}
                way(row, variables, FEW)  # leaves compiled modules behind, which are not what is counted
                taken.append((way(row, variables, MANY) - way(row, variables, FEW)) / (MANY - FEW))
            floor, ours = taken
            print(f"{name}: floor {floor:,.0f}, product {ours:,.0f} instructions a call: {floor / ours:.2f} × floor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
