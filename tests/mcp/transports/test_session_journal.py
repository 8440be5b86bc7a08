"""The session journal: changes, ends, damage of every kind, and that neither time nor numbers make it grow."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcp.transports.http_served import serving
from zorivest_rpc.mcp.transports.session_journal import SessionJournal, SessionState

KEY = bytes(range(32))
START = 1_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def files(path: Path) -> tuple[Path, Path]:
    return path, path.with_name(path.name + ".copy")


def test_what_changed_and_what_ended_is_there_after_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    journal.remember("one", START + 10, SessionState("error", frozenset({"a", "b"}), frozenset({"tax"})))
    journal.remember("one", START + 10, SessionState("error", frozenset({"b", "c"}), frozenset()))
    journal.remember("two", START + 10, SessionState("debug"))
    journal.end("two", START + 10)
    journal.end("three", START + 10)
    for each in (journal, SessionJournal(path, clock), SessionJournal(path, clock)):
        assert each.get("one") == SessionState("error", frozenset({"b", "c"}))
        assert each.get("two") is None
        assert [each.has_ended(name, START + 10) for name in ("one", "two", "three", "four")] == [0, 1, 1, 0]
        each.close()


def test_a_session_that_ended_is_not_changed_any_more(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    journal.end("one", START + 10)
    journal.remember("one", START + 10, SessionState("debug"))
    journal.close()
    again = SessionJournal(path, clock)
    assert (again.get("one"), again.has_ended("one", START + 10)) == (None, True)
    again.close()


def test_a_change_is_written_and_not_the_whole_set(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = SessionJournal(path, Clock())
    before = path.stat().st_size
    uris = [f"test://{number}/" + "x" * 2_000 for number in range(24)]
    for count in range(1, 25):
        journal.remember("one", START + 10, SessionState(uris=frozenset(uris[:count])))
    journal.remember("one", START + 10, SessionState(uris=frozenset(uris)))  # nothing new, nothing written
    assert path.stat().st_size - before < sum(map(len, uris)) + 24 * 120
    journal.close()


def test_the_journal_of_the_release_before_is_read(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    rows = [
        ["one", START + 10, {"level": "info"}],
        ["one", START + 10, {"level": "error", "uris": ["test://a"], "toolsets": ["tax"]}],
        ["two", START + 10, {"level": "debug"}],
        ["two", START + 10, "dead"],
        ["old", START - 1, "dead"],
    ]
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    for _ in range(2):  # as it was written, and as this release writes it
        journal = SessionJournal(path, clock)
        assert journal.get("one") == SessionState("error", frozenset({"test://a"}), frozenset({"tax"}))
        assert [journal.has_ended(name, START + 10) for name in ("one", "two")] == [False, True]
        assert len(journal) == 2
        journal.close()


@pytest.mark.parametrize("rows", [b'["abc', b"\x00\xff\n", b"{}\n", b'["a",1]\n', b'["a","b","c"]\n', b"\n\n", b"["])
def test_lines_that_are_none_are_passed_over(tmp_path: Path, rows: bytes) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    journal.remember("one", START + 10, SessionState("error"))
    journal.close()
    with path.open("ab") as file:
        file.write(rows)
    again = SessionJournal(path, clock)
    assert again.get("one") == SessionState("error")
    again.end("two", START + 10)
    again.close()
    third = SessionJournal(path, clock)
    assert (third.get("one"), third.has_ended("two", START + 10)) == (SessionState("error"), True)
    third.close()


def _life(path: Path, random: Random, clock: Clock) -> tuple[dict[str, SessionState], set[str]]:
    """A random life of some sessions; what a perfect memory would know of it."""
    journal = SessionJournal(path, clock)
    states: dict[str, SessionState] = {}
    ended: set[str] = set()
    for _ in range(random.randrange(1, 60)):
        name = f"{random.randrange(12):032x}"
        if name in ended:
            continue
        if random.random() < 0.25:
            journal.end(name, START + 100)
            ended.add(name)
            states.pop(name, None)
        else:
            uris = frozenset(f"test://{random.randrange(5)}" for _ in range(random.randrange(4)))
            state = SessionState(random.choice(("info", "error", "debug")), uris, frozenset({"tax"} if uris else ()))
            journal.remember(name, START + 100, state)
            states[name] = state
    journal.close()
    return {name: state for name, state in states.items() if state != SessionState()}, ended


def _damage(data: bytes, random: Random) -> bytes:
    """Cut off, bits turned over, a part lost or doubled, or nothing left."""
    kind, at = random.randrange(6), random.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[at:]
    if kind == 2:
        return data[:at] + data[at + random.randrange(1, 200) :]
    if kind == 3:
        return data[:at] + data[max(0, at - random.randrange(1, 200)) :]
    if kind == 4:
        return b""
    damaged = bytearray(data)
    for _ in range(random.randrange(1, 40)):
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    return bytes(damaged)


@settings(deadline=None, max_examples=300)
@given(seed=st.integers(0, 1 << 32), which=st.integers(0, 1))
def test_damage_to_either_file_loses_nothing(tmp_path_factory: pytest.TempPathFactory, seed: int, which: int) -> None:
    path, random, clock = tmp_path_factory.mktemp("damage") / "journal", Random(seed), Clock()
    states, ended = _life(path, random, clock)
    file = files(path)[which]
    file.write_bytes(_damage(file.read_bytes(), random))
    again = SessionJournal(path, clock)
    for number in range(12):
        name = f"{number:032x}"
        assert again.has_ended(name, START + 100) is (name in ended)
        assert (again.get(name) or SessionState()) == states.get(name, SessionState())
    again.close()


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 1 << 32))
def test_damage_to_both_files_breaks_no_session_that_lives(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    path, random, clock = tmp_path_factory.mktemp("damage") / "journal", Random(seed), Clock()
    _, ended = _life(path, random, clock)
    for file in files(path):
        file.write_bytes(_damage(file.read_bytes(), random))
    again = SessionJournal(path, clock)
    for number in range(12):
        name = f"{number:032x}"
        assert name in ended or not again.has_ended(name, START + 100)
        state = again.get(name) or SessionState()
        assert state.level in ("info", "error", "debug")
        assert all(uri in {f"test://{each}" for each in range(5)} for uri in state.uris)
    again.close()


async def test_a_damaged_journal_revives_no_session_of_a_server(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with serving(key=KEY, journal=path) as served:
        ended, kept = await served.open(), await served.open()
        assert (await served.request("DELETE", Mcp_Session_Id=ended)).status == 204
    path.write_bytes(b"")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serving(key=KEY, journal=path) as served:
        assert [(await served.post(ping, Mcp_Session_Id=id)).status for id in (ended, kept)] == [404, 200]


# --- what age and numbers do


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in files(path))


def test_the_journal_says_each_thing_once_after_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    for number in range(100):
        journal.remember("chatty", START + 100, SessionState(("error", "debug")[number % 2]))
        journal.end(f"short{number}", START + 1)
    journal.close()
    clock.now += 10
    SessionJournal(path, clock).close()
    rows = [json.loads(row.split(b" ", 1)[1]) for row in path.read_bytes().splitlines()]
    assert [row[1] for row in rows] == ["chatty", "floor"]
    assert rows[0][3] == {"is": {"level": "debug", "uris": [], "toolsets": []}}


def test_a_journal_that_is_only_written_does_not_grow_without_end(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    largest = 0
    for number in range(20_000):
        journal.remember("chatty", START + 100, SessionState(("error", "debug")[number % 2]))
        largest = max(largest, path.stat().st_size) if number % 100 == 0 else largest
    assert largest < 500_000
    journal.close()
    again = SessionJournal(path, clock)
    assert again.get("chatty") == SessionState("debug")
    again.close()


def test_an_end_writes_little_however_many_there_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in writes, not in time: a rewrite of all of them at once would be thousands of lines."""
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    counts: list[int] = [0]
    write = os.write

    def counted(descriptor: int, data: bytes) -> int:
        counts[-1] += 1
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    for number in range(5_000):
        journal.remember(f"{number:032x}", START + 100, SessionState("debug"))
        counts.append(0)
        journal.remember(f"{number:032x}", START + 100, SessionState("error"))
        counts.append(0)
        journal.end(f"{number:032x}", START + 100 + number)
        counts.append(0)
    assert max(counts) <= 2 * 64 + 8  # two files; a rewrite copies 64 sessions with each change
    assert sum(counts) < 15_000 * 8
    clock.now += 3_000
    for number in range(20_000):
        journal.end(f"{number + 10_000:032x}", clock.now + 1_000)
    assert _size(path) < 12_000_000
    journal.close()


def test_ends_are_bounded_and_none_of_them_revives(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock, most_ended=1_000)
    journal.remember("known", START + 50, SessionState("debug"))
    names = {f"{number:032x}": START + 100 + number for number in range(5_000)}
    order = list(names)
    Random(7).shuffle(order)
    for name in order:
        journal.end(name, names[name])
    for each in (journal, SessionJournal(path, clock, most_ended=1_000)):
        assert all(each.has_ended(name, expires) for name, expires in names.items())
        assert len(each) <= 1_001
        assert not each.has_ended("new", START + 100 + 6_000)  # younger than all that were dropped
        assert not each.has_ended("known", START + 50)  # older, but something is remembered of it
        assert each.has_ended("old and never heard of", START + 60)
        each.close()
    late = Clock()
    late.now = START + 10_000
    ended = SessionJournal(path, late, most_ended=1_000)
    assert len(ended) == 0
    ended.close()


def test_states_are_bounded_and_the_longest_unchanged_goes_first() -> None:
    journal = SessionJournal(None, Clock(), most_states=100, most_bytes=200_000)
    for number in range(500):
        journal.remember(str(number), START + 100, SessionState("debug"))
    assert [journal.get(str(number)) for number in (0, 399, 400, 499)] == [
        None,
        None,
        SessionState("debug"),
        SessionState("debug"),
    ]
    for number in range(500, 600):
        journal.remember(str(number), START + 100, SessionState(uris=frozenset({"x" * 20_000})))
    assert 5 <= sum(journal.get(str(number)) is not None for number in range(600)) <= 10
    assert journal.get("599") is not None


# --- files


def test_the_journal_and_its_directory_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal"
    journal = SessionJournal(path, Clock())
    for number in range(3_000):  # through a rewrite
        journal.end(f"{number:032x}", START + 10)
    journal.close()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(path)] == [0o600, 0o600]
    assert sorted(each.name for each in path.parent.iterdir()) == ["journal", "journal.copy"]


def test_a_journal_that_cannot_be_written_costs_no_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    full = os.open("/dev/full", os.O_WRONLY)
    assert journal._pair is not None
    good, journal._pair._descriptors = journal._pair._descriptors, [full, full]
    journal.remember("one", START + 10, SessionState("error"))
    journal.end("two", START + 10)
    assert (journal.get("one"), journal.has_ended("two", START + 10)) == (SessionState("error"), True)
    assert caplog.text.count("cannot be written") == 1
    journal._pair._descriptors = good
    journal.end("three", START + 10)
    journal.close()
    os.close(full)
    again = SessionJournal(path, clock)
    assert again.has_ended("three", START + 10)
    again.close()


def test_a_rewrite_that_fails_costs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)

    def fails(*given: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        for number in range(2_100):
            journal.remember("chatty", START + 100, SessionState(("error", "debug")[number % 2]))
    told = [record for record in caplog.records if "cannot be rewritten" in record.message]
    assert 1 <= len(told) <= 3, "the next one is due when as much again has been written"
    for number in range(2_100):
        journal.remember("chatty", START + 100, SessionState(("error", "debug")[number % 2]))
    journal.close()
    again = SessionJournal(path, clock)
    assert again.get("chatty") == SessionState("debug")
    again.close()


def test_a_journal_that_is_closed_during_a_rewrite_leaves_nothing_half_made(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal", Clock()
    journal = SessionJournal(path, clock)
    names = [f"{number:032x}" for number in range(200)]
    for number in range(2_000):
        journal.remember(names[number % 200], START + 100, SessionState(("error", "debug")[number // 200 % 2]))
        if list(tmp_path.glob("*.new")):
            break
    else:
        pytest.fail("no rewrite began")
    known = {name: journal.get(name) for name in names}
    journal.close()
    assert sorted(tmp_path.iterdir()) == sorted(files(path))
    again = SessionJournal(path, clock)
    assert {name: again.get(name) for name in names} == known
    again.close()


def test_a_large_journal_is_rewritten_when_it_has_grown_to_four_times_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zorivest_rpc.mcp.transports.session_journal._REWRITE_BYTES", 1_000)
    replaced: list[int] = []
    replace = os.replace

    def counted(source: Path, target: Path) -> None:
        replaced.append(source.stat().st_size)
        replace(source, target)

    monkeypatch.setattr(os, "replace", counted)
    journal = SessionJournal(tmp_path / "journal", Clock())
    for number in range(5_000):
        journal.remember(f"{number % 500:032x}", START + 100, SessionState(("error", "debug")[number // 500 % 2]))
    journal.close()
    assert 4 <= len(replaced) <= 40  # two files each time
    assert len(replaced) % 2 == 0


def test_what_a_crash_left_of_a_rewrite_is_overwritten_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for file in files(path):
        file.with_name(file.name + ".new").write_bytes(b"left behind\n" * 1_000)
    journal = SessionJournal(path, Clock())
    journal.remember("a", START + 100, SessionState("error"))
    journal.close()
    for file in files(path):
        assert b"left behind" not in file.read_bytes()
