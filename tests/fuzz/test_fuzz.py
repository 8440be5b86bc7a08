"""A bounded share of the long run, over every transport, with seeds that are part of the name."""

from __future__ import annotations

import pytest

from tests.fuzz.drive import run
from tests.fuzz.generate import Generator


@pytest.mark.parametrize(
    ("transport", "count", "seed"),
    [("memory", 4_000, 101), ("memory", 4_000, 102), ("stdio", 1_500, 103), ("http", 800, 104), ("sse", 800, 105)],
)
async def test_hostile_messages_are_answered_and_break_nothing(transport: str, count: int, seed: int) -> None:
    report = await run(transport, count, seed)
    assert report.findings == []
    assert report.sent == count
    assert report.answers["result"] > count / 50  # it is not all noise
    assert {"-32700", "-32600", "-32601", "-32602"} <= set(report.answers)


def test_a_seed_names_a_run_exactly() -> None:
    first, second = Generator(5), Generator(5)
    assert [first.message(True) for _ in range(300)] == [second.message(True) for _ in range(300)]
