"""The rule language, version 1: the key `exposure` of a tool file, checked, compiled to bits, and evaluated.

A condition has three values. `any`, `all` and `not` follow Kleene's logic; what is unknown in the end shows, unless the
rule says `"unknown": "hide"`. Nothing is evaluated as code: a compiled condition is two masks and its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from zorivest_rpc.exposure.state import Atoms, StateNames

__all__ = ["FITS_AN_ENUM", "KEYS", "Condition", "EnumFrom", "Mode", "Rule", "check", "compile_rule", "describe"]

Json = Any
VERSION: Final = 1
DEEPEST: Final = 4
MOST_ATOMS: Final = 32
FITS_AN_ENUM: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")  # text of a backend must not become text of a schema
KEYS: Final[Mapping[str, str]] = {
    "v": "version of the language: 1",
    "gate": "flag without which the tool is not listed, where gates apply",
    "raises": "flag that the first successful call raises",
    "show": "condition under which the tool is listed; true if left out",
    "unknown": '"show" or "hide": what becomes of a condition that cannot be decided; "show" if left out',
    "modes": "the input that chooses a mode, and of each of its values when it is listed and what counts its data",
    "counts": "counters of the tool as a whole, by the name they have in `data_counts`",
    "enum_from": "inputs that get the values of a set as their enum, and how many values are still shown",
    "hint": "sentence for `_meta` while all counts are 0, where nothing is hidden",
}
_OPERATORS: Final = ("any", "all", "not", "ge", "lt", "flag")


class Condition(msgspec.Struct, frozen=True):
    """All of these (`every`), or one: the atoms in `true` hold, those in `false` do not, the parts hold.

    All of nothing is true, one of nothing false; the negation of either is the other with its masks exchanged."""

    every: bool
    true: int = 0
    false: int = 0
    parts: tuple[Condition, ...] = ()

    def evaluate(self, truth: int, known: int) -> bool | None:
        """None is unknown."""
        if self.every:
            if self.true & known & ~truth or self.false & truth:
                return False
        elif self.true & truth or self.false & known & ~truth:
            return True
        is_open = bool((self.true | self.false) & ~known)
        for part in self.parts:
            value = part.evaluate(truth, known)
            if value is None:
                is_open = True
            elif value is not self.every:
                return value
        return None if is_open else self.every

    def atoms(self) -> int:
        """The bits that it reads."""
        bits = self.true | self.false
        for part in self.parts:
            bits |= part.atoms()
        return bits


ALWAYS: Final = Condition(every=True)
NEVER: Final = Condition(every=False)


class Mode(msgspec.Struct, frozen=True):
    """One value of the input that chooses a mode; `count` is empty where nothing counts its data."""

    value: str
    show: Condition
    count: str


class EnumFrom(msgspec.Struct, frozen=True):
    """`input` gets the values of `set` as its enum while there are at most `most`."""

    input: str
    set: str
    most: int


class Rule(msgspec.Struct, frozen=True):
    """The compiled key `exposure` of one tool."""

    gate: int = 0
    gate_flag: str = ""
    raises: str = ""
    show: Condition = ALWAYS
    unknown: bool = True
    chooser: str = ""
    """The input that chooses a mode."""
    modes: tuple[Mode, ...] = ()
    counts: tuple[tuple[str, str], ...] = ()
    enum_from: tuple[EnumFrom, ...] = ()
    hint: str = ""

    @property
    def every_mode(self) -> int:
        """The mask with all modes in it."""
        return (1 << len(self.modes)) - 1

    @property
    def has_counts(self) -> bool:
        return bool(self.counts) or any(mode.count for mode in self.modes)

    def reads(self, atoms: Atoms) -> frozenset[str]:
        """The counters and sets that it needs to know."""
        bits = self.show.atoms()
        for mode in self.modes:
            bits |= mode.show.atoms()
        counted = (*(mode.count for mode in self.modes if mode.count), *(counter for _, counter in self.counts))
        return atoms.counters_of(bits) | {*counted, *(source.set for source in self.enum_from)}

    def evaluate(self, truth: int, known: int, *, gates: bool) -> tuple[bool, int]:
        """Whether the tool is listed, and the mask of its modes that are: bit n for the mode n of the file."""
        unknown, mask = self.unknown, 0
        for place, mode in enumerate(self.modes):
            value = mode.show.evaluate(truth, known)
            if unknown if value is None else value:
                mask |= 1 << place
        if (gates and self.gate and not self.gate & truth) or (self.modes and not mask):
            return False, mask
        value = self.show.evaluate(truth, known)
        return (unknown if value is None else value), mask


# --- from JSON


def compile_rule(given: Mapping[str, Json], atoms: Atoms) -> Rule:
    """A rule that `check` has no problem with."""
    modes = given.get("modes", {})
    gate = given.get("gate", "")
    return Rule(
        gate=atoms.flag(gate) if gate else 0,
        gate_flag=gate,
        raises=given.get("raises", ""),
        show=_compile(given.get("show", True), atoms),
        unknown=given.get("unknown", "show") == "show",
        chooser=modes.get("property", ""),
        modes=tuple(
            Mode(value, _compile(about.get("show", True), atoms), about.get("count", ""))
            for value, about in modes.get("values", {}).items()
        ),
        counts=tuple(given.get("counts", {}).items()),
        enum_from=tuple(
            EnumFrom(name, source["set"], source.get("max", 50)) for name, source in given.get("enum_from", {}).items()
        ),
        hint=given.get("hint", ""),
    )


def _compile(given: Json, atoms: Atoms, *, negated: bool = False) -> Condition:
    """Negations are moved down to the atoms (De Morgan's laws hold for three values too)."""
    if isinstance(given, bool):
        return ALWAYS if given is not negated else NEVER
    if isinstance(given, str):
        return _atom(atoms.at_least(given, 1), negated=negated)
    ((operator, about),) = given.items()
    if operator == "not":
        return _compile(about, atoms, negated=not negated)
    if operator == "flag":
        return _atom(atoms.flag(about), negated=negated)
    if operator in ("ge", "lt"):
        return _atom(atoms.at_least(about[0], about[1]), negated=negated is not (operator == "lt"))
    return _join([_compile(each, atoms, negated=negated) for each in about], every=(operator == "all") is not negated)


def _atom(bit: int, *, negated: bool) -> Condition:
    return Condition(every=True, false=bit) if negated else Condition(every=True, true=bit)


def _join(parts: list[Condition], *, every: bool) -> Condition:
    """A part that is one atom becomes a bit of the whole; one and the same atom may be wanted both ways."""
    true = false = 0
    others = []
    for part in parts:
        bits = part.true | part.false
        if not part.parts and bits and not bits & (bits - 1):
            true, false = true | part.true, false | part.false
        else:
            others.append(part)
    return Condition(every=every, true=true, false=false, parts=tuple(others))


def describe(given: Json) -> str:
    """A condition in words."""
    if isinstance(given, bool):
        return "always" if given else "never"
    if isinstance(given, str):
        return f"{given} >= 1"
    ((operator, about),) = given.items()
    if operator == "flag":
        return str(about)
    if operator in ("ge", "lt"):
        return f"{about[0]} {'>=' if operator == 'ge' else '<'} {about[1]}"
    if operator == "not":
        return f"not ({describe(about)})"
    words = " or " if operator == "any" else " and "
    return words.join(f"({describe(each)})" if isinstance(each, dict) else describe(each) for each in about)


# --- what is wrong with one

Found = Iterator[tuple[str, str]]  # where, as `exposure.modes.values`; what


def check(given: Json, input_schema: Mapping[str, Json], names: StateNames) -> Found:
    """Every problem of the key `exposure` of a tool file with this input schema."""
    if not isinstance(given, dict):
        yield "exposure", "must be an object"
        return
    yield from ((f"exposure.{key}", "unknown key") for key in given if key not in KEYS)
    if given.get("v") != VERSION or isinstance(given.get("v"), bool):
        yield "exposure.v", "version must be 1"
    for key in ("gate", "raises"):
        if key in given:
            yield from _check_name(given[key], f"exposure.{key}", "flag", names.flags)
    if "hint" in given and not (isinstance(given["hint"], str) and given["hint"].strip()):
        yield "exposure.hint", "must be a sentence"
    if given.get("unknown", "show") not in ("show", "hide"):
        yield "exposure.unknown", 'must be "show" or "hide"'
    tests = _Tests(names)
    yield from tests.check(given.get("show", True), "exposure.show")
    yield from _check_counts(given.get("counts", {}), names)
    if "modes" in given:
        yield from _check_modes(given["modes"], input_schema, names, tests)
    yield from _check_enums(given.get("enum_from", {}), input_schema, names)
    if len(tests.found) > MOST_ATOMS:
        yield "exposure", f"{len(tests.found)} different tests; at most {MOST_ATOMS} are allowed"


def _check_name(given: Json, where: str, kind: str, known: Mapping[str, str]) -> Found:
    if not isinstance(given, str):
        yield where, f"must be the name of a {kind}"
    elif given not in known:
        yield where, f'undeclared {kind} "{given}"'


class _Tests:
    """Checks conditions and remembers the different tests in them."""

    def __init__(self, names: StateNames) -> None:
        self._names = names
        self.found: set[tuple[str, int]] = set()

    def check(self, given: Json, where: str, depth: int = 0) -> Found:
        if isinstance(given, bool):
            return
        if isinstance(given, str):
            self.found.add((given, 1))
            yield from _check_name(given, where, "counter", self._names.counters)
            return
        if not isinstance(given, dict) or len(given) != 1:
            yield where, "must be true, false, a counter, or an object with one operator"
            return
        ((operator, about),) = given.items()
        where = f"{where}.{operator}"
        if operator not in _OPERATORS:
            yield where, "unknown key"
        elif operator == "flag":
            self.found.add((str(about), 0))
            yield from _check_name(about, where, "flag", self._names.flags)
        elif operator in ("ge", "lt"):
            yield from self._check_comparison(about, where)
        elif depth == DEEPEST:
            yield where, f"nesting deeper than {DEEPEST}"
        elif operator == "not":
            yield from self.check(about, where, depth + 1)
        elif not isinstance(about, list) or not about:
            yield where, "must be a list of conditions"
        else:
            for place, each in enumerate(about):
                yield from self.check(each, f"{where}.{place}", depth + 1)

    def _check_comparison(self, about: Json, where: str) -> Found:
        if not isinstance(about, list) or len(about) != 2 or type(about[1]) is not int or about[1] < 1:
            yield where, "must be a counter and a whole number above 0"
        else:
            self.found.add((str(about[0]), about[1]))
            yield from _check_name(about[0], f"{where}.0", "counter", self._names.counters)


def _check_counts(given: Json, names: StateNames) -> Found:
    if not isinstance(given, dict):
        yield "exposure.counts", "must be an object"
        return
    for label, counter in given.items():
        yield from _check_name(counter, f"exposure.counts.{label}", "counter", names.counters)


def _check_modes(given: Json, input_schema: Mapping[str, Json], names: StateNames, tests: _Tests) -> Found:
    here = "exposure.modes"
    if not isinstance(given, dict):
        yield here, "must be an object"
        return
    yield from ((f"{here}.{key}", "unknown key") for key in given if key not in ("property", "values"))
    name, values = given.get("property"), given.get("values")
    schema = input_schema.get("properties", {}).get(name, {}) if isinstance(name, str) else {}
    enum = schema.get("enum", [])
    if name not in input_schema.get("required", ()) or schema.get("type") != "string" or not enum:
        yield f"{here}.property", f'property "{name}" is not a required string with an enum'
        return
    if not isinstance(values, dict):
        yield f"{here}.values", "must be an object"
        return
    if list(values) != list(enum):
        missing = ", ".join(each for each in enum if each not in values) or "none"
        extra = ", ".join(each for each in values if each not in enum) or "none"
        order = "" if (missing, extra) != ("none", "none") else "; the order is another one"
        yield f"{here}.values", f"values differ from the enum: missing {missing}, extra {extra}{order}"
    for value, about in values.items():
        place = f"{here}.values.{value}"
        if not isinstance(about, dict):
            yield place, "must be an object"
            continue
        yield from ((f"{place}.{key}", "unknown key") for key in about if key not in ("show", "count"))
        yield from tests.check(about.get("show", True), f"{place}.show")
        if "count" in about:
            yield from _check_name(about["count"], f"{place}.count", "counter", names.counters)


def _check_enums(given: Json, input_schema: Mapping[str, Json], names: StateNames) -> Found:
    if not isinstance(given, dict):
        yield "exposure.enum_from", "must be an object"
        return
    for name, source in given.items():
        here = f"exposure.enum_from.{name}"
        schema = input_schema.get("properties", {}).get(name, {})
        if schema.get("type") != "string" or "enum" in schema:
            yield here, f'property "{name}" is not a string without an enum'
        if not isinstance(source, dict):
            yield here, "must be an object"
            continue
        yield from ((f"{here}.{key}", "unknown key") for key in source if key not in ("set", "max"))
        yield from _check_name(source.get("set"), f"{here}.set", "set", names.sets)
        most = source.get("max", 50)
        if type(most) is not int or not 1 <= most <= 200:
            yield f"{here}.max", "must be a whole number from 1 to 200"
