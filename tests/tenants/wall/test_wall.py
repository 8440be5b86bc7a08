"""The wall holds under random walks, and a wall from which one tenant's name was taken is seen to leak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tenants.wall.bricks import MUTANTS, Mutant
from tests.tenants.wall.walk import TRIED, Leak, walk

STEPS = 2500


@pytest.mark.parametrize("seed", range(2))
async def test_no_walk_finds_a_way_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    done = await walk(monkeypatch, str(tmp_path), 1500, seed)
    assert done.steps >= 1500


async def test_with_processes_on_pipes_no_walk_finds_one_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await walk(monkeypatch, str(tmp_path), 4000, 2, processes=True)
    assert done.steps >= 4000
    assert set(done.done) >= TRIED, "it was a walk past all that it is for"


def leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


async def walk_on(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """One walk is nearly always enough; what a walk meets depends on the order in which answers come."""
    for seed in range(5, 9):
        data = place / str(seed)
        data.mkdir()
        await walk(monkeypatch, str(data), STEPS, seed)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
async def test_a_wall_without_one_brick_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    mutant(monkeypatch)
    with pytest.raises((Leak, BaseExceptionGroup)) as seen:
        await walk_on(monkeypatch, tmp_path)
    causes = list(leaves(seen.value))
    assert {type(cause) for cause in causes} == {Leak}, causes
