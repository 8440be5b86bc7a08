"""The table of failures, cell by cell, and the pauses between attempts."""

from __future__ import annotations

import pytest

from zorivest_rpc.gateway.config import Profile
from zorivest_rpc.gateway.errors import (
    AddressRefused,
    AuthEnvMissing,
    AuthRejected,
    CallTimeout,
    ConnectFailed,
    NoAnswer,
    OutputInvalid,
    ProtocolBroken,
    RedirectRefused,
    StdioExited,
    StdioSpawn,
    ToolingError,
    UpstreamError,
)
from zorivest_rpc.gateway.http_client import StatusFailed
from zorivest_rpc.gateway.retries import Purpose, is_transport_failure, may_be_repeated, pause_before, waits_for

LEFT = 10.0
NEVER = (None, None, None)
ALWAYS = (0.0, 0.0, 0.0)
UNLESS_A_WRITE = (0.0, 0.0, None)


def status(number: int, after: float | None = None) -> ToolingError:
    return StatusFailed("ops", "http://ops", number, after)


# the columns of the contract: discovery and lists, a call that is repeatable, any other call
TABLE: list[tuple[ToolingError, tuple[float | None, float | None, float | None]]] = [
    (ConnectFailed("ops", "http://ops", "refused"), ALWAYS),
    (StdioSpawn("ops", "no such file"), ALWAYS),
    (StdioExited("ops", 1, sent=False), ALWAYS),
    (status(429, 2.0), (2.0, 2.0, 2.0)),
    (status(503, LEFT), (LEFT, LEFT, LEFT)),
    (status(503, LEFT + 0.1), NEVER),
    (status(429), NEVER),
    (status(502), UNLESS_A_WRITE),
    (status(503), UNLESS_A_WRITE),
    (status(504), UNLESS_A_WRITE),
    (status(500), NEVER),
    (status(400), NEVER),
    (ConnectFailed("ops", "http://ops", "cut", sent=True), UNLESS_A_WRITE),
    (StdioExited("ops", 1), UNLESS_A_WRITE),
    (NoAnswer("ops", 15), (0.0, None, None)),
    (CallTimeout("ops", "t", 45), NEVER),
    (AuthRejected("ops", 401), NEVER),
    (AuthEnvMissing("ops", "TOKEN"), NEVER),
    (RedirectRefused("ops", "http://else"), NEVER),
    (AddressRefused("ops", "10.0.0.1", "private"), NEVER),
    (ProtocolBroken("ops", "no"), NEVER),
    (UpstreamError("ops", "no", -32000), NEVER),
    (OutputInvalid("ops", "t"), NEVER),
]


@pytest.mark.parametrize(("error", "cells"), TABLE, ids=lambda value: str(value)[:60])
def test_each_cell_of_the_table(error: ToolingError, cells: tuple[float | None, ...]) -> None:
    purposes = (Purpose.LIST, Purpose.REPEATABLE, Purpose.CALL)
    assert tuple(waits_for(error, purpose, LEFT) for purpose in purposes) == cells


def test_only_the_way_to_a_server_opens_its_circuit() -> None:
    failing = {type(error).__name__ for error, _ in TABLE if is_transport_failure(error)}
    assert failing == {"ConnectFailed", "StatusFailed", "StdioSpawn", "StdioExited", "NoAnswer", "CallTimeout"}


@pytest.mark.parametrize(
    ("attempt", "random", "seconds"),
    [(2, 0.5, 0.5), (3, 0.5, 1.0), (4, 0.5, 2.0), (9, 0.5, 30.0), (40, 0.5, 30.0), (2, 0.0, 0.4), (2, 1.0, 0.6)],
)
def test_pauses_double_up_to_thirty_seconds_give_or_take_a_fifth(attempt: int, random: float, seconds: float) -> None:
    assert pause_before(attempt, Profile(), lambda: random) == pytest.approx(seconds)


def test_no_delay_is_none() -> None:
    assert pause_before(5, Profile(tool_retry_delay_ms=0), lambda: 1.0) == 0


@pytest.mark.parametrize(
    ("error", "is_harmless"),
    [
        (ConnectFailed("ops", "http://ops", "refused"), True),
        (ConnectFailed("ops", "http://ops", "cut", sent=True), False),
        (StdioSpawn("ops", "no such file"), True),
        (StdioExited("ops", 1, sent=False), True),
        (StdioExited("ops", 1), False),
        (NoAnswer("ops", 15), True),
        (status(429), True),
        (status(503, LEFT + 0.1), True),
        (status(503), False),
        (status(500), False),
        (status(502), False),
    ],
)
def test_a_client_is_not_told_to_repeat_a_write_that_may_have_been_done(error: ToolingError, is_harmless: bool) -> None:
    assert may_be_repeated(error, Purpose.CALL) is is_harmless
    assert may_be_repeated(error, Purpose.REPEATABLE) is True
