"""Every transcript over every transport that can carry it."""

from __future__ import annotations

import pytest

from tests.mcp.protocol.transcripts import Names, Transcript, replay, transcripts

ALL = transcripts()
REVISIONS = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}


@pytest.mark.parametrize(
    ("transcript", "kind"),
    [pytest.param(each, kind, id=f"{each.path.stem}-{kind}") for each in ALL for kind in each.kinds],
)
async def test_the_conversation_goes_as_written(transcript: Transcript, kind: str) -> None:
    await replay(transcript, kind)


def test_every_revision_has_a_conversation() -> None:
    assert {each.head["revision"] for each in ALL} == REVISIONS
    assert all(each.head["note"] for each in ALL)
    assert all(any(step.expected for step in each.steps) for each in ALL)


def test_what_differs_from_run_to_run_is_named_and_found_again() -> None:
    names = Names()
    token, other = "ab" * 40, "cd" * 40
    hidden = names.hide({"a": token, "b": [other, token, "2026-01-02T03:04:05.678Z", "zrv-00-1"], "c": "abc"})
    assert hidden == {"a": "<sealed-1>", "b": ["<sealed-2>", "<sealed-1>", "<time>", "<question-1>"], "c": "abc"}
    assert names.show({"x": ["<sealed-2>", "<question-1>", "<unknown>"]}) == {"x": [other, "zrv-00-1", "<unknown>"]}
