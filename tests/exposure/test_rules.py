"""The rule language: what is wrong with a rule, Kleene's tables, and bits that agree with a naive evaluation."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

from zorivest_rpc.exposure.rules import Condition, Rule, check, compile_rule
from zorivest_rpc.exposure.state import Atoms, ExposureState, StateNames

NAMES = StateNames(
    counters={"d.a": "", "d.b": "", "d.c": "", "backend.x": "", "backend.y": ""},
    flags={"d.seen": "", "d.other": ""},
    sets={"backend.ids": ""},
)
SCHEMA = {
    "type": "object",
    "properties": {
        "what": {"type": "string", "enum": ["one", "two"]},
        "account_id": {"type": "string"},
        "limit": {"type": "integer"},
    },
    "required": ["what"],
}
BOTH = {"one": {"show": True}, "two": {"show": "d.a"}}


def deep(levels: int) -> Any:
    condition: Any = "d.a"
    for _ in range(levels):
        condition = {"not": condition}
    return condition


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"v": 1, "shw": True}, "exposure.shw: unknown key"),
        ({}, "exposure.v: version must be 1"),
        ({"v": 2}, "exposure.v: version must be 1"),
        ({"v": True}, "exposure.v: version must be 1"),
        ({"v": 1, "show": "d.nothing"}, 'exposure.show: undeclared counter "d.nothing"'),
        ({"v": 1, "gate": "d.nothing"}, 'exposure.gate: undeclared flag "d.nothing"'),
        ({"v": 1, "raises": "d.a"}, 'exposure.raises: undeclared flag "d.a"'),
        ({"v": 1, "show": {"flag": "d.a"}}, 'exposure.show.flag: undeclared flag "d.a"'),
        ({"v": 1, "show": {"ge": ["d.z", 1]}}, 'exposure.show.ge.0: undeclared counter "d.z"'),
        ({"v": 1, "show": {"any": ["d.a", {"all": ["d.z"]}]}}, 'exposure.show.any.1.all.0: undeclared counter "d.z"'),
        ({"v": 1, "show": {"either": ["d.a"]}}, "exposure.show.either: unknown key"),
        ({"v": 1, "show": {"ge": ["d.a", 0]}}, "exposure.show.ge: must be a counter and a whole number above 0"),
        ({"v": 1, "show": {"any": []}}, "exposure.show.any: must be a list of conditions"),
        ({"v": 1, "show": 5}, "exposure.show: must be true, false, a counter, or an object with one operator"),
        ({"v": 1, "show": deep(5)}, "exposure.show.not.not.not.not.not: nesting deeper than 4"),
        ({"v": 1, "unknown": "maybe"}, 'exposure.unknown: must be "show" or "hide"'),
        ({"v": 1, "hint": " "}, "exposure.hint: must be a sentence"),
        ({"v": 1, "counts": {"x": "d.z"}}, 'exposure.counts.x: undeclared counter "d.z"'),
        (
            {"v": 1, "modes": {"property": "limit", "values": {}}},
            'exposure.modes.property: property "limit" is not a required string with an enum',
        ),
        (
            {"v": 1, "modes": {"property": "account_id", "values": {}}},
            'exposure.modes.property: property "account_id" is not a required string with an enum',
        ),
        (
            {"v": 1, "modes": {"property": "what", "values": {"one": {}, "three": {}}}},
            "exposure.modes.values: values differ from the enum: missing two, extra three",
        ),
        (
            {"v": 1, "modes": {"property": "what", "values": {"two": {}, "one": {}}}},
            "exposure.modes.values: values differ from the enum: missing none, extra none; the order is another one",
        ),
        ({"v": 1, "modes": {"property": "what", "values": BOTH, "x": 1}}, "exposure.modes.x: unknown key"),
        (
            {"v": 1, "modes": {"property": "what", "values": {"one": {"hide": 1}, "two": {}}}},
            "exposure.modes.values.one.hide: unknown key",
        ),
        (
            {"v": 1, "modes": {"property": "what", "values": {"one": {"count": "d.z"}, "two": {}}}},
            'exposure.modes.values.one.count: undeclared counter "d.z"',
        ),
        (
            {"v": 1, "enum_from": {"account_id": {"set": "d.z"}}},
            'exposure.enum_from.account_id.set: undeclared set "d.z"',
        ),
        (
            {"v": 1, "enum_from": {"what": {"set": "backend.ids"}}},
            'exposure.enum_from.what: property "what" is not a string without an enum',
        ),
        (
            {"v": 1, "enum_from": {"account_id": {"set": "backend.ids", "max": 0}}},
            "exposure.enum_from.account_id.max: must be a whole number from 1 to 200",
        ),
        ("always", "exposure: must be an object"),
        ({"v": 1, "counts": ["d.a"]}, "exposure.counts: must be an object"),
        ({"v": 1, "enum_from": ["account_id"]}, "exposure.enum_from: must be an object"),
        ({"v": 1, "modes": ["one"]}, "exposure.modes: must be an object"),
        ({"v": 1, "modes": {"property": "what", "values": ["one"]}}, "exposure.modes.values: must be an object"),
        (
            {"v": 1, "show": {"any": ["d.a", {"flag": "d.seen"}, *({"ge": ["d.b", n]} for n in range(1, 32))]}},
            "exposure: 33 different tests; at most 32 are allowed",
        ),
        (
            {"v": 1, "show": {"any": [{"flag": "d.seen"}, "d.a", *({"ge": ["d.a", n]} for n in range(1, 33))]}},
            "exposure: 33 different tests; at most 32 are allowed",
        ),
        (
            {"v": 1, "show": {"any": [{"ge": ["d.a", n]} for n in range(1, 34)]}},
            "exposure: 33 different tests; at most 32 are allowed",
        ),
    ],
)
def test_each_mistake_is_told_with_its_place(rule: Any, problem: str) -> None:
    assert [f"{where}: {what}" for where, what in check(rule, SCHEMA, NAMES)] == [problem]


def test_a_sound_rule_has_no_problem() -> None:
    rule = {
        "v": 1,
        "gate": "d.seen",
        "raises": "d.other",
        "show": {"not": {"any": [{"all": ["d.a", {"lt": ["d.b", 3]}]}, {"flag": "d.seen"}]}},
        "unknown": "hide",
        "modes": {"property": "what", "values": {"one": {"show": True, "count": "d.a"}, "two": {"show": deep(4)}}},
        "enum_from": {"account_id": {"set": "backend.ids", "max": 50}},
        "hint": "Load a page.",
        "counts": {"x": "backend.x"},
    }
    assert list(check(rule, SCHEMA, NAMES)) == []


def test_a_rule_knows_its_modes_and_what_it_reads() -> None:
    atoms = Atoms()
    rule = compile_rule(
        {
            "v": 1,
            "gate": "d.seen",
            "show": {"any": ["backend.x", {"not": {"all": ["d.a", {"flag": "d.other"}]}}]},
            "modes": {"property": "what", "values": {"one": {"show": "d.b", "count": "d.c"}, "two": {"show": True}}},
            "counts": {"y": "backend.y"},
            "enum_from": {"account_id": {"set": "backend.ids"}},
        },
        atoms,
    )
    assert rule.every_mode == 0b11
    assert rule.reads(atoms) == {"backend.x", "d.a", "d.b", "d.c", "backend.y", "backend.ids"}
    assert compile_rule({"v": 1}, atoms).every_mode == 0
    assert compile_rule({"v": 1}, atoms).reads(atoms) == frozenset()


def condition(given: Any) -> tuple[Condition, Atoms]:
    atoms = Atoms()
    return compile_rule({"v": 1, "show": given}, atoms).show, atoms


VALUES = {True: 1, False: 0, None: None}
AND = {(True, True): True, (True, None): None, (None, None): None}
OR = {(False, False): False, (False, None): None, (None, None): None}


@pytest.mark.parametrize(("left", "right"), list(itertools.product((True, False, None), repeat=2)))
def test_any_all_and_not_follow_kleene(left: bool | None, right: bool | None) -> None:
    for operator, table, otherwise in (("all", AND, False), ("any", OR, True)):
        wanted = table.get((left, right), table.get((right, left), otherwise))
        for given, expected in (
            ({operator: ["d.a", "d.b"]}, wanted),
            ({"not": {operator: ["d.a", "d.b"]}}, None if wanted is None else not wanted),
            ({operator: ["d.a", {"all": ["d.b", True]}]}, wanted),
            ({operator: ["d.a", {"not": {"not": "d.b"}}]}, wanted),
        ):
            compiled, atoms = condition(given)
            state = ExposureState(NAMES, atoms)
            state.set("d.a", VALUES[left])
            state.set("d.b", VALUES[right])
            assert compiled.evaluate(state.truth, state.known) is expected, given


def test_what_is_unknown_in_the_end_shows_unless_the_rule_says_hide() -> None:
    modes = {"property": "what", "values": {"one": {"show": "backend.x"}, "two": {"show": {"not": "backend.x"}}}}
    for unknown, expected in (("show", (True, 0b11)), ("hide", (False, 0))):
        atoms = Atoms()
        rule = compile_rule({"v": 1, "modes": modes, "unknown": unknown}, atoms)
        state = ExposureState(NAMES, atoms)
        assert rule.evaluate(state.truth, state.known, gates=True) == expected
        state.set("backend.x", 0)
        assert rule.evaluate(state.truth, state.known, gates=True) == (True, 0b10)


def test_a_gate_hides_only_where_gates_apply() -> None:
    atoms = Atoms()
    rule = compile_rule({"v": 1, "gate": "d.seen"}, atoms)
    state = ExposureState(NAMES, atoms)
    assert not rule.evaluate(state.truth, state.known, gates=True)[0]
    assert rule.evaluate(state.truth, state.known, gates=False)[0]
    assert state.raise_flag("d.seen")
    assert rule.evaluate(state.truth, state.known, gates=True)[0]


# --- 10 000 random states against an evaluation that looks at the numbers themselves


def naive(given: Any, counters: dict[str, int | None], flags: dict[str, bool]) -> bool | None:
    if isinstance(given, bool):
        return given
    if isinstance(given, str):
        value = counters[given]
        return None if value is None else value > 0
    ((operator, about),) = given.items()
    if operator == "flag":
        return flags[about]
    if operator in ("ge", "lt"):
        value = counters[about[0]]
        return None if value is None else (value >= about[1] if operator == "ge" else value < about[1])
    if operator == "not":
        value = naive(about, counters, flags)
        return None if value is None else not value
    found = [naive(each, counters, flags) for each in about]
    decisive = operator == "any"
    return decisive if decisive in found else None if None in found else not decisive


def random_condition(random: Random, depth: int = 0) -> Any:
    kind = random.choice(("counter", "counter", "ge", "lt", "flag", "const", "any", "all", "not"))
    if depth == 4 and kind in ("any", "all", "not"):
        kind = "counter"
    if kind == "const":
        return random.random() < 0.5
    if kind == "counter":
        return random.choice(list(NAMES.counters))
    if kind == "flag":
        return {"flag": random.choice(list(NAMES.flags))}
    if kind in ("ge", "lt"):
        return {kind: [random.choice(list(NAMES.counters)), random.randint(1, 4)]}
    if kind == "not":
        return {"not": random_condition(random, depth + 1)}
    return {kind: [random_condition(random, depth + 1) for _ in range(random.randint(1, 4))]}


def random_rule(random: Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"v": 1, "show": random_condition(random), "unknown": random.choice(("show", "hide"))}
    if random.random() < 0.5:
        rule["gate"] = random.choice(list(NAMES.flags))
    if random.random() < 0.8:
        values = {value: {"show": random_condition(random)} for value in ("one", "two")}
        rule["modes"] = {"property": "what", "values": values}
    return rule


def expected_of(rule: dict[str, Any], state: ExposureState, gates: bool) -> tuple[bool, int]:
    def final(given: Any) -> bool:
        value = naive(given, state.counters, state.flags)
        return rule["unknown"] == "show" if value is None else value

    values = rule.get("modes", {}).get("values", {})
    mask = sum(final(about["show"]) << place for place, about in enumerate(values.values()))
    open_gate = not gates or "gate" not in rule or state.flags[rule["gate"]]
    return open_gate and (not values or mask > 0) and final(rule["show"]), mask


@pytest.mark.parametrize("seed", range(10))
def test_bits_agree_with_a_naive_evaluation_in_random_states(seed: int) -> None:
    random = Random(seed)
    raw = [random_rule(random) for _ in range(12)]
    atoms = Atoms()
    rules: list[Rule] = []
    for given in raw:
        assert [what for _, what in check(given, SCHEMA, NAMES) if "different tests" not in what] == []
        rules.append(compile_rule(given, atoms))
    state = ExposureState(NAMES, atoms)
    for _ in range(1_000):
        before, masks = state.structure_version, (state.truth, state.known)
        name = random.choice(list(NAMES.counters))
        if random.random() < 0.02:
            state.raise_flag(random.choice(list(NAMES.flags)))
        elif random.random() < 0.5:
            state.set(name, random.choice((None, 0, 0, 1, 2, 3, 5)))
        elif (state.counters[name] or 0) > 0:
            state.add(name, random.choice((-1, 1)))
        else:
            state.add(name)
        assert (state.structure_version != before) == ((state.truth, state.known) != masks)
        assert state.truth & ~state.known == 0
        for given, rule in zip(raw, rules, strict=True):
            for gates in (True, False):
                got = rule.evaluate(state.truth, state.known, gates=gates)
                listed, mask = expected_of(given, state, gates)
                assert got == (listed, mask), (given, state.counters, state.flags)
