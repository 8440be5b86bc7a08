"""The largest legal message of every shape, and how long each keeps the event loop from another session.

    python -m tests.fuzz.largest            every shape against the rich offer, and every argument of every tool

The limit is in processor time of the loop's thread. A machine that is busy with other things spends more of it on the
same work, so the limit grows with a reference that is measured beside it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from tests.connect import PREFIX, load_offer
from zorivest_rpc.app import Journal
from zorivest_rpc.config import parse
from zorivest_rpc.mcp.protocol.extent import MOST_LARGE_VALUES, MOST_LEVELS, MOST_VALUES
from zorivest_rpc.mcp.protocol.framing import DEFAULT_LIMIT
from zorivest_rpc.mcp.protocol.types import STRUCTS
from zorivest_rpc.mcp.server import Server
from zorivest_rpc.mcp.transports.memory import MemoryClient

__all__ = ["LIMIT", "Two", "arguments", "envelopes", "limit_now", "params_of", "product", "rich"]

LIMIT: Final = 0.100  # seconds of processor time
_REFERENCE: Final = 0.053  # what `_reference` takes on the machine where the limit was set
MOST: Final = DEFAULT_LIMIT - 4_096
Json = Any
Chosen = Callable[[str, str], bool]
"""Whether a shape is wanted, by the place in the message and the name of the value there."""


def everything(place: str, value: str) -> bool:
    return True


def _reference() -> float:
    data, text = b"x" * DEFAULT_LIMIT, "é".encode() * (DEFAULT_LIMIT // 2)
    began = time.thread_time()
    for byte in (b",", b"[", b"{"):
        data.count(byte)
    text.decode()
    bytes(bytearray(data))
    return time.thread_time() - began


def limit_now() -> float:
    return LIMIT * max(1.0, min(_reference() for _ in range(3)) / _REFERENCE)


# --- shapes


@cache
def values() -> dict[str, bytes]:
    """One JSON value each, as large as a message lets it be."""
    return dict(_values())


def _values() -> Iterator[tuple[str, bytes]]:
    few, some = MOST_VALUES - 50, MOST_LARGE_VALUES - 50
    escapes = 249_000
    yield "text", b'"' + b"x" * MOST + b'"'
    yield "text of backslashes", b'"' + b"x" * (MOST - 2 * escapes) + b"\\\\" * escapes + b'"'
    yield (
        "text of escaped quotes",
        b'"' + b"," * 9_000 + b"x" * (MOST - 4 * escapes - 9_000) + b'\\"' * 2 * escapes + b'"',
    )
    yield "text of escapes", b'"' + b"x" * (MOST - 12 * escapes) + b"\\u00e9" * 2 * escapes + b'"'
    yield "text of commas", b'"' + b"," * MOST + b'"'
    yield "too many escapes", b'"' + b"\\\\" * (MOST // 2) + b'"'
    yield "text outside of ASCII", b'"' + "é".encode() * (MOST // 2) + b'"'
    yield "text of words", b'"' + b"trade fee price qwert " * (MOST // 22) + b'"'
    yield "text of slashes", b'"' + b"/a" * (MOST // 2) + b'"'
    yield "digits", b"9" * MOST
    yield "many nulls", b"[" + b",".join([b"null"] * few) + b"]"
    yield "many texts", b"[" + b",".join(b'"%d"' % number for number in range(few)) + b"]"
    yield "many members", b"{" + b",".join(b'"%x":1' % number for number in range(few)) + b"}"
    yield "long members", b"{" + b",".join(b'"%d%b":1' % (n, b"x" * 1_500) for n in range(some)) + b"}"
    yield "many empty lists", b"[" + b",".join([b"[]"] * (few // 2)) + b"]"
    yield "many numbers", b"[" + b",".join([b"1"] * (MOST // 2)) + b"]"
    deep = MOST_LEVELS - 10
    yield "towers", b"[" + b",".join([nest(deep)] * (few // (deep + 1))) + b"]"
    yield "objects within objects", b"[" + b",".join([b'{"a":' * deep + b"1" + b"}" * deep] * 500) + b"]"


def nest(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


ENVELOPES: Final = {
    "params of ping": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b}}',
    "unknown member": b'{"jsonrpc":"2.0","id":1,"method":"ping","more":%b}',
    "result": b'{"jsonrpc":"2.0","id":"zrv-0-1","result":%b}',
    "error": b'{"jsonrpc":"2.0","id":"zrv-0-1","error":{"code":1,"message":%b}}',
    "notification": b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":%b}}',
    "cancelled": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%b}}',
    "id": b'{"jsonrpc":"2.0","id":%b,"method":"ping"}',
    "method": b'{"jsonrpc":"2.0","id":1,"method":%b}',
    "version": b'{"jsonrpc":%b,"id":1,"method":"ping"}',
    "duplicates": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[],"params":{"a":%b}}',
    "alone": b"%b",
}


def envelopes(chosen: Chosen = everything) -> Iterator[tuple[str, bytes]]:
    """A large value in every member of a message; some are answered, some are not."""
    for place, frame in ENVELOPES.items():
        for name, value in values().items():
            if chosen(place, name):
                yield f"{place}: {name}", frame % value
    yield "batch of numbers", b"[" + b",".join([b"1"] * (MOST_VALUES - 10)) + b"]"
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    yield "batch of pings", b"[" + b",".join([ping] * 900) + b"]"


GOOD: Final[dict[str, dict[str, Json]]] = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
    "tools/call": {"name": "anything", "arguments": {}},
    "prompts/get": {"name": "named", "arguments": {"a": "b"}},
    "resources/read": {"uri": "test://one"},
    "resources/subscribe": {"uri": "test://one"},
    "resources/unsubscribe": {"uri": "test://one"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "named"}, "argument": {"name": "a", "value": ""}},
    "logging/setLevel": {"level": "info"},
    "subscriptions/listen": {"notifications": {"resourceSubscriptions": ["test://one"], "taskIds": ["a"]}},
    "tasks/get": {"taskId": "a"},
    "tasks/result": {"taskId": "a"},
    "tasks/cancel": {"taskId": "a"},
    "tasks/update": {"taskId": "a", "inputResponses": {"a": {}}},
}


def params_of(modern: bool, chosen: Chosen = everything) -> Iterator[tuple[str, bytes]]:
    """Every member of every method's params, and of what they hold, replaced by each large value."""
    about: dict[str, Json] = {PREFIX + "clientInfo": {"name": "a"}, "progressToken": 1}
    if modern:
        about |= {PREFIX + "protocolVersion": "2026-07-28", PREFIX + "clientCapabilities": {}}
    for method in STRUCTS:
        good = {**GOOD.get(method, {"cursor": "a"}), "_meta": about}
        if method in ("tools/call", "prompts/get", "resources/read"):
            good |= {"inputResponses": {"a": {}}, "requestState": "a"}
        for path in _paths(good):
            place = f"{method} {'.'.join(path)}"
            for name, value in values().items():
                if chosen(place, name) and (path[0] != "_meta" or name in _FEW):
                    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": _with(good, path, "\0here")}
                    yield f"{place}: {name}", json.dumps(message).encode().replace(b'"\\u0000here"', value)


_FEW: Final = ("text", "many members", "towers", "many texts")


def _paths(value: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, child in value.items():
        yield (*path, key)
        if isinstance(child, dict):
            yield from _paths(child, (*path, key))
    yield (*path, "more")


def _with(value: dict[str, Json], path: tuple[str, ...], new: Json) -> dict[str, Json]:
    step, *rest = path
    return {**value, step: _with(value[step], tuple(rest), new) if rest else new}


def arguments(tools: list[Json], chosen: Chosen = everything) -> Iterator[tuple[str, bytes]]:
    """Every argument of every tool, as large as it can be."""
    for tool in tools:
        schema = tool["inputSchema"]
        others = {key: _sample(schema["properties"][key]) for key in schema.get("required", ())}
        for property in (*schema.get("properties", {}), "no_such_argument"):
            for name in _TRIED:
                if chosen(f"{tool['name']}.{property}", name):
                    yield f"{tool['name']}.{property}: {name}", _call(tool, {**others, property: "\0here"}, name)
        for property, about in schema.get("properties", {}).items():
            name = "many that fit beside one that does not"
            if about.get("type") == "array" and chosen(f"{tool['name']}.{property}", name):
                entry = _sample(about.get("items", {}))
                fitting = [entry] * ((MOST_VALUES - 50) // (1 + 2 * len(entry) if isinstance(entry, dict) else 1))
                given = {**others, property: fitting, "no_such_argument": 1}
                yield f"{tool['name']}.{property}: {name}", _call(tool, given)


def _call(tool: Json, given: Json, value: str | None = None) -> bytes:
    arguments = json.dumps(given).encode()
    if value is not None:
        arguments = arguments.replace(b'"\\u0000here"', values()[value])
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":%b}}' % (
        tool["name"].encode(),
        arguments,
    )


_TRIED: Final = ("text", "text of words", "text of slashes", "many texts", "long members", "towers")


def _sample(schema: Json) -> Json:
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        return {name: _sample(schema["properties"][name]) for name in schema.get("required", ())}
    return {"string": "a", "integer": 1, "number": 1.5, "boolean": True, "array": ["a"], "object": {}}.get(
        schema.get("type", "string") if isinstance(schema.get("type", "string"), str) else "string"
    )


# --- two sessions of one server


class Two:
    """One client sends what is large; the other pings all the while."""

    def __init__(self, server: Server, revision: str = "2025-11-25") -> None:
        self.large, self.other = MemoryClient(server), MemoryClient(server)
        for client in (self.large, self.other):
            client.send(
                b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%b","capabilities":{},'
                b'"clientInfo":{"name":"large","version":"1"}}}' % revision.encode()
            )
            client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
            client.take_frames()

    async def hold(self, frame: bytes, most_turns: int = 200) -> float:
        """The longest that the other client waited for a ping, in processor time of this thread."""
        longest, answered = 0.0, False
        for turn in range(most_turns):
            began = time.thread_time()
            if turn == 0:
                self.large.send(frame)
            self.other.send(b'{"jsonrpc":"2.0","id":7,"method":"ping"}')
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
            assert self.other.take_frames() == [b'{"jsonrpc":"2.0","id":7,"result":{}}']
            answered = answered or bool(self.large.take_frames())
            if answered and turn > 2:
                break
        return longest

    async def judge(self, frame: bytes, tries: int = 6) -> tuple[float, str]:
        """The least wait of several tries, and what is wrong with it: empty unless every try took too long. The first
        call of a tool also imports, and a busy machine can only add to what the message itself takes."""
        waits = [await self.hold(frame)]
        if waits[0] <= LIMIT:
            return waits[0], ""
        limit = limit_now()
        while min(waits) > limit and len(waits) < tries:
            waits.append(await self.hold(frame))
        taken = f"{[round(each * 1000) for each in waits]} ms of {limit * 1000:.0f}"
        return min(waits), taken if min(waits) > limit else ""

    def close(self) -> None:
        self.large.close()
        self.other.close()


def rich() -> Server:
    return Server(load_offer("tests.fuzz.offer:offer")())


def product(directory: str) -> tuple[Journal, Server]:
    """The journal in front of a backend that is not there: all that runs is what the loop does itself."""
    settings = parse("stdio", ["--data-dir", directory, "--api-url", "http://127.0.0.1:9", "--toolsets", "all"], {})
    journal = Journal(settings)
    return journal, Server(journal.offer)


async def _walk() -> int:
    from tempfile import TemporaryDirectory

    slow: list[str] = []
    count, worst = 0, (0.0, "")
    with TemporaryDirectory() as directory:
        journal, server = product(directory)
        two = Two(server)
        two.large.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        tools = json.loads(two.large.take_frames()[0])["result"]["tools"]
        plans = [(two, arguments(tools)), (Two(rich()), envelopes()), (Two(rich()), params_of(False))]
        batches = Two(rich(), "2025-03-26")
        plans.append((batches, (each for each in envelopes() if each[0].startswith("batch"))))
        for pair, frames in plans:
            for name, frame in frames:
                seconds, problem = await pair.judge(frame)
                count += 1
                worst = max(worst, (seconds, name))
                if problem:
                    slow.append(f"{name}: {problem}")
                    print(slow[-1], flush=True)
            pair.close()
        await journal.close()
    longest = f"longest {worst[0] * 1000:.0f} ms ({worst[1]})"
    print(f"{count} messages of up to {DEFAULT_LIMIT} bytes, {longest}, {len(slow)} too long")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(_walk()))
