"""A stdio server ends within two seconds, whatever ends it and whatever its tools are doing, and leaves nothing behind.

The promise is two seconds; PROMISE leaves room for a busy machine, far below the minute that the tools would take.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Final

import pytest

from tests.mcp.transports.stdio_child import (
    HELLO,
    LONG,
    META,
    PROGRAM,
    READY,
    Child,
    Lines,
    call,
    children_of,
    gone_within,
    interrupt,
    line,
    ping,
    running,
    terminate,
)

PROMISE: Final = 3.5
BUSY: Final = ("idle", "wait", "stubborn", "block_thread", "block_loop", "full_stdout")


def occupy(child: Child, busy: str) -> None:
    """Bring the server into that state, and return when it is there."""
    if busy == "idle":
        assert child.ask(ping("idle"))["id"] == "idle"
    elif busy == "full_stdout":  # a call that runs, then an answer larger than the pipe and requests nobody looks at
        child.send(call("w", "wait"), call("big", "big", size=2_000_000), ping("unread"))
        child.await_error_line("running wait")
        assert select.select([child.answers.fd], [], [], LONG)[0]
    else:
        child.send(call("busy", busy))
        child.await_error_line(f"running {busy}")


def ends_in_time(child: Child) -> int:
    started = time.monotonic()
    code = child.ended(20)
    assert time.monotonic() - started < PROMISE
    assert not children_of(child.pid)
    return code


@pytest.mark.parametrize("busy", BUSY)
def test_end_of_input_ends_the_server(busy: str) -> None:
    with running() as child:
        occupy(child.greet(), busy)
        child.close_stdin()
        assert ends_in_time(child) == 0


@pytest.mark.parametrize("busy", BUSY)
def test_sigterm_ends_the_server(busy: str) -> None:
    with running() as child:
        occupy(child.greet(), busy)
        terminate(child)
        assert ends_in_time(child) == 0


@pytest.mark.parametrize("busy", BUSY)
def test_sigint_ends_the_server_with_130(busy: str) -> None:
    with running() as child:
        occupy(child.greet(), busy)
        interrupt(child)
        assert ends_in_time(child) == 130


@pytest.mark.parametrize("busy", ["idle", "wait", "block_thread", "block_loop"])
def test_the_death_of_the_parent_ends_the_server_although_its_pipes_stay_open(busy: str) -> None:
    """The pipes are ours, not the parent's, so nothing but the parent's death can be noticed."""
    between = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen({list(PROGRAM)!r})\n"
        "sys.stderr.write(f'pid {child.pid}\\n'); sys.stderr.flush()\n"
        "time.sleep(600)\n"
    )
    parent = Child(program=(sys.executable, "-c", between))
    try:
        pid = int(parent.errors.read().split()[1])
        occupy(parent.greet(), busy)
        started = time.monotonic()
        parent.process.send_signal(signal.SIGKILL)
        assert gone_within(pid, 20)
        assert time.monotonic() - started < PROMISE
    finally:
        parent.dispose()


def test_a_first_request_that_blocks_does_not_hide_the_end_of_input() -> None:
    """Nothing has been answered yet, so nothing but the watcher can see it."""
    with running() as child:
        params = {"name": "block_loop", "arguments": {}, "_meta": META}
        child.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        child.await_error_line("running block_loop")
        child.close_stdin()
        assert ends_in_time(child) == 0


def test_a_broken_output_ends_the_server_at_the_next_answer() -> None:
    with running() as child:
        child.greet()
        assert child.process.stdout is not None
        child.process.stdout.close()
        child.send(ping(1))
        assert ends_in_time(child) == 0


def test_a_broken_output_is_noticed_without_an_answer() -> None:
    with running() as child:
        child.greet()
        occupy(child, "wait")
        assert child.process.stdout is not None
        child.process.stdout.close()
        assert ends_in_time(child) == 0


def test_finished_answers_are_flushed_at_the_end_of_input() -> None:
    with running() as child:
        child.greet()
        child.send(*(call(n, "big", size=20_000) for n in range(100)))
        child.close_stdin()
        assert [json.loads(one)["id"] for one in child.answers.rest()] == list(range(100))
        assert child.ended() == 0


def test_a_running_call_gets_its_second_at_the_end_of_input() -> None:
    with running() as child:
        child.greet()
        child.send(call("quick", "wait", seconds=0.2), call("slow", "wait", seconds=600))
        child.close_stdin()
        answers = {one["id"]: one for one in map(json.loads, child.answers.rest())}
        assert child.ended() == 0
    assert answers["quick"]["result"]["content"][0]["text"] == "waited"
    assert "stopped" in answers["slow"]["error"]["message"]


def test_open_subscriptions_are_finished_at_the_end_of_input() -> None:
    with running() as child:
        params = {"notifications": {"toolsListChanged": True}, "_meta": META}
        child.send({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params})
        assert child.receive()["method"] == "notifications/subscriptions/acknowledged"
        child.close_stdin()
        assert [json.loads(one)["result"]["resultType"] for one in child.answers.rest()] == ["complete"]
        assert ends_in_time(child) == 0


def test_no_input_at_all_is_an_end_too() -> None:
    with running(stdin=subprocess.DEVNULL) as child:
        assert child.answers.rest() == []
        assert child.ended() == 0


def test_a_reader_of_a_pipeline_gets_everything_after_the_end_of_input() -> None:
    """As in `server < requests | reader`, with a reader that starts late."""
    reader, writer = os.pipe()
    with running(stdout=writer) as child:
        os.close(writer)
        child.send(HELLO, READY, *(call(n, "big", size=50_000) for n in range(10)))
        child.close_stdin()
        answers = Lines(reader)
        assert [json.loads(one)["id"] for one in answers.rest()] == ["hello", *range(10)]
        assert child.ended() == 0
    os.close(reader)


def test_a_signal_during_the_start_is_an_end_too() -> None:
    with running() as child:
        child.write(line(HELLO))
        terminate(child)
        assert child.ended(20) in (0, -signal.SIGTERM)
