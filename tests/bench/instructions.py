"""`python -m tests.bench.instructions`: what a call costs beside the floors, in instructions instead of time.

Counted by valgrind's callgrind, which has to be installed: slow, but the same figure on a busy machine and on a quiet
one. Only instructions of the server's own process are counted, none of the kernel's. A start is not part of it: each
server is run twice, and the difference between many calls and few is what counts. Arguments choose the figures.

Exit code 0: counted; 1: a server failed or answered wrongly; 2: no valgrind, or no such figure.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import aiohttp

from tests.bench.catalog import CALL_ARGUMENTS, ECHO_TEXT, write_catalog
from tests.bench.processes import free_port
from tests.bench.product import _backend_process, rows
from tests.bench.rows import CACHE, FLOOR, OURS, OURS_PLAIN, REAL, ROOT, Row, environment

IN_FLIGHT = 64
CONNECTIONS = 16
FEW, MANY = 3 * IN_FLIGHT, 19 * IN_FLIGHT
LEGACY, MODERN = "2025-11-25", "2026-07-28"
COUNT: Final = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
_CLIENT: Final = {"name": "bench", "version": "1"}
_OPENING: Final = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Calls(NamedTuple):
    """What is called in which era, and what every answer holds."""

    tool: str
    holds: bytes
    modern: bool = False

    def message(self, id: int) -> dict[str, Any]:
        meta = {"_meta": _META} if self.modern else {}
        return request(id, "tools/call", {"name": self.tool, "arguments": CALL_ARGUMENTS, **meta})

    def check(self, answer: bytes) -> None:
        if self.holds not in answer:
            raise ValueError(f"not the answer to {self.tool}: {answer[:300]!r}")


FORWARD: Final = Calls("forward", b"backend-1k")
ECHO: Final = Calls("echo", ECHO_TEXT[:40].encode())
Way = Callable[[Row, dict[str, str], Calls, int], int]


def request(id: int, method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def counted(told: str) -> int:
    found = re.search(r"Collected : (\d+)", told)
    if found is None:
        raise ValueError(f"valgrind counted nothing: {told[-500:]}")
    return int(found[1])


def over_stdio(row: Row, variables: dict[str, str], calls: Calls, count: int) -> int:
    """Bursts of as many calls as may be in flight."""
    process = subprocess.Popen(
        [*COUNT, *(row.stdio or ())],
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

    def send(*messages: dict[str, Any]) -> None:
        given.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        given.flush()

    send(request(0, "initialize", _OPENING))
    answers.readline()
    send(_INITIALIZED)
    for first in range(1, count, IN_FLIGHT):
        send(*(calls.message(id) for id in range(first, first + IN_FLIGHT)))
        for _ in range(IN_FLIGHT):
            calls.check(answers.readline())
    given.close()
    words = told.read().decode()
    process.wait()
    return counted(words)


def over_http(row: Row, variables: dict[str, str], calls: Calls, count: int) -> int:
    port = free_port()
    command = [word.replace("{port}", str(port)) for word in row.http or ()]
    process = subprocess.Popen(
        [*COUNT, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=variables, cwd=ROOT
    )
    assert process.stderr is not None
    try:
        asyncio.run(_load(f"http://127.0.0.1:{port}/mcp", calls, count))
    finally:
        process.send_signal(signal.SIGINT)
    told = process.stderr.read().decode()
    process.wait()
    return counted(told)


async def _load(url: str, calls: Calls, count: int) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as http, asyncio.timeout(300):

        async def post(message: dict[str, Any], headers: dict[str, str]) -> tuple[bytes, str]:
            async with http.post(url, headers={**_HEADERS, **headers}, json=message) as answer:
                return await answer.read(), answer.headers.get("Mcp-Session-Id", "")

        while True:
            try:
                _, session = await post(request(0, "initialize", _OPENING), {})
                break
            except aiohttp.ClientConnectorError:  # it does not listen yet; under valgrind that takes a while
                await asyncio.sleep(0.2)
        if calls.modern:
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": calls.tool}
        else:
            headers = {"MCP-Protocol-Version": LEGACY, "Mcp-Session-Id": session}
            await post(_INITIALIZED, headers)
        ids = iter(range(1, count + 1))

        async def work() -> None:
            for id in ids:
                calls.check((await post(calls.message(id), headers))[0])

        await asyncio.gather(*(work() for _ in range(CONNECTIONS)))


def main(chosen: list[str]) -> int:
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 2
    catalog = write_catalog(CACHE)
    with tempfile.TemporaryDirectory() as data, _backend_process(catalog) as address:
        product = rows(data)[1][0]
        by_aiohttp = dataclasses.replace(product, name="product-plain", env={"BENCH_WRITER": "plain"})
        figures: dict[str, tuple[Way, Calls, tuple[Row, ...]]] = {
            "forward-stdio": (over_stdio, FORWARD, (FLOOR, product, by_aiohttp)),
            "forward-http": (over_http, FORWARD, (FLOOR, product)),
            "echo-stdio": (over_stdio, ECHO, (FLOOR, REAL, OURS)),
            "echo-http": (over_http, ECHO, (FLOOR, REAL, OURS, OURS_PLAIN)),
            "echo-http-modern": (over_http, ECHO._replace(modern=True), (FLOOR, REAL, OURS)),
        }
        if unknown := [name for name in chosen if name not in figures]:
            print(f"no figure {unknown[0]}; there are {', '.join(figures)}", file=sys.stderr)
            return 2
        print("| figure | server | instructions a call | floor ÷ it |", "|---|---|---|---|", sep="\n")
        for name in chosen or figures:
            way, calls, compared = figures[name]
            floor = 0.0
            for row in compared:
                variables = {**environment(row, catalog, BENCH_BACKEND=address), "PYTHONHASHSEED": "0"}
                way(row, variables, calls, FEW)  # leaves compiled modules behind, which are not what is counted
                taken = (way(row, variables, calls, MANY) - way(row, variables, calls, FEW)) / (MANY - FEW)
                floor = floor or taken
                print(f"| {name} | `{row.name}` | {taken:,.0f} | {floor / taken:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
