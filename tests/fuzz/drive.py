"""Sends what the generator makes over one transport and judges what comes back.

A finding is a message with an internal error, an answer that is no legal message, an id of null, a status above 499, a
log line of a failure, or a server that no longer answers a ping.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from io import BytesIO
from typing import Any

from tests.connect import Client, Host, HttpWire
from tests.fuzz.generate import Generator
from zorivest_rpc.mcp.dispatcher import Limits

__all__ = ["Report", "run"]

OFFER = "tests.fuzz.offer:offer"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
EPISODE = {"memory": 200, "stdio": 4000, "http": 500, "sse": 500}
Json = Any


class Report:
    def __init__(self) -> None:
        self.sent = 0
        self.answers: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.findings: list[str] = []
        self.seconds = 0.0

    def judge(self, frame: bytes, cause: bytes = b"") -> Json:
        """One frame from the server; the parsed value."""
        try:
            value = json.loads(frame, parse_constant=_no_constant)
        except ValueError:
            self._found("not JSON", frame, cause)
            return None
        for message in value if isinstance(value, list) else [value]:
            if message.get("jsonrpc") != "2.0" or ("id" in message and type(message["id"]) not in (int, str)):
                self._found("not a message", frame, cause)
            error = message.get("error")
            self.answers[str(error["code"]) if error else "request" if "method" in message else "result"] += 1
            if error and error["code"] == -32603:
                self._found("internal error", frame, cause)
            if b'"code":-32603' in frame and not error:
                self._found("internal error inside", frame, cause)
        return value

    def _found(self, what: str, frame: bytes, cause: bytes) -> None:
        if len(self.findings) < 50:
            self.findings.append(f"{what}: {frame[:300]!r} after {cause[:600]!r}")

    def __str__(self) -> str:
        rate = self.sent / self.seconds if self.seconds else 0
        lines = [f"{self.sent} messages in {self.seconds:.1f} s ({rate:.0f}/s), {len(self.findings)} findings"]
        lines.append("  answers " + ", ".join(f"{kind}: {count}" for kind, count in self.answers.most_common()))
        if self.statuses:
            lines.append("  statuses " + ", ".join(f"{status}: {n}" for status, n in self.statuses.most_common()))
        return "\n".join([*lines, *self.findings])


def _no_constant(name: str) -> None:
    raise ValueError(name)


class _Watch(logging.Handler):
    """Failures that the server logs are findings even where the answer hides them."""

    def __init__(self, report: Report) -> None:
        super().__init__(logging.ERROR)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "does not fit its output schema" not in text:  # what bad_output is there for
            exc = record.exc_info[1] if record.exc_info else None
            self._report._found("logged", f"{text} {exc!r}".encode(), b"")


async def run(transport: str, count: int, seed: int) -> Report:
    report = Report()
    watch = _Watch(report)
    log = logging.getLogger("zorivest_rpc")
    log.addHandler(watch)
    spread, log.propagate = log.propagate, False
    began = time.monotonic()
    try:
        generator = Generator(seed)
        while report.sent < count:
            episode = min(EPISODE[transport], count - report.sent)
            await _EPISODES[transport](generator, episode, report)
    finally:
        log.removeHandler(watch)
        log.propagate = spread
        report.seconds = time.monotonic() - began
    return report


def _learn(generator: Generator, value: Json) -> None:
    """Remember tokens that the server gave out."""
    for message in value if isinstance(value, list) else [value]:
        result = message.get("result") if isinstance(message, dict) else None
        if isinstance(result, dict):
            task = result.get("task")
            found = [result.get("nextCursor"), result.get("requestState"), result.get("taskId")]
            found.append(task.get("taskId") if isinstance(task, dict) else None)
            generator.seen += [token for token in found if isinstance(token, str)]
            del generator.seen[:-20]


# --- pipes: memory, stdio, sse


async def _pipe(kind: str, generator: Generator, count: int, report: Report) -> None:
    modern = kind != "sse" and generator.random.random() < 0.5
    host = Host(kind + ("-modern" if modern else ""))
    revision = None if modern else generator.random.choice(LEGACY)
    client = await host(revision, offer=OFFER, limits=Limits(input_seconds=60))
    last = b""
    judged = 0
    try:
        for number in range(count):
            last = generator.message(modern)
            await client.send(last)
            report.sent += 1
            if number % 20 == 19 or kind == "sse":
                judged = await _look(client, generator, report, judged, last)
            if number % 100 == 99:
                await _alive(client, number)
        await _alive(client, count)
        await _look(client, generator, report, judged, last)
    except TimeoutError:
        report._found("no answer to a ping", b"", last)
    finally:
        await host.close()


async def _alive(client: Client, number: int) -> None:
    """The era that the noise settled on is not known, but some answer has to come."""
    id = f"alive-{number}"
    await client.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
    await client.answer(id)


async def _look(client: Client, generator: Generator, report: Report, judged: int, last: bytes) -> int:
    await asyncio.sleep(0)
    for frame in client.frames[judged:]:
        value = report.judge(frame, last)
        _learn(generator, value)
    for question in client.questions:
        await client.send({"jsonrpc": "2.0", "id": question["id"], "result": generator.answer()})
    client.questions.clear()
    client.answers.clear()
    client.notes.clear()
    return len(client.frames)


# --- Streamable HTTP


async def _http(generator: Generator, count: int, report: Report) -> None:
    host = Host("streamable")
    client = await host(generator.random.choice(LEGACY), offer=OFFER, limits=Limits(input_seconds=60))
    wire = client.wire
    assert isinstance(wire, HttpWire)
    slots = asyncio.Semaphore(8)

    async def one(frame: bytes, headers: dict[str, str]) -> None:
        async with slots:
            try:
                async with asyncio.timeout(20):
                    await _post(wire, frame, headers, generator, report)
            except TimeoutError:
                report._found("no answer", b"", frame)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                modern = generator.random.random() < 0.5
                frame = generator.message(modern)
                report.sent += 1
                await slots.acquire()
                slots.release()
                group.create_task(one(frame, _headers(generator, wire, frame)))
        await client.ask("ping")
    finally:
        await host.close()


def _headers(generator: Generator, wire: HttpWire, frame: bytes) -> dict[str, str]:
    random = generator.random
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        message = None
    given = {name: value for name, value in wire.standard(message).items() if value.isascii() and value.isprintable()}
    if random.random() < 0.15 and len(given) > 2:
        del given[random.choice(sorted(given))]
    if random.random() < 0.1:
        given["MCP-Protocol-Version"] = random.choice(("2026-07-28", "2025-11-25", "2099-01-01", ""))
    if random.random() < 0.05:
        given["Mcp-Session-Id"] = random.choice(("", "00", "z" * 300, *generator.seen))
    if random.random() < 0.05:
        given[random.choice(("Mcp-Name", "Mcp-Method", "Mcp-Param-Text"))] = random.choice(
            ("=?base64?/w==?=", "=?base64?!?=", "", "echo", "=?base64?ZWNobw==?=")
        )
    if random.random() < 0.05:
        given["Accept"] = random.choice(("application/json", "text/event-stream", "*/*", "text/html", ""))
    if random.random() < 0.02:
        given["Content-Type"] = random.choice(("text/plain", "application/json; charset=utf-16", ""))
    return given


async def _post(wire: HttpWire, frame: bytes, headers: dict[str, str], generator: Generator, report: Report) -> None:
    async with wire.http.post(wire.url, data=BytesIO(frame), headers=headers) as reply:
        report.statuses[reply.status] += 1
        if reply.status >= 500:
            report._found(f"status {reply.status}", await reply.read(), frame)
        elif reply.content_type == "text/event-stream":
            held = b""
            async for part in reply.content.iter_any():
                *events, held = (held + part).split(b"\n\n")
                for event in events:
                    data = b"".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
                    if not data:
                        continue
                    value = report.judge(data, frame)
                    _learn(generator, value)
                    if b"subscriptions/acknowledged" in data or (b"elicitation" not in data and b'"id":"zrv' in data):
                        return  # a subscription stays open, and some questions are left open on purpose
                    if isinstance(value, dict) and "method" in value and "id" in value:
                        await _reply(wire, value, generator)
        else:
            body = await reply.read()
            if reply.status != 202:
                _learn(generator, report.judge(body, frame))


async def _reply(wire: HttpWire, question: Json, generator: Generator) -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": generator.answer()}).encode()
    async with wire.http.post(wire.url, data=BytesIO(answer), headers=wire.standard(None)) as reply:
        await reply.read()


_EPISODES: dict[str, Any] = {
    "memory": lambda *given: _pipe("memory", *given),
    "stdio": lambda *given: _pipe("stdio", *given),
    "sse": lambda *given: _pipe("sse", *given),
    "http": _http,
}
