"""A checker of the guard, written apart from it: what callers saw, and what may follow from it.

A history is a list of operations with the moments at which they began and ended, as their callers saw them. The
checker knows nothing of how the guard works. It knows what a lock promises: from the moment at which a lock was
acknowledged, no call that begins later may run, until an unlock begins that could have undone it. Where operations
overlap, every order is possible, and the checker accepts what any of them allows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Operation", "violations"]

LOCK, UNLOCK, CALL, RESTART, FULL, ROOM = "lock", "unlock", "call", "restart", "full disk", "room again"


@dataclass(frozen=True)
class Operation:
    """`succeeded`: a lock or an unlock was acknowledged, a call did its work. `by` is who locked or unlocked."""

    kind: str
    began: float
    ended: float
    succeeded: bool
    by: str = ""
    note: str = ""


def violations(history: list[Operation]) -> list[str]:
    """Every call that ran though the history says locked, and every release of a person's lock by a tool."""
    locks = [each for each in history if each.kind == LOCK and each.succeeded]
    releases = [each for each in history if each.kind == UNLOCK]
    found = []
    for call in history:
        if call.kind == CALL and call.succeeded:
            for lock in locks:
                if lock.ended < call.began and not _may_be_open(lock, call, releases, locks):
                    found.append(f"a call ran at {call.began:.4f}, locked by {lock.by} at {lock.ended:.4f} {call.note}")
                    break
    for release in releases:
        held = _persons_lock_before(release, locks, releases)
        if held is not None and release.succeeded and release.by == "tool":
            found.append(f"a tool unlocked at {release.began:.4f} what a person locked at {held.ended:.4f}")
    return found


def _may_be_open(lock: Operation, call: Operation, releases: list[Operation], locks: list[Operation]) -> bool:
    """Whether a release that began before the call ended may have come after the lock; one that was refused, or whose
    answer was lost, may have been done as far as its caller knows, unless the backend said no."""
    for release in releases:
        if not release.succeeded and release.note != "lost":
            continue
        if release.by == "tool" and lock.by == "person":
            continue  # a tool cannot undo a person's lock, whatever it was told
        if release.ended > lock.began and release.began < call.ended:
            return True
    return False


def _persons_lock_before(release: Operation, locks: list[Operation], releases: list[Operation]) -> Operation | None:
    """A person's lock that was in force for the whole of a release, with no person's release since."""
    for lock in locks:
        if lock.by != "person" or lock.ended >= release.began:
            continue
        undone = any(
            other.by == "person"
            and (other.succeeded or other.note == "lost")
            and other.ended > lock.began
            and other.began < release.ended
            for other in releases
        )
        if not undone:
            return lock
    return None
