"""Audits of a page, run by axe-core in it: kept for half a minute, and run once for equal requests at the same time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from zorivest_rpc.devtools.answers import clean_audit
from zorivest_rpc.devtools.entries import Audit
from zorivest_rpc.devtools.live import Live
from zorivest_rpc.devtools.pages import Page
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["FRESH_SECONDS", "MOST_AUDITS", "Audits"]

MOST_AUDITS: Final = 10
FRESH_SECONDS: Final = 30.0
_Key: TypeAlias = tuple[str, str, str | None, tuple[str, ...], bool]


class Audits:
    """Those of one tenant. A failure is not kept; an address that a page left is forgotten."""

    def __init__(self, live: Live, now: Callable[[], float]) -> None:
        self._live = live
        self._now = now
        self._kept: OrderedDict[_Key, Audit] = OrderedDict()
        self._running: dict[_Key, asyncio.Task[Audit]] = {}

    async def run(
        self,
        page: Page,
        *,
        scope: str | None,
        tags: Sequence[str],
        include_passes: bool,
        fresh: bool = False,
        progress: Callable[[float, float, str], None] = lambda done, total, message: None,
    ) -> Audit:
        key: _Key = (page.id, page.url, scope, tuple(sorted(set(tags))), include_passes)
        kept = self._kept.get(key)
        if kept is not None and not fresh and self._now() - kept.at / 1000.0 < FRESH_SECONDS:
            self._kept.move_to_end(key)
            return kept
        task = self._running.get(key)
        if task is None:
            progress(0, 1, "the page is audited")
            task = self._running[key] = asyncio.create_task(self._audit(key, page))
            task.add_done_callback(lambda done: self._finish(key, done))
        audit = await asyncio.shield(task)  # a caller that gives up does not take it from the others
        progress(1, 1, "done")
        return audit

    async def _audit(self, key: _Key, page: Page) -> Audit:
        _, _, scope, tags, include_passes = key
        params: dict[str, Json] = {"tags": list(tags), "include_passes": include_passes}
        if scope:
            params["scope"] = scope
        answer = await self._live.ask(page, "a11y", params)
        audit = Audit(clean_audit(answer, include_passes=include_passes), self._now() * 1000.0)
        if key[1] == page.url:  # else the page went on while it was audited
            self._kept[key] = audit
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_AUDITS:
                self._kept.popitem(last=False)
        return audit

    def _finish(self, key: _Key, task: asyncio.Task[Audit]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # told to those who wait; nobody waits where the caller gave up

    def forget(self, page: Page) -> None:
        for key in [key for key in self._kept if key[0] == page.id]:
            del self._kept[key]
