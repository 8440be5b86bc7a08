"""`zorivest-rpc stdio`: serve one client on stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from zorivest_rpc.config import Settings, parse, usage
from zorivest_rpc.mcp.offer import Offer

if TYPE_CHECKING:
    import asyncio

__all__ = ["fast_loop", "reload_on_hangup", "run", "serve_stdio"]

_FAREWELL = 1.0  # seconds for children that end themselves; a server is gone two seconds after its client


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(usage("stdio"))
        return 0
    settings = parse("stdio", argv)
    if settings.showcase:
        from zorivest_rpc.showcase import offer

        return serve_stdio(offer, settings)
    from zorivest_rpc.app import Journal

    journal = Journal(settings)
    reload = journal.reload if settings.file is not None or journal.tenancy is not None else None
    return serve_stdio(lambda: journal.offer, settings, journal.warm_up, journal.close, fast_loop, reload)


async def _nothing() -> None:
    return


def fast_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: a call that goes on to a backend costs less, the start some milliseconds more."""
    try:
        import uvloop
    except ImportError:
        return plain_loop()
    return uvloop.new_event_loop()


def plain_loop() -> asyncio.AbstractEventLoop:
    import asyncio

    return asyncio.new_event_loop()


def serve_stdio(
    make_offer: Callable[[], Offer],
    settings: Settings,
    warm_up: Callable[[], Coroutine[Any, Any, None]] = _nothing,
    close: Callable[[], Coroutine[Any, Any, None]] = _nothing,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = plain_loop,
    reload: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> NoReturn:
    """Ends the process itself: a worker thread that still blocks must not keep it alive.

    `warm_up` starts when the first answer is on the wire; `close` is given a moment at the end. `reload` is what SIGHUP
    asks for, where there is a file to be read again."""
    import asyncio

    from zorivest_rpc.mcp.transports.stdio import StdioTransport, protect_stdout

    if settings.log_file:  # a file that cannot be written is said before anything is served
        _log(settings)
    read_fd, write_fd = protect_stdout()

    warming: asyncio.Task[None] | None = None

    def settle() -> None:
        nonlocal warming
        _settle(settings)
        running = asyncio.get_running_loop()
        warming = running.create_task(warm_up())
        if reload is not None:
            reload_on_hangup(running, reload)

    async def main() -> int:
        from zorivest_rpc.mcp.dispatcher import Limits
        from zorivest_rpc.mcp.server import Server

        limits = Limits(settings.calls_per_client, settings.calls_per_server, settings.input_seconds)
        transport = StdioTransport(Server(make_offer(), limits=limits), read_fd, write_fd, limit=settings.message_limit)
        transport.after_first = settle
        code = await transport.run()
        if warming is not None:
            warming.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await close()
        return code

    loop = new_loop()
    code = loop.run_until_complete(main())
    sys.stderr.flush()
    os._exit(code)


def reload_on_hangup(loop: asyncio.AbstractEventLoop, reload: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """SIGHUP, where the platform has it: what is asked for while one is being read is done after it, once."""
    import signal

    if not hasattr(signal, "SIGHUP"):
        return
    running: asyncio.Task[None] | None = None
    is_wanted = False

    async def read() -> None:
        nonlocal is_wanted
        while is_wanted:
            is_wanted = False
            await reload()

    def on_hangup() -> None:
        nonlocal running, is_wanted
        is_wanted = True
        if running is None or running.done():
            running = loop.create_task(read())

    loop.add_signal_handler(signal.SIGHUP, on_hangup)


def _settle(settings: Settings) -> None:
    """What can wait until the first answer is on the wire."""
    import gc

    from zorivest_rpc.core_dumps import forbid_core_dumps

    forbid_core_dumps()  # no key has been read yet
    if not settings.log_file:
        _log(settings)
    gc.freeze()


def _log(settings: Settings) -> None:
    from zorivest_rpc.cli.logs import set_up_logging

    set_up_logging(settings)
