"""How much of what a server says during a call goes on to the client."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from tests.serving.middleware.fake import NoWire
from zorivest_rpc.gateway.relay import AT_ONCE, PER_SECOND, Relay
from zorivest_rpc.gateway.telemetry import Redactor
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.replies import Progress, Told
from zorivest_rpc.mcp.protocol.session import Session


class Heard(Call):
    """A call that notes what its client is told."""

    def __init__(self) -> None:
        super().__init__("ops__echo", {}, Session(), NoWire())
        self.steps: list[float] = []
        self.messages: list[str | None] = []
        self.words: list[Any] = []

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.steps.append(progress)
        self.messages.append(message)

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        self.words.append((level, data, logger))


def told(data: Any = "words", logger: str | None = None) -> Told:
    return Told("info", msgspec.Raw(msgspec.json.encode(data)), logger)


def test_words_go_on_under_the_name_of_the_server() -> None:
    call = Heard()
    relay = Relay(call, "ops", Redactor(["s3cret-value"]))
    relay.log(told({"n": 1}))
    relay.log(told("x", "disk"))
    relay.progress(Progress("t", 3))
    assert call.words == [("info", {"n": 1}, "ops"), ("info", "x", "ops/disk")]
    assert call.steps == [3]


def test_a_secret_of_ours_that_a_server_repeats_is_not_told() -> None:
    call = Heard()
    relay = Relay(call, "ops", Redactor(["s3cret-value"]))
    relay.log(told({"sent": ["Bearer s3cret-value"]}))
    relay.progress(Progress("t", 1, message="with s3cret-value"))
    assert "s3cret" not in str(call.words) + str(call.messages)
    assert call.messages == ["with [redacted]"]


def test_a_flood_is_cut_told_once_and_let_through_again_with_time(caplog: pytest.LogCaptureFixture) -> None:
    now = [100.0]
    call = Heard()
    relay = Relay(call, "ops", Redactor(), lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for number in range(2 * AT_ONCE):
            relay.progress(Progress("t", number))
            relay.log(told())
    assert len(call.steps) + len(call.words) == AT_ONCE
    assert [record.getMessage() for record in caplog.records] == [
        'MCP server "ops" says more during "ops__echo" than is passed on'
    ]
    now[0] += 1.0
    for number in range(AT_ONCE):
        relay.progress(Progress("t", number))
    assert len(call.steps) + len(call.words) == AT_ONCE + PER_SECOND
