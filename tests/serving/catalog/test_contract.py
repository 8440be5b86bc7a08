"""What the catalogue promises: which tools there are, where they belong, and the flags that make them safe.

The requirement's own numbers stand here and in no other test. A tool that the requirement does not name may be added:
these tests ask for the named ones and bind the others by rules alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc.serving.catalog.load import check, load, schemas_dir
from zorivest_rpc.serving.catalog.spec import Definitions, ToolSpec, required_fields
from zorivest_rpc.serving.catalog.toolsets import choose, first_list, is_eager, members

TOOLS = {
    "core": """get_settings update_settings zorivest_emergency_stop zorivest_emergency_unlock get_log_settings
        update_log_level zorivest_diagnose zorivest_launch_gui zorivest_service_status zorivest_service_restart
        zorivest_service_logs""",
    "discovery": "list_available_toolsets describe_toolset enable_toolset get_confirmation_token",
    "trade-analytics": """create_trade list_trades attach_screenshot get_trade_screenshots get_screenshot
        get_round_trips enrich_trade_excursion get_fee_breakdown score_execution_quality estimate_pfof_impact
        get_expectancy_metrics simulate_drawdown get_strategy_breakdown get_sqn get_cost_of_free ai_review_trade
        detect_options_strategy create_report get_report_for_trade""",
    "trade-planning": "calculate_position_size create_trade_plan create_trade",
    "market-data": """get_stock_quote get_market_news search_ticker get_sec_filings list_market_providers
        test_market_provider disconnect_market_provider""",
    "accounts": """sync_broker list_brokers resolve_identifiers import_bank_statement import_broker_csv
        import_broker_pdf list_bank_accounts get_account_review_checklist""",
    "scheduling": """create_policy list_policies run_pipeline preview_report update_policy_schedule
        get_pipeline_history""",
    "tax": """simulate_tax_impact estimate_tax find_wash_sales get_tax_lots get_quarterly_estimate
        record_quarterly_tax_payment harvest_losses get_ytd_tax_summary""",
    "behavioral": "track_mistake get_mistake_summary link_trade_journal",
}
UNGUARDED = """zorivest_emergency_stop zorivest_emergency_unlock zorivest_diagnose zorivest_launch_gui
    list_available_toolsets describe_toolset enable_toolset get_confirmation_token"""
GATED = "zorivest_emergency_stop create_trade sync_broker disconnect_market_provider zorivest_service_restart"
NETWORK_BOUND = "get_stock_quote get_market_news search_ticker get_sec_filings"
FROM_CODE = """get_round_trips get_fee_breakdown score_execution_quality estimate_pfof_impact get_expectancy_metrics
    simulate_drawdown get_strategy_breakdown get_sqn get_cost_of_free ai_review_trade detect_options_strategy"""
WITH_LOGIC = """zorivest_emergency_stop zorivest_emergency_unlock get_log_settings update_log_level zorivest_diagnose
    zorivest_launch_gui zorivest_service_status zorivest_service_restart zorivest_service_logs get_screenshot
    get_account_review_checklist update_policy_schedule list_available_toolsets describe_toolset enable_toolset
    get_confirmation_token"""


def named(tools: Iterable[ToolSpec]) -> set[str]:
    return {tool.name for tool in tools}


def test_the_shipped_catalogue_has_no_problems() -> None:
    assert [str(problem) for problem in check()] == []


PROMISED = frozenset(name for names in TOOLS.values() for name in names.split())


def required(tools: Iterable[ToolSpec]) -> set[str]:
    """Those of some tools that the requirement names."""
    return named(tools) & PROMISED


def test_the_68_tools_of_the_requirement_exist(definitions: Definitions) -> None:
    assert len(PROMISED) == 68
    assert named(definitions.tools) >= PROMISED
    assert len(named(definitions.tools)) == len(definitions.tools), "each is registered once"


def test_every_toolset_has_the_members_of_the_requirement_in_order(definitions: Definitions) -> None:
    found = {
        toolset.name: [tool.name for tool in members(definitions, toolset.name) if tool.name in PROMISED]
        for toolset in definitions.toolsets
    }
    assert found == {name: names.split() for name, names in TOOLS.items()}
    assert [len(names) for names in found.values()] == [11, 4, 19, 3, 7, 8, 6, 8, 3]


def test_36_tools_are_listed_by_default_and_all_70_with_the_meta_tools_of_which_17_are_eager_and_53_deferred(
    definitions: Definitions,
) -> None:
    by_default = required(first_list(definitions, choose(definitions), lists_all=False))
    everything = required(first_list(definitions, choose(definitions), lists_all=True))
    meta = [*definitions.meta_tools]
    eager = required([tool for tool in definitions.tools if is_eager(definitions, tool)])
    assert (len(by_default), len(everything)) == (36, 68)
    assert (len(by_default) + len(meta), len(everything) + len(meta)) == (38, 70)
    assert len(by_default) + len(meta) <= 40, "the limit of the strictest clients"
    assert (len(eager) + len(meta), len(everything - eager)) == (17, 53)


def test_create_trade_is_in_two_toolsets_and_registered_once(definitions: Definitions) -> None:
    twice = [tool for tool in definitions.tools if tool.also_in and tool.name in PROMISED]
    assert [(tool.name, tool.toolsets) for tool in twice] == [("create_trade", ("trade-analytics", "trade-planning"))]


def test_two_toolsets_are_always_loaded_and_four_by_default(definitions: Definitions) -> None:
    assert [toolset.name for toolset in definitions.toolsets if toolset.always_loaded] == ["core", "discovery"]
    assert [toolset.name for toolset in definitions.toolsets if toolset.default] == [
        "core",
        "discovery",
        "trade-analytics",
        "trade-planning",
    ]


def test_the_meta_tools_stand_outside_the_toolsets(definitions: Definitions) -> None:
    assert [(tool.name, tool.toolset, tool.guarded) for tool in definitions.meta_tools] == [
        ("tool_search", "", False),
        ("call_tool", "", False),
    ]


def test_sixty_tools_of_the_requirement_are_guarded_and_two_of_them_answer_while_the_guard_is_out_of_reach(
    definitions: Definitions,
) -> None:
    assert len(required([tool for tool in definitions.tools if tool.guarded])) == 60
    assert required([tool for tool in definitions.tools if not tool.guarded]) == set(UNGUARDED.split())
    offline = required([tool for tool in definitions.tools if tool.guard_offline == "allow"])
    assert offline == {"zorivest_service_status", "zorivest_service_logs"}


@pytest.mark.parametrize(
    ("flag", "names"),
    [("confirm", GATED), ("network_bound", NETWORK_BOUND), ("ptc", FROM_CODE), ("python", WITH_LOGIC)],
)
def test_a_flag_is_on_the_required_tools_it_is_meant_for(definitions: Definitions, flag: str, names: str) -> None:
    assert required([tool for tool in definitions.tools if getattr(tool, flag)]) == set(names.split())


def test_gated_tools_take_a_token_and_no_route_carries_it(definitions: Definitions) -> None:
    from zorivest_rpc.serving.catalog.spec import routes

    for tool in definitions.tools:
        assert ("confirmation_token" in tool.input_schema["properties"]) is tool.is_gated
        for route in routes(tool):
            assert "confirmation_token" not in {*route.query_params, *route.body_params, *route.path_params}


def test_four_required_tools_are_destructive_and_creating_a_trade_is_not(definitions: Definitions) -> None:
    destructive = required([tool for tool in definitions.tools if tool.annotations.destructive_hint])
    assert destructive == {
        "zorivest_emergency_stop",
        "zorivest_service_restart",
        "disconnect_market_provider",
        "sync_broker",
    }


def test_both_descriptions_are_within_their_bounds(definitions: Definitions) -> None:
    for tool in (*definitions.tools, *definitions.meta_tools):
        assert 50 <= len(tool.description.minimal) <= 100, tool.name
        assert 200 <= len(tool.description.rich) <= 400, tool.name


def test_a_rich_description_begins_with_a_sentence_that_stands_alone(definitions: Definitions) -> None:
    for tool in (*definitions.tools, *definitions.meta_tools):
        assert tool.description.rich.startswith(tool.description.minimal), tool.name


def test_descriptions_are_unique_and_mention_only_tools_that_exist(definitions: Definitions) -> None:
    everything = (*definitions.tools, *definitions.meta_tools)
    assert len({tool.description.minimal for tool in everything}) == len(everything)
    names = {tool.name for tool in everything}
    inputs = {name for tool in everything for name in tool.input_schema["properties"]}
    for tool in everything:
        words = tool.description.rich.replace("{", " ").replace('"', " ").split()
        mentioned = {word.strip(".,;:()}[]") for word in words}
        suspects = {word for word in mentioned if word.startswith(("get_", "list_", "import_", "create_", "zorivest_"))}
        assert suspects - inputs <= names, tool.name


def properties_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for entry in schema.get("properties", {}).values():
        found += [entry, *properties_of(entry)]
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            found += [schema[key], *properties_of(schema[key])]
    return found


def test_input_schemas_are_flat_typed_and_closed(definitions: Definitions) -> None:
    for tool in (*definitions.tools, *definitions.meta_tools):
        schema = tool.input_schema
        assert (schema["type"], schema["additionalProperties"]) == ("object", False), tool.name
        for entry in properties_of(schema):
            assert "type" in entry, tool.name
            assert all(isinstance(value, str) for value in entry.get("enum", [])), tool.name
            assert not {"$ref", "anyOf", "oneOf", "allOf", "not", "multipleOf", "format"} & set(entry), tool.name


def test_every_input_is_described(definitions: Definitions) -> None:
    for tool in (*definitions.tools, *definitions.meta_tools):
        for name, entry in tool.input_schema["properties"].items():
            assert len(entry["description"]) > 10, f"{tool.name}.{name}"


def test_names_fit_the_clients_that_cut_them(definitions: Definitions) -> None:
    assert all(len(tool.name) <= 40 for tool in (*definitions.tools, *definitions.meta_tools))


def test_writing_tools_say_how_to_find_out_whether_a_lost_write_took_place(definitions: Definitions) -> None:
    silent = [
        tool.name
        for tool in definitions.tools
        if not tool.reads_only and tool.check_with is None and not tool.annotations.idempotent_hint
    ]
    assert silent == ["zorivest_launch_gui", "create_trade_plan"]  # nothing lists windows or plans


def test_files_are_formatted_alike() -> None:
    """Keys in the order of the schema, two spaces, one final newline: a diff shows what changed and nothing else."""
    root = Path(schemas_dir())
    order = list(json.loads((root / "tool.schema.json").read_text())["properties"])
    for file in [*root.glob("tools/*/*.json"), *root.glob("meta/*.json")]:
        text = file.read_text(encoding="utf-8")
        keys = list(json.loads(text))
        assert keys == sorted(keys, key=order.index), file
        assert text.endswith("\n}\n"), file
        assert not any(line != line.rstrip() or "\t" in line for line in text.splitlines()), file


def test_defaults_are_left_out_of_files() -> None:
    noise = {"guarded": True, "guard_offline": "deny", "confirm": False, "network_bound": False, "ptc": False}
    for file in Path(schemas_dir()).glob("tools/*/*.json"):
        stated = json.loads(file.read_text())
        assert not [key for key, value in noise.items() if key in stated and stated[key] == value], file


def test_required_output_fields_are_found_at_every_depth() -> None:
    schema = {"required": ["a"], "properties": {"a": {"items": {"required": ["b"]}}, "required": {"type": "boolean"}}}
    assert required_fields(schema) == {"a", "b"}
    assert required_fields(None) == frozenset()


def test_loading_twice_gives_the_same_values_in_the_same_order() -> None:
    assert load() == load()
