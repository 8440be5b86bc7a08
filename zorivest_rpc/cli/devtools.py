"""`zorivest-rpc devtools`: the script tag of a page that is to be observed, and a page with faults to try it on."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import html
import json
import os
import signal
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from zorivest_rpc.config import chosen_data_dir
from zorivest_rpc.devtools.place import Place, find_places
from zorivest_rpc.errors import ZorivestError

__all__ = ["run"]

NO_SERVER = (
    "No running server has the devtools toolset. Start one, for example with"
    " `zorivest-rpc serve --toolsets default,devtools`, or give your client's server that option."
)


def run(argv: list[str]) -> int:
    """Exit code 0 done, 1 no server or no such tenant, 2 misused."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "snippet":
            return _snippet(arguments)
        return asyncio.run(_demo(arguments))
    except (ZorivestError, OSError) as exc:
        print(f"zorivest-rpc devtools: {exc}", file=sys.stderr)
        return 1


def _snippet(arguments: argparse.Namespace) -> int:
    from zorivest_rpc.devtools.demo import script_tag

    place, key = _find(arguments.data_dir, arguments.tenant)
    tag = script_tag(place.origin, key)
    if arguments.json:
        print(json.dumps({"origin": place.origin, "key": key, "snippet": tag}))
        return 0
    print(tag)
    if sys.stdout.isatty():
        print("\nMake it the first script in the page's <head>. The key lets a page send data, and nothing else.")
    return 0


async def _demo(arguments: argparse.Namespace) -> int:
    from aiohttp import web

    from zorivest_rpc.devtools.demo import make_demo, script_tag

    place, _ = _find(arguments.data_dir, arguments.tenant)

    def tag() -> str:
        try:
            place, key = _find(arguments.data_dir, arguments.tenant)
        except ZorivestError as exc:
            return f"<p><strong>{html.escape(str(exc))}</strong></p>"  # the page tells that nothing observes it
        return script_tag(place.origin, key)

    runner = web.AppRunner(make_demo(tag), shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", arguments.port).start()
        stop = asyncio.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises there
                asyncio.get_running_loop().add_signal_handler(name, stop.set)
        print(
            f"Open http://127.0.0.1:{runner.addresses[0][1]}/ in a browser; it reports to {place.origin}.", flush=True
        )
        print("Then ask your assistant what is wrong with the page. Ctrl-C ends it.", flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()
    return 0


def _find(data_dir: Path, tenant: str | None) -> tuple[Place, str]:
    """The server that said last where it is and still answers, and the key of the tenant there."""
    place = next((each for each in find_places(data_dir) if _answers(each.origin)), None)
    if place is None:
        raise ZorivestError(NO_SERVER)
    if tenant is None and len(place.keys) == 1:
        return place, next(iter(place.keys.values()))
    if tenant is None:
        raise ZorivestError(f"This server has several tenants; add --tenant with one of: {', '.join(place.keys)}.")
    if tenant not in place.keys:
        raise ZorivestError(f"No tenant {tenant!r} is observed; there are: {', '.join(place.keys)}.")
    return place, place.keys[tenant]


def _answers(origin: str) -> bool:
    parts = urlsplit(origin)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), timeout=1).close()
    except OSError:
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc devtools", description="Observe a live web page: what it needs, and a page to try it on."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="snippet | demo")
    snippet = commands.add_parser("snippet", help="print the script tag that a page carries to be observed")
    demo = commands.add_parser("demo", help="serve a page with faults on purpose, until Ctrl-C")
    for each in (snippet, demo):
        each.add_argument(
            "--data-dir",
            type=Path,
            default=Path(chosen_data_dir(os.environ)),
            help="data directory of the server (ZORIVEST_DATA_DIR; default: %(default)s)",
        )
        each.add_argument("--tenant", metavar="ID", help="who observes the page, where the server has several clients")
    snippet.add_argument("--json", action="store_true", help="print JSON for programs")
    demo.add_argument(
        "--port", type=int, default=8768, help="loopback port of the page (default: %(default)s, 0 picks a free one)"
    )
    return parser
