"""The load: requests, the check of every answer, the count, and the raw pipe client for stdio.

One thread and no event loop library, so that the client costs little next to any server. Closed loop: as many requests
are outstanding as asked for, always. Every answer is parsed and checked: status, id, content; anything else is counted
as an error, and the first one is kept to be read. The HTTP client is in `loadgen_http`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.bench.catalog import CALL_ARGUMENTS, ECHO_TEXT, tools
from tests.bench.processes import busy_seconds, cpu_seconds, on_cores, only_core

__all__ = [
    "FIRST_ID",
    "INITIALIZE",
    "LEGACY",
    "MODERN",
    "READ_SIZE",
    "Stdio",
    "Tally",
    "decode",
    "encode",
    "is_right",
    "request_around_id",
    "stdio_load",
    "without_collector",
]

TOOL_COUNT = len(tools())
CLIENT = {"name": "bench", "version": "1"}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
FIRST_ID = 1_000_000_007  # ids keep ten digits, so that a request keeps its length
READ_SIZE = 1 << 18
now = time.perf_counter_ns


def is_right(answer: Any, wanted_id: int, kind: str) -> bool:
    """Whether a decoded answer is the answer to this request: `list`, `echo` or `forward`."""
    try:
        result = answer["result"]
        if answer["id"] != wanted_id:
            return False
        if kind == "list":
            return len(result["tools"]) == TOOL_COUNT
        text = result["content"][0]["text"]
        if result.get("isError"):
            return False
        return text == ECHO_TEXT if kind == "echo" else '"backend-1k"' in text and len(text) > 900
    except (KeyError, IndexError, TypeError, AttributeError):
        return False


def decode(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def encode(method: str, params: Mapping[str, Any] | None = None, id: int | None = None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        message["id"] = id
    if params is not None:
        message["params"] = params
    return orjson.dumps(message)


def request_around_id(kind: str, modern: bool = False) -> tuple[bytes, bytes]:
    """What precedes and what follows the ten digits of the id in one request."""
    method = "tools/list" if kind == "list" else "tools/call"
    params: dict[str, Any] = {} if kind == "list" else {"name": kind, "arguments": CALL_ARGUMENTS}
    if modern:
        params["_meta"] = META
    before, after = encode(method, params, FIRST_ID).split(b"%d" % FIRST_ID)
    return before, after


def _percentile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


class Tally:
    """What one cell has counted so far."""

    def __init__(self, kind: str, pid: int | None) -> None:
        self.kind, self.pid = kind, pid
        self._core = only_core(pid) if pid else None
        self.first_error: str | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was counted until now (the warm-up) and measure from here."""
        self.right, self.wrong = 0, 0
        self.latencies: list[int] = []
        self.server_cpu = cpu_seconds(self.pid) if self.pid else 0.0
        self.core_busy = busy_seconds(self._core) if self._core is not None else 0.0
        self.client_cpu = time.process_time()
        self.started = now()

    def answer(self, data: bytes, answer: Any, wanted_id: int, latency: int, status: int = 200) -> None:
        self.latencies.append(latency)
        if status == 200 and is_right(answer, wanted_id, self.kind):
            self.right += 1
        else:
            self.error(f"{status} {data[:300]!r}")

    def error(self, what: str) -> None:
        self.wrong += 1
        self.first_error = self.first_error or what

    @property
    def answered(self) -> int:
        return self.right + self.wrong

    def figures(self, **more: Any) -> dict[str, Any]:
        seconds = (now() - self.started) / 1e9
        client_cpu = time.process_time() - self.client_cpu
        server_cpu = cpu_seconds(self.pid) - self.server_cpu if self.pid else 0.0
        core_busy = busy_seconds(self._core) - self.core_busy if self._core is not None else 0.0
        out = {
            "n": self.right,
            "errors": self.wrong,
            "rps": self.right / seconds,
            "p50_ms": _percentile(self.latencies, 0.5) / 1e6,
            "p99_ms": _percentile(self.latencies, 0.99) / 1e6,
            "client_busy": client_cpu / seconds,
            **more,
        }
        if self.pid and self.right:
            out["cpu_us"] = server_cpu / self.right * 1e6
        if self._core is not None:
            out["foreign"] = max(0.0, core_busy - server_cpu) / seconds
        if self.first_error is not None:
            out["first_error"] = self.first_error
        return out


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """The client's own garbage collector must not pause in the middle of a cell."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Stdio:
    """A server spawned on two pipes."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], cores: frozenset[int], directory: Path
    ) -> None:
        with on_cores(cores):
            self.spawned = now()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=directory,
                bufsize=0,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.input, self.output = self._process.stdin.fileno(), self._process.stdout.fileno()
        self.pid = self._process.pid
        self.buffer = b""

    def line(self, timeout: float = 60) -> bytes:
        while (end := self.buffer.find(b"\n")) < 0:
            if not select.select([self.output], [], [], timeout)[0]:
                raise TimeoutError(f"no answer on stdio within {timeout:g} s")
            data = os.read(self.output, READ_SIZE)
            if not data:
                raise ConnectionError("the server ended")
            self.buffer += data
        line, self.buffer = self.buffer[:end], self.buffer[end + 1 :]
        return line

    def initialize(self) -> float:
        """Open the session; milliseconds from the spawn to the answer."""
        os.write(self.input, encode("initialize", INITIALIZE, 1) + b"\n")
        answer = orjson.loads(self.line())
        ms = (now() - self.spawned) / 1e6
        if answer["id"] != 1 or answer["result"]["protocolVersion"] != LEGACY:
            raise ValueError(f"not the answer to initialize: {answer}")
        os.write(self.input, encode("notifications/initialized") + b"\n")
        return ms

    def first(self, kind: str, id: int) -> float:
        """One request, checked; milliseconds from the spawn to its answer."""
        before, after = request_around_id(kind)
        os.write(self.input, before + b"%d" % id + after + b"\n")
        line = self.line()
        ms = (now() - self.spawned) / 1e6
        if not is_right(decode(line), id, kind):
            raise ValueError(f"not the answer to {kind}: {line[:300]!r}")
        return ms

    def close(self) -> None:
        """End the input, as a client does; a server that does not end then is killed."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


class _Requests(NamedTuple):
    before: bytes
    after: bytes
    last_id: int


class _Limit(NamedTuple):
    end: int
    answers: int | None


def stdio_load(
    server: Stdio,
    kind: str,
    in_flight: int,
    seconds: float = 1.0,
    *,
    count: int | None = None,
    warmup: int = 100,
    modern: bool = False,
) -> dict[str, Any]:
    """Keep `in_flight` requests outstanding for some seconds, or until `count` answers came."""
    tally = Tally(kind, server.pid)
    before, after = request_around_id(kind, modern)
    id = FIRST_ID
    size = 0
    for _ in range(warmup):
        id += 1
        os.write(server.input, before + b"%d" % id + after + b"\n")
        size = len(server.line()) + 1
    with without_collector():
        tally.begin()
        limit = _Limit(tally.started + int((seconds if count is None else 120) * 1e9), count)
        if in_flight == 1:
            _one_by_one(server, tally, _Requests(before, after, id), limit)
        else:
            _pipelined(server, tally, _Requests(before, after, id), limit, in_flight)
        return tally.figures(bytes=size)


def _one_by_one(server: Stdio, tally: Tally, requests: _Requests, limit: _Limit) -> None:
    (before, after, id), (end, count) = requests, limit
    read, write, source, sink = os.read, os.write, server.output, server.input
    while True:
        id += 1
        sent = now()
        write(sink, before + b"%d" % id + after + b"\n")
        line = read(source, READ_SIZE)
        while not line.endswith(b"\n"):
            more = read(source, READ_SIZE)
            if not more:
                raise ConnectionError("the server ended")
            line += more
        came = now()
        tally.answer(line, decode(line), id, came - sent)
        if came >= end or (count is not None and tally.answered >= count):
            return


def _pipelined(server: Stdio, tally: Tally, requests: _Requests, limit: _Limit, in_flight: int) -> None:
    (before, after, id), (end, count) = requests, limit
    sent = {id + 1 + i: now() for i in range(in_flight)}
    id += in_flight
    os.write(server.input, b"".join(before + b"%d" % each + after + b"\n" for each in sent))
    stopping = False
    while sent:
        if tally.wrong and not select.select([server.output], [], [], 1)[0]:
            return  # an answer that matched no request leaves that request open for ever
        data = os.read(server.output, READ_SIZE)
        if not data:
            raise ConnectionError("the server ended")
        *lines, server.buffer = (server.buffer + data).split(b"\n")
        came = now()
        stopping = stopping or came >= end or (count is not None and tally.answered >= count)
        burst = []
        for line in lines:
            answer = decode(line)
            answered = answer.get("id") if isinstance(answer, dict) else None
            since = sent.pop(answered, None) if isinstance(answered, int) else None
            if since is None or answered is None:
                tally.error(repr(line[:300]))
                continue
            tally.answer(line, answer, answered, came - since)
            if not stopping:
                id += 1
                sent[id] = came
                burst.append(before + b"%d" % id + after + b"\n")
        if burst:
            os.write(server.input, b"".join(burst))
