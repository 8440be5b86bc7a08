"""What a client is shown of a tool, and how a result is made brief without losing what the next call needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalogue import ALWAYS, DEFAULT, DEFERRED
from tests.docs.examples import stored
from zorivest_rpc.serving.catalog.spec import ClientTable, Definitions, Mode, ToolSpec, required_fields
from zorivest_rpc.serving.catalog.toolsets import is_eager
from zorivest_rpc.serving.modes.detect import detect
from zorivest_rpc.serving.modes.present import (
    REVISION_FIELDS,
    concise,
    definition,
    fill,
    identifiers,
    kept_fields,
    presentation,
    to_object,
)

LEGACY, MODERN = "2025-11-25", "2026-07-28"
UUID = "3f2c1a9e-8f60-4b6d-9a53-0d6a2a4f7c11"
INSTANT = "2026-03-02T14:30:00+00:00"


def shown(
    definitions: Definitions, mode: Mode, revision: str = LEGACY, name: str = "somebody"
) -> dict[str, dict[str, Any]]:
    how = presentation(detect(definitions.clients, name=name, override=mode), revision)
    tools = (*definitions.tools, *definitions.meta_tools)
    return {tool.name: definition(tool, how, eager=is_eager(definitions, tool)) for tool in tools}


def by_name(definitions: Definitions, name: str) -> ToolSpec:
    return next(tool for tool in definitions.tools if tool.name == name)


@pytest.mark.parametrize("revision", REVISION_FIELDS)
@pytest.mark.parametrize("mode", Mode)
def test_every_definition_has_name_text_and_schema_in_a_fixed_order(
    definitions: Definitions, mode: Mode, revision: str
) -> None:
    order = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"]
    for wire in shown(definitions, mode, revision).values():
        assert list(wire) == [key for key in order if key in wire]
        assert {"name", "description", "inputSchema"} <= set(wire)
        assert wire["inputSchema"]["type"] == "object"


def test_searching_clients_read_the_rich_text_and_the_others_the_minimal(definitions: Definitions) -> None:
    for mode, low, high in ((Mode.ANTHROPIC, 200, 400), (Mode.DYNAMIC, 50, 100), (Mode.STATIC, 50, 100)):
        assert all(low <= len(wire["description"]) <= high for wire in shown(definitions, mode).values())


def test_every_tool_shows_its_hints_in_every_mode(definitions: Definitions) -> None:
    for mode in Mode:
        for wire in shown(definitions, mode).values():
            assert set(wire["annotations"]) == {
                "title",
                "readOnlyHint",
                "destructiveHint",
                "idempotentHint",
                "openWorldHint",
            }


def test_anthropic_clients_load_some_tools_at_once_and_the_others_on_demand(definitions: Definitions) -> None:
    metas = [wire["_meta"] for wire in shown(definitions, Mode.ANTHROPIC).values()]
    assert sum(meta.get("anthropic/alwaysLoad") is True for meta in metas) == ALWAYS
    assert sum(meta.get("defer_loading") is True for meta in metas) == DEFERRED
    assert not any("anthropic/alwaysLoad" in meta and "defer_loading" in meta for meta in metas)


def test_marked_tools_may_be_called_from_code(definitions: Definitions) -> None:
    wires = shown(definitions, Mode.ANTHROPIC)
    callers = {
        name: wire["_meta"]["allowed_callers"] for name, wire in wires.items() if "allowed_callers" in wire["_meta"]
    }
    assert set(callers) == {tool.name for tool in definitions.tools if tool.ptc} != set()
    assert set(map(tuple, callers.values())) == {("code_execution",)}
    assert all(wires[name]["annotations"]["readOnlyHint"] for name in callers)


def test_the_name_of_the_caller_can_be_changed(definitions: Definitions) -> None:
    how = presentation(detect(definitions.clients, name="claude-code"), LEGACY, ("code_execution_20260120",))
    wire = definition(by_name(definitions, "get_sqn"), how, eager=False)
    assert wire["_meta"]["allowed_callers"] == ["code_execution_20260120"]


def test_claude_code_asks_its_user_before_each_gated_tool(definitions: Definitions) -> None:
    wires = shown(definitions, Mode.ANTHROPIC)
    asked = {name for name, wire in wires.items() if wire["_meta"].get("anthropic/requiresUserInteraction")}
    assert asked == {tool.name for tool in definitions.tools if tool.confirm}


def test_large_results_are_announced_and_stay_below_the_ceiling(definitions: Definitions) -> None:
    sizes = [wire["_meta"].get("anthropic/maxResultSizeChars") for wire in shown(definitions, Mode.ANTHROPIC).values()]
    assert [size for size in sizes if size] != []
    assert all(size is None or 25_000 < size <= 500_000 for size in sizes)


def test_other_modes_carry_no_marks(definitions: Definitions) -> None:
    for mode in (Mode.DYNAMIC, Mode.STATIC):
        for name, wire in shown(definitions, mode).items():
            home = {tool.name: tool.toolset for tool in definitions.tools}.get(name)
            assert wire.get("_meta", {}) == ({"com.zorivest/toolset": home} if home else {})


def test_a_client_that_once_refused_meta_gets_none(definitions: Definitions) -> None:
    assert not any("_meta" in wire for wire in shown(definitions, Mode.STATIC, name="cursor-vscode").values())


def test_older_revisions_get_only_what_they_know(definitions: Definitions) -> None:
    first = shown(definitions, Mode.ANTHROPIC, "2024-11-05")["get_settings"]
    assert list(first) == ["name", "description", "inputSchema"]
    second = shown(definitions, Mode.ANTHROPIC, "2025-03-26")["get_settings"]
    assert list(second) == ["name", "description", "inputSchema", "annotations"]
    assert second["annotations"]["title"] == "Get settings"


def test_output_schemas_are_published_as_objects_and_not_to_static_clients(definitions: Definitions) -> None:
    for mode in (Mode.ANTHROPIC, Mode.DYNAMIC):
        published = [wire["outputSchema"] for wire in shown(definitions, mode).values() if "outputSchema" in wire]
        assert len(published) > 25
        assert all(schema["type"] == "object" for schema in published)
    assert not any("outputSchema" in wire for wire in shown(definitions, Mode.STATIC).values())
    assert "outputSchema" not in shown(definitions, Mode.DYNAMIC)["list_brokers"]  # an array


def test_both_eras_show_the_same_tools(definitions: Definitions) -> None:
    for mode in Mode:
        assert shown(definitions, mode, LEGACY) == shown(definitions, mode, MODERN)


def test_equal_presentations_are_one_key(definitions: Definitions) -> None:
    table = definitions.clients
    one = presentation(detect(table, name="Cline", version="1"), LEGACY)
    other = presentation(detect(table, name="Zed", version="2"), MODERN)
    assert {one: "kept"}[other] == "kept"
    assert presentation(detect(table, name="claude-code"), LEGACY) != one


def test_the_default_list_is_small(definitions: Definitions) -> None:
    default = {"core", "discovery", "trade-analytics", "trade-planning", ""}
    homes = {tool.name: tool.toolset for tool in (*definitions.tools, *definitions.meta_tools)}
    listed = [wire for name, wire in shown(definitions, Mode.STATIC).items() if homes[name] in default]
    assert len(listed) == DEFAULT
    assert len(json.dumps(listed, separators=(",", ":"))) < 30_000


# results


def kept(definitions: Definitions, name: str) -> frozenset[str] | None:
    return kept_fields(by_name(definitions, name), identifiers(definitions.tools))


def test_a_brief_result_loses_uuids_timestamps_and_audit_fields(definitions: Definitions) -> None:
    payload = {
        "items": [
            {
                "exec_id": "T1",
                "time": INSTANT,
                "instrument": "QQQ STK",
                "price": 512.4,
                "created_at": INSTANT,
                "import_batch_id": UUID,
                "dedup_hash": "9a1f",
                "row": UUID,
                "notes": None,
            }
        ],
        "total": 1,
    }
    assert concise(payload, kept(definitions, "list_trades")) == {
        "items": [{"exec_id": "T1", "time": INSTANT, "instrument": "QQQ STK", "price": 512.4, "notes": None}],
        "total": 1,
    }


def test_identifiers_that_another_tool_takes_survive_even_as_uuids(definitions: Definitions) -> None:
    payload = {
        "account_id": UUID,
        "entry_exec_ids": [UUID],
        "policy_id": UUID,
        "journal_entry_id": UUID,
        "link_id": UUID,
    }
    brief = concise(payload, kept(definitions, "get_fee_breakdown"))
    assert brief == {"account_id": UUID, "entry_exec_ids": [UUID], "policy_id": UUID, "journal_entry_id": UUID}


def test_a_policys_own_id_survives_since_its_schema_requires_it(definitions: Definitions) -> None:
    policy = {
        "id": UUID,
        "name": "Daily",
        "schema_version": 1,
        "enabled": True,
        "approved": False,
        "content_hash": "ab" * 32,
        "created_at": INSTANT,
        "approved_at": None,
    }
    brief = concise({"policies": [policy], "total": 1}, kept(definitions, "list_policies"))
    assert brief["policies"] == [{key: value for key, value in policy.items() if not key.endswith("_at")}]


def test_some_results_are_left_whole(definitions: Definitions) -> None:
    payload = {"ui.last_seen_at": INSTANT, "ui.install_id": UUID}
    assert concise(payload, kept(definitions, "get_settings")) == payload


def test_dates_and_words_are_not_taken_for_timestamps(definitions: Definitions) -> None:
    payload = {"due_date": "2026-04-15", "period": "2026", "label": "2026-04-15 to 2026-06-15", "rate": 0.1}
    assert concise(payload, kept(definitions, "get_quarterly_estimate")) == payload


def test_making_a_result_brief_does_not_change_the_original(definitions: Definitions) -> None:
    payload = {"rows": [{"created_at": INSTANT}]}
    assert concise(payload, frozenset()) == {"rows": [{}]}
    assert payload == {"rows": [{"created_at": INSTANT}]}


def sample(schema: dict[str, Any]) -> Any:
    """A value for an output schema, with every string a UUID or an instant: the worst case for what must stay."""
    kind = schema.get("const") if "const" in schema else schema.get("enum", [None])[0]
    if kind is not None:
        return kind
    types = schema.get("type", "string")
    first = types[0] if isinstance(types, list) else types
    if first == "object":
        found = {name: sample(entry) for name, entry in schema.get("properties", {}).items()}
        if isinstance(schema.get("additionalProperties"), dict) and not found:
            found["some_key"] = sample(schema["additionalProperties"])
        return found
    if first == "array":
        return [sample(schema.get("items", {}))]
    return {"string": UUID, "integer": 1, "number": 1.5, "boolean": True, "null": None}[first]


def test_a_brief_result_still_fits_its_schema_and_keeps_what_that_requires(definitions: Definitions) -> None:
    checked = 0
    for tool in definitions.tools:
        if tool.output_schema is None:
            continue
        payload = sample(tool.output_schema)
        judge = jsonschema_rs.Draft202012Validator(tool.output_schema)
        judge.validate(payload)
        brief = concise(payload, kept(definitions, tool.name))
        judge.validate(brief)
        assert required_fields(tool.output_schema) <= names_in(brief), tool.name
        checked += 1
    assert checked > 40


def names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for entry in value.values() for name in names_in(entry)}
    return {name for entry in value for name in names_in(entry)} if isinstance(value, list) else set()


@pytest.mark.parametrize(
    ("producer", "field"),
    [
        ("list_trades", "exec_id"),
        ("create_trade", "exec_id"),
        ("attach_screenshot", "image_id"),
        ("get_trade_screenshots", "id"),
        ("list_brokers", "broker_id"),
        ("list_bank_accounts", "account_id"),
        ("get_account_review_checklist", "id"),
        ("list_policies", "id"),
        ("create_policy", "id"),
        ("get_pipeline_history", "policy_id"),
        ("get_report_for_trade", "journal_entry_id"),
        ("create_report", "journal_entry_id"),
        ("get_tax_lots", "lot_id"),
        ("get_round_trips", "exit_exec_ids"),
        ("list_market_providers", "provider_name"),
    ],
)
def test_what_the_next_call_needs_is_kept(definitions: Definitions, producer: str, field: str) -> None:
    assert concise([{field: UUID}], kept(definitions, producer)) == [{field: UUID}]


@pytest.mark.parametrize("tool", ["create_trade", "list_trades", "import_broker_csv", "import_broker_pdf"])
def test_when_a_trade_took_place_is_no_audit_field(definitions: Definitions, tool: str) -> None:
    assert concise([{"time": INSTANT}], kept(definitions, tool)) == [{"time": INSTANT}]


def test_no_part_of_a_real_result_is_left_empty(definitions: Definitions) -> None:
    def emptied(value: Any, brief: Any, place: str) -> Iterator[str]:
        if isinstance(value, dict):
            if value and not brief:
                yield place
            for name in brief:
                yield from emptied(value[name], brief[name], f"{place}.{name}")
        elif isinstance(value, list):
            for entry, shorter in zip(value, brief, strict=True):
                yield from emptied(entry, shorter, f"{place}[]")

    results = {name: example["result"] for name, example in stored().items() if isinstance(example["result"], dict)}
    assert len(results) > 50
    for name, result in results.items():
        assert list(emptied(result, concise(result, kept(definitions, name)), name)) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from([UUID, INSTANT, "plain"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b_at", "c_id", "id", "keep"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, database=None)
@given(JSON)
def test_being_brief_twice_is_being_brief_once(payload: Any) -> None:
    once = concise(payload, frozenset({"keep"}))
    assert concise(once, frozenset({"keep"})) == once
    assert len(json.dumps(once)) <= len(json.dumps(payload))


def test_arrays_and_bare_values_become_objects() -> None:
    assert to_object({"a": 1}) == {"a": 1}
    assert to_object([1, 2]) == {"items": [1, 2]}
    assert to_object("text") == {"value": "text"}


def test_sentences_are_filled_and_gaps_stay_visible() -> None:
    assert fill('Policy "{name}": {approved}, {missing}.', {"name": "Daily {x}", "approved": False}) == (
        'Policy "Daily {x}": false, ?.'
    )


def test_the_shipped_sentences_can_be_filled(definitions: Definitions, table: ClientTable) -> None:
    for tool in definitions.tools:
        if tool.not_found is not None:
            given_ = dict.fromkeys(tool.input_schema["properties"], "X")
            assert "?" not in fill(tool.not_found.problem, given_), tool.name
        if tool.message is not None:
            assert tool.output_schema is not None
            assert "?" not in fill(tool.message, dict.fromkeys(tool.output_schema["properties"], "X")), tool.name
