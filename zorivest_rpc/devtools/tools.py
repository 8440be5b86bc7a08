"""The five handlers: arguments in, what the tenant's pages sent out, marked as the words of a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from zorivest_rpc import __version__
from zorivest_rpc.devtools.analyze import AnalyzeArguments, Audits, analyze
from zorivest_rpc.devtools.configure import Configuration, ConfigureArguments
from zorivest_rpc.devtools.entries import Artefact, Audit, Recording
from zorivest_rpc.devtools.export import save
from zorivest_rpc.devtools.kit import give_untrusted, read_arguments
from zorivest_rpc.devtools.observe import ObserveArguments, QueryArguments, observe, query_dom
from zorivest_rpc.devtools.store import Store
from zorivest_rpc.devtools.watch import Watch
from zorivest_rpc.mcp.call import Call, Handler, Outcome
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["ARGUMENTS", "GenerateArguments", "Tools"]

OWN_ARGUMENTS = ("format", "save_to", "page")  # of generate, that the artefact's maker does not see


class GenerateArguments(msgspec.Struct, frozen=True, omit_defaults=True):
    format: str
    error_message: str | None = None
    last_n_actions: int | None = None
    base_url: str | None = None
    test_name: str | None = None
    assert_network: bool = False
    assert_no_errors: bool = False
    assert_response_shape: bool = False
    scope: str | None = None
    include_passes: bool = False
    url: str | None = None
    method: str | None = None
    status_min: int | None = None
    status_max: int | None = None
    save_to: str | None = None
    page: str | None = None


ARGUMENTS: Final[dict[str, type[msgspec.Struct]]] = {
    "observe": ObserveArguments,
    "analyze": AnalyzeArguments,
    "generate": GenerateArguments,
    "configure": ConfigureArguments,
    "query_dom": QueryArguments,
}


class _Desk:
    """What the tools keep for one tenant beside what is watched."""

    def __init__(self, watch: Watch, store: Store) -> None:
        self.watch = watch
        self.audits = Audits(watch.live, watch.now)
        self.configuration = Configuration(watch, store)
        watch.navigated = self.audits.forget


class Tools:
    """`watch_of` is the tenant's of a call; `store_of` the directory of its notes; `export_of` where files may go."""

    def __init__(
        self,
        watch_of: Callable[[Call], Watch],
        store_of: Callable[[str], Path],
        export_of: Callable[[str], str | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._watch_of = watch_of
        self._store_of = store_of
        self._export_of = export_of
        self._now = now
        self._desks: dict[str, _Desk] = {}

    def handlers(self) -> dict[str, Handler]:
        return {
            "observe": self.observe,
            "analyze": self.analyze,
            "generate": self.generate,
            "configure": self.configure,
            "query_dom": self.query_dom,
        }

    def _desk(self, call: Call) -> _Desk:
        watch = self._watch_of(call)
        desk = self._desks.get(watch.tenant)
        if desk is None or desk.watch is not watch:  # the tenant was gone meanwhile
            desk = self._desks[watch.tenant] = _Desk(watch, Store(self._store_of(watch.tenant)))
        return desk

    async def observe(self, call: Call) -> Outcome:
        desk = self._desk(call)
        return give_untrusted(await observe(desk.watch, read_arguments(call.arguments, ObserveArguments)))

    async def query_dom(self, call: Call) -> Outcome:
        desk = self._desk(call)
        return give_untrusted(await query_dom(desk.watch, read_arguments(call.arguments, QueryArguments)))

    async def analyze(self, call: Call) -> Outcome:
        desk = self._desk(call)
        arguments = read_arguments(call.arguments, AnalyzeArguments)
        return give_untrusted(await analyze(desk.watch, desk.audits, arguments, call.progress))

    async def configure(self, call: Call) -> Outcome:
        desk = self._desk(call)
        return give_untrusted(await desk.configuration.run(read_arguments(call.arguments, ConfigureArguments)))

    async def generate(self, call: Call) -> Outcome:
        from zorivest_rpc.devtools.generate import make_artefact

        desk = self._desk(call)
        arguments = read_arguments(call.arguments, GenerateArguments)
        audit = await self._audit(desk, arguments, call) if arguments.format == "sarif" else None
        recording = self._record(desk.watch, arguments.page, audit)
        given = {
            name: value for name, value in call.arguments.items() if name not in OWN_ARGUMENTS and value is not None
        }
        artefact = make_artefact(arguments.format, recording, given)
        return await self._hand_over(desk.watch.tenant, arguments, artefact)

    async def _audit(self, desk: _Desk, arguments: GenerateArguments, call: Call) -> Audit:
        page = desk.watch.pages.target(arguments.page)
        return await desk.audits.run(
            page,
            scope=arguments.scope,
            tags=(),
            include_passes=arguments.include_passes,
            progress=call.progress,
        )

    def _record(self, watch: Watch, page: str | None, audit: Audit | None) -> Recording:
        buffers = watch.buffers
        return Recording(
            watch.pages.name_of_target(page),
            self._now() * 1000.0,
            __version__,
            tuple(entry for entry in buffers.logs if page in (None, entry.page) and not watch.noise.hides(entry)),
            tuple(entry for entry in buffers.network if page in (None, entry.page)),
            tuple(entry for entry in buffers.ws_events if page in (None, entry.page)),
            tuple(entry for entry in buffers.actions if page in (None, entry.page)),
            tuple(each for each in buffers.measured if page in (None, each.latest.page)),
            audit,
        )

    async def _hand_over(self, tenant: str, arguments: GenerateArguments, artefact: Artefact) -> Outcome:
        """The text itself, or where it was written."""
        content = artefact.content.encode()
        result: dict[str, Json] = {
            "format": arguments.format,
            "media_type": artefact.media_type,
            "bytes": len(content),
        }
        if arguments.save_to is None:
            result["content"] = artefact.content
        else:
            result["saved_to"] = await asyncio.to_thread(save, self._export_of(tenant), arguments.save_to, content)
        result["notes"] = list(artefact.notes)
        outcome = give_untrusted(result)
        if arguments.save_to is None:
            outcome.content = [{"type": "text", "text": artefact.content}]
        return outcome
