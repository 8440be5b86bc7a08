"""The bench server: the 70 tools of the bench catalogue on this core, arguments validated, over stdio or HTTP.

    python -m tests.bench.server --stdio
    python -m tests.bench.server --port PORT

It goes through the product's own dispatcher, sessions and transports; only the tools are other ones.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from zorivest_rpc.config import parse
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import EVERYONE, Call, Handler, Outcome, Scope, say
from zorivest_rpc.mcp.catalog.tool import Tool
from zorivest_rpc.mcp.catalog.view import View
from zorivest_rpc.mcp.offer import TOOLS, Offer
from zorivest_rpc.mcp.protocol.jsonrpc import Json, dumps
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session

if TYPE_CHECKING:
    import aiohttp


class BenchTools:
    """As the product's toolbox does it: one snapshot for all, handlers by name."""

    def __init__(self) -> None:
        from tests.bench.catalog import catalog

        definitions = catalog()
        self._text = definitions["echo_text"]
        self._backend = os.environ.get("BENCH_BACKEND", "http://127.0.0.1:8900/")
        self._session: aiohttp.ClientSession | None = None
        tools = [Tool(each["name"], each["description"], each["inputSchema"]) for each in definitions["tools"]]
        hidden = []
        if os.environ.get("BENCH_BROADCAST"):
            hidden.append(Tool("broadcast", "Tell every session that the list changed.", {"type": "object"}))
        self._view = View(tools, hidden)
        self._handlers: dict[str, Handler] = {"forward": self._forward, "broadcast": self._broadcast}
        self.offer = Offer("zorivest-rpc-bench", "0", tools=self)

    def view(self, session: Session, headers: RequestHeaders | None = None) -> View:
        return self._view

    def handler(self, name: str) -> Handler:
        return self._handlers.get(name, self._echo)

    def admit(
        self, session: Session, headers: RequestHeaders | None, name: str, arguments: dict[str, Json]
    ) -> tuple[dict[str, Json], Scope]:
        return arguments, EVERYONE

    def refusal(self, session: Session, name: str, scope: Scope) -> ToolError | None:
        return None

    def report_mismatch(self, call: Call, more: int) -> None:
        return

    async def _echo(self, call: Call) -> Outcome:
        return say(self._text)

    async def _forward(self, call: Call) -> Outcome:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100))
        headers = {"content-type": "application/json"}
        async with self._session.post(self._backend, data=dumps(call.arguments), headers=headers) as reply:
            return say(await reply.text())

    async def _broadcast(self, call: Call) -> Outcome:
        outcome = say("sent")
        outcome.after = [lambda: self.offer.announce_change(TOOLS)]
        return outcome


def main() -> int:
    if sys.argv[1:2] == ["--stdio"]:
        from zorivest_rpc.cli.stdio import serve_stdio

        return serve_stdio(lambda: BenchTools().offer, parse("stdio", []))
    import tempfile

    from zorivest_rpc.cli.serve import serve_http

    with tempfile.TemporaryDirectory() as data:
        arguments = ["--no-auth", "--data-dir", data, *sys.argv[1:]]
        return serve_http(lambda: BenchTools().offer, parse("serve", arguments))


if __name__ == "__main__":
    sys.exit(main())
