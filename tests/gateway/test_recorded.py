"""The record of a call: what each way out of it is told as, and what becomes of one that waits for an answer."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.serving.middleware.conftest import Clock
from tests.serving.middleware.fake import make_call
from zorivest_rpc.errors import ConfirmationRequired, GuardLocked, ProtocolError, ToolError
from zorivest_rpc.gateway.recorded import Recorder
from zorivest_rpc.gateway.telemetry import Redactor, Telemetry
from zorivest_rpc.mcp.call import BecomeTask, Call, InputRequired, Outcome, form, say
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Ruling

SPEC = next(spec for spec in load().tools if spec.name == "list_trades")
NAME = form("Which name?", {"name": {"type": "string"}})
JACK = {"name": {"action": "accept", "content": {"name": "Jack"}}}


class Book:
    """A recorder around a handler, with a clock that stands still."""

    def __init__(self, directory: Path, seconds: float = 3600.0, ruling: Ruling | None = None) -> None:
        self.clock = Clock()
        self.path = directory / "events"
        self.recorder = Recorder(Telemetry(str(self.path), Redactor()), seconds, self.clock)
        self.spec = msgspec.structs.replace(SPEC, ruling=ruling)

    async def run(self, handler: Any, *, answers: Any = None, in_task: bool = False, **arguments: Any) -> Outcome:
        call = make_call("list_trades", elicits=True, **arguments)
        call.session.principal = "key-7"
        call.answers = answers or {}
        call.in_task = in_task
        return await self.recorder.around(self.spec, handler)(call)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    @property
    def events(self) -> list[str]:
        return [line["event"].removeprefix("tool.") for line in self.lines]


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def raises(error: BaseException) -> Any:
    async def handler(call: Call) -> Outcome:
        raise error

    return handler


async def asks(call: Call) -> Outcome:
    return say(call.need("name", NAME)["content"]["name"])


async def test_a_call_that_succeeds(book: Book) -> None:
    async def handler(call: Call) -> Outcome:
        book.clock.now += 0.25
        return say("übrig")

    assert (await book.run(handler)).content[0]["text"] == "übrig"
    begun, ended = book.lines
    assert (begun["event"], begun["tool"], begun["provenance"]) == ("tool.requested", "list_trades", "built-in")
    assert begun["principal"] == ended["principal"] == "key-7"
    assert "server" not in begun
    assert "tenant" not in begun
    assert (ended["event"], ended["duration_ms"], ended["bytes"]) == ("tool.succeeded", 250.0, 6)
    assert (ended["attempts"], ended["is_error"]) == (1, False)


@pytest.mark.parametrize(
    ("error", "event", "facts"),
    [
        (ToolError("x", code="c", next="n"), "failed", {"class": ToolError.kind, "code": "c"}),
        (ConfirmationRequired("x", code="confirmation_used", next="n"), "denied", {"reason": "confirmation_used"}),
        (GuardLocked("manual"), "denied", {"reason": "guard_blocked"}),
        (ProtocolError(-32602, "x"), "failed", {"class": "INPUT", "code": "-32602"}),
        (asyncio.CancelledError(), "failed", {"class": "SESSION", "code": "cancelled"}),
        (ZeroDivisionError(), "failed", {"class": "INTERNAL", "code": "internal_error"}),
    ],
)
async def test_every_way_out_is_told_and_goes_on_as_it_was(
    book: Book, error: BaseException, event: str, facts: dict[str, str]
) -> None:
    with pytest.raises(type(error)) as raised:
        await book.run(raises(error))
    assert raised.value is error
    assert book.events == ["requested", event]
    told = book.lines[-1]
    assert {name: told[name] for name in facts} == facts


async def test_what_a_list_spares_is_told_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = Book(tmp_path, ruling=Ruling("allow", None, is_spared=True))

    async def handler(call: Call) -> Outcome:
        return say("done")

    with caplog.at_level(logging.INFO, "zorivest_rpc.gateway.recorded"):
        await book.run(handler)
    assert book.events == ["requested", "confirmed", "succeeded"]
    assert book.lines[1]["auto"] is True
    assert "auto_approved list_trades" in [record.getMessage() for record in caplog.records]


async def test_a_call_that_asks_is_one_call_until_its_answer(book: Book) -> None:
    with pytest.raises(InputRequired):
        await book.run(asks)
    assert book.events == ["requested"]
    book.clock.now += 2
    await book.run(asks, answers=JACK)
    assert book.events == ["requested", "succeeded"]
    assert book.lines[-1]["duration_ms"] == 2000.0
    await book.run(asks, answers=JACK)  # the same answer again is another call
    assert book.events == ["requested", "succeeded"] * 2
    assert len({line["call_id"] for line in book.lines}) == 2


async def test_a_call_that_becomes_a_task_is_one_call(book: Book) -> None:
    async def become(call: Call) -> Outcome:
        if not call.in_task:
            raise BecomeTask
        return say("done")

    with pytest.raises(BecomeTask):
        await book.run(become)
    await book.run(become, in_task=True)
    assert book.events == ["requested", "succeeded"]


async def test_no_answer_in_time_is_an_end(tmp_path: Path) -> None:
    book = Book(tmp_path, seconds=0.0)
    with pytest.raises(InputRequired):
        await book.run(asks)
    async with asyncio.timeout(30):
        while book.events != ["requested", "failed"]:  # noqa: ASYNC110 - the timer of the loop, due at once
            await asyncio.sleep(0)
    assert (book.lines[-1]["class"], book.lines[-1]["code"]) == ("SESSION", "input_timeout")
    await book.run(asks, answers=JACK)
    assert book.events == ["requested", "failed", "requested", "succeeded"]


async def test_a_question_that_is_withdrawn_is_an_end_and_tells_those_who_wait(book: Book) -> None:
    told: list[str] = []

    async def handler(call: Call) -> Outcome:
        raise InputRequired({"name": NAME}, abandon=lambda: told.append("withdrawn"))

    with pytest.raises(InputRequired) as asked:
        await book.run(handler)
    assert asked.value.abandon is not None
    asked.value.abandon()
    asked.value.abandon()
    assert told == ["withdrawn"] * 2
    assert book.events == ["requested", "failed"]
    assert book.lines[-1]["code"] == "cancelled"


async def test_what_waits_when_the_server_ends_is_ended(book: Book) -> None:
    with pytest.raises(InputRequired):
        await book.run(asks)
    book.recorder.close()
    assert book.events == ["requested", "failed"]


async def test_those_who_wait_are_bounded(book: Book) -> None:
    async def handler(call: Call) -> Outcome:
        raise InputRequired({f"q{call.arguments['n']}": NAME})

    for number in range(4_097):
        with pytest.raises(InputRequired):
            await book.run(handler, n=number)
    assert book.events.count("failed") == 1
    await book.run(asks, answers={"q1": {}} | JACK)
    assert book.events.count("requested") == 4_097, "the second is still known"
    book.recorder.close()


async def test_a_denied_call_is_told_without_being_run(book: Book) -> None:
    book.recorder.deny(book.spec, "", None, "deny_tool")
    assert book.events == ["requested", "denied"]
    assert "principal" not in book.lines[0]
