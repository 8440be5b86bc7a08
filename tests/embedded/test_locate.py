"""Looking for the backend of a directory and starting one: the command, its failures, and other releases in the way."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zorivest_rpc import __version__
from zorivest_rpc.embedded import locate, process
from zorivest_rpc.embedded.disk.filelock import FileLock
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.link import LocalAddress
from zorivest_rpc.embedded.locate import BackendStartError, Located, describe_holder, find_or_start, stored_key
from zorivest_rpc.embedded.process import Options, run
from zorivest_rpc.embedded.runtime import GENERATION, Runtime, publish
from zorivest_rpc.embedded.vault.crypto import new_api_key

ME = os.getpid()
ADDRESS = LocalAddress(None, 9, "00")
HERE = Path(locate.__file__).resolve().parents[2]


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "home").create()


class Child:
    """In place of a process that is started: writes its last words and ends with a code, or runs on."""

    made: list[Child]
    codes: list[int | None]
    words: str

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options, self.pid = command, options, 1000 + len(Child.made)
        self.log = Path(os.readlink(f"/proc/self/fd/{options['stderr'].fileno()}"))
        options["stderr"].write(Child.words.encode())
        self.code = Child.codes.pop(0) if Child.codes else None
        Child.made.append(self)

    def poll(self) -> int | None:
        return self.code

    def wait(self) -> None:
        pass


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> type[Child]:
    Child.made, Child.codes, Child.words = [], [], ""
    monkeypatch.setattr(subprocess, "Popen", Child)
    return Child


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the looks for a backend find, one after the other; then nothing."""

    def prepare(*found: Located | None) -> None:
        answers = list(found)
        monkeypatch.setattr(locate, "find", lambda root: answers.pop(0) if answers else None)

    prepare()
    return prepare


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="/proc names the open file")


# --- the look


class Line:
    """In place of a connection: notes what is done with it, and fails where it should."""

    made: list[tuple[LocalAddress, float, list[str]]]
    failure: Exception | None

    def __init__(self, address: LocalAddress, timeout: float) -> None:
        self.done: list[str] = []
        Line.made.append((address, timeout, self.done))

    def connect(self) -> None:
        self.done.append("connect")
        if Line.failure is not None:
            raise Line.failure

    def close(self) -> None:
        self.done.append("close")


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> type[Line]:
    Line.made, Line.failure = [], None
    monkeypatch.setattr(locate, "BackendConnection", Line)
    return Line


def test_what_is_published_counts_once_it_has_proved_itself(directory: DataDir, line: type[Line]) -> None:
    assert locate.find(directory.root) is None
    directory.runtime.write_text(_text(runtime(generation=1)))
    assert (locate.find(directory.root), line.made) == (None, [])  # it cannot prove itself, so it is not asked
    publish(directory, runtime(pid=77)._replace(port=9))
    address = LocalAddress(None, 9, "00" * 32)
    assert locate.find(directory.root) == Located(address, 77, False)
    assert line.made == [(address, 2.0, ["connect", "close"])]


@pytest.mark.parametrize("failure", [ConnectionRefusedError(), http.client.BadStatusLine("x"), TimeoutError()])
def test_what_does_not_prove_itself_is_not_there(directory: DataDir, line: type[Line], failure: Exception) -> None:
    publish(directory, runtime(pid=77)._replace(port=9))
    line.failure = failure
    assert locate.find(directory.root) is None
    assert line.made[0][2] == ["connect", "close"]


@pytest.mark.parametrize(("word", "used"), [(None, True), ("on", True), ("off", False)])
def test_the_keyring_is_asked_unless_it_is_off(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch, word: str | None, used: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(locate, "read_key", lambda where, *, use_keyring: asked.append(use_keyring))
    stored_key(directory.root, {} if word is None else {"ZORIVEST_KEYRING": word})
    assert asked == [used]


# --- the start


@needs_proc
@pytest.mark.parametrize(("port", "words"), [(None, []), (0, ["--port", "0"]), (8765, ["--port", "8765"])])
@pytest.mark.parametrize(("outside", "path"), [({}, str(HERE)), ({"PYTHONPATH": "/x"}, f"{HERE}{os.pathsep}/x")])
def test_the_process_is_started_apart_with_this_very_package(
    directory: DataDir,
    child: type[Child],
    finds: Callable[..., None],
    port: int | None,
    words: list[str],
    outside: dict[str, str],
    path: str,
) -> None:
    finds(None, None, None, Located(ADDRESS, 1000, False))
    environ = {"HOME": "/h", **outside}
    assert find_or_start(directory.root, port=port, idle_exit=7, environ=environ) == (ADDRESS, 1000, True)
    (made,) = child.made
    assert made.command[1:] == [
        *("-P", "-m", "zorivest_rpc.cli.backend", "--detached", "--generation", str(GENERATION)),
        *("--data-dir", str(directory.root), "--idle-exit", "7", *words),
    ]
    assert made.log == directory.logs / "startup.log"
    assert made.log.stat().st_mode & 0o777 == 0o600
    del made.options["stderr"]
    assert made.options == {
        "env": {"HOME": "/h", "PYTHONPATH": path},
        "cwd": directory.root,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "start_new_session": True,
        "creationflags": 0,
    }
    assert environ == {"HOME": "/h", **outside}


@needs_proc
def test_a_backend_that_another_caller_started_is_not_this_callers(
    directory: DataDir, child: type[Child], finds: Callable[..., None]
) -> None:
    finds(None, None, Located(ADDRESS, 77, False))
    assert find_or_start(directory.root, environ={}) == (ADDRESS, 77, False)
    finds(Located(ADDRESS, 77, False))
    assert find_or_start(directory.root, environ={}) == (ADDRESS, 77, False)
    finds(None, Located(ADDRESS, 77, False))  # between the look and the lock
    assert find_or_start(directory.root, environ={}) == (ADDRESS, 77, False)
    assert len(child.made) == 1
    assert FileLock(directory.start_lock).acquire()  # released each time


@needs_proc
@pytest.mark.usefixtures("finds")
@pytest.mark.parametrize(
    ("words", "reason"), [("one\ntwo\nlast words\n\n", "last words"), ("", "exit code 3"), (" \n", "exit code 3")]
)
def test_the_last_words_of_a_process_that_ended_are_told(
    directory: DataDir, child: type[Child], words: str, reason: str
) -> None:
    log = directory.logs / "startup.log"
    log.write_text("words of the start before\n")
    child.codes, child.words = [3], words
    with pytest.raises(BackendStartError) as told:
        find_or_start(directory.root, environ={})
    assert str(told.value) == f"The embedded backend did not start: {reason} (see {log})."


@needs_proc
@pytest.mark.usefixtures("finds")
@pytest.mark.parametrize(("free", "told"), [(64 * 1024 - 1, True), (64 * 1024, False)])
def test_a_disk_without_room_is_the_reason(
    directory: DataDir, child: type[Child], monkeypatch: pytest.MonkeyPatch, free: int, told: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    child.codes = [1]
    with pytest.raises(BackendStartError) as error:
        find_or_start(directory.root, environ={})
    assert (f"no room is left on the disk of {directory.root}" in str(error.value)) is told


@needs_proc
def test_a_process_that_met_another_backend_is_followed_by_a_second(
    directory: DataDir, child: type[Child], finds: Callable[..., None]
) -> None:
    child.codes = [0, None]
    finds(None, None, None, Located(ADDRESS, 1001, False))
    assert find_or_start(directory.root, environ={}).started
    assert len(child.made) == 2


@needs_proc
@pytest.mark.parametrize(("before", "after"), [(256 * 1024, 256 * 1024), (256 * 1024 + 1, 0)])
def test_the_log_of_starts_begins_anew_above_its_limit(
    directory: DataDir, child: type[Child], finds: Callable[..., None], before: int, after: int
) -> None:
    log = directory.logs / "startup.log"
    log.write_bytes(b"x" * before)
    finds(None, None, Located(ADDRESS, 1000, False))
    find_or_start(directory.root, environ={})
    assert log.stat().st_size == after


@needs_proc
@pytest.mark.usefixtures("finds")
def test_a_process_that_does_not_answer_is_given_up(directory: DataDir, child: type[Child]) -> None:
    with pytest.raises(BackendStartError) as told:
        find_or_start(directory.root, environ={}, timeout=-1)
    assert str(told.value) == (
        f"The embedded backend of {directory.root} did not answer in time; see {directory.logs}."
    )
    assert len(child.made) == 1


@pytest.mark.usefixtures("finds")
def test_of_a_start_by_another_caller_that_hangs_the_process_is_named(directory: DataDir, child: type[Child]) -> None:
    with FileLock(directory.start_lock) as other:
        assert other.acquire()
        with pytest.raises(BackendStartError, match=f"is being started by process {ME} and did not answer in time"):
            find_or_start(directory.root, environ={}, timeout=-1)
    assert child.made == []


@needs_proc
@pytest.mark.parametrize(
    ("text", "seconds"), [(None, "900.0"), ("", "900.0"), ("0", "0.0"), ("5", "5.0"), ("0.5", "0.5")]
)
def test_the_idle_time_is_the_environments_or_a_quarter_of_an_hour(
    directory: DataDir, child: type[Child], finds: Callable[..., None], text: str | None, seconds: str
) -> None:
    finds(None, None, Located(ADDRESS, 1000, False))
    find_or_start(directory.root, environ={} if text is None else {"ZORIVEST_IDLE_EXIT": text})
    command = child.made[0].command
    assert command[command.index("--idle-exit") + 1] == seconds


@pytest.mark.parametrize("text", ["-1", "inf", "nan", "soon"])
def test_an_idle_time_that_is_none_is_refused(directory: DataDir, child: type[Child], text: str) -> None:
    with pytest.raises(BackendStartError, match=f"ZORIVEST_IDLE_EXIT: '{text}' is not a number of seconds"):
        find_or_start(directory.root, environ={"ZORIVEST_IDLE_EXIT": text})
    assert child.made == []


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path, child: type[Child]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendStartError, match=r"The data directory .*home cannot be used: Not a directory"):
        find_or_start(tmp_path / "file" / "home", environ={})
    assert child.made == []


@pytest.mark.usefixtures("finds")
@pytest.mark.parametrize(
    ("failure", "why"), [(OSError(28, "No space left on device"), "No space left on device"), (OSError("x"), "x")]
)
def test_a_start_that_the_disk_refuses_says_why(
    directory: DataDir, child: type[Child], monkeypatch: pytest.MonkeyPatch, failure: OSError, why: str
) -> None:
    def acquire(lock: FileLock) -> bool:
        raise failure

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with pytest.raises(BackendStartError) as told:
        find_or_start(directory.root, environ={})
    assert str(told.value) == f"The embedded backend of {directory.root} cannot be started: {why}."
    assert child.made == []


def test_the_key_is_the_callers_own_before_the_stored_one(directory: DataDir) -> None:
    stored, own = new_api_key(), new_api_key()
    off = {"ZORIVEST_KEYRING": "off"}
    assert stored_key(directory.root, off) is None
    directory.key_file.write_text(stored)
    assert stored_key(directory.root, off) == stored
    assert stored_key(directory.root, {**off, "ZORIVEST_API_KEY": own}) == own
    assert stored_key(directory.root, {**off, "ZORIVEST_API_KEY": ""}) == stored


# --- other releases


def runtime(
    release: str = __version__, *, generation: int = GENERATION, pid: int = ME, detached: bool = True
) -> Runtime:
    return Runtime(generation, release, pid, None, "00" * 32, "2026", detached)


@pytest.fixture
def held(directory: DataDir) -> Iterator[FileLock]:
    """The directory has a backend: this process."""
    with FileLock(directory.process_lock) as lock:
        assert lock.acquire()
        yield lock


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


@needs_proc
def test_an_older_backend_is_asked_to_end_and_waited_for(
    directory: DataDir, held: FileLock, child: type[Child], finds: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(directory, runtime("0.0.9"))
    sent: list[tuple[int, int]] = []
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        assert child.made == []  # never two backends
        if len(paused) == 3:
            held.release()

    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    monkeypatch.setattr(time, "sleep", pause)
    old = Located(ADDRESS, ME, False)
    finds(old, old, Located(ADDRESS, 1000, False))
    publish(directory, runtime("0.0.9"))
    assert find_or_start(directory.root, environ={}).pid == 1000
    assert (sent, len(paused)) == ([(ME, signal.SIGTERM)], 3)


@pytest.mark.usefixtures("finds", "held")
def test_an_older_backend_that_does_not_end_is_named(
    directory: DataDir, child: type[Child], killed: list[tuple[int, int]]
) -> None:
    publish(directory, runtime("0.0.9"))
    with pytest.raises(BackendStartError, match=rf"of an older release and does not end \(process {ME}\); end it"):
        find_or_start(directory.root, environ={}, timeout=-1)
    assert (killed, child.made) == ([(ME, signal.SIGTERM)], [])


@pytest.mark.usefixtures("finds", "held")
@pytest.mark.parametrize("found", [runtime("0.0.9", detached=False), runtime("", generation=1, detached=False)])
def test_an_older_backend_that_a_person_started_is_left_and_named(
    directory: DataDir, child: type[Child], killed: list[tuple[int, int]], found: Runtime
) -> None:
    directory.runtime.write_text(_text(found))
    with pytest.raises(BackendStartError, match=rf"holds .* \(process {ME}\), and it was started by hand. Restart it"):
        find_or_start(directory.root, environ={})
    assert (killed, child.made) == ([], [])


def _text(found: Runtime) -> str:
    if found.generation == 1:
        return json.dumps({"port": 1, "pid": found.pid, "instance_id": "older", "started_at": "2026"})
    return json.dumps(found._asdict())


DETACHED = "python -P -m zorivest_rpc.cli.backend --detached --data-dir d"
COMMANDS = [
    (DETACHED, True),
    (DETACHED.replace(" --detached", ""), False),  # of a person
    (DETACHED.replace("zorivest_rpc.cli.backend", "another"), False),  # a number that was given to another program
    ("", False),
    (None, False),  # it cannot be learnt
]


@pytest.mark.usefixtures("finds", "held", "child")
@pytest.mark.parametrize("way", ["proc", "ps"])
@pytest.mark.parametrize(("command", "ended"), COMMANDS)
def test_of_release_0_1_only_what_a_server_started_is_ended(
    directory: DataDir,
    killed: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    command: str | None,
    ended: bool,
) -> None:
    """Release 0.1 wrote nothing down, so its command line tells."""
    directory.runtime.write_text(_text(runtime(generation=1)))
    plain = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path != Path(f"/proc/{ME}/cmdline"):
            return plain(path)
        if way == "ps" or command is None:
            raise FileNotFoundError
        return command.replace(" ", "\0").encode()

    def ps(words: list[str], *, capture_output: bool, text: bool, **options: Any) -> Any:
        assert (words, capture_output, text) == (["ps", "-o", "args=", "-p", str(ME)], True, True)
        if command is None:
            raise FileNotFoundError("ps")
        return SimpleNamespace(stdout=command + "\n")

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    monkeypatch.setattr(subprocess, "run", ps)
    with pytest.raises(BackendStartError, match="does not end" if ended else "started by hand"):
        find_or_start(directory.root, environ={}, timeout=-1)
    assert killed == ([(ME, signal.SIGTERM)] if ended else [])


@pytest.mark.usefixtures("finds", "held")
@pytest.mark.parametrize("found", [runtime("99.0"), runtime(generation=GENERATION + 1)])
def test_a_server_that_is_older_than_the_backend_is_told_to_restart_and_starts_none(
    directory: DataDir, child: type[Child], killed: list[tuple[int, int]], found: Runtime
) -> None:
    publish(directory, found)
    with pytest.raises(BackendStartError, match=rf"\(process {ME}\), newer than this server .* Restart this server"):
        find_or_start(directory.root, environ={})
    assert (killed, child.made) == ([], [])


@needs_proc
@pytest.mark.parametrize("found", [runtime("99.0"), runtime("0.0.9"), runtime("0.0.9", detached=False)])
def test_what_a_dead_backend_of_another_release_left_hinders_no_start(
    directory: DataDir,
    child: type[Child],
    finds: Callable[..., None],
    killed: list[tuple[int, int]],
    found: Runtime,
) -> None:
    publish(directory, found)
    finds(None, None, Located(ADDRESS, 1000, False))
    assert find_or_start(directory.root, environ={}).started
    assert (killed, len(child.made)) == ([], 1)


HOLDERS: list[tuple[Runtime | None, str]] = [
    (None, "process {me} holds {lock} and does not answer: end it"),
    (runtime(pid=ME + 1), "process {me} holds {lock} and does not answer: end it"),
    (runtime(), "the backend of {root} does not answer (process {me}): end it"),
    (
        runtime("", generation=1),
        "a backend of an older release holds {root} (process {me}): restart it with this release",
    ),
    (runtime("0.0.9"), "a backend of an older release holds {root} (process {me}): restart it with this release"),
    (
        runtime("99.0"),
        "the journal in {root} is open in release 99.0 of zorivest-rpc (process {me}), newer than this one "
        "({release}): use that release",
    ),
]


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize(("found", "words"), HOLDERS)
async def test_a_second_backend_says_which_process_holds_the_directory(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch, found: Runtime | None, words: str
) -> None:
    if found is not None:
        directory.runtime.write_text(_text(found))
    monkeypatch.setattr(process, "_LOCK_PATIENCE", -1.0)
    monkeypatch.setattr(process, "find", lambda root: None)
    monkeypatch.setattr(os, "umask", lambda mask: 0)  # of this process, which goes on
    monkeypatch.setattr(process, "forbid_core_dumps", lambda: None)
    said: list[str] = []
    assert await run(Options(directory.root), said.append) == 1
    facts = {"me": ME, "lock": directory.process_lock, "root": directory.root, "release": __version__}
    assert said == [words.format(**facts)]
    assert not directory.database.exists()


def test_a_holder_that_wrote_no_number_is_another_process(directory: DataDir, held: FileLock) -> None:
    directory.process_lock.write_text("")
    assert describe_holder(directory) == f"another process holds {directory.process_lock} and does not answer"


@pytest.mark.usefixtures("held")
async def test_a_second_backend_names_the_first_and_ends_well(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "find", lambda root: Located(ADDRESS, 77, False))
    monkeypatch.setattr(os, "umask", lambda mask: 0)
    monkeypatch.setattr(process, "forbid_core_dumps", lambda: None)
    said: list[str] = []
    assert await run(Options(directory.root), said.append) == 0
    assert said == ["already running: http://127.0.0.1:9/api/v1 (pid 77)"]
