"""What every method function is given: the offer, the stores, the seal and the clock."""

from __future__ import annotations

from collections.abc import Callable

from zorivest_rpc.mcp.announce import Announcer
from zorivest_rpc.mcp.dispatcher import Limits
from zorivest_rpc.mcp.offer import Offer
from zorivest_rpc.mcp.protocol.results import Finisher
from zorivest_rpc.mcp.protocol.seal import Seal
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.tasks import TaskStore

__all__ = ["Core"]


class Core:
    __slots__ = ("announcer", "finisher", "limits", "now", "offer", "remember", "seal", "tasks")

    def __init__(
        self,
        offer: Offer,
        seal: Seal,
        finisher: Finisher,
        announcer: Announcer,
        tasks: TaskStore,
        limits: Limits,
        now: Callable[[], float],
        remember: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self.offer = offer
        self.seal = seal
        self.finisher = finisher
        self.announcer = announcer
        self.tasks = tasks
        self.limits = limits
        self.now = now
        self.remember = remember  # called when something about a session changed that should survive a restart
