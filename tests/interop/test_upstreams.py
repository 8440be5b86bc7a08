"""Real servers that nobody here wrote, and ourselves, behind the gateway's client: over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.run import free_port
from tests.gateway.fake import IDENTITY, Noted
from tests.interop.servers import command
from zorivest_rpc.gateway.child import choose_environment
from zorivest_rpc.gateway.errors import ConnectFailed, StdioExited, ToolingError
from zorivest_rpc.gateway.http_client import HttpUpstream
from zorivest_rpc.gateway.stdio_client import StdioUpstream
from zorivest_rpc.gateway.upstream import Call, Upstream
from zorivest_rpc.mcp.client.caller import Changed, Touched
from zorivest_rpc.mcp.client.forms import Form
from zorivest_rpc.mcp.protocol.revisions import Era

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="processes are ended by signals")]
SECONDS = 90.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Server:
    """What a server is started with, and which of its tools does what of the tour."""

    name: str
    echo: tuple[str, Arguments, str]  # tool, arguments, a text of the answer
    transports: tuple[str, ...] = ("stdio", "http")
    newest: str = LEGACY
    progress: tuple[str, Arguments, int] | None = None  # the number of steps
    wait: tuple[str, Arguments] | None = None
    error: tuple[str, Arguments, str] | None = None
    change: tuple[str, Arguments, tuple[str, ...]] | None = None  # and the revisions in which it tells of it
    ask: tuple[str, Arguments, str, tuple[str, ...]] | None = None  # and the revisions in which it can ask
    prompt: tuple[str, Arguments, str] | None = None
    resources: tuple[tuple[str, str], ...] = ()  # a URI, and a text of what is read there; templates among them
    completion: tuple[str, str, list[str]] | None = None  # of the prompt: argument, what was typed, what is offered
    follow: tuple[str, str, Arguments, tuple[str, ...]] | None = None  # a URI, what touches it, and the revisions

    def command(self, transport: str, port: int, directory: Path) -> list[str]:
        return command(self.name, transport, port, directory)


ADA = {"name": "Ada", "entityType": "person", "observations": []}
PYTHON: dict[str, Any] = {
    "echo": ("echo", {"text": "grüße 🌍"}, "grüße 🌍"),
    "progress": ("count", {"to": 3}, 3),
    "wait": ("wait", {}),
    "error": ("fail", {}, "Error executing tool fail"),
    "ask": ("ask", {}, "accept: Ada", (LEGACY, MODERN)),
    "prompt": ("review", {"topic": "ink"}, "Review ink."),
    "resources": (("note://today", "a note"), ("note://by/Ada", "a note by Ada")),
    "completion": ("topic", "a", ["anna", "anton"]),
}
TYPESCRIPT: dict[str, Any] = PYTHON | {"error": ("fail", {}, "out of paper")}
EVERYTHING = [
    Server(
        "mcp-2.3.0",
        newest=MODERN,
        change=("toggle_extra", {}, (MODERN,)),
        follow=("note://today", "touch", {}, (MODERN,)),
        **PYTHON,
    ),
    Server("mcp-1.30.0", change=("toggle_extra", {}, (LEGACY,)), **PYTHON),
    Server(
        "fastmcp-4.1.4",
        newest=MODERN,
        change=("toggle_extra", {}, (LEGACY, MODERN)),
        **(
            PYTHON
            | {"ask": ("ask", {}, "accept: Ada", (LEGACY,)), "completion": None, "error": ("fail", {}, "out of paper")}
        ),
    ),
    Server("sdk-1.32.2", change=("toggle_extra", {}, (LEGACY, MODERN)), **TYPESCRIPT),
    Server(
        "server-2.4.0",
        newest=MODERN,
        change=("toggle_extra", {}, (MODERN,)),
        **(TYPESCRIPT | {"ask": ("ask", {}, "accept: Ada", (MODERN,))}),  # its legacy HTTP has no way for questions
    ),
    Server(
        "ourselves",
        ("echo", {"text": "grüße 🌍"}, "grüße 🌍"),
        newest=MODERN,
        progress=("count", {"to": 3}, 3),
        wait=("wait", {"seconds": 600}),
        error=("echo", {"text": 7}, "text"),
        change=("toggle_extra", {}, (LEGACY, MODERN)),
        ask=("ask_name", {}, "hello Ada", (LEGACY, MODERN)),
        prompt=("greet", {"name": "Ada"}, "Ada"),
        resources=(("showcase://readme", "showcase"), ("showcase://note/42", "42")),
    ),
    Server(
        "server-everything",
        ("echo", {"message": "grüße 🌍"}, "grüße 🌍"),
        progress=("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, 3),
        wait=("trigger-long-running-operation", {"duration": 600, "steps": 1}),
        error=("get-sum", {"a": "x"}, "-32602"),
        ask=("trigger-elicitation-request", {}, "Ada", (LEGACY,)),
        prompt=("args-prompt", {"city": "Bern"}, "Bern"),
        resources=(
            ("demo://resource/static/document/architecture.md", "Everything"),
            ("demo://resource/dynamic/text/3", "Resource 3"),
        ),
        follow=("demo://resource/dynamic/text/3", "toggle-subscriber-updates", {}, (LEGACY,)),
    ),
    Server(
        "server-filesystem",
        ("read_text_file", {"path": "hello.txt"}, "grüße 🌍"),
        ("stdio",),
        error=("read_text_file", {"path": "/etc/passwd"}, "denied"),
    ),
    Server(
        "server-memory",
        ("read_graph", {}, "entities"),
        ("stdio",),
        error=("create_entities", {"entities": 7}, "-32602"),
        resources=(("memory://knowledge-graph", "entities"),),
        follow=("memory://knowledge-graph", "create_entities", {"entities": [ADA]}, (LEGACY,)),
    ),
]
CASES = [
    pytest.param(server, transport, era, id=f"{server.name}-{transport}-{era.value if era else 'auto'}")
    for server in EVERYTHING
    for transport in server.transports
    for era in (None, Era.LEGACY)
    if era is None or server.newest == MODERN
]


def places(directory: Path) -> dict[str, str]:
    """Where a server may write."""
    return {"HOME": str(directory), "MEMORY_FILE_PATH": str(directory / "memory.jsonl")}


@contextlib.asynccontextmanager
async def listening(server: Server, directory: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The URL of a server that accepts connections, and its process. Another program may be faster to take the port."""
    for attempt in range(5):
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            *server.command("http", port, directory),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=directory,
            env={**choose_environment(os.environ), "PORT": str(port), **places(directory)},
        )
        try:
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                    continue
                writer.close()
                yield f"http://127.0.0.1:{port}/mcp", process
                return
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert attempt < 4, f"{server.name} does not start"


@contextlib.asynccontextmanager
async def opened(
    server: Server, transport: str, era: Era | None, directory: Path, happenings: Noted
) -> AsyncIterator[tuple[Upstream, Any]]:
    """A connected client and a way to kill its server."""
    (directory / "hello.txt").write_text("grüße 🌍", encoding="utf-8")
    async with contextlib.AsyncExitStack() as stack:
        client: Upstream
        if transport == "stdio":
            child = StdioUpstream(
                server.name,
                server.command("stdio", 0, directory),
                IDENTITY,
                environment={**choose_environment(os.environ), **places(directory)},
                cwd=str(directory),
                era=era,
                seconds=SECONDS,
                on_happening=happenings.append,
            )

            def kill() -> None:
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)

            client = child
        else:
            url, process = await stack.enter_async_context(listening(server, directory))
            client = HttpUpstream(server.name, url, IDENTITY, era=era, seconds=SECONDS, on_happening=happenings.append)
            kill = process.kill
        stack.push_async_callback(client.close)
        await client.connect()
        yield client, kill


def call(tool: str, arguments: Arguments, **options: Any) -> Call:
    params = json.dumps({"name": tool, "arguments": arguments}).encode()
    return Call("tools/call", params, tool, seconds=SECONDS, **options)


async def give_name(form: Form) -> Mapping[str, Any]:
    return {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.parametrize(("server", "transport", "era"), CASES)
async def test_the_tour_of_a_real_server(server: Server, transport: str, era: Era | None, tmp_path: Path) -> None:
    happenings = Noted()
    async with opened(server, transport, era, tmp_path, happenings) as (client, kill):
        assert client.welcome is not None
        revision = LEGACY if era is Era.LEGACY else server.newest
        assert client.welcome.revision.name == revision
        listing = await client.list_tools()
        assert listing.drops == ()
        names = [item.name for item in listing.items]
        assert server.echo[0] in names
        await read_what_it_has(client, server)
        assert server.echo[2] in json.dumps(await run(client, *server.echo[:2]), ensure_ascii=False)
        await show_progress(client, server)
        if server.error is not None:
            assert server.error[2] in json.dumps(await run(client, *server.error[:2]))
        await withdraw(client, server)
        if server.ask is not None and revision in server.ask[3]:
            answered = await run(client, *server.ask[:2], can_ask=True, ask=give_name)
            assert server.ask[2] in json.dumps(answered)
        if server.follow is not None and revision in server.follow[3]:
            await follow(client, server, happenings)
        if server.change is not None and revision in server.change[2]:
            await change(client, server, happenings, names)
        kill()
        with pytest.raises((ConnectFailed, StdioExited)):
            await client.call(call(*server.echo[:2]))


async def run(client: Upstream, tool: str, arguments: Arguments, **options: Any) -> Any:
    """The result, or the words of the refusal: some servers answer a bad call with an error, some with a result."""
    try:
        return json.loads(bytes((await client.call(call(tool, arguments, **options))).raw))
    except ToolingError as error:
        return error.problem


async def read_what_it_has(client: Upstream, server: Server) -> None:
    """Its prompts, resources, templates and completions; nothing of the kind is declared by one that has none."""
    assert client.welcome is not None
    offered = client.welcome.offered
    assert (offered.prompts, offered.resources) == (server.prompt is not None, bool(server.resources))
    if server.prompt is not None:
        name, arguments, text = server.prompt
        assert name in [item.name for item in (await client.list_prompts()).items]
        assert text in await ask(client, "prompts/get", name, {"name": name, "arguments": arguments})
    if server.completion is not None:
        assert server.prompt is not None
        argument, typed, values = server.completion
        wanted = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": argument, "value": typed}}
        assert json.loads(await ask(client, "completion/complete", name, wanted))["completion"]["values"] == values
    if server.resources:
        listed = [item.name for item in (await client.list_resources()).items]
        assert server.resources[0][0] in listed
        await client.list_templates()
    for uri, text in server.resources:
        assert text in await ask(client, "resources/read", uri, {"uri": uri}), uri


async def ask(client: Upstream, method: str, name: str, params: Arguments) -> str:
    return bytes((await client.call(Call(method, json.dumps(params).encode(), name, seconds=SECONDS))).raw).decode()


async def follow(client: Upstream, server: Server, happenings: Noted) -> None:
    """A resource that is subscribed to is told when it changes."""
    assert server.follow is not None
    uri, touch, arguments, _ = server.follow
    await client.subscribe(uri)
    await run(client, touch, arguments)
    while Touched(uri) not in happenings:
        await happenings.reach(len(happenings) + 1)
    await client.unsubscribe(uri)


async def show_progress(client: Upstream, server: Server) -> None:
    if server.progress is None:
        return
    steps: list[float] = []
    tool, arguments, number = server.progress
    await client.call(call(tool, arguments, on_progress=lambda progress: steps.append(progress.progress)))
    assert len(steps) == number
    assert steps == sorted(steps)


async def withdraw(client: Upstream, server: Server) -> None:
    """A call that is cancelled leaves a server that goes on, and nothing open here."""
    if server.wait is None:
        return
    task = asyncio.create_task(client.call(call(*server.wait)))
    await client.call(call(*server.echo[:2]))  # the server is at work on the other one by now, or soon
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.echo[2] in json.dumps(await run(client, *server.echo[:2]), ensure_ascii=False)
    assert not [request for request in client.caller.pending.values() if request.method == "tools/call"]


async def change(client: Upstream, server: Server, happenings: Noted, names: list[str]) -> None:
    assert server.change is not None
    before = len(happenings)
    await client.call(call(*server.change[:2]))
    while Changed("tools") not in happenings[before:]:
        await happenings.reach(len(happenings) + 1)
    listed = [item.name for item in (await client.list_tools()).items]
    assert sorted(listed) == sorted([*names, "extra"])
