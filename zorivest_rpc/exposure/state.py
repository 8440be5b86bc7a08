"""What is known now, one object per tenant: counters, flags and sets, and the bits that rules read of them.

Rule 1: a reader sees one consistent state. All writers run in the loop's thread and no method waits: there is no lock.
Rule 2: each distinct test on a counter, and each flag, is one atom: one bit in `truth` and one in `known`. A write
tests again what its own counter decides, and nothing else; lists read the two integers alone."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Iterable

import msgspec

__all__ = ["Atoms", "ExposureState", "StateNames"]

_FOREIGN = (
    "backend."  # a mirror of another process: unknown until that was asked. Everything else is counted here from 0
)


class StateNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`schemas/exposure/state.json`: every name that a rule may use, each with what it means."""

    counters: dict[str, str] = {}
    flags: dict[str, str] = {}
    sets: dict[str, str] = {}


class Atoms:
    """The bit of each test that some rule makes; complete before the first state is made."""

    __slots__ = ("count", "flags", "tests")

    def __init__(self) -> None:
        self.tests: dict[str, dict[int, int]] = {}
        """By counter: the bit of "at least n", by n."""
        self.flags: dict[str, int] = {}
        self.count = 0

    def _new(self) -> int:
        self.count += 1
        return 1 << (self.count - 1)

    def at_least(self, counter: str, n: int) -> int:
        tests = self.tests.setdefault(counter, {})
        if n not in tests:
            tests[n] = self._new()
        return tests[n]

    def flag(self, name: str) -> int:
        if name not in self.flags:
            self.flags[name] = self._new()
        return self.flags[name]

    def counters_of(self, bits: int) -> frozenset[str]:
        """The counters whose tests are among these bits."""
        return frozenset(counter for counter, tests in self.tests.items() if any(bit & bits for bit in tests.values()))


class ExposureState:
    """`changed` is called after each write that made some list another one, and after no other."""

    __slots__ = (
        "_flag_bits",
        "_tests",
        "_thread",
        "changed",
        "count_version",
        "counters",
        "flags",
        "known",
        "sets",
        "structure_version",
        "truth",
    )

    def __init__(
        self, names: StateNames, atoms: Atoms | None = None, changed: Callable[[], None] = lambda: None
    ) -> None:
        atoms = atoms or Atoms()
        self.changed = changed
        self.counters: dict[str, int | None] = {
            name: None if name.startswith(_FOREIGN) else 0 for name in names.counters
        }
        self.flags = dict.fromkeys(names.flags, False)
        self.sets: dict[str, tuple[str, ...] | None] = dict.fromkeys(names.sets)
        self.structure_version = 0
        self.count_version = 0
        self.truth = 0
        self.known = 0
        self._thread = 0
        self._tests = {name: tuple(tests.items()) for name, tests in atoms.tests.items()}
        self._flag_bits = dict(atoms.flags)
        for bit in self._flag_bits.values():
            self.known |= bit
        for name, value in self.counters.items():
            self._test(name, value)

    def add(self, counter: str, n: int = 1) -> None:
        """Count up or down. What is unknown stays unknown."""
        value = self.counters[counter]
        if value is not None:
            self._store(counter, value + n)

    def set(self, counter: str, value: int | None) -> None:
        """State the value; None where it is not known any more."""
        if counter not in self.counters:
            raise KeyError(counter)
        self._store(counter, value)

    def raise_flag(self, name: str) -> bool:
        """Whether this call raised it; a flag stays up until the process ends."""
        self._check_thread()
        if self.flags[name]:
            return False
        self.flags[name] = True
        self.count_version += 1
        bit = self._flag_bits.get(name, 0)
        if bit:
            self.truth |= bit
            self._flip()
        return True

    def set_values(self, name: str, values: Iterable[str] | None) -> None:
        """State what a set holds, in the order in which it is shown; None where that is not known any more."""
        self._check_thread()
        given = None if values is None else tuple(values)
        if self.sets[name] != given:
            self.sets[name] = given
            self.count_version += 1
            self._flip()

    def _store(self, counter: str, value: int | None) -> None:
        self._check_thread()
        assert value is None or value >= 0, f"{counter} would be {value}"
        self.counters[counter] = value
        self.count_version += 1
        if self._test(counter, value):
            self._flip()

    def _test(self, counter: str, value: int | None) -> bool:
        """Whether a bit of this counter's tests is another one now."""
        truth, known = self.truth, self.known
        for n, bit in self._tests.get(counter, ()):
            if value is None:
                truth, known = truth & ~bit, known & ~bit
            elif value >= n:
                truth, known = truth | bit, known | bit
            else:
                truth, known = truth & ~bit, known | bit
        if truth == self.truth and known == self.known:
            return False
        self.truth, self.known = truth, known
        return True

    def _flip(self) -> None:
        self.structure_version += 1
        self.changed()

    def _check_thread(self) -> None:
        """Threads post their changes with `loop.call_soon_threadsafe`; asserted, so not looked at under -O."""
        if __debug__:
            here = get_ident()
            self._thread = self._thread or here
            assert self._thread == here, "the exposure state is written from a second thread"
