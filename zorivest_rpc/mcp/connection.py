"""One pipe that carries every message of one client: batches, and the way of each message to the dispatcher.

Used by every transport whose connection is the session: stdio, the HTTP+SSE pair of 2024-11-05, memory. What is wrong
with a message, and which era the pipe speaks, is decided in `protocol/inbound.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.announce import Standing
from zorivest_rpc.mcp.dispatcher import Channel, Conversation
from zorivest_rpc.mcp.protocol.inbound import Pipe, read_item
from zorivest_rpc.mcp.protocol.jsonrpc import Batch, Json, Message, decode, error_frame
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.mcp.protocol.session import RequestHeaders, Session
from zorivest_rpc.mcp.protocol.types import Cancelled, decode_params
from zorivest_rpc.mcp.server import Server

__all__ = ["BatchChannel", "Connection", "PipeChannel", "receive_response"]

log: Final = logging.getLogger("zorivest_rpc")
_LEGACY, _MODERN = Era.LEGACY, Era.MODERN


class PipeChannel:
    """Everything goes down the same pipe; one for all requests of a connection."""

    __slots__ = ("_write", "ask", "notify")
    carries_questions = True

    def __init__(self, write: Callable[[bytes], None], write_event: Callable[[bytes], None]) -> None:
        self._write = self.ask = write
        self.notify = write_event

    def finish(self, frame: bytes | None, code: int) -> None:
        if frame is not None:
            self._write(frame)

    def hang_up(self) -> None:
        return


class BatchChannel:
    """The answers of one batch, gathered until the last is there; what belongs to a request goes out at once."""

    __slots__ = ("_answers", "_done", "_outer", "_pending")

    def __init__(self, outer: Channel, done: Callable[[bytes | None], None]) -> None:
        self._outer = outer
        self._done = done
        self._answers: list[bytes] = []
        self._pending = 1  # the batch itself, until every item has been looked at

    @property
    def carries_questions(self) -> bool:
        return self._outer.carries_questions

    def begin(self) -> None:
        self._pending += 1

    def ask(self, frame: bytes) -> None:
        self._outer.ask(frame)

    def notify(self, frame: bytes) -> None:
        self._outer.notify(frame)

    def finish(self, frame: bytes | None, code: int) -> None:
        if frame is not None:
            self._answers.append(frame)
        self.end()

    def hang_up(self) -> None:
        self._outer.hang_up()

    def end(self) -> None:
        self._pending -= 1
        if self._pending == 0:
            self._done(b"[%b]" % b",".join(self._answers) if self._answers else None)


class Connection:
    def __init__(
        self,
        server: Server,
        write: Callable[[bytes], None],
        *,
        principal: str = "",
        modern: bool = True,
        write_event: Callable[[bytes], None] | None = None,
    ) -> None:
        """`write_event` takes notifications, where they may be dropped."""
        self._server = server
        self._request = server.dispatcher.request
        self._channel = PipeChannel(write, write_event or write)
        self.session = Session(principal=principal)
        self._pipe = Pipe(server.served, self.session, modern)
        self._admit = self._pipe.admit
        self._headers: RequestHeaders | None = None
        self.conversation = Conversation(self.session)
        server.announcer.join(Standing(self.conversation, write_event or write))
        server.conversations.add(self.conversation)

    def close(self) -> None:
        """The client is gone: nothing it asked for is wanted any more."""
        self._server.announcer.leave(self.conversation)
        self._server.conversations.discard(self.conversation)
        self.conversation.close()

    def refuse(self, error: ProtocolError) -> None:
        self._channel.finish(error_frame(error), error.code)

    def receive(self, frame: bytes) -> None:
        """One frame, whatever is in it. Never raises."""
        try:
            message = decode(frame)
        except ProtocolError as error:
            self.refuse(error)
        else:
            self.receive_message(message)

    def receive_message(self, message: Message | Batch, headers: RequestHeaders | None = None) -> None:
        """The same for what was decoded already, with the headers it came with. Never raises."""
        self._headers = headers
        try:
            if type(message) is Message:
                self._message(message, self._channel)
            elif type(message) is Batch:
                self._batch(message)
        except ProtocolError as error:
            self.refuse(error)

    def _message(self, message: Message, channel: Channel) -> None:
        method, id = message.method, message.id
        if method is UNSET:
            receive_response(self.conversation, message, self._pipe.era is _MODERN)
        elif id is UNSET:
            self._notification(str(method), message.params)
        else:
            session, params = self._admit(method, message.params, id)
            self._request(self.conversation, session, id, method, params, channel, self._headers)

    def _notification(self, method: str, raw: msgspec.Raw | UnsetType) -> None:
        """Never answered, whatever is wrong with it."""
        try:
            if method == "notifications/cancelled":
                params = decode_params(method, raw)
                if isinstance(params, Cancelled):
                    self.conversation.cancel(params.request_id)
            elif method == "notifications/initialized" and self._pipe.era is _LEGACY:
                self.session.check(method, None)
                self._server.announcer.note_ready(self.conversation)
        except ProtocolError as error:
            log.debug("dropped %s: %s", method, error.message)

    def _batch(self, batch: Batch) -> None:
        self._pipe.admit_batch(batch)
        receive_batch(batch, self._channel, self._message, lambda answer: self._channel.finish(answer, 0))


def receive_batch(
    batch: Batch,
    outer: Channel,
    receive: Callable[[Message, Channel], None],
    done: Callable[[bytes | None], None],
) -> None:
    """Every item of a batch that was admitted, in its turn; the answers come back as one array."""
    channel = BatchChannel(outer, done)
    for item in batch.items:
        channel.begin()
        try:
            message = read_item(item)
            receive(message, channel)
            if message.method is UNSET or message.id is UNSET:
                channel.end()
        except ProtocolError as error:
            channel.finish(error_frame(error), error.code)
    channel.end()


def receive_response(conversation: Conversation, message: Message, modern: bool) -> None:
    """An answer to a question of ours; in the modern era there are none, so it is dropped."""
    if modern:
        log.info("dropped a response: clients of this era do not send any")
        return
    try:
        result: Json = None if message.result is UNSET else msgspec.json.decode(message.result)
        error: Json = None if message.error is UNSET else msgspec.json.decode(message.error)
    except (msgspec.DecodeError, ValueError, RecursionError):
        result, error = None, {"message": "the response could not be read"}
    if isinstance(message.id, int | str):
        conversation.respond(message.id, result, error)
