"""Which toolsets a session begins with, and what their file may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalogue import ALL, DEFAULT, META, count, names_of
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.serving.catalog.spec import Definitions, Mode
from zorivest_rpc.serving.catalog.toolsets import (
    choose,
    decode_config,
    first_list,
    is_eager,
    members,
    survives_read_only,
)

DEFAULTS = ("core", "discovery", "trade-analytics", "trade-planning")


def names(definitions: Definitions, *, lists_all: bool = False, **request: Any) -> list[str]:
    return [tool.name for tool in first_list(definitions, choose(definitions, **request), lists_all=lists_all)]


def test_without_a_request_the_tools_of_four_toolsets_are_listed(definitions: Definitions) -> None:
    selection = choose(definitions)
    assert (selection.toolsets, selection.requested) == (DEFAULTS, False)
    assert set(names(definitions)) == names_of(*DEFAULTS)
    assert len(names(definitions)) == DEFAULT - META
    assert sum(len(members(definitions, name)) for name in DEFAULTS) == DEFAULT - META + 1, "create_trade is in two"


def test_a_mode_that_lists_all_does_so_only_without_a_request(definitions: Definitions) -> None:
    assert len(names(definitions, lists_all=True)) == ALL - META
    assert len(names(definitions, lists_all=True, flag="tax")) == count("core", "discovery", "tax")


def test_core_and_discovery_come_with_every_request(definitions: Definitions) -> None:
    assert choose(definitions, flag="tax").toolsets == ("core", "discovery", "tax")


def test_all_means_every_tool_and_default_the_defaults(definitions: Definitions) -> None:
    assert len(names(definitions, flag="all")) == ALL - META
    assert choose(definitions, flag="default,tax").toolsets == (*DEFAULTS, "tax")


def test_toolsets_keep_their_order_whatever_the_request_says(definitions: Definitions) -> None:
    assert choose(definitions, flag="tax, accounts ,tax").toolsets == ("core", "discovery", "accounts", "tax")


def test_create_trade_is_listed_once_even_if_both_its_toolsets_are(definitions: Definitions) -> None:
    assert names(definitions, flag="trade-analytics,trade-planning").count("create_trade") == 1
    assert "create_trade" in names(definitions, flag="trade-planning")


def test_the_first_source_that_says_something_wins(definitions: Definitions) -> None:
    sources: dict[str, Any] = {
        "flag": "tax",
        "environment": "accounts",
        "client_override": ("scheduling",),
        "config_default": ("behavioral",),
    }
    seen = []
    while sources:
        selection = choose(definitions, **sources)
        seen.append((selection.source, selection.toolsets[-1]))
        del sources[next(iter(sources))]
    assert seen == [
        ("--toolsets", "tax"),
        ("ZORIVEST_TOOLSETS", "accounts"),
        ("clientOverrides", "scheduling"),
        ("defaultToolsets", "behavioral"),
    ]


def test_an_empty_variable_is_not_a_request(definitions: Definitions) -> None:
    assert not choose(definitions, flag="", environment=" , ").requested


def test_single_tools_are_added_to_a_request_and_stand_alone_without_one(definitions: Definitions) -> None:
    assert "get_tax_lots" in names(definitions, flag="accounts", tools="get_tax_lots")
    alone = names(definitions, tools="get_tax_lots,get_sqn", config_default=("accounts",))
    assert len(alone) == count("core", "discovery") + 2
    assert {"get_tax_lots", "get_sqn"} < set(alone)


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"flag": "taxx"}, '--toolsets: no toolset "taxx"; did you mean "tax"?'),
        (
            {"environment": "trade_planing"},
            'ZORIVEST_TOOLSETS: no toolset "trade_planing"; did you mean "trade-planning"?',
        ),
        ({"tools": "get_sqm"}, '--tools: no tool "get_sqm"; did you mean "get_sqn"?'),
        ({"flag": "qqqqqq"}, "there are core, discovery"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(definitions: Definitions, request_: Any, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        choose(definitions, **request_)
    assert text in str(refused.value)


def test_the_toolset_file_is_read(definitions: Definitions) -> None:
    data = b'{"defaultToolsets": ["all"], "clientOverrides": {"Cursor": ["tax"]}, "clientModes": {"cline": "static"}}'
    config = decode_config(data, "toolset-config.json", definitions)
    assert config.default_toolsets == ("all",)
    assert config.client_overrides == {"Cursor": ("tax",)}
    assert config.client_modes == {"cline": Mode.STATIC}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"{", "toolset-config.json: "),
        (b'{"defaultToolset": []}', "defaultToolset"),
        (b'{"clientModes": {"cline": "fast"}}', "there are anthropic, dynamic, static"),
        (b'{"clientModes": {"cline": "statc"}}', 'did you mean "static"?'),
        (b'{"defaultToolset": ["tax"]}', 'did you mean "defaultToolsets"?'),
        (b'{"toolset_overrides": {}}', "`toolset_overrides`"),
        (b'{"defaultToolsets": "tax"}', "defaultToolsets"),
        (b"\xff", "toolset-config.json: "),
    ],
)
def test_a_toolset_file_that_cannot_be_meant_is_refused(definitions: Definitions, data: bytes, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        decode_config(data, "toolset-config.json", definitions)
    assert text in str(refused.value)


def test_all_unknown_names_of_a_toolset_file_are_named_together(definitions: Definitions) -> None:
    data = b'{"defaultToolsets": ["taxes"], "clientOverrides": {"cursor": ["core", "market"]}}'
    with pytest.raises(ConfigError) as refused:
        decode_config(data, "toolset-config.json", definitions)
    assert 'defaultToolsets: no toolset "taxes"' in str(refused.value)
    assert 'clientOverrides.cursor: no toolset "market"' in str(refused.value)


def test_what_is_always_loaded_and_the_meta_tools_are_eager(definitions: Definitions) -> None:
    eager = {tool.name for tool in definitions.tools if is_eager(definitions, tool)}
    assert eager == names_of("core", "discovery")
    assert all(is_eager(definitions, tool) for tool in definitions.meta_tools)


def test_read_only_leaves_readers_and_three_others(definitions: Definitions) -> None:
    tools = (*definitions.tools, *definitions.meta_tools)
    writers = [tool.name for tool in tools if survives_read_only(tool) and not tool.reads_only]
    assert writers == ["zorivest_emergency_stop", "enable_toolset", "call_tool"]
    assert not any(survives_read_only(tool) for tool in tools if tool.name in ("create_trade", "sync_broker"))


def test_a_name_far_from_all_others_has_no_neighbour() -> None:
    assert nearest("zzzz", ["tax", "accounts"]) is None
    assert nearest("Get_Stock_Qoute", ["get_stock_quote", "get_sqn"]) == "get_stock_quote"
