"""One upstream as the rest of the gateway knows it: connect, lists, calls, changes; the same over HTTP and on a pipe.

Rule 1: every failure leaves as a class of `gateway.errors`; what `asyncio` or `aiohttp` raise stays in the shells.
Rule 2: a call is sent once. A shell repeats it only where the server has said that it did not look at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.gateway.errors import (
    CallTimeout,
    InputRequiredUnsupported,
    LoopFound,
    NoAnswer,
    ProtocolBroken,
    TooLarge,
    ToolingError,
    UpstreamError,
)
from zorivest_rpc.gateway.loops import read_loop
from zorivest_rpc.gateway.talk import (
    ENVELOPE,
    FRAME_LIMIT,
    Ask,
    Call,
    Ended,
    Happening,
    Result,
    Talk,
    is_call,
    name_server,
)
from zorivest_rpc.gateway.timing import Limit
from zorivest_rpc.gateway.withheld import NOTHING_WITHHELD, Withheld
from zorivest_rpc.mcp.client.caller import (
    Acknowledgement,
    Answer,
    Caller,
    Changed,
    Event,
    Identity,
    Logged,
    Note,
    Progressed,
    Question,
    Refused,
    Reply,
    Request,
    Touched,
)
from zorivest_rpc.mcp.client.forms import CANCELLED
from zorivest_rpc.mcp.client.lists import Kind, Listing, read_list
from zorivest_rpc.mcp.client.opening import Seen, TurnedAway, Welcome, open_server
from zorivest_rpc.mcp.client.rounds import ASKABLE, MOST_ROUNDS, InputUnsupported, Round, read_round, repeat_params
from zorivest_rpc.mcp.protocol.capabilities import Offered
from zorivest_rpc.mcp.protocol.headers import HeaderParams, mirror_params
from zorivest_rpc.mcp.protocol.jsonrpc import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, Json, dumps
from zorivest_rpc.mcp.protocol.replies import Honoured
from zorivest_rpc.mcp.protocol.revisions import Era
from zorivest_rpc.mcp.protocol.types import LEVELS

__all__ = ["ENVELOPE", "FRAME_LIMIT", "Ask", "Call", "Ended", "Happening", "Result", "Talk", "Upstream"]

_MOST_ANSWERS: Final = 64  # to a server's own requests, under way at once
_LEVEL_SECONDS: Final = 1.0  # that a call waits for the level of its log
_LATER: Final = 1.0  # seconds until a request is repeated that was only told to come again


class Upstream:
    """The half that both transports share. A subclass opens, exchanges, tells and closes."""

    mirrors = False  # whether headers repeat annotated arguments

    def __init__(
        self,
        name: str,
        identity: Identity,
        *,
        era: Era | None = None,
        seconds: float = 15.0,
        meta: Callable[[], bytes] = bytes,
        on_happening: Callable[[Happening], None] | None = None,
        withheld: Withheld = NOTHING_WITHHELD,
    ) -> None:
        """`meta` gives what goes into requests of our own; `seconds` are for connecting and for a list where no
        deadline is given. What happens between calls is told to `on_happening`, in the loop's thread. `withheld` are
        the credentials that the server may repeat."""
        self.name = name
        self.welcome: Welcome | None = None
        self.era_found: Era | None = None  # kept across reconnections; may be set from what an earlier run found
        self.watched = Honoured()  # the changes that the server has promised to tell
        self.caller = Caller(identity)
        self._era = era
        self._seconds = seconds
        self._meta = meta
        self._on_happening = on_happening
        self._withheld = withheld
        self._mirrored: dict[str, HeaderParams] = {}
        self._subscribed: set[str] = set()
        self._level: int | None = None  # of the log messages of a legacy server
        self._on_acknowledged: Callable[[], None] | None = None  # of the stream of changes
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    # --- what a subclass does

    async def _start(self) -> None:
        """Make the way to the server, before anything is sent."""
        raise NotImplementedError

    async def _open(self, step: Request) -> Seen:
        """Send a request of the opening."""
        raise NotImplementedError

    async def _exchange(self, request: Request, talk: Talk) -> Answer:
        """Send a request and wait for its answer; if this is cancelled, so is the request."""
        raise NotImplementedError

    async def _tell(self, note: Note) -> None:
        raise NotImplementedError

    def _turned_away(self, away: TurnedAway) -> ToolingError:
        raise NotImplementedError

    async def _watch(self) -> None:
        """Follow the changes of the server's lists, where it tells them."""

    async def _prepare_to_ask(self) -> None:
        """Make sure that questions of the server can come here, before a call whose caller can be asked."""

    async def close(self) -> None:
        raise NotImplementedError

    @property
    def is_following(self) -> bool:
        """Whether changes are told; `watched` says which were promised."""
        raise NotImplementedError

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way."""
        return any(is_call(request.listener) for request in self.caller.pending.values())

    @property
    def is_told_of_tools(self) -> bool:
        return self.watched.tools_list_changed and self.is_following

    # --- opening

    async def connect(self, deadline: float | None = None) -> Welcome:
        """Find the era, shake hands, and start to follow changes. May be called again after a failure."""
        self._is_closing = False
        async with self._limit(deadline):
            await self._start()
            welcome = await self._shake_hands()
            await self._watch()
        return welcome

    async def _shake_hands(self) -> Welcome:
        opening = open_server(self.caller, self._era, self.era_found, self._meta())
        try:
            step = next(opening)
            while True:
                if isinstance(step, Note):
                    await self._tell(step)
                    seen = Seen()
                else:
                    seen = await self._open(step)
                    self.caller.forget(step)
                    self._check_loop(seen.answer)
                step = opening.send(seen)
        except StopIteration as done:
            self.welcome = done.value
        except ProtocolError as wrong:
            raise self._broken(wrong) from None
        except Refused as refused:
            raise self._refused(refused.error.message, refused.code) from None
        except TurnedAway as away:
            raise self._turned_away(away) from None
        assert self.welcome is not None
        self.era_found = self.welcome.revision.era
        self._level = None
        return self.welcome

    def _check_loop(self, answer: Answer | None) -> None:
        """A server whose way leads back to us says so, whatever it was asked."""
        error = answer.error if answer is not None else None
        path = read_loop(error.data) if error is not None else None
        if path is not None:
            raise LoopFound(self.name, path)

    def _limit(self, deadline: float | None) -> Limit:
        return Limit(self.name, deadline, self._seconds)

    # --- lists

    async def list_tools(self, deadline: float | None = None) -> Listing:
        listing = await self._list(Kind.TOOLS, deadline)
        self._mirrored = {item.name: item.mirrored for item in listing.items if item.mirrored}
        return listing

    async def list_prompts(self, deadline: float | None = None) -> Listing:
        return await self._list(Kind.PROMPTS, deadline)

    async def list_resources(self, deadline: float | None = None) -> Listing:
        return await self._list(Kind.RESOURCES, deadline)

    async def list_templates(self, deadline: float | None = None) -> Listing:
        return await self._list(Kind.TEMPLATES, deadline)

    async def _list(self, kind: Kind, deadline: float | None) -> Listing:
        reading = read_list(self.caller, kind, mirrors=self.mirrors and self.caller.revision.modern, meta=self._meta())
        try:
            async with self._limit(deadline):
                request = next(reading)
                while True:
                    answer = await self._exchange(request, Talk())
                    self._check_loop(answer)
                    request = reading.send(answer)
        except StopIteration as done:
            listing = done.value
            assert isinstance(listing, Listing)
            return self._withheld.hide_in_listing(listing)
        except ProtocolError as wrong:
            raise self._broken(wrong) from None
        except Refused as refused:
            raise self._refused(refused.error.message, refused.code) from None

    # --- calls

    async def call(self, call: Call) -> Result:
        """Forward one request."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + call.seconds if call.deadline is None else call.deadline
        talk = Talk(call, self.name)
        try:
            async with asyncio.timeout_at(deadline) as talk.scope:
                if call.ask is not None:
                    await self._prepare_to_ask()
                if call.log_level is not None and call.on_log is not None and not self.caller.revision.modern:
                    await self._match_level(call.log_level)
                return await self._call(call, talk)
        except TimeoutError:
            if not talk.is_sent:
                raise NoAnswer(self.name, round(call.seconds)) from None
            raise CallTimeout(self.name, call.shown or call.name, round(call.seconds)) from None
        except ProtocolError as wrong:
            raise self._broken(wrong) from None
        except InputUnsupported:
            raise InputRequiredUnsupported(self.name, call.shown or call.name) from None
        finally:
            for question in talk.questions:
                question.cancel()

    async def _call(self, call: Call, talk: Talk) -> Result:
        has_listed, params = False, call.params
        for _ in range(MOST_ROUNDS):
            answer = await self._exchange(self._request(call, params, talk), talk)
            error = answer.error
            if error is not None:
                self._check_loop(answer)
                if error.code == HEADER_MISMATCH and call.method == "tools/call" and not has_listed:
                    has_listed = True  # what headers have to repeat may have changed
                    await self.list_tools(talk.scope.when() if talk.scope else None)
                    continue
                raise self._refusal(call, error.code, error.message)
            raw = answer.result
            if len(memoryview(raw)) > call.max_bytes:
                raise TooLarge(self.name, call.shown or call.name, call.max_bytes)
            if not self.caller.revision.modern:
                return Result(self._withheld.hide_in_result(raw))
            round = read_round(raw, call.method, call.can_ask)
            if round is None:
                return Result(self._withheld.hide_in_result(raw))
            forms = {key: self._withheld.hide_in_form(form) for key, form in round.forms.items()}
            round = Round(forms, round.state)
            if round.open_forms and (call.ask is None or call.hands_on):
                forms = {key: name_server(self.name, form) for key, form in round.forms.items()}
                return Result(raw, Round(forms, round.state))
            if not round.forms:
                await asyncio.sleep(_LATER)
            given = {key: await talk.ask(form) for key, form in round.open_forms.items()}
            params = repeat_params(call.params, round, round.answer(given))
        raise ProtocolBroken(self.name, f"it asked for input {MOST_ROUNDS} times without an end")

    def _request(self, call: Call, params: bytes, talk: Talk) -> Request:
        mirrored = self._mirrored.get(call.name) if call.method == "tools/call" else None
        headers = None
        if mirrored and self.caller.revision.modern:
            arguments = msgspec.json.decode(params).get("arguments")
            headers = mirror_params(mirrored, arguments if isinstance(arguments, dict) else {})
        return self.caller.request(
            call.method,
            params,
            name=call.name,
            can_ask=call.can_ask and call.method in ASKABLE,
            wants_progress=call.on_progress is not None,
            log_level=call.log_level,
            meta=call.meta,
            mirrored=headers,
            listener=talk,
        )

    def _refusal(self, call: Call, code: int, message: str) -> ToolingError:
        if code == MISSING_CAPABILITY:
            return InputRequiredUnsupported(self.name, call.shown or call.name)
        if code == UNSUPPORTED_VERSION and self.caller.revision.modern:
            return ProtocolBroken(self.name, f"it no longer speaks {self.caller.revision.name}")
        return self._refused(message, code)

    def _refused(self, message: str, code: int) -> UpstreamError:
        return UpstreamError(self.name, self._withheld.hide(message), code)

    def _too_large(self, talk: Talk, limit: int) -> ToolingError:
        if talk.call is not None:
            return TooLarge(self.name, talk.call.shown or talk.call.name, min(limit, talk.call.max_bytes))
        return ProtocolBroken(self.name, f"it sent more than {limit} bytes at once")

    def _broken(self, wrong: ProtocolError) -> ProtocolBroken:
        return ProtocolBroken(self.name, self._withheld.hide(wrong.message))

    async def check_health(self, deadline: float | None = None) -> None:
        """One cheap question: whether the server answers at all."""
        async with self._limit(deadline):
            method = "server/discover" if self.caller.revision.modern else "ping"
            self._check_loop(await self._exchange(self.caller.request(method, meta=self._meta()), Talk()))

    async def _match_level(self, level: str) -> None:
        """A legacy server has one level for all its callers: the finest that one of them wants."""
        rank = LEVELS.get(level)
        if rank is not None and (self._level is None or rank < self._level):
            self._level = rank
            with suppress(ToolingError, ProtocolError):  # a server that does not answer this may answer the call
                await self.set_log_level(level, asyncio.get_running_loop().time() + _LEVEL_SECONDS)

    async def set_log_level(self, level: str, deadline: float | None = None) -> None:
        """Of a legacy server, for all its callers; a modern one is told with each request."""
        if not self.caller.revision.modern and self.welcome is not None and self.welcome.offered.logging:
            async with self._limit(deadline):
                await self._exchange(self.caller.request("logging/setLevel", dumps({"level": level})), Talk())

    # --- changes

    async def subscribe(self, uri: str, deadline: float | None = None) -> None:
        """Be told when a resource changes. Every caller of ours shares this one subscription."""
        await self._subscribe("resources/subscribe", uri, self._subscribed | {uri}, deadline)

    async def unsubscribe(self, uri: str, deadline: float | None = None) -> None:
        await self._subscribe("resources/unsubscribe", uri, self._subscribed - {uri}, deadline)

    async def _subscribe(self, method: str, uri: str, wanted: set[str], deadline: float | None) -> None:
        if wanted == self._subscribed:
            return
        if self.caller.revision.modern:
            self._subscribed = wanted
            async with self._limit(deadline):
                await self._watch()
            return
        async with self._limit(deadline):
            answer = await self._exchange(self.caller.request(method, dumps({"uri": uri})), Talk())
        if answer.error is not None:
            raise self._refused(answer.error.message, answer.error.code)
        self._subscribed = wanted

    def _wants_changes(self) -> bool:
        offered = self.welcome.offered if self.welcome is not None else Offered()
        listed = offered.tools_changed or offered.prompts_changed or offered.resources_changed
        return listed or offered.resources_subscribe or bool(self._subscribed)

    def _promises(self) -> Honoured:
        """What a legacy server tells because it has declared it."""
        offered = self.welcome.offered if self.welcome is not None else Offered()
        return Honoured(offered.tools_changed, offered.prompts_changed, offered.resources_changed)

    def _filter(self) -> bytes:
        """The params of `subscriptions/listen`."""
        promised = self._promises()
        wanted: dict[str, Json] = {
            "toolsListChanged": promised.tools_list_changed,
            "promptsListChanged": promised.prompts_list_changed,
            "resourcesListChanged": promised.resources_list_changed,
        }
        wanted = {key: True for key, value in wanted.items() if value}
        if self._subscribed:
            wanted["resourceSubscriptions"] = sorted(self._subscribed)
        return dumps({"notifications": wanted})

    def _tell_reopened(self) -> None:
        """What changed while no stream was open is not known: each list may have, and each resource."""
        watched = self.watched
        for kind, is_watched in (
            ("tools", watched.tools_list_changed),
            ("prompts", watched.prompts_list_changed),
            ("resources", watched.resources_list_changed),
        ):
            if is_watched:
                self._happen(Changed(kind))
        for uri in sorted(self._subscribed):
            self._happen(Touched(uri))

    # --- what frames mean

    def _take(self, events: list[Event], mine: Request | None, talk: Talk | None) -> Answer | None:
        """Act on the events of one frame that came on the stream of `mine`; the answer to it, if it is among them."""
        answer = None
        for event in events:
            match event:
                case Answer():
                    if event.request is mine:
                        answer = event
                    else:  # another request's answer has another stream
                        self.caller.pending[event.request.id] = event.request
                        self.caller.strays += 1
                case Progressed():
                    if isinstance(event.request.listener, Talk):
                        event.request.listener.tell_progress(event.progress)
                case Logged():
                    self._take_log(event, talk)
                case Reply() | Question():
                    self._take_request(event, talk)
                case Changed() | Touched():
                    self._happen(event)
                case Acknowledgement():
                    self.watched = event.honoured
                    if self._on_acknowledged is not None:
                        self._on_acknowledged()
        return answer

    def _take_log(self, event: Logged, talk: Talk | None) -> None:
        if talk is not None and talk.call is not None and talk.call.on_log is not None:
            talk.call.on_log(event.told)
        else:
            self._happen(event)

    def _take_request(self, question: Reply | Question, talk: Talk | None) -> None:
        """One that came on no call's stream belongs to a call only while there is just one."""
        if len(self._tasks) >= _MOST_ANSWERS:
            self.caller.strays += 1  # a server that asks faster than it hears the answers
            return
        if isinstance(question, Reply):
            self._spawn(self._tell(self.caller.answer(question.frame)))
            return
        if talk is None or talk.call is None:
            talk = self._only_call()
        task = self._spawn(self._answer(question, talk))
        if talk is not None:
            talk.questions.append(task)

    async def _answer(self, question: Question, talk: Talk | None) -> None:
        try:
            answer = dict(CANCELLED) if talk is None else await talk.ask(self._withheld.hide_in_form(question.form))
        except asyncio.CancelledError:  # the call was withdrawn, and its question with it
            if not self._is_closing:
                self._spawn(self._tell(self.caller.reply(question.id, CANCELLED)))
            raise
        await self._tell(self.caller.reply(question.id, answer))

    def _only_call(self) -> Talk | None:
        calls = [request.listener for request in self.caller.pending.values() if is_call(request.listener)]
        return calls[0] if len(calls) == 1 else None

    def _happen(self, happening: Happening) -> None:
        if self._on_happening is not None:
            self._on_happening(happening)

    # --- what runs beside calls

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task of ours: an answer to the upstream, or a stream of it. No call waits for it; its failure ends it."""

        async def run() -> None:
            with suppress(ToolingError, ProtocolError):
                await work

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # of one that was cancelled before it began
        return task

    async def _end_tasks(self) -> None:
        self._is_closing = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
