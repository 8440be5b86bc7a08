"""The measurement of the product measures something, and writes only between its own markers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import product
from tests.bench.bars import Verdict
from tests.catalogue import ALL, META
from zorivest_rpc.serving.catalog.load import load


def test_the_figures_within_one_process_are_taken_of_the_real_parts() -> None:
    assert product.list_time() > 0
    assert set(product.chain_times()) == {"list_trades", "create_trade"}
    checks = product.validation_times()
    assert len(checks) == ALL - META
    assert all(taken > 0 for taken in checks.values())


@pytest.mark.parametrize("guarded", [True, False])
def test_the_tool_that_forwards_can_be_served(tmp_path: Path, guarded: bool) -> None:
    tools = {tool.name: tool for tool in load(str(product.schemas_with_forward(tmp_path, guarded))).tools}
    assert (len(tools), tools["forward"].guarded) == (ALL - META + 1, guarded)


def records(share: float, **more: object) -> list[dict[str, object]]:
    tests = (product.PIPE, product.HTTP.format(16), product.HTTP.format(64))
    ours = [{"round": 1, "name": "product", "test": test, "rps": 1000 * share, "errors": 0, **more} for test in tests]
    floor = [{"round": 1, "name": "floor", "test": test, "rps": 1000, "errors": 0} for test in tests]
    start = {"round": 1, "test": "A.product"}
    return [
        *ours,
        *floor,
        {**start, "name": "floor", "init_ms": 100.0, "list_ms": 101.0},
        {**start, "name": "product", "init_ms": 160.0, "list_ms": 195.0},
    ]


def test_the_bars_are_those_of_the_product() -> None:
    verdicts = [each.verdict for each in product.judged(records(0.85))[:5]]
    assert verdicts == [Verdict.PASS, Verdict.MISS, Verdict.PASS, Verdict.PASS, Verdict.PASS]
    assert [each.verdict for each in product.judged(records(0.7))[2:5]] == [Verdict.MISS] * 3
    wrong = product.judged(records(0.9, errors=1, first_error="x"))[2:5]
    assert [each.verdict for each in wrong] == [Verdict.INVALID] * 3
