"""`zorivest-rpc stdio`: serve one client on stdin and stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from zorivest_rpc.config import Settings, parse, usage
from zorivest_rpc.offer import Offer

__all__ = ["run", "serve_stdio"]


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(usage("stdio"))
        return 0
    from zorivest_rpc.showcase import offer

    return serve_stdio(offer, parse("stdio", argv))


def serve_stdio(make_offer: Callable[[], Offer], settings: Settings) -> NoReturn:
    """Ends the process itself: a worker thread that still blocks must not keep it alive."""
    import asyncio

    from zorivest_rpc.transports.stdio import StdioTransport, protect_stdout

    read_fd, write_fd = protect_stdout()

    async def main() -> int:
        from zorivest_rpc.dispatcher import Limits
        from zorivest_rpc.server import Server

        limits = Limits(settings.calls_per_client, settings.calls_per_server, settings.input_seconds)
        transport = StdioTransport(Server(make_offer(), limits=limits), read_fd, write_fd, limit=settings.message_limit)
        transport.after_first = lambda: _settle(settings)
        return await transport.run()

    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(main())
    sys.stderr.flush()
    os._exit(code)


def _settle(settings: Settings) -> None:
    """What can wait until the first answer is on the wire."""
    import gc

    from zorivest_rpc.cli.logs import set_up_logging

    set_up_logging(settings)
    gc.freeze()
