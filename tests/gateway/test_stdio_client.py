"""An upstream that is a child process: lines, eras, ends, what it inherits, and that it never outlives us."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.fake import IDENTITY, Noted
from tests.places import ROOT
from zorivest_rpc.gateway.child import Ring, choose_environment
from zorivest_rpc.gateway.errors import (
    CallTimeout,
    NoAnswer,
    ProtocolBroken,
    StdioExited,
    StdioSpawn,
    TooLarge,
    UpstreamError,
)
from zorivest_rpc.gateway.stdio_client import StdioUpstream
from zorivest_rpc.gateway.upstream import FRAME_LIMIT, Call, Ended, Result
from zorivest_rpc.mcp.client.caller import Changed, Logged
from zorivest_rpc.mcp.client.forms import Form
from zorivest_rpc.mcp.protocol.revisions import Era

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups and signals of POSIX")
SERVER = str(Path(__file__).parent / "stdio_server.py")
SECONDS = 60.0  # a loaded machine starts a process slowly


def command(mode: str) -> list[str]:
    return [sys.executable, "-I", SERVER, mode]


def child(mode: str = "modern", happenings: Any = None, **options: Any) -> StdioUpstream:
    note = happenings.append if happenings is not None else None
    options = {"environment": choose_environment(os.environ), "seconds": SECONDS, "grace": 20.0, **options}
    return StdioUpstream("files", command(mode), IDENTITY, on_happening=note, **options)


@asynccontextmanager
async def running(mode: str = "modern", happenings: Any = None, **options: Any) -> AsyncIterator[StdioUpstream]:
    client = child(mode, happenings, **options)
    try:
        await client.connect()
        yield client
    finally:
        await client.close()


def do(action: str = "echo", **options: Any) -> Call:
    names = {"text", "size", "kept", "code"}
    arguments = {"do": action, **{name: options.pop(name) for name in names & options.keys()}}
    params = json.dumps({"name": "echo", "arguments": arguments}).encode()
    return Call("tools/call", params, "echo", **{"seconds": SECONDS, **options})


def text_of(result: Result) -> str:
    return str(json.loads(bytes(result.raw))["content"][0]["text"])


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and was not yet reaped does not."""
    state = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (
        ProcessLookupError,
        FileNotFoundError,
    ):  # the file says so, of one that was reaped before or after its opening
        return False


async def gone(*pids: int) -> bool:
    """Whether they end within the time that a loaded machine may need."""
    for _ in range(2000):
        if not any(map(is_alive, pids)):
            return True
        await asyncio.sleep(0.01)
    return False


# --- eras and lines


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_a_child_of_either_era_is_opened_listed_and_called(mode: str) -> None:
    async with running(mode) as client:
        assert client.era_found is Era(mode)
        assert [item.name for item in (await client.list_tools()).items] == ["echo"]
        assert text_of(await client.call(do(text="grüße"))) == "grüße"
        await client.check_health()


async def test_a_child_that_is_silent_before_initialize_is_legacy() -> None:
    async with running("legacy-silent", seconds=6.0) as client:
        assert client.era_found is Era.LEGACY
        client._seconds = SECONDS
        assert text_of(await client.call(do(text="late"))) == "late"


@pytest.mark.parametrize("action", ["bytes", "crlf", "noise"])
async def test_lines_are_read_however_they_come_and_what_is_none_is_passed_over(action: str) -> None:
    async with running() as client:
        assert text_of(await client.call(do(action, text="ok"))) == "ok"
        assert client.caller.strays == (4 if action == "noise" else 0)


async def test_many_calls_run_at_once_and_each_has_its_own_answer() -> None:
    async with running() as client:
        results = await asyncio.gather(*(client.call(do(text=f"t{number}")) for number in range(200)))
    assert [text_of(result) for result in results] == [f"t{number}" for number in range(200)]


async def test_progress_and_log_messages_reach_the_caller() -> None:
    progress: list[Any] = []
    logs: list[Any] = []
    async with running() as client:
        await client.call(do("progress", on_progress=progress.append, on_log=logs.append))
    assert [(step.progress, step.message) for step in progress] == [(1, "m")]
    assert [bytes(told.data) for told in logs] == [b'"words"']


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_a_line_above_the_limit_fails_the_only_call_and_the_child_goes_on(mode: str) -> None:
    async with running(mode) as client:
        with pytest.raises(TooLarge, match=f"more than {FRAME_LIMIT} bytes"):
            await client.call(do("large", size=FRAME_LIMIT, max_bytes=2 * FRAME_LIMIT))
        with pytest.raises(TooLarge):
            await client.call(do("large", size=2000, max_bytes=2000))
        assert text_of(await client.call(do(text="on"))) == "on"


async def test_a_result_that_is_no_object_breaks_the_protocol_at_once() -> None:
    async with running() as client:
        with pytest.raises(ProtocolBroken, match="not an object"):
            await client.call(do("list"))
        with pytest.raises(UpstreamError, match="bad arguments"):
            await client.call(do("error"))


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_a_changed_list_is_told(mode: str) -> None:
    happenings = Noted()
    async with running(mode, happenings) as client:
        assert client.is_following
        assert client.watched.tools_list_changed
        await client.call(do("changed"))
        await happenings.reach(1)
        assert happenings == [Changed("tools")]


# --- questions


async def accept(form: Form) -> Mapping[str, Any]:
    return {"action": "accept", "content": {}}


async def test_a_question_goes_to_the_only_call_there_is() -> None:
    async with running("legacy") as client:
        answer = json.loads(text_of(await client.call(do("ask", ask=accept))))
        assert answer == {"action": "accept", "content": {"branch": "main"}}
        assert json.loads(text_of(await client.call(do("ask")))) == {"action": "cancel"}


async def test_a_question_while_two_calls_run_belongs_to_none() -> None:
    logs = Noted()
    async with running("legacy") as client:
        other = asyncio.create_task(client.call(do("wait", ask=accept, on_log=logs.append)))
        await logs.reach(1)
        assert json.loads(text_of(await client.call(do("ask", ask=accept)))) == {"action": "cancel"}
        other.cancel()
        with pytest.raises(asyncio.CancelledError):
            await other


# --- cancellation


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_a_withdrawn_call_is_told_to_the_child(mode: str) -> None:
    happenings, logs = Noted(), Noted()
    async with running(mode, happenings) as client:
        task = asyncio.create_task(client.call(do("wait", on_log=logs.append)))
        await logs.reach(1)
        id = next(request.id for request in client.caller.pending.values() if request.method == "tools/call")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await happenings.reach(1)
        assert isinstance(happenings[0], Logged)
        assert bytes(happenings[0].told.data) == str(id).encode()
        with pytest.raises(CallTimeout):
            await client.call(do("wait", seconds=0.1))


# --- the end of a child


@pytest.mark.parametrize("kept", [0, 1, 20, 60])
async def test_open_calls_fail_when_the_child_ends_in_the_middle_of_a_message(kept: int) -> None:
    happenings = Noted()
    async with running("modern", happenings) as client:
        waiting = asyncio.create_task(client.call(do("wait")))
        with pytest.raises(StdioExited) as failed:
            await client.call(do("exit", kept=kept))
        with pytest.raises(StdioExited):
            await waiting
        assert (failed.value.status, failed.value.sent) == (3, True)
        await happenings.reach(1)
        assert happenings == [Ended(3)]
        assert client.stderr == "last words\n"
        with pytest.raises(StdioExited) as later:
            await client.call(do())
        assert later.value.sent is False
        assert client.caller.pending == {}
        await client.connect()
        assert text_of(await client.call(do(text="again"))) == "again"


async def test_a_call_that_finds_the_child_ended_waits_for_its_last_words() -> None:
    async with running() as client:
        await client.call(do("late"))
        async with asyncio.timeout(SECONDS):
            while client.pid is not None:  # noqa: ASYNC110 - its exit alone is no event to wait for
                await asyncio.sleep(0)
        with pytest.raises(StdioExited) as failed:
            await client.call(do())
        assert (failed.value.status, failed.value.sent) == (3, False)
        assert client.stderr == "last words\n"


UNUSABLE = """
import json, os, time
id = json.loads(input())["id"]
print(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": f"of {os.getpid()}", "capabilities": {}}}))
time.sleep(900)
"""


async def test_a_child_that_cannot_be_talked_to_is_ended_at_once() -> None:
    command = [sys.executable, "-u", "-c", UNUSABLE]
    client = StdioUpstream("files", command, IDENTITY, environment={}, seconds=SECONDS, era=Era.LEGACY)
    with pytest.raises(ProtocolBroken) as failed:
        await client.connect()
    pid = re.search(r"of (\d+)", failed.value.problem)
    assert pid is not None
    assert await gone(int(pid.group(1)))
    assert client.pid is None
    await client.close()


async def test_a_child_that_stops_listening_is_ended() -> None:
    async with running("legacy") as client:
        with pytest.raises(StdioExited):
            await client.call(do("deaf"))


async def test_the_signal_that_ended_a_child_is_told() -> None:
    happenings = Noted()
    async with running("modern", happenings) as client:
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        await happenings.reach(1)
        assert happenings == [Ended(-signal.SIGKILL)]
        assert client.pid is None


async def test_a_child_that_closes_its_stdout_is_ended() -> None:
    happenings = Noted()
    async with running("modern", happenings) as client:
        with pytest.raises(StdioExited):
            await client.call(do("close"))


async def test_a_child_that_is_gone_at_once_is_told() -> None:
    client = StdioUpstream("files", [sys.executable, "-c", "raise SystemExit(4)"], IDENTITY, environment={})
    with pytest.raises(StdioExited) as failed:
        await client.connect()
    await client.close()
    assert failed.value.status == 4


async def test_a_child_that_never_answers_is_told_with_its_time() -> None:
    client = StdioUpstream(
        "files", [sys.executable, "-c", "input()"], IDENTITY, environment={}, seconds=0.3, era=Era.LEGACY
    )
    with pytest.raises((NoAnswer, StdioExited)):
        await client.connect()
    await client.close()


@pytest.mark.parametrize(
    ("words", "options", "reason"),
    [
        (["/no/such/program"], {}, 'no program "/no/such/program"'),
        ([sys.executable], {"cwd": "/no/such/directory"}, 'no directory "/no/such/directory"'),
        ([str(Path(__file__))], {}, "may not be run"),
        (["a\0b"], {}, "null byte"),
    ],
)
async def test_a_child_that_cannot_be_started_is_told_why(words: list[str], options: Any, reason: str) -> None:
    client = StdioUpstream("files", words, IDENTITY, environment={}, **options)
    with pytest.raises(StdioSpawn) as failed:
        await client.connect()
    await client.close()
    assert reason in failed.value.problem


# --- ending it


async def test_a_child_that_heeds_the_end_of_its_stdin_is_not_signalled() -> None:
    async with running() as client:
        pid = client.pid
        assert pid is not None
    assert await gone(pid)
    assert client._child is not None
    assert client._child.status == 0


@pytest.mark.parametrize(("mode", "status"), [("polite", 7), ("stubborn", -signal.SIGKILL)])
async def test_a_child_that_does_not_is_asked_and_then_ended(mode: str, status: int) -> None:
    async with running(mode, grace=0.5 if mode == "stubborn" else 1.0) as client:
        pid = client.pid
        assert pid is not None
    assert await gone(pid)
    assert client._child is not None
    assert client._child.status in (status, -signal.SIGKILL)


async def test_the_server_behind_a_wrapper_is_ended_with_it() -> None:
    async with running("wrapper", grace=0.3) as client:
        pid = json.loads(text_of(await client.call(do("where"))))[1]
        assert pid != client.pid
    assert await gone(pid)


# --- what it inherits


@pytest.mark.one_journal("counts the variables of a child, to which the switch itself adds two")
async def test_a_child_gets_four_variables_and_those_that_were_named() -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/h",
        "LANG": "C",
        "TMPDIR": "/t",
        "NAMED": "n",
        "ZORIVEST_API_KEY": "s3cret",
        "OPS_TOKEN": "s3cret",
        "LD_PRELOAD": "",
        "PYTHONPATH": "/p",
    }
    async with running(environment=choose_environment(environ, ["NAMED", "ABSENT"])) as client:
        found = json.loads(text_of(await client.call(do("environment"))))
    found.pop("LC_CTYPE", None)  # Python sets it itself where the locale is C
    assert found == {"PATH": os.environ["PATH"], "HOME": "/h", "LANG": "C", "TMPDIR": "/t", "NAMED": "n"}


async def test_a_child_leads_a_group_of_its_own_in_its_directory(tmp_path: Path) -> None:
    async with running(cwd=str(tmp_path)) as client:
        cwd, pid, group, session = json.loads(text_of(await client.call(do("where"))))
        assert (pid, group, session) == (client.pid, client.pid, client.pid)
        assert os.path.samefile(cwd, tmp_path)  # noqa: ASYNC240
    assert group != os.getpgid(0)


async def test_the_end_of_stderr_is_kept() -> None:
    async with running() as client:
        with pytest.raises(StdioExited):
            await client.call(do("stderr", size=200_000))
        assert client.stderr == "e" * (64 * 1024 - 7) + "THE END"


def test_a_ring_keeps_the_last_bytes() -> None:
    ring = Ring(4)
    for data in (b"ab", b"c", b"", b"defghij", b"k"):
        ring.write(data)
    assert ring.text == "hijk"


# --- it never outlives us

PARENT = """
import asyncio, os, sys
from zorivest_rpc.gateway.child import choose_environment
from zorivest_rpc.gateway import child, stdio_client
from zorivest_rpc.mcp.client.caller import Identity
from zorivest_rpc.gateway.upstream import Call

if sys.argv[2] == "watchdog":
    stdio_client.tie_to_parent = lambda: None
elif sys.argv[2] == "signal":
    child._SHELL = "/no/shell"

async def main():
    command = [sys.executable, "-I", sys.argv[1], sys.argv[3]]
    client = stdio_client.StdioUpstream("c", command, Identity("a", "1"), environment=choose_environment(os.environ))
    await client.connect()
    where = await client.call(Call("tools/call", b'{"name":"echo","arguments":{"do":"where"}}', "echo"))
    print(bytes(where.raw).decode(), client.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("means", "mode"),
    [
        pytest.param(
            "signal", "stubborn", marks=pytest.mark.skipif(sys.platform != "linux", reason="a signal of Linux")
        ),
        ("watchdog", "stubborn"),
        ("both", "stubborn"),
        ("both", "wrapper"),
    ],
)
async def test_a_child_that_ignores_every_hint_dies_with_us(means: str, mode: str) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, SERVER, means, mode),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    try:
        line = await parent.stdout.readline()
        result, _, wrapper = line.decode().rpartition(" ")
        server = json.loads(json.loads(result)["content"][0]["text"])[1]
        assert is_alive(server)
    finally:
        parent.kill()
        await parent.wait()
    assert await gone(server, int(wrapper))
