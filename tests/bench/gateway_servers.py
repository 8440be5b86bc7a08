"""The processes of the gateway's benchmark: the product with upstreams, what stands behind it, and its peers' commands.

python -m tests.bench.gateway_servers front stdio | front http PORT
python -m tests.bench.gateway_servers upstream stdio | http PORT
python -m tests.bench.gateway_servers mute PORT
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["MODULE", "config", "entry_http", "entry_stdio", "upstream_command"]

MODULE = (sys.executable, "-m", "tests.bench.gateway_servers")
SLOW_SECONDS = 3.0
PROFILE = """\
[profiles.default]
tool_confirmation_mode = "never"
pin = "off"
max_upstream_tools = 500
"""


# --- configurations


def config(directory: Path, name: str, *entries: str) -> Path:
    path = directory / f"{name}.toml"
    path.write_text(PROFILE + "".join(entries))
    return path


def _entry(name: str, prefix: bool, *lines: str) -> str:
    rest = "\n".join(lines)
    return f'\n[[profiles.default.mcp_servers]]\nname = "{name}"\nprefix = {json.dumps(prefix)}\n{rest}\n'


def entry_http(name: str, url: str, *lines: str, prefix: bool = False) -> str:
    return _entry(name, prefix, f'endpoint = "{url}"', *lines)


def entry_stdio(name: str, command: tuple[str, ...], *lines: str, prefix: bool = False) -> str:
    program, *arguments = command
    more = (f"command = {json.dumps(program)}", f"args = {json.dumps(arguments)}", *lines)
    return _entry(name, prefix, *more, 'env_pass = ["BENCH_CATALOG"]', f"cwd = {json.dumps(os.getcwd())}")


def upstream_command(core: int) -> tuple[str, ...]:
    """A fast echo server as a child, which moves to this core: a child would share that of its parent."""
    return (*MODULE, "upstream", "stdio", str(core))


# --- the product in front of upstreams


def front(words: list[str]) -> int:
    """The gateway of `BENCH_CONFIG`, its guard at `BENCH_BACKEND`."""
    from zorivest_rpc.app import Journal
    from zorivest_rpc.cli.serve import _loop_runner, _serve
    from zorivest_rpc.cli.stdio import fast_loop, serve_stdio
    from zorivest_rpc.config import parse

    command = "stdio" if words == ["stdio"] else "serve"
    with tempfile.TemporaryDirectory() as data:
        variables = {"HOME": data, "ZORIVEST_API_KEY": "zrv_sk_asks", "ZORIVEST_API_URL": os.environ["BENCH_BACKEND"]}
        common = ["--data-dir", data, "--client-mode", "dynamic"]
        journal = Journal(parse(command, [*common, "--config", os.environ["BENCH_CONFIG"]], variables))
        if command == "stdio":
            serve_stdio(lambda: journal.offer, journal.settings, journal.warm_up, journal.close, fast_loop)
        settings = parse("serve", [*common, "--no-auth", "--port", words[1]], {"HOME": data})

        async def main() -> int:
            warming = asyncio.create_task(journal.warm_up())
            try:
                return await _serve(journal.offer, settings, None)
            finally:
                warming.cancel()
                await journal.close()

        return _loop_runner()(main())


# --- what stands behind


def upstream(words: list[str]) -> int:
    """This project's bench server: the fastest echo there is here, so that what stands before it is measured."""
    from tests.bench.server import BenchTools
    from zorivest_rpc.cli.serve import serve_http
    from zorivest_rpc.cli.stdio import fast_loop, serve_stdio
    from zorivest_rpc.config import parse

    if words[0] == "stdio":
        os.sched_setaffinity(0, {int(words[1])})
        serve_stdio(lambda: BenchTools().offer, parse("stdio", []), new_loop=fast_loop)
    with tempfile.TemporaryDirectory() as data:
        options = ["--no-auth", "--data-dir", data, "--port", words[1]]
        return serve_http(lambda: BenchTools().offer, parse("serve", options))


def mute(port: int) -> None:
    """At `/slow` every answer takes three seconds; at `/hang` there is a tool whose calls are never answered."""
    from aiohttp import web

    async def slow(request: web.Request) -> web.StreamResponse:
        await request.read()
        await asyncio.sleep(SLOW_SECONDS)
        return web.Response(status=500)

    async def hang(request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message: dict[str, Any] = await request.json()
        results: dict[str, Any] = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        }
        if message["method"] not in results:
            await asyncio.Event().wait()
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]})

    app = web.Application()
    app.router.add_route("*", "/slow", slow)
    app.router.add_route("*", "/hang", hang)
    web.run_app(app, host="127.0.0.1", port=port, print=None, access_log=None)


def main(words: list[str]) -> int:
    if words[0] == "front":
        return front(words[1:])
    if words[0] == "upstream":
        return upstream(words[1:])
    mute(int(words[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
