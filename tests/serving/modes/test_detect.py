"""Which mode a client gets, and why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalogue import ALL, DEFAULT, META
from zorivest_rpc.serving.catalog.load import load_clients
from zorivest_rpc.serving.catalog.spec import ClientTable, Definitions, Mode
from zorivest_rpc.serving.catalog.toolsets import choose, first_list
from zorivest_rpc.serving.modes.detect import (
    Profile,
    client_entry,
    detect,
    normalise,
    parse_mode,
    profile_of,
    shown_name,
)


def profile_from(table: ClientTable, handshake: dict[str, Any]) -> Profile:
    info = handshake.get("clientInfo", {})
    return detect(
        table,
        name=info.get("name"),
        version=info.get("version"),
        capabilities=handshake["capabilities"],
        user_agent=handshake.get("user_agent"),
    )


def test_every_family_gets_its_mode_and_its_first_list(
    table: ClientTable, definitions: Definitions, handshake: dict[str, Any]
) -> None:
    profile = profile_from(table, handshake)
    listed = first_list(definitions, choose(definitions), lists_all=profile.implied.lists_all)
    assert {
        "client": profile.client,
        "mode": profile.mode,
        "source": profile.source,
        "elicitation": list(profile.elicitation),
        "results": profile.results,
        "asks_for": list(profile.traits.asks_for),
        "lists": "all" if len(listed) == ALL - META else "default" if len(listed) == DEFAULT - META else "",
    } == handshake["expect"]
    assert profile.reason


def test_the_operators_choice_beats_everything(table: ClientTable) -> None:
    profile = detect(table, name="claude-code", override=Mode.STATIC, client_modes={"claude-code": Mode.DYNAMIC})
    assert (profile.mode, profile.source, profile.client) == (Mode.STATIC, "override", "claude-code")
    assert profile.traits.asks_for  # the traits stay what they are


def test_the_toolset_file_beats_the_name(table: ClientTable) -> None:
    profile = detect(table, name="cursor-vscode", client_modes={"Cursor": Mode.DYNAMIC})
    assert (profile.mode, profile.source) == (Mode.DYNAMIC, "toolset-config")


def test_a_stated_capability_lifts_a_client_known_as_static(table: ClientTable) -> None:
    profile = detect(table, name="cursor-vscode", capabilities={"tools": {"listChanged": True}})
    assert (profile.mode, profile.source, profile.client) == (Mode.DYNAMIC, "capability", "cursor")


def test_a_stated_capability_never_lowers_anthropic_nor_an_operators_choice(table: ClientTable) -> None:
    stated = {"tools": {"listChanged": True}}
    assert detect(table, name="claude-code", capabilities=stated).mode is Mode.ANTHROPIC
    assert detect(table, name="my-claude", capabilities=stated).mode is Mode.ANTHROPIC
    assert detect(table, name="zed", capabilities=stated, override=Mode.STATIC).mode is Mode.STATIC
    assert detect(table, name="zed", capabilities=stated, client_modes={"zed": Mode.STATIC}).mode is Mode.STATIC


@pytest.mark.parametrize("value", ["true", 1, None, False, {}])
def test_only_true_states_the_capability(table: ClientTable, value: Any) -> None:
    assert detect(table, name="somebody", capabilities={"tools": {"listChanged": value}}).mode is Mode.STATIC


def test_the_environment_decides_only_for_a_client_without_a_name(table: ClientTable) -> None:
    assert detect(table, name="mcp", claude_code_environment=True).source == "environment"
    assert detect(table, claude_code_environment=True).mode is Mode.ANTHROPIC
    assert detect(table, name="somebody", claude_code_environment=True).mode is Mode.STATIC
    assert detect(table, name="zed", claude_code_environment=True).mode is Mode.DYNAMIC


def test_a_user_agent_can_give_claude_away(table: ClientTable) -> None:
    assert detect(table, name="connector", user_agent="Claude-User/1.0").source == "vendor"


@pytest.mark.parametrize("name", ["zedd", "cursory", "gooseberry", "continued", "opencoder", "my-zed", "inspector"])
def test_a_name_inside_a_longer_word_is_another_name(table: ClientTable, name: str) -> None:
    assert detect(table, name=name).client == "unknown"


@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("goose", "goose"),
        ("goose-cli", "goose"),
        ("continue-cli-client", "continue"),
        ("Visual-Studio-Code", "vscode"),
        ("Code - OSS", "vscode"),
        ("JetBrains-JBC-copilot-intellij", "jetbrains"),
        ("Kilo Code", "kilo-code"),
        ("Kilo-Code", "kilo-code"),
        ("@librechat/api-client", "librechat"),
        ("@n8n/n8n-nodes-langchain.mcpClientTool", "n8n"),
        ("dev.warp.Warp", "warp"),
        ("Q-DEV-CLI", "amazon-q"),
        ("MetaMCP-proxy", "gateway"),
        ("roo-cline", "roo-code"),
        ("ＣＵＲＳＯＲ", "cursor"),
    ],
)
def test_aliases_and_prefixes_lead_to_the_family(table: ClientTable, name: str, client: str) -> None:
    assert detect(table, name=name).client == client


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Roo Code", "roo-code"),
        ("Anthropic/ClaudeAI", "anthropic-claudeai"),
        ("@cline/core", "cline-core"),
        ("claude-ai (via mcp-remote 0.1.37)", "claude-ai"),
        ("  Zéd  ", "zed"),
        ("!!!", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_names_are_normalised(name: object, plain: str) -> None:
    assert normalise(name) == plain


def test_traits_follow_the_version(table: ClientTable) -> None:
    def when(version: object) -> str:
        return detect(table, name="claude-code", version=version).traits.list_changed

    assert when("2.0.76") == "no"
    assert when("1.9") == "no"
    assert [when(version) for version in ("2.1.0", "2.1.280", "v3", "2.10.0")] == ["next-turn"] * 4
    assert [when(version) for version in (None, "", "nightly", 2)] == ["next-turn"] * 4


def test_only_the_listed_clients_are_known_to_ask_their_user(table: ClientTable) -> None:
    asking = {client.id: client.traits.asks_for for client in table.clients if client.traits.asks_for}
    assert asking == {
        "claude-code": ("write", "marked"),
        "claude-desktop": ("write",),
        "claude-agent-mode": ("write",),
        "claude-web": ("write",),
        "codex": ("destructive", "open_world"),
        "chatgpt": ("write",),
    }


def test_a_mark_counts_from_the_version_that_reads_it(table: ClientTable) -> None:
    def asks(version: str) -> tuple[str, ...]:
        return detect(table, name="claude-code", version=version).traits.asks_for

    assert (asks("2.1.198"), asks("2.1.199"), asks("2.0.0")) == (("write",), ("write", "marked"), ("write",))


@pytest.mark.parametrize("name", ["claude-code (via a-proxy)", "codex(via x", "claude-ai (via mcp-remote 0.1.37)"])
def test_behind_a_proxy_no_client_is_known_to_ask(table: ClientTable, name: str) -> None:
    profile = detect(table, name=name)
    assert profile.client in ("claude-code", "codex", "claude-desktop")
    assert profile.traits.asks_for == ()


def test_an_unknown_client_gets_the_careful_traits(table: ClientTable) -> None:
    traits = detect(table, name="somebody").traits
    assert (traits.list_changed, traits.asks_for, traits.tool_limit) == ("no", (), 40)


def test_limits_and_the_refusal_of_meta_are_known(table: ClientTable) -> None:
    def traits(client: str) -> Any:
        found = profile_of(table, client)
        assert found is not None
        return found.traits

    assert [traits(client).tool_limit for client in ("vscode", "antigravity", "windsurf", "cursor", "roo-code")] == [
        128,
        100,
        100,
        40,
        60,
    ]
    assert not traits("cursor").tool_meta


def test_every_family_can_be_named_by_its_id(table: ClientTable) -> None:
    for client in table.clients:
        profile = profile_of(table, client.id)
        assert profile is not None
        assert (profile.client, profile.mode) == (client.id, client.mode)
    assert profile_of(table, "Roo Code") is not None
    assert profile_of(table, "nobody") is None


@pytest.mark.parametrize(
    ("text", "mode"), [("static", Mode.STATIC), (" Anthropic ", Mode.ANTHROPIC), ("DYNAMIC", Mode.DYNAMIC)]
)
def test_an_override_may_be_written_in_any_case(text: str, mode: Mode) -> None:
    assert parse_mode(text) == (mode, None)


def test_auto_and_nothing_are_no_override() -> None:
    assert [parse_mode(text) for text in ("auto", "", None, " AUTO ")] == [(None, None)] * 4


def test_an_override_that_is_none_is_ignored_with_a_warning() -> None:
    mode, warning = parse_mode("fast\nline")
    assert mode is None
    assert warning is not None
    assert "'fast line'" in warning
    assert "\n" not in warning


def test_an_operators_key_means_every_name_of_the_family(table: ClientTable) -> None:
    entries = {"Cursor": 1, "Visual Studio Code": 2, "own-tool": 3, "claude-desktop": 4}
    assert client_entry(entries, "cursor-vscode", table) == 1
    assert client_entry(entries, "Visual Studio Code - Insiders", table) == 2
    assert client_entry(entries, "Own Tool", table) == 3
    assert client_entry(entries, "claude-ai (via mcp-remote 0.1.37)", table) == 4
    assert client_entry(entries, "Zed", table) is None
    assert client_entry(entries, None, table) is None


def test_an_exact_key_beats_a_key_of_the_family(table: ClientTable) -> None:
    entries = {"cursor": "family", "cursor-vscode": "exact"}
    assert client_entry(entries, "cursor-vscode", table) == "exact"


def test_a_huge_name_with_control_characters_is_cleaned_and_cut() -> None:
    shown = shown_name("evil\x1b[31m\nname" + "x" * 10_000)
    assert len(shown) == 64
    assert shown.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["tools", "elicitation", "x"]), inner),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, database=None)
@given(name=JSON | st.text(), version=JSON, capabilities=JSON, agent=st.none() | st.text(max_size=20))
def test_no_opening_is_an_error(name: Any, version: Any, capabilities: Any, agent: str | None) -> None:
    profile = detect(TABLE, name=name, version=version, capabilities=capabilities, user_agent=agent)
    assert profile.mode in Mode
    assert len(profile.name) <= 64


TABLE = load_clients()
