"""What is kept of a page, as values: the entries of the buffers, and the recording that artefacts are made of."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from zorivest_rpc.devtools.frames import Action, Log, Performance, Request, Socket
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["Artefact", "Audit", "Entry", "Measured", "PageName", "Recording"]

Kept = TypeVar("Kept")


class Entry(msgspec.Struct, Generic[Kept], frozen=True):
    """One item as it is kept: redacted, cut to its limits, and with the document and the tab it came from."""

    item: Kept
    page: str
    tab: str
    number: int  # counts all entries of this process, in the order of arrival
    at: float  # when it arrived, in milliseconds since 1970 by this server's clock; `item.ts` is by the page's
    size: int  # bytes that the buffer counts for it


class Measured(msgspec.Struct, frozen=True):
    """The metrics of one URL: the first document that was measured, the latest, and what was usual."""

    url: str  # without query and fragment
    first: Entry[Performance]
    latest: Entry[Performance]
    baseline: Performance | None  # before `latest` counted; None: `latest` is the first one
    documents: int  # how many were measured


class PageName(msgspec.Struct, frozen=True):
    """The page that was asked for, or the one that a query would go to."""

    id: str
    url: str
    title: str


class Audit(msgspec.Struct, frozen=True):
    """The result of an accessibility audit, as `analyze(accessibility)` returns it."""

    result: dict[str, Json]
    at: float  # when it ran, in milliseconds since 1970


class Recording(msgspec.Struct, frozen=True):
    """What the buffers hold, oldest first; `generate` makes its text of this and of its arguments alone."""

    page: PageName | None
    at: float  # now, in milliseconds since 1970
    version: str  # of this program, for `creator` and `tool`
    logs: tuple[Entry[Log], ...] = ()
    network: tuple[Entry[Request], ...] = ()
    ws_events: tuple[Entry[Socket], ...] = ()
    actions: tuple[Entry[Action], ...] = ()
    measured: tuple[Measured, ...] = ()  # least recently measured first
    audit: Audit | None = None  # for sarif: always given


class Artefact(msgspec.Struct, frozen=True):
    """A text made of a recording, as `devtools.generate.make_artefact(format, recording, arguments)` returns it.

    `arguments` are those of the tool, without `format`, `save_to` and `page`; what the caller left out is not in it.
    """

    content: str
    media_type: str  # text/x-typescript, text/markdown, application/sarif+json, application/json
    notes: tuple[str, ...] = ()  # what was left out or could not be known, one sentence each
