"""The rounds of calls that put a question: each call is counted by the guard once, however many rounds it takes.

A handler runs again from the top after every question, in each era and in a task. So the guard remembers, when a
question of a counted call goes out, that one round with an answer to it is paid for. What is remembered is the server's
own and serves one round: an answer that is sent twice, or unasked, is a call of its own and counted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from zorivest_rpc.mcp.call import Call

__all__ = ["AS_TASK", "CountedRounds"]

AS_TASK: Final = ""  # stands where a question's name would: the same call, going on as a task
_LONGEST: Final = 3600.0  # seconds; nothing waits longer for an answer
_MOST: Final = 10_000

_Key: TypeAlias = tuple[str, str, str, str, str, str]


class _Round:
    __slots__ = ("at", "open")

    def __init__(self, at: float) -> None:
        self.at = at
        self.open = True


class CountedRounds:
    """Bounded: above the limit the oldest round is forgotten, and its call is counted once more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rounds: deque[tuple[_Round, list[_Key]]] = deque()  # in the order of their questions
        self._by_key: dict[_Key, deque[_Round]] = {}

    def __len__(self) -> int:
        return len(self._rounds)

    def remember(self, call: Call, questions: Iterable[str], about: str = "") -> None:
        """The call was counted, and these questions go out together; `about` is what the next round has to repeat."""
        now = self._clock()
        self._forget(now)
        keys = [_key(call, question, about) for question in questions]
        entry = _Round(now)
        self._rounds.append((entry, keys))
        for key in keys:
            self._by_key.setdefault(key, deque()).append(entry)

    def take(self, call: Call, about: str = "") -> bool:
        """Whether this round is the next one of a call that was counted; true once for each."""
        if not self._rounds or not (call.answers or call.in_task):  # nearly every call
            return False
        self._forget(self._clock())
        questions = (*call.answers, AS_TASK) if call.in_task else tuple(call.answers)
        for question in questions:
            waiting = self._by_key.get(_key(call, question, about), ())
            entry = next((entry for entry in waiting if entry.open), None)
            if entry is not None:
                entry.open = False  # and is dropped by the next call that comes here
                return True
        return False

    def _forget(self, now: float) -> None:
        """Drop what was used, is too old or is too much, from the front."""
        rounds = self._rounds
        while rounds:
            entry, keys = rounds[0]
            if entry.open and now - entry.at < _LONGEST and len(rounds) <= _MOST:
                return
            rounds.popleft()
            for key in keys:
                waiting = self._by_key[key]
                waiting.remove(entry)
                if not waiting:
                    del self._by_key[key]


def _key(call: Call, question: str, about: str) -> _Key:
    return (call.scope.name, call.session.principal, call.session.key, call.name, question, about)
