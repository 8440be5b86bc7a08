"""The installed gateway between official clients and servers that nobody here wrote: one process, each server once over
stdio and once over HTTP, and what a client sees of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import aiohttp
import psutil
import pytest
import pytest_asyncio

from tests.conformance.cache import REPOSITORY
from tests.conformance.run import free_port, stop, wait_for_port
from tests.interop.hands import Hands, hands
from tests.interop.servers import PROGRAM, command
from tests.interop.test_interop import LEGACY, MODERN, Case
from tests.interop.test_journal import stop_backend
from zorivest_rpc.embedded.locate import stored_key
from zorivest_rpc.gateway.child import choose_environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(os.name != "posix", reason="processes are ended by signals"),
]
SECONDS = 60.0
PROFILE = """\
[profiles.default]
tool_confirmation_mode = "never"
confirm_destructive = false
max_upstream_tools = 500
pin = "off"
"""
Arguments = dict[str, Any]
Order = tuple[str, Arguments, str]  # tool, arguments, a text of the answer


@dataclass(frozen=True)
class Upstream:
    """A server in the configuration, and which of its tools does what of the tour."""

    name: str  # as the gateway has it
    package: str
    echo: Order
    http: bool = False
    error: Order = ("fail", {}, "out of paper")
    progress: tuple[str, Arguments, list[int]] | None = None
    wait: tuple[str, Arguments, str | None] | None = None  # and the tool that counts those that run
    changes: bool = False
    prompt: Order | None = None
    resources: tuple[tuple[str, str, str], ...] = ()  # a URI, the URI or template that is listed, a text of the content
    ask: Order | None = None

    def tool(self, name: str) -> str:
        return f"{self.name}__{name}"


def both(name: str, package: str, echo: Order, **more: Any) -> list[Upstream]:
    return [Upstream(name, package, echo, **more), Upstream(f"{name}-http", package, echo, http=True, **more)]


SDK: dict[str, Any] = {
    "echo": ("echo", {"text": "grüße 🌍"}, "grüße 🌍"),
    "progress": ("count", {"to": 3}, [1, 2, 3]),
    "wait": ("wait", {}, "running"),
    "changes": True,
    "prompt": ("review", {"topic": "ink"}, "Review ink."),
    "resources": (
        ("note://today", "note://today", "a note"),
        ("note://by/Ada", "note://by/{name}", "a note by Ada"),
    ),
    "ask": ("ask", {}, "accept: Ada"),
}
EVERYTHING: dict[str, Any] = {
    "echo": ("echo", {"message": "grüße 🌍"}, "grüße 🌍"),
    "error": ("get-resource-reference", {"resourceId": -1}, "Invalid resourceId"),
    "progress": ("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, [1, 2, 3]),
    "wait": ("trigger-long-running-operation", {"duration": 600, "steps": 1}, None),
    "prompt": ("args-prompt", {"city": "Bern"}, "Bern"),
    "resources": (
        ("demo://resource/static/document/features.md", "demo://resource/static/document/features.md", "Everything"),
        ("demo://resource/dynamic/text/3", "demo://resource/dynamic/text/{resourceId}", "Resource 3"),
    ),
    "ask": ("trigger-elicitation-request", {}, "Ada"),
}
UPSTREAMS = [
    *both("py2", "mcp-2.3.0", **(SDK | {"error": ("fail", {}, "Error executing tool fail")})),
    Upstream("py1", "mcp-1.30.0", **SDK),
    Upstream("py1-http", "mcp-1.30.0", http=True, **(SDK | {"changes": False})),  # it does not declare that it tells
    *both("fast", "fastmcp-4.1.4", **(SDK | {"ask": None})),  # in the modern era it has no way to ask
    *both("ts1", "sdk-1.32.2", **SDK),
    *both("ts2", "server-2.4.0", **SDK),
    *both("every", "server-everything", **EVERYTHING),
    Upstream(
        "files",
        "server-filesystem",
        ("read_text_file", {"path": "hello.txt"}, "grüße 🌍"),
        error=("read_text_file", {"path": "/etc/passwd"}, "denied"),
    ),
    Upstream(
        "memory",
        "server-memory",
        ("read_graph", {}, "entities"),
        error=(
            "add_observations",
            {"observations": [{"entityName": "Nobody", "contents": ["x"]}]},
            "Entity with name Nobody not found",
        ),
        resources=(("memory://knowledge-graph", "memory://knowledge-graph", "entities"),),
    ),
]
FRONTS = [
    Case("mcp-2.3.0", "http", MODERN),
    Case("mcp-1.30.0", "http", LEGACY),
    Case("client-2.4.0", "http", MODERN),
    Case("sdk-1.32.2", "http", LEGACY),
]


class Process:
    """An upstream over HTTP that can be killed and come back at its address."""

    def __init__(self, upstream: Upstream, directory: Path) -> None:
        self._upstream = upstream
        self._directory = directory
        self.port = free_port()
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            command(self._upstream.package, "http", self.port, self._directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            env={**choose_environment(os.environ), "PORT": str(self.port), "HOME": str(self._directory)},
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class World:
    """The upstreams over HTTP, and a gateway that has these and the others as its children."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "hello.txt").write_text("grüße 🌍", encoding="utf-8")
        self.processes = {each.name: Process(each, directory) for each in UPSTREAMS if each.http}
        self._port = free_port()
        self.way: dict[str, Any] = {}
        self.gateway: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for each in self.processes.values():
            wait_for_port(each.port, each.process)
        config = self.directory / "config.toml"
        config.write_text(PROFILE + "".join(self._entry(each) for each in UPSTREAMS), encoding="utf-8")
        options = ["--port", str(self._port), "--data-dir", str(self.directory / "journal"), "--config", str(config)]
        with (self.directory / "gateway.log").open("wb") as log:
            self.gateway = self._spawn(options, log)
        wait_for_port(self._port, self.gateway)
        key = stored_key(self.directory / "journal", os.environ | {"ZORIVEST_KEYRING": "off"})
        self.way = {"url": f"http://127.0.0.1:{self._port}/mcp", "headers": {"Authorization": f"Bearer {key}"}}

    def _spawn(self, options: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [PROGRAM, "serve", "--client-mode", "dynamic", *options],
            cwd=REPOSITORY,
            env=os.environ | {"ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )

    def _entry(self, each: Upstream) -> str:
        lines = ["\n[[profiles.default.mcp_servers]]", f'name = "{each.name}"', "timeout_secs = 60"]
        if each.http:
            lines.append(f'endpoint = "http://127.0.0.1:{self.processes[each.name].port}/mcp"')
        else:
            program, *arguments = command(each.package, "stdio", 0, self.directory)
            lines += [f"command = {json.dumps(program)}", f"args = {json.dumps(arguments)}"]
            lines.append(f"cwd = {json.dumps(str(self.directory))}")
        return "\n".join(lines) + "\n"

    def kill(self, upstream: Upstream) -> None:
        if upstream.http:
            self.processes[upstream.name].kill()
            return
        assert self.gateway is not None
        wanted = command(upstream.package, "stdio", 0, self.directory)
        (found,) = [each for each in psutil.Process(self.gateway.pid).children() if runs(each, wanted)]
        found.kill()

    def restart(self, killed: list[Upstream]) -> None:
        """Those over HTTP are started by us, the others by the gateway."""
        back = [self.processes[each.name] for each in killed if each.http]
        for each in back:
            each.start()
        for each in back:
            wait_for_port(each.port, each.process)

    def close(self) -> None:
        if self.gateway is not None:
            stop(self.gateway)
        stop_backend(self.directory / "journal")
        for each in self.processes.values():
            each.kill()


def runs(process: psutil.Process, command: list[str]) -> bool:
    """The interpreter of a script's first line stands before its name."""
    try:
        return bool(process.cmdline()[-len(command) :] == command)
    except psutil.Error:  # it has ended, which others of them do at the same time
        return False


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("gateway"))
    try:
        found.start()
        yield found
    finally:
        found.close()


@contextlib.asynccontextmanager
async def in_front(case: Case, config: dict[str, Any], directory: Path) -> AsyncIterator[Hands]:
    async with hands(case, config | {"name": "Cline", "asks": True}, directory) as client:
        assert client.revision == case.revision
        yield client


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=FRONTS, ids=str)
async def front(
    request: pytest.FixtureRequest, world: World, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Hands]:
    """One client that is taken through all servers."""
    case: Case = request.param
    async with in_front(case, world.way, tmp_path_factory.mktemp("client") / "home") as client:
        await client.do("watch")
        yield client


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Other processes are at work, and only asking tells when they are done."""
    async with asyncio.timeout(SECONDS):
        while True:
            if await true():
                return
            await asyncio.sleep(0.2)


async def listed(client: Hands, name: str) -> None:
    async def is_listed() -> bool:
        return name in await client.tools()

    await until(is_listed)


def said(result: dict[str, Any]) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])


async def call_echo(client: Hands, upstream: Upstream) -> dict[str, Any]:
    name, arguments, _ = upstream.echo
    return await client.call(upstream.tool(name), **arguments)


async def right(client: Hands, upstream: Upstream) -> bool:
    result = await call_echo(client, upstream)
    return upstream.echo[2] in said(result) and not result.get("isError")


@pytest.mark.parametrize("upstream", UPSTREAMS, ids=lambda each: each.name)
async def test_a_client_lists_calls_follows_and_cancels_through_the_gateway(front: Hands, upstream: Upstream) -> None:
    await listed(front, upstream.tool(upstream.echo[0]))
    assert await right(front, upstream)
    name, arguments, text = upstream.error
    failed = await front.call(upstream.tool(name), **arguments)
    assert failed["isError"] is True
    assert text in said(failed)
    if upstream.progress is not None:
        name, arguments, steps = upstream.progress
        assert (await front.do("progress", upstream.tool(name), arguments))["steps"] == steps
    if upstream.wait is not None:
        name, arguments, running = upstream.wait
        quick = [upstream.tool(upstream.echo[0]), upstream.echo[1]]
        counted = upstream.tool(running) if running else None
        assert await front.do("withdraw", upstream.tool(name), arguments, counted, quick) == "cancelled"
        assert await right(front, upstream)
    if upstream.changes:
        await toggle(front, upstream)


@pytest.mark.parametrize("upstream", [each for each in UPSTREAMS if each.resources], ids=lambda each: each.name)
async def test_a_client_reads_prompts_and_resources_and_answers_through_the_gateway(
    front: Hands, upstream: Upstream
) -> None:
    await listed(front, upstream.tool(upstream.echo[0]))
    if upstream.prompt is not None:
        name, arguments, text = upstream.prompt
        assert upstream.tool(name) in await front.do("prompts")
        assert text in await front.do("prompt", upstream.tool(name), arguments)
    offered = [*await front.do("resources"), *await front.do("templates")]
    for uri, shown, text in upstream.resources:
        assert f"upstream:{upstream.name}:{shown}" in offered
        assert text in await front.do("read", f"upstream:{upstream.name}:{uri}")
    if upstream.ask is not None:
        name, arguments, text = upstream.ask
        before = len(await front.do("asked"))
        await front.do("answer", [{"action": "accept", "content": {"name": "Ada"}}])
        assert text in said(await front.call(upstream.tool(name), **arguments))
        (asked,) = (await front.do("asked"))[before:]
        assert asked["message"].startswith(f"[{upstream.name}] ")
        await front.do("answer", [{"action": "decline"}])
        assert text not in said(await front.call(upstream.tool(name), **arguments))


async def toggle(client: Hands, upstream: Upstream) -> None:
    """A tool that comes or goes is announced, and then listed or not."""
    extra = upstream.tool("extra")
    was_listed = extra in await client.tools()
    seen = await client.do("changes", 0)
    await client.works(upstream.tool("toggle_extra"))
    async with asyncio.timeout(SECONDS):
        while (extra in await client.tools()) is was_listed:
            seen = await client.do("changes", seen + 1)


async def test_killed_servers_come_back_and_the_others_notice_nothing(world: World, tmp_path: Path) -> None:
    async with in_front(FRONTS[0], world.way, tmp_path / "home") as client:
        for is_http in (False, True):
            killed = [each for each in UPSTREAMS if each.http is is_http]
            for upstream in killed:
                await until(partial(right, client, upstream))
            for upstream in killed:
                world.kill(upstream)
            if is_http:  # a child is started again by itself, perhaps before this call
                for upstream in killed:
                    error = (await call_echo(client, upstream))["_meta"]["com.zorivest/error"]
                    assert (error["class"], error["server"], error["retryable"]) == ("TOOLING", upstream.name, True)
            for upstream in UPSTREAMS:
                if upstream not in killed:
                    assert await right(client, upstream), upstream.name
            world.restart(killed)
            for upstream in killed:
                await until(partial(right, client, upstream))


async def test_three_gateways_stand_behind_each_other(tmp_path: Path) -> None:
    """Each names the next one `next`; the last has the showcase behind it."""
    last = behind = [PROGRAM, "stdio", "--showcase", "--data-dir", str(tmp_path / "showcase")]
    for depth in range(3):
        file = tmp_path / f"config-{depth}.toml"
        entry = f'\n[[profiles.default.mcp_servers]]\nname = "next"\ncommand = {json.dumps(behind[0])}\n'
        entry += f'args = {json.dumps(behind[1:])}\ntimeout_secs = 60\nenv_pass = ["ZORIVEST_KEYRING"]\n'
        file.write_text(PROFILE + entry)
        behind = [PROGRAM, "stdio", "--client-mode", "dynamic", "--config", str(file)]
        behind += ["--data-dir", str(tmp_path / "journal")]
    name = "next__next__next__"
    try:
        config = {"command": behind, "env": {"ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0"}}
        async with in_front(Case("client-2.4.0", "stdio", MODERN), config, tmp_path / "home") as client:
            await client.do("watch")
            await listed(client, name + "echo")
            assert said(await client.call(name + "echo", text="grüße 🌍")) == "grüße 🌍"
            assert (await client.do("progress", name + "count", {"to": 3, "delay_ms": 20}))["steps"] == [1, 2, 3]
            assert "text" in said(await client.call(name + "echo", text=7))
            quick = [name + "echo", {"text": "x"}]
            assert await client.do("withdraw", name + "wait", {"seconds": 600}, None, quick) == "cancelled"

            async def none_waits() -> bool:
                return bool((await client.works(name + "running"))["waiting"] == 0)

            await until(none_waits)
            await client.call(name + "toggle_extra")
            await listed(client, name + "extra")
            assert "Ada" in await client.do("prompt", name + "greet", {"name": "Ada"})
            assert "42" in await client.do("read", 3 * "upstream:next:" + "showcase://note/42")
            await client.do("answer", [{"action": "accept", "content": {"name": "Ada"}}])
            assert said(await client.call(name + "ask_name")) == "hello Ada"
            (asked,) = await client.do("asked")
            assert asked["message"].startswith("[next] [next] [next] ")
            (showcase,) = [each for each in psutil.Process().children(recursive=True) if runs(each, last)]
            showcase.kill()

            async def is_back() -> bool:
                return said(await client.call(name + "echo", text="again")) == "again"

            await until(is_back)
    finally:
        stop_backend(tmp_path / "journal")


async def toolsets_of(http: aiohttp.ClientSession, port: int) -> dict[str, Any]:
    """The entry of the toolset `mcp-next` as one gateway has it now."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "cline", "version": "1"},
    }
    params = {"name": "list_available_toolsets", "arguments": {}, "_meta": meta}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "list_available_toolsets",
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    async with http.post(f"http://127.0.0.1:{port}/mcp", json=message, headers=headers) as response:
        toolsets = (await response.json())["result"]["structuredContent"]["toolsets"]
    (found,) = [each for each in toolsets if each["name"] == "mcp-next"]
    return dict(found)


class Ring:
    """Gateways of which each names the next one, and the last the first."""

    def __init__(self, directory: Path, size: int) -> None:
        self.ports = [free_port() for _ in range(size)]
        self._places = [directory / f"data-{number}" for number in range(size)]
        self._processes: list[subprocess.Popen[bytes]] = []
        for number, port in enumerate(self.ports):
            file = directory / f"ring-{number}.toml"
            url = f"http://127.0.0.1:{self.ports[(number + 1) % size]}/mcp"
            # all of them start at once: who looks for the next one before it listens, looks again soon
            retries = "tool_retry_attempts = 10\n"
            entry = f'[[profiles.default.mcp_servers]]\nname = "next"\nendpoint = "{url}"\n'
            file.write_text(f"{PROFILE}\n{retries}\n{entry}")
            options = ["--port", str(port), "--config", str(file), "--data-dir", str(self._places[number]), "--no-auth"]
            self._processes.append(
                subprocess.Popen(
                    [PROGRAM, "serve", *options],
                    cwd=REPOSITORY,
                    env=os.environ | {"ZORIVEST_KEYRING": "off", "ZORIVEST_BACKEND_PORT": "0"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

    def wait(self) -> None:
        for port, process in zip(self.ports, self._processes, strict=True):
            wait_for_port(port, process)

    def close(self) -> None:
        for process in self._processes:
            stop(process)
        for place in self._places:
            stop_backend(place)


@pytest.mark.parametrize("size", [1, 2, 3])
async def test_installed_gateways_in_a_ring_are_told_so_with_the_path(tmp_path: Path, size: int) -> None:
    """One of them finds the circle, and names the gateways in it."""
    ring = Ring(tmp_path, size)
    told: list[str] = []
    try:
        ring.wait()
        async with aiohttp.ClientSession() as http:

            async def is_found() -> bool:
                entries = [await toolsets_of(http, port) for port in ring.ports]
                told[:] = [each["error"] for each in entries if "leads back to this server" in (each["error"] or "")]
                return bool(told)

            await until(is_found)
    finally:
        ring.close()
    path = told[0].partition("leads back to this server (")[2].partition(")")[0].split(" → ")
    assert len(path) == size + 1
    assert path[0] == path[-1]
    assert len(set(path)) == size
