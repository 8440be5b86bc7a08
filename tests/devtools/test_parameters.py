"""Which modes read a parameter is seen by running each of them; its description has to name the same ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import zorivest_rpc.devtools.generate
import zorivest_rpc.devtools.tools
from tests.devtools.stage import Desk, answer, click, log, perf, request, socket
from zorivest_rpc.devtools.frames import Down, Query
from zorivest_rpc.devtools.kit import read_arguments
from zorivest_rpc.devtools.tools import ARGUMENTS, Tools
from zorivest_rpc.serving.catalog.load import load

Json = Any
SPECS = {spec.name: spec for spec in load(opt_in=("devtools",)).tools if spec.toolset == "devtools"}
CHOOSERS = {name: next(iter(spec.input_schema["required"])) for name, spec in SPECS.items() if name != "query_dom"}
RULE = {"category": "console", "pattern": "noise"}
CALLS: dict[tuple[str, str], list[dict[str, Json]]] = {
    ("configure", "store"): [
        {"store_action": "save", "key": "k", "data": {}},
        {"store_action": "load", "key": "k"},
        {"store_action": "list"},
        {"store_action": "stats"},
        {"store_action": "delete", "key": "k"},
    ],
    ("configure", "noise_rule"): [
        {"noise_action": "add", "rules": [RULE]},
        {"noise_action": "remove", "rule_id": "rule-1"},
        {"noise_action": "list"},
        {"noise_action": "auto_detect"},
        {"noise_action": "reset"},
    ],
    ("configure", "dismiss"): [{"pattern": "x"}],
    ("configure", "capture"): [{"settings": {"actions": True}, "page": "a" * 16}],
}
"""What a mode needs to go through all of its branches; without an entry nothing but the mode."""


class Recorder:
    """A struct of arguments, or a mapping of them, that remembers what was read of it."""

    def __init__(self, given: Any, read: set[str]) -> None:
        self._given = given
        self._read = read

    def __getattr__(self, name: str) -> Any:
        self._read.add(name)
        return getattr(self._given, name)


class RecordingMapping(Mapping[str, Json]):
    def __init__(self, given: Mapping[str, Json], read: set[str]) -> None:
        self._given = given
        self._read = read

    def __getitem__(self, name: str) -> Json:
        self._read.add(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the maker of an artefact names what it reads")

    def __len__(self) -> int:
        raise AssertionError("the maker of an artefact names what it reads")


def make_desk() -> Desk:
    """A page with something in every buffer, that answers queries at once."""
    desk = Desk()
    visit, link = desk.visit()
    keep = link.send

    def send(frame: Down) -> None:
        keep(frame)
        if isinstance(frame, Query):
            answer(visit, frame, {"url": "http://localhost/", "matches": [], "violations": [], "engine": "axe-core"})

    link.send = send  # type: ignore[method-assign]
    desk.send(visit, log("broke", "error"), request(response_body='{"a":1}'), socket(), click(), perf(load=10.0))
    desk.send(visit, click(selectors={"id": "b"}), request(method="POST", status=500))
    return desk


async def read_by(name: str, mode: str, path: Path, patch: pytest.MonkeyPatch) -> set[str]:
    """The parameters that the tool reads in this mode."""
    read: set[str] = set()
    desk = make_desk()
    tools = Tools(lambda call: desk.watch, lambda tenant: path / "store", lambda tenant: str(path), desk.clock)
    make = zorivest_rpc.devtools.generate.make_artefact
    patch.setattr(
        zorivest_rpc.devtools.generate,
        "make_artefact",
        lambda format, recording, given: make(format, recording, RecordingMapping(given, read)),
    )
    patch.setattr(
        zorivest_rpc.devtools.tools, "read_arguments", lambda given, kind: Recorder(read_arguments(given, kind), read)
    )
    for given in CALLS.get((name, mode), [{}]):
        arguments = {CHOOSERS[name]: mode, **given}
        outcome = await tools.handlers()[name](
            SimpleNamespace(arguments=arguments, progress=lambda done, total, message: None)  # type: ignore[arg-type]
        )
        assert not outcome.is_error
    return read - {CHOOSERS[name]}


def named_in(description: str, modes: list[str]) -> set[str]:
    """The modes before a colon, as in `network, har: lowest status.`; one may be followed by its own kind of action.

    A description that begins with none is of a parameter that every mode reads.
    """
    mode = rf"(?:{'|'.join(modes)})(?: [a-z]+)?"
    clauses = re.findall(rf"(?:^|[.;] )({mode}(?:, {mode})*): ", description)
    return {word.split()[0] for clause in clauses for word in clause.split(", ")} or set(modes)


@pytest.mark.parametrize("name", CHOOSERS)
async def test_a_description_names_the_modes_that_read_the_parameter(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = SPECS[name].input_schema["properties"]
    modes = properties[CHOOSERS[name]]["enum"]
    reads = {mode: await read_by(name, mode, tmp_path, monkeypatch) for mode in modes}
    for parameter in properties.keys() - {CHOOSERS[name]}:
        reading = {mode for mode in modes if parameter in reads[mode]}
        described = named_in(properties[parameter]["description"], modes)
        assert reading == described, f"{parameter}: read by {sorted(reading)}, described for {sorted(described)}"
    assert set().union(*reads.values()) == properties.keys() - {CHOOSERS[name]}


async def test_every_parameter_of_a_tool_without_modes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHOOSERS, "query_dom", "selector")
    read = await read_by("query_dom", "h1", tmp_path, monkeypatch) | {"selector"}
    assert read == SPECS["query_dom"].input_schema["properties"].keys()
    assert list(ARGUMENTS) == list(SPECS)
