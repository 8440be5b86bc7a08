"""What is remembered of legacy sessions beside their ids: what each changed since its start, and which have ended.

Rule 1: a change is one short line, whatever else the session has; nothing is written as a whole but at a rewrite.
Rule 2: every line has a checksum and is written to two files, so damage to either revives no session that has ended and
changes none that lives. What is lost in both is lost alone: such a session goes on from its id.
Rule 3: the work of one change is bounded. Old lines are dropped by a rewrite that goes on a little with each change.
Rule 4: memory is bounded. Beyond the limit of ended sessions the ones that would expire first are dropped, and from
then on an id that expires before them counts as ended, unless something is remembered of it.

Appending is a write without fsync: it survives the death of the process, not of the machine.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from zorivest_rpc.mcp.protocol.jsonrpc import Json
from zorivest_rpc.mcp.protocol.types import LEVELS

__all__ = ["SessionJournal", "SessionState"]

log: Final = logging.getLogger("zorivest_rpc")
_DEAD: Final = "dead"
_FLOOR: Final = "floor"  # stands where a line has a session's name
_REWRITE_AT: Final = 1_000  # lines
_REWRITE_BYTES: Final = 16 << 20
_STEP: Final = 64  # sessions that a rewrite copies with each change
_OVERHEAD: Final = 300  # bytes of memory for a state, beside its texts
_MEMBERS: Final = ("uris", "toolsets")


class SessionState(msgspec.Struct, frozen=True):
    """What a session changed since it was opened; the default is what its id alone gives."""

    level: str | None = "info"
    uris: frozenset[str] = frozenset()
    toolsets: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        return _OVERHEAD + sum(map(len, self.uris)) + sum(map(len, self.toolsets))


class SessionJournal:
    """By name of a session. Without a path it lives in memory alone."""

    def __init__(
        self,
        path: Path | None,
        now: Callable[[], float],
        *,
        most_ended: int = 100_000,
        most_states: int = 20_000,
        most_bytes: int = 32 << 20,
    ) -> None:
        self._now = now
        self._most_ended = most_ended
        self._most_states = most_states
        self._most_bytes = most_bytes
        self._states: dict[str, tuple[float, SessionState]] = {}
        self._bytes = 0
        self._ended: dict[str, float] = {}
        self._soonest: list[tuple[float, str]] = []  # a heap of what is in `_ended`
        self._floor = 0.0
        self._sequence = 0
        self._pair = _Pair(path) if path is not None else None
        self._rewrite: _Rewrite | None = None
        if path is not None:
            self._read(path)
            self._prune()
            while self._rewrite_some(len(self)):  # at the start there is no loop to hold up
                pass

    def __len__(self) -> int:
        return len(self._states) + len(self._ended)

    def get(self, name: str) -> SessionState | None:
        known = self._states.get(name)
        return None if known is None else known[1]

    def has_ended(self, name: str, expires: float) -> bool:
        return name in self._ended or (expires <= self._floor and name not in self._states)

    def remember(self, name: str, expires: float, state: SessionState) -> None:
        """Write what is new about it; nothing where nothing is."""
        changes = _changes(self.get(name) or SessionState(), state)
        if changes and name not in self._ended:
            self._keep(name, expires, state)
            self._append(name, expires, changes)

    def end(self, name: str, expires: float) -> None:
        if name not in self._ended:
            self._bury(name, expires)
            self._append(name, expires, _DEAD)
            self._prune()

    def close(self) -> None:
        if self._rewrite is not None:
            self._rewrite.abandon()
            self._rewrite = None
        if self._pair is not None:
            self._pair.close()

    # --- in memory

    def _keep(self, name: str, expires: float, state: SessionState) -> None:
        self._drop(name)
        self._states[name] = (expires, state)
        self._bytes += state.size
        while len(self._states) > self._most_states or (self._bytes > self._most_bytes and len(self._states) > 1):
            self._drop(next(iter(self._states)))  # the longest unchanged: it goes on from its id

    def _drop(self, name: str) -> None:
        known = self._states.pop(name, None)
        if known is not None:
            self._bytes -= known[1].size

    def _bury(self, name: str, expires: float) -> None:
        self._drop(name)
        if name not in self._ended:
            self._ended[name] = expires
            heappush(self._soonest, (expires, name))

    def _prune(self) -> None:
        now = self._now()
        while self._soonest and (self._soonest[0][0] <= now or len(self._ended) > self._most_ended):
            expires, name = heappop(self._soonest)
            del self._ended[name]
            if expires > now:
                self._floor = max(self._floor, expires)

    # --- on disk

    def _append(self, name: str, expires: float, change: Json) -> None:
        if self._pair is None:
            return
        line = self._line(name, expires, change)
        self._pair.append(line)
        if self._rewrite is not None:
            self._rewrite.pair.append(line)
        try:
            self._rewrite_some(_STEP)
        except OSError as exc:
            log.error("the session journal cannot be rewritten, so it grows: %s", exc.strerror)
            self._rewrite = None
            self._pair.put_off()

    def _line(self, name: str, expires: float, change: Json) -> bytes:
        self._sequence += 1
        body = msgspec.json.encode([self._sequence, name, expires, change])
        return b"%08x %b\n" % (crc32(body), body)

    def _rewrite_some(self, count: int) -> bool:
        """Go on with a rewrite, or begin one where it is due; whether there is more of it to do."""
        pair = self._pair
        assert pair is not None
        if self._rewrite is None:
            grown = pair.lines > _REWRITE_AT and pair.lines > 4 * len(self)
            if pair.is_open and not grown and pair.bytes < max(_REWRITE_BYTES, 4 * pair.first_bytes):
                return False
            self._rewrite = _Rewrite(pair.path, [*self._states, *self._ended])
        rewrite, now = self._rewrite, self._now()
        for name in rewrite.take(count):
            if name in self._ended:
                rewrite.pair.append(self._line(name, self._ended[name], _DEAD))
            elif name in self._states:
                expires, state = self._states[name]
                if expires <= now:
                    self._drop(name)
                else:
                    rewrite.pair.append(self._line(name, expires, {"is": _whole(state)}))
        if rewrite.names:
            return True
        rewrite.pair.append(self._line(_FLOOR, self._floor, None))
        self._rewrite = None
        pair.replace(rewrite.pair)
        return False

    def _read(self, path: Path) -> None:
        now = self._now()
        for sequence, name, expires, change in sorted(_lines(path), key=lambda line: line[0]):
            self._sequence = max(self._sequence, sequence)
            if name == _FLOOR:
                self._floor = max(self._floor, expires)
            elif expires <= now:
                self._drop(name)
            elif change == _DEAD:
                self._bury(name, expires)
            elif name not in self._ended:
                self._keep(name, expires, _apply(self.get(name) or SessionState(), change))


def _lines(path: Path) -> Iterator[tuple[int, str, float, Json]]:
    """Every good line of both files, once. A line without a checksum is one of an earlier release, and came first."""
    seen: set[int] = set()
    for file in (path, _copy_of(path)):
        try:
            rows = file.read_bytes().split(b"\n")
        except OSError:
            continue
        for row in rows:
            line = _good_line(row)
            if line is not None and line[0] not in seen:
                if line[0]:
                    seen.add(line[0])
                yield line


def _good_line(row: bytes) -> tuple[int, str, float, Json] | None:
    checksum, _, body = row.partition(b" ")
    try:
        if row[:1] == b"[":
            name, expires, change = msgspec.json.decode(row)
            sequence = 0
            change = {"is": change} if isinstance(change, dict) else change
        elif len(checksum) == 8 and int(checksum, 16) == crc32(body):
            sequence, name, expires, change = msgspec.json.decode(body)
        else:
            return None
        if not (change == _DEAD or isinstance(change, dict) or name == _FLOOR):
            return None
        return int(sequence), str(name), float(expires), change
    except (msgspec.DecodeError, ValueError, TypeError):
        return None  # what a crash cut short, or damage


def _changes(old: SessionState, new: SessionState) -> dict[str, Json]:
    changes: dict[str, Json] = {} if old.level == new.level else {"level": new.level}
    for member in _MEMBERS:
        before, after = getattr(old, member), getattr(new, member)
        if before != after:
            changes |= {f"+{member}": sorted(after - before), f"-{member}": sorted(before - after)}
    return {key: change for key, change in changes.items() if change != []}


def _apply(old: SessionState, change: dict[str, Json]) -> SessionState:
    """The state after a change; what is no state of ours in it is passed over."""
    if isinstance(whole := change.get("is"), dict):
        change = {"level": whole.get("level", "info"), **{f"+{key}": whole.get(key, []) for key in _MEMBERS}}
        old = SessionState()
    level = change.get("level", old.level)
    sets = {
        member: (getattr(old, member) | _texts(change.get(f"+{member}"))) - _texts(change.get(f"-{member}"))
        for member in _MEMBERS
    }
    return SessionState(level if level in LEVELS else old.level, **sets)


def _texts(value: Json) -> frozenset[str]:
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()


def _whole(state: SessionState) -> dict[str, Json]:
    return {"level": state.level, **{member: sorted(getattr(state, member)) for member in _MEMBERS}}


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + ".copy")


class _Pair:
    """The two files of a journal, open for appending; not there until a rewrite has made them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = self.bytes = self.first_bytes = 0
        self.is_open = False
        self._descriptors: list[int] = []
        self._failed = False

    def create(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._descriptors = [os.open(_new(file), flags, 0o600) for file in self._files]
        self.is_open = True

    @property
    def _files(self) -> tuple[Path, Path]:
        return self.path, _copy_of(self.path)

    def append(self, line: bytes) -> None:
        """A failure costs no session: only a restart would forget this change."""
        self.lines += 1
        self.bytes += len(line)
        if self._failed:
            line = b"\n" + line  # the last one may have been written in part
        try:
            for descriptor in self._descriptors:
                os.write(descriptor, line)
            self._failed = False
        except OSError as exc:
            if not self._failed:
                log.error("the session journal cannot be written: %s", exc.strerror)
            self._failed = True

    def replace(self, other: _Pair) -> None:
        """Take over what a rewrite made. One file after the other: between the two both tell the same."""
        for file in self._files:
            os.replace(_new(file), file)
        self.close()
        self._descriptors, other._descriptors = other._descriptors, []
        self.lines, self.bytes, self.first_bytes, self.is_open = other.lines, other.bytes, other.bytes, True

    def put_off(self) -> None:
        """A rewrite failed: the next one is due when as much again has been written."""
        self.lines, self.first_bytes = 0, self.bytes

    def close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
        self.is_open = False


def _new(file: Path) -> Path:
    return file.with_name(file.name + ".new")


class _Rewrite:
    """A rewrite on its way: the names still to copy, and the files that take them."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.names = names[::-1]
        self.pair = _Pair(path)
        self.pair.create()

    def take(self, count: int) -> list[str]:
        taken = self.names[-count:][::-1] if count else []
        del self.names[len(self.names) - len(taken) :]
        return taken

    def abandon(self) -> None:
        self.pair.close()
        for file in (self.pair.path, _copy_of(self.pair.path)):
            _new(file).unlink(missing_ok=True)
