"""Who is told when something changed: legacy sessions with a standing stream, and modern listen requests.

A change is encoded once and written many times. Nothing here waits: a stream that cannot take a frame deals with it
itself, so one slow reader never holds up the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.dispatcher import Conversation, Exchange
from zorivest_rpc.mcp.offer import PROMPTS, RESOURCES, TOOLS, ListWatch, Offer
from zorivest_rpc.mcp.protocol.extent import MOST_SUBSCRIBED, MOST_SUBSCRIPTIONS
from zorivest_rpc.mcp.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Json,
    dumps,
    encode_id,
    notification_frame,
)
from zorivest_rpc.mcp.protocol.results import Result
from zorivest_rpc.mcp.protocol.session import Phase, Session
from zorivest_rpc.mcp.protocol.types import Filter, Listen

__all__ = ["Announcer", "Standing", "check_subscriptions"]

SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
LIST_CHANGED: Final = {kind: f"notifications/{kind}/list_changed" for kind in (TOOLS, PROMPTS, RESOURCES)}
_MODERN_HEADS: Final = {
    kind: b'{"jsonrpc":"2.0","method":"%b","params":{' % method.encode() for kind, method in LIST_CHANGED.items()
}
_LEGACY_FRAMES: Final = {kind: notification_frame(method) for kind, method in LIST_CHANGED.items()}


class Standing:
    """The standing stream of a legacy session. `write` is None while the client has none open; then a change is
    remembered, once per list and once per subscribed resource, and told when the stream opens."""

    __slots__ = ("conversation", "missed", "watches", "write")

    def __init__(self, conversation: Conversation, write: Callable[[bytes], None] | None = None) -> None:
        self.conversation = conversation
        self.write = write
        self.missed: set[str] | None = None
        self.watches: Mapping[str, ListWatch] = {}

    @property
    def session(self) -> Session:
        return self.conversation.session

    @property
    def is_open(self) -> bool:
        return self.write is not None

    def tell(self, kind: str) -> None:
        if self.write is not None:
            self.write(_LEGACY_FRAMES[kind])

    def add_change(self, kind: str) -> None:
        if self.conversation.session.phase is not Phase.READY:
            return  # before `initialized` only pings and log messages may be sent, and no list has been given out
        if self.write is not None:
            self.write(_LEGACY_FRAMES[kind])
        else:
            self.missed = (self.missed or set()) | {kind}

    def add_update(self, uri: str, frame: bytes) -> None:
        if uri not in self.conversation.session.subscriptions:
            return
        if self.write is not None:
            self.write(frame)
        else:
            self.missed = (self.missed or set()) | {uri}

    def open(self, write: Callable[[bytes], None]) -> None:
        self.write = write
        missed, self.missed = self.missed, None
        for each in sorted(missed or ()):
            if each in _LEGACY_FRAMES:
                write(_LEGACY_FRAMES[each])
            elif each in self.conversation.session.subscriptions:
                write(_updated_frame(each))
        self.note_open()

    def note_open(self) -> None:
        """What its client knows is compared from here on."""
        for watch in self.watches.values():
            watch.opened(self)


def _updated_frame(uri: str) -> bytes:
    return notification_frame("notifications/resources/updated", dumps({"uri": uri}))


class _Wanted(msgspec.Struct, frozen=True):
    """Whether a resource has a subscriber; equal for equal questions, so that one is enough."""

    announcer: Announcer
    uri: str

    def __call__(self) -> bool:
        return self.announcer.has_subscribers(self.uri)


class _Listener:
    """One `subscriptions/listen` request."""

    __slots__ = ("_exchange", "_suffix", "closed", "kinds", "session", "tasks", "uris")
    is_open = True

    def __init__(self, exchange: Exchange, wanted: Filter, closed: asyncio.Future[None]) -> None:
        self._exchange = exchange
        self.session = exchange.session
        self.closed = closed
        pairs = ((TOOLS, wanted.tools_list_changed), (PROMPTS, wanted.prompts_list_changed))
        self.kinds = {kind for kind, on in (*pairs, (RESOURCES, wanted.resources_list_changed)) if on}
        self.uris = frozenset(wanted.resource_subscriptions)
        self.tasks = frozenset(wanted.task_ids)
        self._suffix = b'"_meta":{"%b":%b}}}' % (SUBSCRIPTION_ID.encode(), encode_id(exchange.id))

    def tell(self, kind: str) -> None:
        self.send(_MODERN_HEADS[kind])

    def send(self, head: bytes) -> None:
        """`head` is a frame up to the members of its params; ours is the end."""
        if not self._exchange.cancelled:
            self._exchange.channel.notify(head + self._suffix)


class Announcer:
    def __init__(self, offer: Offer, most_listeners: int = 10_000) -> None:
        self._offer = offer
        self._standing: dict[Conversation, Standing] = {}
        self._listeners: dict[_Listener, None] = {}
        self._most = most_listeners
        self.may_follow: Callable[[str, str], bool] = lambda task_id, principal: False
        offer.on_change(self._on_change)

    def join(self, standing: Standing) -> None:
        self._standing[standing.conversation] = standing
        standing.watches = self._offer.watches
        for watch in standing.watches.values():
            watch.join(standing)
        for uri in standing.conversation.session.subscriptions:  # of a session that outlived a server
            self.watch(uri)

    def watch(self, uri: str) -> None:
        """The first subscriber of a resource: its source is watched while there is one."""
        self._offer.watch(uri, _Wanted(self, uri))

    def has_subscribers(self, uri: str) -> bool:
        return any(uri in listener.uris for listener in self._listeners) or any(
            uri in standing.conversation.session.subscriptions for standing in self._standing.values()
        )

    def unwatch(self, uris: Iterable[str]) -> None:
        """Subscribers of these resources have gone."""
        for uri in uris:
            if not self.has_subscribers(uri):
                self._offer.unwatch(uri)

    def leave(self, conversation: Conversation) -> None:
        standing = self._standing.pop(conversation, None)
        self.unwatch(conversation.session.subscriptions)
        if standing is not None:
            for watch in standing.watches.values():
                watch.leave(standing)

    def note_ready(self, conversation: Conversation) -> None:
        """The client has ended its greeting: from here on it may be told of changes."""
        if (standing := self._standing.get(conversation)) is not None:
            standing.note_open()

    def note_list(self, conversation: Conversation, kind: str, half: int | None = None) -> None:
        """A client of the legacy era was given a list: what it is told next is told against this one. Resources and
        their templates are the halves of one list, of which one notification tells."""
        watch = self._offer.watches.get(kind)
        if watch is not None and (standing := self._standing.get(conversation)) is not None:
            watch.listed(standing, half)

    def _on_change(self, kind: str, session: Session | None, uri: str | None) -> None:
        if uri is not None:
            self._notify_update(uri, session)
            return
        if (watch := self._offer.watches.get(kind)) is not None:
            watch.note_change(session)
            return
        for standing in list(self._standing.values()):
            if session is None or standing.conversation.session is session:
                standing.add_change(kind)
        if session is None or session.revision.modern:
            for listener in list(self._listeners):
                if kind in listener.kinds:
                    listener.send(_MODERN_HEADS[kind])

    def _notify_update(self, uri: str, session: Session | None) -> None:
        frame = _updated_frame(uri)
        for standing in list(self._standing.values()):
            following = standing.conversation.session
            if (session is None or following is session) and self._may_follow(following, uri):
                standing.add_update(uri, frame)
        if session is not None and not session.revision.modern:
            return
        head = frame[:-2] + b","
        for listener in list(self._listeners):
            if uri in listener.uris and self._may_follow(listener.session, uri):
                listener.send(head)

    def _may_follow(self, session: Session, uri: str) -> bool:
        """Looked at again with every change: what a session may follow can end before the session does."""
        return self._offer.resources is not None and self._offer.resources.may_follow(session, uri)

    def task_changed(self, task_id: str, described: Callable[[], dict[str, Json]]) -> None:
        """The status of a task of the extension, for those who listen for it."""
        head = b""
        for listener in list(self._listeners):
            if task_id in listener.tasks:
                head = head or notification_frame("notifications/tasks", dumps(described()))[:-2] + b","
                listener.send(head)

    async def listen(self, exchange: Exchange, params: Listen) -> Result:
        """Acknowledge first, then whatever was asked for, until the client goes or the server closes."""
        if len(self._listeners) >= self._most:
            raise ProtocolError(
                INTERNAL_ERROR, f"{self._most} subscriptions are open already; close one or retry later"
            )
        check_subscriptions(params.notifications.resource_subscriptions)
        wanted = self._accept_filter(params.notifications, exchange)
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        listener = _Listener(exchange, wanted, closed)
        self._listeners[listener] = None  # before the acknowledgement, so that nothing falls between the two
        watches = [watch for kind, watch in self._offer.watches.items() if kind in listener.kinds]
        for watch in watches:
            watch.join(listener)
        try:
            shown = dumps(_filter_wire(wanted))
            listener.send(
                b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%b,'
                % shown
            )
            for uri in listener.uris:
                self.watch(uri)
            await closed
        finally:
            del self._listeners[listener]
            self.unwatch(listener.uris)
            for watch in watches:
                watch.leave(listener)
        return Result(meta={SUBSCRIPTION_ID: exchange.id})

    def _accept_filter(self, wanted: Filter, exchange: Exchange) -> Filter:
        session, offer = exchange.session, self._offer
        changing = offer.changing[session.revision.modern]
        uris = dict.fromkeys(self._spell(exchange, uri) for uri in wanted.resource_subscriptions)
        return Filter(
            wanted.tools_list_changed and offer.tools is not None and TOOLS in changing,
            wanted.prompts_list_changed and offer.prompts is not None and PROMPTS in changing,
            wanted.resources_list_changed and offer.resources is not None and RESOURCES in changing,
            [uri for uri in uris if self._may_follow(session, uri)],
            [id for id in wanted.task_ids if session.capabilities.tasks and self.may_follow(id, session.principal)],
        )

    def _spell(self, exchange: Exchange, uri: str) -> str:
        shelf = self._offer.resources
        return uri if shelf is None else shelf.spell(exchange.session, exchange.headers, uri)

    def close(self) -> None:
        """Finish every listen request with its result, so that clients know to come back."""
        for listener in list(self._listeners):
            if not listener.closed.done():
                listener.closed.set_result(None)


def check_subscriptions(uris: Sequence[str]) -> None:
    """Refuse more resources, or longer names of them, than one session or one listen request may follow."""
    if len(uris) > MOST_SUBSCRIPTIONS:
        words = f"at most {MOST_SUBSCRIPTIONS} resources can be followed at once; unsubscribe from one first"
        raise ProtocolError(INVALID_PARAMS, words)
    if sum(len(uri.encode("utf-8", "replace")) for uri in uris) > MOST_SUBSCRIBED:
        words = f"the URIs that are followed at once have at most {MOST_SUBSCRIBED} bytes; unsubscribe from one first"
        raise ProtocolError(INVALID_PARAMS, words)


def _filter_wire(wanted: Filter) -> dict[str, Json]:
    given: dict[str, Json] = {
        "toolsListChanged": wanted.tools_list_changed,
        "promptsListChanged": wanted.prompts_list_changed,
        "resourcesListChanged": wanted.resources_list_changed,
        "resourceSubscriptions": wanted.resource_subscriptions,
        "taskIds": wanted.task_ids,
    }
    return {key: value for key, value in given.items() if value}
