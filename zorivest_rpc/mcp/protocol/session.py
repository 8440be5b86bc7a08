"""The life of one MCP session, as a table.

Rule 1: whether a message is legal now is decided here and nowhere else.
Rule 2: nothing here knows the transport, so no transport can have rules of its own.
Rule 3: a session of either era is this class; later code reads `session.revision` as a fact.

A session is what the two sides agreed on. Tasks, futures and channels belong to the dispatcher's Conversation.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol, overload

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.capabilities import NO_CAPABILITIES, Capabilities, read_capabilities
from zorivest_rpc.mcp.protocol.extent import shorten
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST, Id
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, LATEST_LEGACY, Revision
from zorivest_rpc.mcp.protocol.types import Implementation, Initialize

__all__ = ["ANY", "HEADERS", "LEGAL", "Phase", "RequestHeaders", "Session", "negotiate"]

ANY: Final = "*"
HEADERS: Final = ("X-MCP-Toolsets", "X-MCP-Tools", "X-MCP-Exclude-Tools", "X-MCP-Readonly")


class RequestHeaders(Protocol):
    """As much of a transport's header map as a session reads; a header may stand in several lines."""

    def get(self, key: str, /) -> str | None: ...

    @overload
    def getall(self, key: str, /) -> list[str]: ...

    @overload
    def getall(self, key: str, default: list[str], /) -> list[str]: ...


class Phase(Enum):
    NEW = "new"  # connected, nothing said
    GREETED = "greeted"  # `initialize` answered: we may answer, not yet ask
    READY = "ready"  # in normal operation
    CLOSED = "closed"


LEGAL: Final[dict[Phase, dict[str, Phase]]] = {  # what may arrive in a phase, and the phase it leads to
    Phase.NEW: {"initialize": Phase.GREETED, "ping": Phase.NEW},
    Phase.GREETED: {"notifications/initialized": Phase.READY, ANY: Phase.GREETED},
    Phase.READY: {ANY: Phase.READY},  # ANY leaves out `initialize`: once per session
    Phase.CLOSED: {},
}
_READY: Final = Phase.READY
_EMPTY: Final[frozenset[str]] = frozenset()  # shared: Python makes a new one of 216 bytes at each call


class Session:
    __slots__ = (
        "__weakref__",
        "_agent",
        "_asked",
        "capabilities",
        "client",
        "headers",
        "key",
        "log_level",
        "phase",
        "principal",
        "revision",
        "subscriptions",
        "toolsets",
    )

    def __init__(
        self,
        revision: Revision = LATEST_LEGACY,
        phase: Phase = Phase.NEW,
        *,
        client: Implementation | None = None,
        capabilities: Capabilities = NO_CAPABILITIES,
        principal: str = "",
        log_level: str | None = "info",
        key: str = "",
    ) -> None:
        self.revision = revision
        self.phase = phase
        self.client = client
        self.capabilities = capabilities
        self.principal = principal
        self.log_level = log_level  # None: this request asked for no log messages (modern era)
        self.key = key  # the session id on the wire, where the transport has one
        self.subscriptions = _EMPTY  # resource URIs of `resources/subscribe`
        self.toolsets = _EMPTY  # loaded during the session
        self.headers: RequestHeaders | None = None  # of the request, where the transport has some
        self._asked: tuple[str, ...] | None = None
        self._agent: str | None = None

    @property
    def asked(self) -> tuple[str, ...]:
        """What the request's own headers narrow the list to, in the order of HEADERS; empty where they say nothing."""
        if self._asked is None:
            given = self.headers
            found = () if given is None else tuple(_all_lines(given, name) for name in HEADERS)
            self._asked = found if any(found) else ()
        return self._asked

    @asked.setter
    def asked(self, asked: tuple[str, ...]) -> None:
        self._asked = asked

    @property
    def agent(self) -> str:
        """The User-Agent, a hint to who is calling."""
        if self._agent is None:
            self._agent = "" if self.headers is None else _readable(self.headers.get("User-Agent") or "")
        return self._agent

    @agent.setter
    def agent(self, agent: str) -> None:
        self._agent = agent

    def check(self, method: str, id: Id | None) -> None:
        """Advance the phase by this message, or refuse it."""
        if self.phase is _READY and method != "initialize":
            return  # the table says so too; this is the line that every call passes
        steps = LEGAL[self.phase]
        phase = steps.get(method)
        if phase is None:
            phase = None if method == "initialize" else steps.get(ANY)
            if phase is None:
                raise ProtocolError(INVALID_REQUEST, self._refusal(method), id=id)
        self.phase = phase

    def greet(self, params: Initialize) -> None:
        """What `initialize` settles."""
        self.revision = negotiate(params.protocol_version)
        self.client = params.client_info
        self.capabilities = read_capabilities(params.capabilities, self.revision)

    def _refusal(self, method: str) -> str:
        if self.phase is Phase.NEW:
            return f'"{shorten(method)}" before "initialize"; open the session first'
        if method == "initialize":
            return '"initialize" was already answered in this session; open another connection to negotiate again'
        return "the session is closed"


def _all_lines(headers: RequestHeaders, name: str) -> str:
    return "" if headers.get(name) is None else _readable(",".join(headers.getall(name)))


def _readable(value: str) -> str:
    """Bytes of a header that are not UTF-8 arrive as lone surrogates, which nothing can encode again."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def negotiate(asked: str) -> Revision:
    """The revision asked for where it has a handshake, else our newest that has one."""
    row = BY_NAME.get(asked, LATEST_LEGACY)
    return LATEST_LEGACY if row.modern else row
