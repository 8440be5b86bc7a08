"""A server without a transport: an offer, the methods on it, and the dispatcher that runs them, wired together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from os import urandom
from typing import Any

from zorivest_rpc.mcp.announce import Announcer
from zorivest_rpc.mcp.dispatcher import Conversation, Dispatcher, Limits
from zorivest_rpc.mcp.methods import Core, build
from zorivest_rpc.mcp.offer import Offer
from zorivest_rpc.mcp.protocol.headers import HeaderParams
from zorivest_rpc.mcp.protocol.inbound import Served
from zorivest_rpc.mcp.protocol.results import Finisher
from zorivest_rpc.mcp.protocol.seal import Seal
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.tasks import TaskStore

__all__ = ["Server"]


class Server:
    """Built inside a running loop. `key` seals what clients carry for us; `epoch` names this process."""

    def __init__(
        self,
        offer: Offer,
        *,
        key: bytes | None = None,
        limits: Limits | None = None,
        now: Callable[[], float] = time.time,
        remember: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self.offer = offer
        self.epoch = urandom(4).hex()
        self.now = now
        self.seal = Seal(urandom(32) if key is None else key)
        self.limits = limits or Limits()
        self.announcer = Announcer(offer)
        finisher = Finisher(offer.info)
        self.tasks = TaskStore(self.seal, self.epoch, now)
        offer.on_change(lambda kind, session, uri: None if session is None else remember(session))
        core = Core(offer, self.seal, finisher, self.announcer, self.tasks, self.limits, now, remember)
        methods = build(core)
        self.dispatcher = Dispatcher(methods, finisher, self.limits, self.epoch, passage=offer.passage)
        self.served = Served(frozenset(methods), self._find_mirrored)
        self.conversations: set[Conversation] = set()  # of connections; HTTP keeps its own

    def _find_mirrored(self, session: Session, name: str) -> HeaderParams:
        """The arguments of this tool that a modern POST repeats in headers; none of a tool that the session has not."""
        tools = self.offer.tools
        tool = tools.view(session, session.headers).find(name) if tools is not None else None
        return {} if tool is None else tool.header_params

    async def stop(self, conversations: list[Conversation], grace: float) -> None:
        """Let running requests finish for a while, then cancel what is left and wait until it is gone."""
        self.announcer.close()
        await asyncio.sleep(0)  # what has just started must have had its first step before it can be cancelled
        running = [task for each in conversations for task in _tasks(each)]
        if running and grace > 0:
            await asyncio.wait(running, timeout=grace)
        left: list[asyncio.Task[Any]] = [task for each in conversations for task in _tasks(each)]
        left += self.tasks.close()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=0.5)


def _tasks(conversation: Conversation) -> list[asyncio.Task[Any]]:
    return [exchange.task for exchange in conversation.running.values() if exchange.task is not None]
