"""`zorivest-rpc stdio`: serve one client on stdin and stdout."""

from __future__ import annotations

import os
import sys

__all__ = ["run", "serve_stdio"]


def run(argv: list[str]) -> int:
    from zorivest_rpc.showcase import offer

    return serve_stdio(offer)


def serve_stdio(make_offer: object) -> int:
    """Ends the process itself: a worker thread that still blocks must not keep it alive."""
    import asyncio

    from zorivest_rpc.transports.stdio import StdioTransport, protect_stdout

    read_fd, write_fd = protect_stdout()

    async def main() -> int:
        from zorivest_rpc.server import Server

        server = Server(make_offer())  # type: ignore[operator]
        return await StdioTransport(server, read_fd, write_fd).run()

    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(main())
    sys.stderr.flush()
    os._exit(code)
