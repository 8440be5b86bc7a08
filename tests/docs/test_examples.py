"""The examples of the tool reference are complete; that they are what tools answer today, the tour tells."""

from __future__ import annotations

from typing import Any

from tests.docs.__main__ import tools
from tests.docs.examples import Example, alike, chosen, is_current, shape, stored
from tests.serving.catalog.test_contract import PROMISED
from zorivest_rpc.serving.catalog.load import load


def test_every_tool_of_the_reference_has_a_real_result() -> None:
    examples = stored()
    assert list(examples) == [spec.name for spec in load().tools]
    page = tools()
    for name, example in examples.items():
        part = page.partition(f"### {name}\n")[2].partition("\n### ")[0]
        assert f"\n`{name}` called with" in part, name
        assert ("\nis refused with\n" if example["refused"] else "\nanswers\n") in part, name
        assert part.count("```json") == (2 if example["arguments"] else 1), name


def test_of_the_required_tools_only_those_that_need_the_world_outside_are_shown_refused() -> None:
    refused = {name for name, example in stored().items() if example["refused"]}
    assert refused & PROMISED == {"get_stock_quote", "get_market_news", "get_sec_filings"}


def test_values_make_no_difference_and_names_and_kinds_do() -> None:
    kept: Example = {"arguments": {"a": 1}, "refused": False, "result": {"at": "2026", "rows": [{"x": 1}], "by": None}}

    def changed(result: dict[str, object]) -> Example:
        return {**kept, "result": {**kept["result"], **result}}

    assert is_current(kept, changed({"at": "2027", "rows": [{"x": 2.5}, {"x": 3}]}))
    assert is_current(kept, changed({"rows": [], "by": "day"}))
    assert not is_current(kept, changed({"at": 2027}))
    assert not is_current(kept, changed({"rows": [{"y": 1}]}))
    assert not is_current(kept, changed({"more": 1}))
    assert not is_current(kept, {**kept, "refused": True})
    assert not is_current(kept, {**kept, "arguments": {}})
    assert not is_current(None, kept)
    assert alike(shape({"2026-01": 1}), shape({"2026-02": 1}))


def test_what_else_listens_on_this_machine_is_no_part_of_an_example() -> None:
    result = {
        "content": [],
        "structuredContent": {"backend": {}, "note": "A Zorivest listens on http://localhost:8765."},
    }
    calls: list[tuple[str, dict[str, Any], Any]] = [(spec.name, {}, result) for spec in load().tools]
    found = chosen(calls, "/nowhere")
    assert found["zorivest_diagnose"]["result"] == {"backend": {}}
    assert "note" in found["list_trades"]["result"]
