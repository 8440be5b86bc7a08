"""The state: what a write changes, which versions it moves, and who is told."""

from __future__ import annotations

import threading

import msgspec
import pytest

from zorivest_rpc.exposure.state import Atoms, ExposureState, StateNames

NAMES = StateNames(
    counters={"devtools.logs": "", "backend.trades": ""}, flags={"devtools.observed": ""}, sets={"backend.ids": ""}
)


def make() -> tuple[ExposureState, dict[str, int], list[int]]:
    atoms = Atoms()
    bits = {
        "logs": atoms.at_least("devtools.logs", 1),
        "three": atoms.at_least("devtools.logs", 3),
        "trades": atoms.at_least("backend.trades", 1),
        "seen": atoms.flag("devtools.observed"),
    }
    told: list[int] = []
    state = ExposureState(NAMES, atoms, lambda: told.append(state.structure_version))
    return state, bits, told


def test_each_test_has_one_bit_however_often_it_is_made() -> None:
    atoms = Atoms()
    bits = [atoms.at_least("a", 1), atoms.at_least("a", 2), atoms.flag("f"), atoms.at_least("b", 1)]
    assert bits == [1, 2, 4, 8]
    assert [atoms.at_least("a", 1), atoms.at_least("a", 2), atoms.flag("f"), atoms.at_least("b", 1)] == bits
    assert atoms.counters_of(2 | 4 | 8) == {"a", "b"}


def test_what_is_counted_here_begins_at_zero_and_what_another_process_knows_is_unknown() -> None:
    state, bits, _ = make()
    assert (state.counters, state.sets) == ({"devtools.logs": 0, "backend.trades": None}, {"backend.ids": None})
    assert state.known == bits["logs"] | bits["three"] | bits["seen"]
    assert state.truth == 0


def test_only_a_write_that_flips_a_test_moves_the_structure() -> None:
    state, bits, told = make()
    state.add("devtools.logs")
    assert (state.structure_version, state.count_version, state.truth) == (1, 1, bits["logs"])
    state.add("devtools.logs")
    assert (state.structure_version, state.count_version) == (1, 2)
    state.add("devtools.logs", 5)
    assert (state.structure_version, state.truth) == (2, bits["logs"] | bits["three"])
    state.add("devtools.logs", -7)
    assert (state.structure_version, state.truth, state.counters["devtools.logs"]) == (3, 0, 0)
    assert told == [1, 2, 3]


def test_a_counter_becomes_unknown_and_known_again() -> None:
    state, bits, told = make()
    state.add("backend.trades")
    assert state.counters["backend.trades"] is None
    assert told == []
    state.set("backend.trades", 0)
    assert (state.known & bits["trades"], state.truth & bits["trades"]) == (bits["trades"], 0)
    state.set("backend.trades", 4)
    state.set("backend.trades", None)
    assert (state.known & bits["trades"], state.truth & bits["trades"]) == (0, 0)
    assert told == [1, 2, 3]


def test_a_flag_is_raised_once() -> None:
    state, bits, told = make()
    assert state.raise_flag("devtools.observed")
    assert not state.raise_flag("devtools.observed")
    assert state.truth == bits["seen"]
    assert told == [1]


def test_a_set_that_stays_as_it_was_changes_nothing() -> None:
    state, _, told = make()
    state.set_values("backend.ids", ["b", "a"])
    assert state.sets["backend.ids"] == ("b", "a")
    state.set_values("backend.ids", ("b", "a"))
    state.set_values("backend.ids", None)
    assert told == [1, 2]


@pytest.mark.parametrize("write", ["add", "set", "raise_flag", "set_values"])
def test_a_name_that_was_not_declared_is_refused(write: str) -> None:
    state, _, _ = make()
    more = {"set": (1,), "set_values": (("a",),)}.get(write, ())
    with pytest.raises(KeyError, match="nothing"):
        getattr(state, write)("nothing", *more)


def test_a_flag_that_no_rule_reads_changes_no_list() -> None:
    told: list[int] = []
    state = ExposureState(NAMES, Atoms(), lambda: told.append(1))
    assert state.raise_flag("devtools.observed")
    assert (state.truth, state.structure_version, told) == (0, 0, [])


def test_what_the_file_of_names_says_besides_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `counter`"):
        msgspec.convert({"counter": {}}, StateNames)


@pytest.mark.parametrize("write", ["add", "set", "raise_flag", "set_values"])
def test_a_second_thread_is_refused_whatever_it_writes(write: str) -> None:
    state, _, _ = make()
    state.add("devtools.logs")
    found: list[str] = []
    names = {"raise_flag": "devtools.observed", "set_values": "backend.ids"}
    more = {"set": (1,), "set_values": (("a",),)}.get(write, ())

    def work() -> None:
        try:
            getattr(state, write)(names.get(write, "devtools.logs"), *more)
        except AssertionError as error:
            found.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["the exposure state is written from a second thread"]


def test_a_negative_count_is_refused() -> None:
    state, _, _ = make()
    with pytest.raises(AssertionError, match=r"devtools\.logs would be -1"):
        state.add("devtools.logs", -1)
