"""The mutation tool itself: what it changes, what it draws, and that its lists are true of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.operators import find_mutants
from tests.mutants.run import ROOT, Plan, load_equivalents, load_plans, sample, try_module

CASES = {
    "a < b": {"a <= b", "a >= b"},
    "a is not None": {"a is None"},
    "x not in y": {"x in y"},
    "a + b": {"a - b"},
    "a * (b)": {"a / (b)"},
    "a and b or c": {"a or b or c", "a and b and c"},
    "not ready": {"ready"},
    "-size": {"size"},
    "limit = 10": {"limit = 11"},
    "open(path, follow=True)": {"open(path, follow=False)", "pass"},
    "KINDS = {A.one, A.two}": {"KINDS = { A.two}", "KINDS = {A.one, }"},
    "KINDS = ('a', 'b')": {"KINDS = ( 'b')", "KINDS = ('a', )"},
    "raise Refused": {"pass"},
    "total += fee": {"total -= fee"},
    "if ready: go": {"if (not (ready)): go"},
}


@pytest.mark.parametrize(("line", "expected"), CASES.items())
def test_each_operator_makes_the_changes_it_is_for(line: str, expected: set[str]) -> None:
    assert {mutant.after for mutant in find_mutants(line.encode())} == expected


@pytest.mark.parametrize(
    "line",
    [
        '"""text: a < b"""',
        "def f(a: int | None) -> 'A | B': ...",
        "x: tuple[int, 2]",
        "f'{a}' + b",
        "__all__ = ['A', 'B']",
        "class A(Struct, frozen=True, kw_only=True, gc=False): ...",
    ],
)
def test_words_and_types_are_left_alone(line: str) -> None:
    assert find_mutants(line.encode()) == []


def test_a_mutant_says_which_function_it_is_in_and_applies_to_bytes_beyond_ascii() -> None:
    source = "class A:\n    def f(self) -> bool:\n        return 'é' and a < b\n".encode()
    mutant = next(mutant for mutant in find_mutants(source) if "<=" in mutant.after)
    assert (mutant.function, mutant.line) == ("A.f", 3)
    assert mutant.apply(source) == source.replace(b"<", b"<=")


def test_every_mutant_of_a_module_changes_its_text() -> None:
    source = (ROOT / "zorivest_rpc/mcp/protocol/session.py").read_bytes()
    mutants = find_mutants(source)
    assert len({mutant.apply(source) for mutant in mutants} - {source}) == len(mutants) > 20


def test_a_seed_draws_the_same_mutants_and_another_seed_others() -> None:
    plan = load_plans()[0]
    assert sample(plan, 10, 1) == sample(plan, 10, 1)
    assert sample(plan, 10, 1) != sample(plan, 10, 2)
    assert len(sample(plan, None, 1)) > 10


@pytest.mark.parametrize("plan", load_plans(), ids=lambda plan: plan.module)
def test_the_list_names_modules_and_tests_that_exist(plan: Plan) -> None:
    assert (ROOT / plan.module).is_file()
    assert plan.rungs
    for rung in plan.rungs:
        for word in rung:
            assert (ROOT / word).exists(), word


def test_a_mutant_judged_equivalent_still_exists_and_has_a_reason() -> None:
    for module, rows in load_equivalents().items():
        keys = {mutant.key for mutant in find_mutants(Path(ROOT / module).read_bytes())}
        for key, reason in rows.items():
            assert key in keys, f"{module}: no such mutant any more: {key}"
            assert len(reason) > 10, f"{module}: {key} needs a reason"


def test_a_mutant_is_noticed_survives_or_is_judged() -> None:
    module = "zorivest_rpc/mcp/protocol/seal.py"
    tests = "tests/mcp/protocol/test_seal.py", "tests/mutants/test_mutants.py::test_words_and_types_are_left_alone"
    mutants = find_mutants((ROOT / module).read_bytes())
    noticed, judged = [each for each in mutants if each.before == 'raise BadSeal("expired")'] + mutants[:1]
    reasons = {judged.key: "makes no difference"}

    findings = list(try_module(Plan(module, tuple((test,) for test in tests)), [noticed, judged], reasons, workers=1))
    assert [(finding.mutant, finding.noticed_by, finding.reason) for finding in findings] == [
        (judged, None, "makes no difference"),
        (noticed, tests[0], None),
    ]
    (blind,) = try_module(Plan(module, ((tests[1],),)), [noticed], {}, workers=1)
    assert blind.is_survivor
