"""A client that sends and never reads: the server holds a bounded amount for it, and loses nothing."""

from __future__ import annotations

import json
import os
import threading

from tests.mcp.transports.stdio_child import LONG, call, line, ping, rss_kib, running

SLACK_KIB = 64 * 1024  # what a flood may cost at most


def feed(fd: int, data: bytes, progress: list[int], stuck: threading.Event) -> None:
    """Write from a thread, as it blocks when the server stops reading; `stuck` is set when it has blocked once."""
    os.set_blocking(fd, False)
    import select

    view = memoryview(data)
    while view:
        try:
            written = os.write(fd, view)
        except BlockingIOError:
            if not select.select([], [fd], [], 1.0)[1]:
                stuck.set()
            continue
        except OSError:
            return
        progress[0] += written
        view = view[written:]
    stuck.set()


def test_a_flood_that_nobody_reads_is_bounded_and_nothing_is_lost() -> None:
    """Each request of 50 bytes has an answer of 40 000: taken all at once they would be 200 MB."""
    count = 5_000
    with running() as child:
        child.greet()
        child.ask({"jsonrpc": "2.0", "id": "warm", "method": "tools/list"})
        before = rss_kib(child.pid)
        data = b"".join(line({"jsonrpc": "2.0", "id": n, "method": "tools/list"}) for n in range(count))
        assert child.process.stdin is not None
        progress, stuck = [0], threading.Event()
        writer = threading.Thread(target=feed, args=(child.process.stdin.fileno(), data, progress, stuck))
        writer.start()
        assert stuck.wait(LONG)
        assert rss_kib(child.pid) - before < SLACK_KIB
        for expected in range(count):
            found = child.answers.read()
            assert found.startswith(b'{"jsonrpc":"2.0","id":%d,' % expected), found[:80]
        writer.join(LONG)
        assert progress[0] == len(data)
        os.set_blocking(child.process.stdin.fileno(), True)
        assert child.ask(ping("after"))["id"] == "after"
        assert rss_kib(child.pid) - before < SLACK_KIB


def test_reading_stops_while_nobody_takes_the_answers() -> None:
    with running() as child:
        child.greet()
        data = b"".join(line(call(n, "echo", text="e" * 2_000)) for n in range(10_000))
        assert child.process.stdin is not None
        progress, stuck = [0], threading.Event()
        writer = threading.Thread(target=feed, args=(child.process.stdin.fileno(), data, progress, stuck))
        writer.start()
        assert stuck.wait(LONG)
        assert progress[0] < len(data) / 2
        answers = [json.loads(child.answers.read())["id"] for _ in range(10_000)]
        writer.join(LONG)
        assert answers == list(range(10_000))


def test_progress_that_nobody_reads_is_dropped_and_the_answer_is_not() -> None:
    """100 MB of progress; what cannot be sent is left out, in order, and the answer still comes."""
    with running() as child:
        child.greet()
        before = rss_kib(child.pid)
        child.send(call("c", "chatter", "token", count=100_000))
        child.await_error_line("finished chatter")
        assert rss_kib(child.pid) - before < SLACK_KIB
        seen = -1
        while (found := child.receive()).get("id") != "c":
            assert found["params"]["progress"] > seen
            seen = found["params"]["progress"]
        assert 0 < seen < 100_000
        assert child.ask(ping("after"))["id"] == "after"
