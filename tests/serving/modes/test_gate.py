"""What about a tool makes a client ask, as its definition is presented."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from zorivest_rpc.serving.catalog.spec import Annotations, ClientTable, Definitions, ToolSpec
from zorivest_rpc.serving.modes.detect import detect
from zorivest_rpc.serving.modes.gate import asked_by_client, causes
from zorivest_rpc.serving.modes.present import REVISION_FIELDS, Presentation, definition, presentation


def hinted(definitions: Definitions, *, reads: bool, destructive: bool, open_world: bool, confirm: bool) -> ToolSpec:
    tool = next(tool for tool in definitions.tools if tool.name == "create_trade")
    hints = Annotations(reads, destructive, False, open_world)
    return msgspec.structs.replace(tool, annotations=hints, confirm=confirm)


@pytest.mark.parametrize("revision", REVISION_FIELDS)
@pytest.mark.parametrize("name", ["claude-code", "codex", "cursor", "zed"])
def test_a_cause_is_what_the_wire_shows(definitions: Definitions, table: ClientTable, revision: str, name: str) -> None:
    """Read back from the definition that is sent, for every combination of hints."""
    how = presentation(detect(table, name=name), revision)
    for reads, destructive, open_world, confirm in itertools.product((True, False), repeat=4):
        tool = hinted(definitions, reads=reads, destructive=destructive, open_world=open_world, confirm=confirm)
        wire = definition(tool, how, eager=False)
        hints, meta = wire.get("annotations", {}), wire.get("_meta", {})
        seen = {
            "write": hints.get("readOnlyHint") is not True if hints else not reads,
            "destructive": hints.get("destructiveHint") is True,
            "open_world": hints.get("openWorldHint") is True,
            "marked": meta.get("anthropic/requiresUserInteraction") is True,
        }
        assert causes(tool, how) == {cause for cause, given in seen.items() if given}


@pytest.mark.parametrize("wanted", ["write", "destructive", "open_world", "marked"])
def test_each_word_of_the_trait_counts_alone(definitions: Definitions, table: ClientTable, wanted: str) -> None:
    profile = detect(table, name="claude-code")
    traits = msgspec.structs.replace(profile.traits, asks_for=(wanted,))
    profile = msgspec.structs.replace(profile, traits=traits)
    how = presentation(profile, "2025-11-25")
    gated = [tool for tool in definitions.tools if tool.confirm]
    expected = {
        "write": {tool.name for tool in gated},
        "marked": {tool.name for tool in gated},
        "destructive": {tool.name for tool in gated if tool.annotations.destructive_hint},
        "open_world": {tool.name for tool in gated if tool.annotations.open_world_hint},
    }[wanted]
    assert asked_by_client(profile, gated, how) == expected
    assert 0 < len(asked_by_client(profile, gated, how)) <= len(gated)


def test_a_client_without_the_trait_asks_for_nothing(definitions: Definitions, table: ClientTable) -> None:
    profile = detect(table, name="Visual Studio Code")
    assert asked_by_client(profile, definitions.tools, presentation(profile, "2025-11-25")) == frozenset()


def test_without_marks_a_client_that_asks_only_for_marks_asks_for_nothing(
    definitions: Definitions, table: ClientTable
) -> None:
    profile = detect(table, name="claude-code")
    profile = msgspec.structs.replace(profile, traits=msgspec.structs.replace(profile.traits, asks_for=("marked",)))
    shown: Presentation = presentation(profile, "2025-11-25")
    for how in (
        msgspec.structs.replace(shown, anthropic_marks=False),
        msgspec.structs.replace(shown, meta=False),
    ):
        assert asked_by_client(profile, definitions.tools, how) == frozenset()
