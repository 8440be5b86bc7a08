"""An upstream over Streamable HTTP: what it asks while it works, and what it tells between calls."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.fake import (
    IDENTITY,
    Fake,
    Noted,
    Pauses,
    Seen,
    answering,
    calling,
    connected,
    done,
    event,
    note,
    serving,
    streaming,
    text_of,
)
from zorivest_rpc.gateway.errors import (
    ConnectFailed,
    InputRequiredUnsupported,
    ProtocolBroken,
    TooLarge,
)
from zorivest_rpc.gateway.http_client import HttpUpstream, origin_of
from zorivest_rpc.gateway.upstream import FRAME_LIMIT, Happening, Talk
from zorivest_rpc.mcp.client.caller import Changed, Touched
from zorivest_rpc.mcp.client.forms import Form

# --- questions

ASKED = {
    "message": "Which branch?",
    "requestedSchema": {"type": "object", "properties": {"branch": {"type": "string", "default": "main"}}},
}


def elicit(id: Any = "q1", **params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {**ASKED, **params}}


async def accept(form: Form) -> dict[str, Any]:
    return {"action": "accept", "content": {}}


class Asking:
    """A legacy server that asks while it works, and gives back what it was answered."""

    def __init__(self, *questions: Any) -> None:
        self.questions = questions
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.heard = Noted()
        self.fake = Fake("legacy", tools_call=self.call)
        self.fake.handlers[""] = self.hear
        self.fake.handlers["POST"] = self.hear

    async def hear(self, seen: Seen) -> web.StreamResponse:
        self.answers.put_nowait(seen.message)
        self.heard.append(seen.message)
        return web.Response(status=202)

    async def call(self, seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        for question in self.questions:
            await response.write(event(question))
        got = [await self.answers.get() for _ in self.questions]
        await response.write(event(done(json.dumps(got))(seen)))
        return response


async def test_a_legacy_question_on_the_stream_of_a_call_goes_to_its_caller() -> None:
    asking = Asking(elicit())
    seen: list[Form] = []

    async def ask(form: Form) -> dict[str, Any]:
        seen.append(form)
        return {"action": "accept", "content": {"extra": 1}}

    async with connected(asking.fake) as client:
        answers = json.loads(text_of(await client.call(calling(ask=ask))))
    assert [form.message for form in seen] == ["[ops] Which branch?"]
    assert answers == [
        {"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {"extra": 1, "branch": "main"}}}
    ]


async def test_a_question_for_a_caller_who_cannot_be_asked_is_cancelled() -> None:
    asking = Asking(elicit())
    async with connected(asking.fake) as client:
        answers = json.loads(text_of(await client.call(calling())))
    assert [answer["result"] for answer in answers] == [{"action": "cancel"}]


async def test_what_was_not_declared_is_refused_and_a_ping_is_answered() -> None:
    sampling = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
    roots = {"jsonrpc": "2.0", "id": 2, "method": "roots/list"}
    ping = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    secret = elicit(4, requestedSchema={"type": "object", "properties": {"password": {"type": "string"}}})
    url = elicit(5, mode="url", url="https://a.example")
    asking = Asking(sampling, roots, ping, secret, url)
    async with connected(asking.fake) as client:
        answers = {answer["id"]: answer for answer in json.loads(text_of(await client.call(calling(ask=accept))))}
    assert [answers[id]["error"]["code"] for id in (1, 2, 5)] == [-32601] * 3
    assert (answers[3]["result"], answers[4]["result"]) == ({}, {"action": "cancel"})


async def test_the_deadline_stands_still_while_a_person_thinks() -> None:
    clock = asyncio.get_running_loop().time
    talk = Talk(calling())

    async def think(form: Form) -> dict[str, Any]:
        assert talk.scope is not None
        assert talk.scope.when() is None
        if form.message == "first":  # two questions at once: the clock starts again after the last
            await talk.ask(Form("second", {}))
            assert talk.scope.when() is None
        return {"action": "decline"}

    assert talk.call is not None
    talk.call.ask = think
    async with asyncio.timeout(60) as talk.scope:
        before = talk.scope.when()
        assert await talk.ask(Form("first", {})) == {"action": "decline"}
        after = talk.scope.when()
        assert before is not None
        assert after is not None
        assert before <= after <= clock() + 60


async def test_a_cancelled_call_withdraws_its_question() -> None:
    asking = Asking(elicit())
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def ask(form: Form) -> dict[str, Any]:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            withdrawn.set()
            raise
        return {}

    async with connected(asking.fake) as client:
        task = asyncio.create_task(client.call(calling(ask=ask)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            await withdrawn.wait()
        await asking.heard.reach(1)
        assert (asking.heard[0]["id"], asking.heard[0]["result"]) == ("q1", {"action": "cancel"})


def modern_asking(rounds: int) -> Fake:
    async def call(seen: Seen) -> web.StreamResponse:
        number = len(fake.of("tools/call"))
        if number <= rounds:
            request = {"method": "elicitation/create", "params": ASKED}
            return seen.result(resultType="input_required", inputRequests={"k": request}, requestState=f"s{number}")
        return seen.result(resultType="complete", content=[{"type": "text", "text": json.dumps(seen.params)}])

    fake = Fake(tools_call=call)
    return fake


async def test_a_modern_question_is_asked_and_the_request_repeated_with_the_answer() -> None:
    fake = modern_asking(2)
    async with connected(fake) as client:
        params = json.loads(text_of(await client.call(calling(ask=accept, can_ask=True))))
    assert params["requestState"] == "s2"
    assert params["inputResponses"] == {"k": {"action": "accept", "content": {"branch": "main"}}}
    assert (params["name"], params["arguments"]) == ("echo", {"text": "hi"})
    calls = fake.of("tools/call")
    assert len({seen.id for seen in calls}) == 3
    assert "requestState" not in calls[0].params
    declared = [seen.params["_meta"]["io.modelcontextprotocol/clientCapabilities"] for seen in calls]
    assert declared == [{"elicitation": {"form": {}}}] * 3


async def test_a_modern_question_can_be_handed_on_and_answered_later() -> None:
    fake = modern_asking(1)
    async with connected(fake) as client:
        call = calling(can_ask=True)
        result = await client.call(call)
        assert result.round is not None
        assert result.round.forms["k"].message == "[ops] Which branch?"
        again = call.repeat(result.round, {"k": {"action": "decline"}})
        params = json.loads(text_of(await client.call(again)))
    assert (params["inputResponses"], params["requestState"]) == ({"k": {"action": "decline"}}, "s1")


async def test_a_modern_question_for_a_caller_who_cannot_be_asked_is_unsupported() -> None:
    fake = modern_asking(1)
    async with connected(fake) as client:
        with pytest.raises(InputRequiredUnsupported):
            await client.call(calling())
    assert len(fake.of("tools/call")) == 1


async def test_rounds_without_an_end_are_broken() -> None:
    fake = modern_asking(1000)
    async with connected(fake) as client:
        with pytest.raises(ProtocolBroken, match="without an end"):
            await client.call(calling(ask=accept, can_ask=True))
    assert len(fake.of("tools/call")) == 16


# --- changes between calls


class Changing:
    """A server with a stream of changes, fed by the test."""

    def __init__(self, era: str, capabilities: Any) -> None:
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.opened = Noted()
        handlers: dict[str, Any] = {"subscriptions_listen": self.listen} if era == "modern" else {"GET": self.listen}
        self.fake = Fake(era, capabilities, **handlers)

    async def listen(self, seen: Seen) -> web.StreamResponse:
        self.opened.append(seen)
        response = await seen.stream()
        if seen.verb == "POST":
            await response.write(event(note("subscriptions/acknowledged", notifications=seen.params["notifications"])))
        while (message := await self.messages.get()) is not None:
            await response.write(event(message))
        return response


CHANGES = {"tools": {"listChanged": True}, "prompts": {"listChanged": True}, "resources": {"subscribe": True}}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_changes_are_told_and_a_stream_that_ends_is_opened_again_with_a_new_look(era: str) -> None:
    changing = Changing(era, CHANGES)
    happenings = Noted()
    pauses = Pauses()
    async with connected(changing.fake, happenings, pause=pauses) as client:
        assert client.is_following
        assert client.watched.tools_list_changed
        assert not client.watched.resources_list_changed
        changing.messages.put_nowait(note("tools/list_changed"))
        changing.messages.put_nowait(note("resources/updated", uri="a:b"))
        await happenings.reach(2)
        assert happenings == [Changed("tools"), Touched("a:b")]
        changing.messages.put_nowait(None)
        await happenings.reach(4)
        assert happenings[2:] == [Changed("tools"), Changed("prompts")]
        assert len(changing.opened) == 2
        changing.messages.put_nowait(None)
        await changing.opened.reach(3)
    assert pauses.seconds[:2] == [1.0, 2.0]


async def test_the_filter_names_what_is_offered_and_what_was_subscribed_to() -> None:
    changing = Changing("modern", CHANGES)
    happenings: list[Happening] = []
    async with connected(changing.fake, happenings) as client:
        await client.subscribe("a:b")
        await client.subscribe("a:b")
        await client.unsubscribe("a:b")
    filters = [seen.params["notifications"] for seen in changing.fake.of("subscriptions/listen")]
    assert filters == [
        {"toolsListChanged": True, "promptsListChanged": True},
        {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["a:b"]},
        {"toolsListChanged": True, "promptsListChanged": True},
    ]


async def test_legacy_subscriptions_are_requests() -> None:
    ok = answering(200, {"result": {}})
    fake = Fake("legacy", CHANGES, resources_subscribe=ok, resources_unsubscribe=ok)
    async with connected(fake) as client:
        await client.subscribe("a:b")
        await client.subscribe("a:b")
        await client.unsubscribe("a:b")
        await client.unsubscribe("a:b")
    assert [seen.method for seen in fake.seen if "subscribe" in seen.method] == [
        "resources/subscribe",
        "resources/unsubscribe",
    ]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_server_without_a_stream_is_asked_for_none(era: str) -> None:
    fake = Fake(era)
    async with connected(fake) as client:
        assert not client.is_following
    assert not {"GET", "subscriptions/listen"} & {*fake.methods}
    refusing = Fake(era, CHANGES)
    async with connected(refusing) as client:
        assert not client.is_following
        await client.call(calling())
    assert sum(method in ("GET", "subscriptions/listen") for method in refusing.methods) == 1


async def test_an_acknowledgement_without_tools_promises_nothing() -> None:
    async def listen(seen: Seen) -> web.StreamResponse:
        response = await seen.stream()
        await response.write(event(note("subscriptions/acknowledged", notifications={})))
        await asyncio.Event().wait()
        return response

    async with connected(Fake("modern", CHANGES, subscriptions_listen=listen)) as client:
        assert client.is_following
        assert not client.watched.tools_list_changed


async def test_health_is_one_question() -> None:
    for era, method in (("modern", "server/discover"), ("legacy", "ping")):
        fake = Fake(era)
        async with connected(fake) as client:
            await client.check_health()
            assert fake.methods[-1] == method


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("/x", "http://a.example:8"),
        ("https://b.example/x?y", "https://b.example"),
        ("//b.example:9/x", "http://b.example:9"),
        ("https://[::1]:9/", "https://[::1]:9"),
        ("", "http://a.example:8"),
        ("http://b.example:port/", "an address that cannot be read"),
    ],
)
def test_of_a_redirect_only_the_origin_is_told(location: str, origin: str) -> None:
    assert origin_of("http://a.example:8/mcp?key=1", location) == origin


async def test_eight_calls_run_at_once_and_more_wait_for_a_connection() -> None:
    running, most = 0, 0
    gate = asyncio.Event()

    async def count(seen: Seen) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            gate.set()
        await gate.wait()
        running -= 1
        return fake.answer(seen)

    fake = Fake(tools_call=count)
    async with connected(fake) as client:
        results = await asyncio.gather(*(client.call(calling(str(number))) for number in range(20)))
    assert [text_of(result) for result in results] == [str(number) for number in range(20)]
    assert most == 8


@pytest.mark.parametrize("size", [10, 70_000, 3_000_000])
async def test_a_request_of_any_size_is_sent_whole_and_with_the_same_headers(size: int) -> None:
    fake = Fake()
    async with connected(fake, credentials=lambda: {"Authorization": "Bearer t"}) as client:
        assert len(text_of(await client.call(calling("x" * size)))) == size
    names = ("Host", "User-Agent", "Accept", "Accept-Encoding", "Content-Type", "Mcp-Name", "Authorization")
    sent = [[seen.headers.getall(name) for name in names] for seen in (fake.of("tools/call")[0],)]
    assert [len(values) for values in sent[0]] == [1] * len(names)
    assert sent[0][1:4] == [["zorivest-rpc/1.2.3"], ["application/json, text/event-stream"], ["identity"]]


async def test_a_credential_that_would_be_a_line_of_its_own_is_not_sent() -> None:
    fake = Fake()
    async with serving(fake.handle) as url:
        client = HttpUpstream("ops", url, IDENTITY, credentials=lambda: {"X-Key": "a\r\nX-Evil: 1"})
        with pytest.raises(ConnectFailed, match="no header can carry") as failed:
            await client.connect()
        await client.close()
    assert fake.seen == []
    assert "X-Evil" not in failed.value.text


async def test_a_server_that_asks_without_end_is_answered_a_bounded_number_of_times_at_once() -> None:
    gate = asyncio.Event()
    heard = 0

    async def hear(seen: Seen) -> web.StreamResponse:
        nonlocal heard
        heard += 1
        await gate.wait()
        return web.Response(status=202)

    pings = [event({"jsonrpc": "2.0", "id": number, "method": "ping"}) for number in range(1000)]
    fake = Fake("legacy", tools_call=streaming(b"".join(pings), done()), POST=hear)
    async with connected(fake) as client:
        assert text_of(await client.call(calling())) == "done"
        assert client.caller.strays >= 1000 - 64
        gate.set()
    assert heard <= 64


async def test_a_list_that_is_too_large_breaks_the_protocol() -> None:
    fake = Fake(tools_list=answering(200, b" " * (FRAME_LIMIT + 1), **{"Content-Type": "application/json"}))
    async with connected(fake) as client:
        with pytest.raises(ProtocolBroken, match="more than"):
            await client.list_tools()


async def test_a_packed_answer_is_bounded_by_what_it_unpacks_to() -> None:
    async def pack(seen: Seen) -> web.StreamResponse:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":"%b"}}' % (seen.id, b"x" * 50_000_000)
        return web.Response(
            body=zlib.compress(body), headers={"Content-Encoding": "deflate"}, content_type="application/json"
        )

    async with connected(Fake(tools_call=pack)) as client:
        with pytest.raises(TooLarge):
            await client.call(calling())
