"""stdio frames: bytes in any pieces, lines of any size, and a stdout that carries nothing else."""

from __future__ import annotations

import json
import os
import pty
import random
import socket
import tempfile
import tty
from collections.abc import Iterator
from typing import Any

import pytest

from tests.mcp.transports.stdio_child import HELLO, META, PROGRAM, READY, Child, call, line, ping, running


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    """One server for all tests that leave it as they found it."""
    with running() as started:
        yield started.greet()


def text_of(answer: Any) -> str:
    return str(answer["result"]["content"][0]["text"])


@pytest.mark.parametrize("seed", range(3))
def test_frames_split_anywhere_are_the_same_frames(child: Child, seed: int) -> None:
    chance = random.Random(seed)
    sent = [call(n, "echo", text="é\u2028\u0085 " + "a" * chance.randrange(50)) for n in range(20)]
    data = b"".join(line(message) for message in sent)
    while data:
        size = chance.choice((1, 2, 3, 7, 50, 400))
        child.write(data[:size])
        data = data[size:]
    answers = [child.receive() for _ in sent]
    assert [(one["id"], text_of(one)) for one in answers] == [
        (one["id"], one["params"]["arguments"]["text"]) for one in sent
    ]


def test_crlf_and_blank_lines_do_not_matter(child: Child) -> None:
    child.write(b"\n\r\n\n" + line(ping(1))[:-1] + b"\r\n\n\n" + line(ping(2)))
    first, second = child.receive(), child.receive()
    assert (first["id"], second["id"]) == (1, 2)


def test_unicode_line_ends_stay_inside_their_frame(child: Child) -> None:
    words = "one\u2028two\u2029three\u0085four\x0b\x0c\x1c\x1e"
    child.write(json.dumps(call(3, "echo", text=words), ensure_ascii=False).encode() + b"\n")
    assert text_of(child.receive()) == words


def test_ten_megabytes_pass_in_both_directions(child: Child) -> None:
    words = "w" * 10_000_000
    assert text_of(child.ask(call(4, "echo", text=words))) == words


def test_malformed_lines_are_answered_and_the_stream_goes_on(child: Child) -> None:
    child.write(b"{nonsense\n\xff\xfe\n[]\n42\n" + line(ping(5)))
    answers = [child.receive() for _ in range(5)]
    assert [one.get("error", {}).get("code") for one in answers] == [-32700, -32700, -32600, -32600, None]
    assert all("id" not in one for one in answers[:4])
    assert answers[4]["id"] == 5


def test_a_frame_above_the_limit_gets_one_error_and_the_stream_goes_on() -> None:
    with running("--message-limit", "10000") as child:
        child.greet()
        fits = call(1, "length", text="f" * 9_000)
        child.send(
            fits, call(2, "length", text="b" * 3_000_000), ping(3), call(4, "length", text="b" * 20_000), ping(5)
        )
        answers = [child.receive() for _ in range(5)]
        assert text_of(answers[0]) == "9000"
        assert [one.get("error", {}).get("code") for one in answers] == [None, -32600, None, -32600, None]
        assert "10000" in answers[1]["error"]["message"]
        assert [one["id"] for one in answers if "id" in one] == [1, 3, 5]


def test_whatever_prints_lands_on_stderr_and_children_too() -> None:
    with running() as child:
        child.greet()
        assert text_of(child.ask(call(1, "stray"))) == "done"
        child.close_stdin()
        assert child.answers.rest() == []
        assert child.ended() == 0
        errors = b"\n".join(child.errors.rest()).decode()
    for words in ("print", "write", "original", "warning", "descriptor", "puts", "child"):
        assert f"stray {words}" in errors, words
    assert errors.count("stray child") == 2


def test_children_inherit_neither_end_of_the_protocol() -> None:
    with running() as child:
        child.greet()
        found = child.ask(call(1, "descriptors"))["result"]["structuredContent"]
        pipes = {os.readlink(f"/proc/{child.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{child.pid}/fd")}
        assert child.process.stdin is not None
        assert child.process.stdout is not None
        ours = {os.readlink(f"/proc/self/fd/{end.fileno()}") for end in (child.process.stdin, child.process.stdout)}
    assert ours <= pipes, "the server itself holds both ends"
    assert not any(end in found["child"] or end in found["shell"] for end in ours)
    assert found["own"]["0"] == "/dev/null"
    assert not ours & set(found["own"].values())


def test_a_child_that_reads_stdin_takes_nothing_from_the_client() -> None:
    with running() as child:
        child.greet()
        child.send(call(1, "read_stdin"), ping(2))
        assert text_of(child.receive()) == "''"
        assert child.receive()["id"] == 2


def test_stdin_may_be_a_regular_file() -> None:
    calls = [call(n, "echo", text=f"t{n}") for n in range(500)]
    with tempfile.TemporaryFile() as file:
        file.write(b"".join(line(message) for message in (HELLO, READY, *calls)))
        file.seek(0)
        with running(stdin=file.fileno()) as child:
            answers = [json.loads(one) for one in child.answers.rest()]
            assert child.ended() == 0
    assert [one["id"] for one in answers] == ["hello", *range(500)]


def test_a_regular_file_whose_answers_back_up_is_still_read_in_order() -> None:
    """Answers of 40 KB each, more than the backlog holds: reading pauses and goes on, with one reader all along."""
    lists = [{"jsonrpc": "2.0", "id": n, "method": "tools/list"} for n in range(100)]
    calls = [*lists, *(call(n, "echo", text=f"{n} " + "v" * 3_000) for n in range(100, 500))]
    with tempfile.TemporaryFile() as file:
        sent = (HELLO, READY, call("w", "wait", seconds=0), *calls, call("threads", "threads"))
        file.write(b"".join(line(message) for message in sent))
        file.seek(0)
        with running(stdin=file.fileno()) as child:
            child.await_error_line("running wait")
            answers = [json.loads(one) for one in child.answers.rest()]
            assert child.ended() == 0
    assert [one["id"] for one in answers if one["id"] != "w"] == ["hello", *range(500), "threads"]
    assert answers[-1]["result"]["structuredContent"]["names"].count("stdin") == 1


def test_stdin_and_stdout_may_be_one_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, running(stdin=theirs.fileno(), stdout=theirs.fileno()) as child:
        theirs.close()
        ours.sendall(line(HELLO) + line(READY) + line(ping(7)) + line(call(8, "big", size=3_000_000)))
        ours.shutdown(socket.SHUT_WR)
        child.answers.fd = ours.fileno()
        answers = [json.loads(one) for one in child.answers.rest()]
        assert child.ended() == 0
    assert [one["id"] for one in answers] == ["hello", 7, 8]


def test_stdin_may_be_a_terminal() -> None:
    master, slave = pty.openpty()
    tty.setraw(slave)
    with running(stdin=slave) as child:
        os.close(slave)
        os.write(master, line(HELLO) + line(READY) + line(ping(1)))
        assert child.receive()["id"] == "hello"
        assert child.receive()["id"] == 1
        os.close(master)
        assert child.ended() == 0


def test_a_last_line_without_its_end_is_answered() -> None:
    with running() as child:
        child.greet()
        child.write(line(ping(9))[:-1])
        child.close_stdin()
        assert [json.loads(one)["id"] for one in child.answers.rest()] == [9]
        assert child.ended() == 0


def test_pings_are_answered_while_two_hundred_calls_wait(child: Child) -> None:
    child.send(*(call(f"w{n}", "wait") for n in range(200)), ping("p"))
    assert child.receive()["id"] == "p"
    cancelled = [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"w{n}"}} for n in range(200)
    ]
    child.send(*cancelled, ping("q"))
    assert child.receive()["id"] == "q"
    assert text_of(child.ask(call("after", "echo", text="free"))) == "free"


def test_calls_above_the_limit_are_refused_clearly_and_pings_are_not() -> None:
    with running("--calls-per-client", "3") as child:
        child.greet()
        child.send(*(call(n, "wait") for n in range(4)), ping("p"))
        refused, pong = child.receive(), child.receive()
        assert (refused["id"], pong["id"]) == (3, "p")
        assert refused["error"]["data"] == {"limit": 3, "scope": "client"}


def test_the_command_without_a_verb_serves_stdio_and_the_modern_era_too() -> None:
    with running(program=(PROGRAM[0], "-m", "zorivest_rpc", "--showcase")) as child:
        params = {"name": "echo", "arguments": {"text": "hi"}, "_meta": META}
        found = child.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        assert text_of(found) == "hi"
        assert found["result"]["resultType"] == "complete"
