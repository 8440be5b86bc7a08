"""When a stream is told: after quiet, not too late, not too often, and never of a list that it has."""

from __future__ import annotations

import pytest

from tests.exposure.clock import FakeClock
from zorivest_rpc.exposure.notify import ChangeWatch
from zorivest_rpc.mcp.protocol.revisions import BY_NAME
from zorivest_rpc.mcp.protocol.session import Phase, Session


class Stream:
    """What it was told is the times at which."""

    def __init__(self, clock: FakeClock, phase: Phase = Phase.READY, revision: str = "2025-11-25") -> None:
        self.session = Session()
        self.session.revision = BY_NAME[revision]
        self.session.phase = phase
        self.is_open = True
        self.told: list[float] = []
        self._clock = clock

    def tell(self, kind: str) -> None:
        self.told.append(round(self._clock.time - 1_000, 6))


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.list = b"first"
        self.own: dict[Session, bytes] = {}
        self.watch = ChangeWatch(lambda session: self.own.get(session, self.list), self.clock)

    def stream(self, phase: Phase = Phase.READY, *, listed: bool = True, revision: str = "2025-11-25") -> Stream:
        stream = Stream(self.clock, phase, revision)
        self.watch.join(stream)
        if listed:
            self.watch.listed(stream)
        return stream

    def change(self, content: bytes) -> None:
        self.list = content
        self.watch.note_change()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_change_is_told_after_a_quarter_second_of_quiet(stage: Stage) -> None:
    stream = stage.stream()
    stage.change(b"second")
    stage.clock.pass_by(0.2)
    stage.change(b"third")
    stage.clock.pass_by(0.24)
    assert stream.told == []
    stage.clock.pass_by(0.01)
    assert stream.told == [0.45]
    stage.clock.pass_by(10)
    assert stream.told == [0.45]


def test_changes_that_never_rest_are_told_a_second_after_the_first(stage: Stage) -> None:
    stream = stage.stream()
    for number in range(14):
        stage.change(b"%d" % number)
        stage.clock.pass_by(0.1)
    assert stream.told == [1.0]


def test_what_appears_and_vanishes_is_not_told(stage: Stage) -> None:
    stream = stage.stream()
    stage.change(b"second")
    stage.clock.pass_by(0.1)
    stage.change(b"first")
    stage.clock.pass_by(10)
    assert stream.told == []


def test_two_announcements_on_one_stream_are_two_seconds_apart(stage: Stage) -> None:
    stream = stage.stream()
    for number in range(1, 4):
        stage.change(b"%d" % number)
        stage.clock.pass_by(0.5)
    stage.clock.pass_by(10)
    assert stream.told == [0.25, 2.25]


def test_a_change_that_is_taken_back_while_it_waits_for_its_turn_is_not_told(stage: Stage) -> None:
    stream = stage.stream()
    stage.change(b"second")
    stage.clock.pass_by(0.5)
    stage.change(b"third")
    stage.clock.pass_by(0.5)
    stage.change(b"second")
    stage.clock.pass_by(10)
    assert stream.told == [0.25]


def test_each_stream_remembers_for_itself(stage: Stage) -> None:
    early = stage.stream()
    stage.list = b"second"
    late = stage.stream()
    stage.watch.note_change()
    stage.clock.pass_by(1)
    assert (early.told, late.told) == ([0.25], [])
    stage.watch.listed(early)
    stage.change(b"first")
    stage.clock.pass_by(1)
    assert (early.told, late.told) == ([0.25], [1.25])
    stage.clock.pass_by(1)
    assert early.told == [0.25, 2.25]


def test_a_change_of_one_tenant_is_silent_for_the_others(stage: Stage) -> None:
    ours, theirs = stage.stream(), stage.stream()
    stage.own[ours.session] = b"ours, changed"
    stage.watch.note_change()
    stage.clock.pass_by(1)
    assert (ours.told, theirs.told) == ([0.25], [])


def test_nothing_is_told_before_the_session_is_ready(stage: Stage) -> None:
    stream = stage.stream(Phase.GREETED, listed=False)
    stage.change(b"second")
    stage.clock.pass_by(5)
    assert stream.told == []
    stream.session.phase = Phase.READY
    stage.clock.pass_by(5)
    assert stream.told == []
    stage.change(b"third")
    stage.clock.pass_by(5)
    assert stream.told == [10.25]


def test_without_an_open_channel_the_digest_alone_remembers(stage: Stage) -> None:
    stream = stage.stream()
    stream.is_open = False
    stage.change(b"second")
    stage.clock.pass_by(5)
    stage.change(b"third")
    stage.clock.pass_by(5)
    assert stream.told == []
    stream.is_open = True
    stage.watch.opened(stream)
    assert stream.told == [10.0]
    stage.watch.opened(stream)
    assert stream.told == [10.0]


def test_a_channel_that_opens_with_the_list_that_it_knows_hears_nothing(stage: Stage) -> None:
    stream = stage.stream()
    stream.is_open = False
    stage.change(b"second")
    stage.clock.pass_by(1)
    stage.change(b"first")
    stage.clock.pass_by(1)
    stream.is_open = True
    stage.watch.opened(stream)
    assert stream.told == []


def test_after_a_first_step_it_is_told_at_once_and_once(stage: Stage) -> None:
    stream = stage.stream()
    stage.change(b"second")
    stage.watch.flush()
    assert stream.told == [0.0]
    stage.clock.pass_by(5)
    assert stream.told == [0.0]


def test_what_the_client_itself_asked_for_is_told_at_once_and_to_it_alone(stage: Stage) -> None:
    asking, other = stage.stream(), stage.stream()
    for number in range(2):
        stage.own[asking.session] = b"loaded %d" % number
        stage.watch.note_change(asking.session)
    assert (asking.told, other.told) == ([0.0, 0.0], [])
    stage.watch.note_change()
    stage.clock.pass_by(5)
    assert asking.told == [0.0, 0.0]


def test_a_stream_that_left_is_told_nothing(stage: Stage) -> None:
    stream = stage.stream()
    stage.change(b"second")
    stage.clock.pass_by(0.5)
    stage.change(b"third")
    stage.clock.pass_by(0.5)
    stage.watch.leave(stream)
    assert all(timer.cancelled for timer in stage.clock.timers)
    stage.clock.pass_by(5)
    assert stream.told == [0.25]


def test_closing_forgets_everything_that_was_still_to_be_told(stage: Stage) -> None:
    stream = stage.stream()
    stage.change(b"second")
    stage.clock.pass_by(0.5)
    stage.change(b"third")
    stage.clock.pass_by(0.5)
    stage.change(b"fourth")
    stage.watch.close()
    assert all(timer.cancelled for timer in stage.clock.timers)
    stage.watch.flush()
    assert stream.told == [0.25]


def test_a_subscription_knows_the_list_of_its_moment_and_a_session_the_one_that_it_was_given(stage: Stage) -> None:
    modern, legacy = stage.stream(listed=False, revision="2026-07-28"), stage.stream(listed=False)
    unready = stage.stream(Phase.NEW, listed=False, revision="2026-07-28")
    unready.session.phase = Phase.READY
    stage.watch.note_change()
    stage.clock.pass_by(1)
    assert (modern.told, legacy.told, unready.told) == ([], [0.25], [0.25])
    stage.change(b"second")
    stage.clock.pass_by(1)
    assert modern.told == [1.25]


def test_without_a_stream_no_timer_is_set(stage: Stage) -> None:
    stage.change(b"second")
    assert stage.clock.timers == []
