"""The one function that assembles a catalogue: what it leaves alone, what it binds, what it refuses to take."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import zorivest_rpc
from tests.gateway.fake import Fake
from tests.gateway.test_router import house
from zorivest_rpc.gateway.assembly import assemble, names_no_tool
from zorivest_rpc.gateway.config import Profile, Server
from zorivest_rpc.gateway.policy import EXEMPT
from zorivest_rpc.serving.catalog.load import load

OURS = load()
SOURCE = Path(zorivest_rpc.__file__).parent


@pytest.mark.parametrize("mode", ["never", "mcp-only"])
def test_a_policy_that_says_nothing_of_our_tools_leaves_them_as_they_are(mode: str) -> None:
    built = assemble(OURS, Profile(tool_confirmation_mode=mode, confirmation_channel="token"))
    assert built == OURS
    assert all(new is old for new, old in zip(built.tools, OURS.tools, strict=True))


def test_a_list_binds_the_tools_it_names_and_no_other() -> None:
    built = assemble(OURS, Profile(require_confirm_tool=("list_t*",), deny_tool=("tool_search",)))
    bound = {new.name for new, old in zip(built.tools, OURS.tools, strict=True) if new is not old}
    assert bound == {spec.name for spec in OURS.tools if spec.name.startswith("list_t")}
    assert [spec.name for spec in built.meta_tools if spec.is_denied] == ["tool_search"]


def test_every_tool_resolves_to_a_decision_and_the_exempt_ones_run() -> None:
    built = assemble(OURS, Profile(tool_confirmation_mode="always", require_confirm_tool=("*",)))
    for spec in (*built.tools, *built.meta_tools):
        assert spec.verdict == ("allow" if spec.name in EXEMPT else "confirm"), spec.name
        assert ("confirmation_token" in spec.input_schema["properties"]) == (spec.name not in EXEMPT)
        required = spec.input_schema.get("required", [])
        assert "confirmation_token" not in required


def test_the_mode_alone_binds_our_tools() -> None:
    built = assemble(OURS, Profile(tool_confirmation_mode="always"))
    assert {spec.name for spec in built.tools if spec.verdict == "allow"} == EXEMPT & {spec.name for spec in OURS.tools}


def test_a_server_is_a_toolset_before_it_has_answered() -> None:
    last = assemble(OURS, Profile(mcp_servers=(OPS,))).toolsets[-1]
    assert (last.name, last.description, last.status, last.error) == (
        "mcp-ops", "0 tools from MCP server ops", "connecting", None,
    )  # fmt: skip


def test_an_import_that_is_confirmed_is_confirmed_for_the_bytes_of_its_file() -> None:
    """Confirming its arguments would bind a name under which the file can be exchanged."""
    built = {spec.name: spec for spec in assemble(OURS, Profile(require_confirm_tool=("import_*",))).tools}
    spec = built["import_broker_csv"]
    assert (spec.confirm, spec.confirm_above) == (False, -1)
    spared = {spec.name: spec for spec in assemble(OURS, Profile(approve_tool=("import_broker_csv",))).tools}
    assert not spared["import_broker_csv"].is_gated
    pattern = {spec.name: spec for spec in assemble(OURS, Profile(approve_tool=("import_*",))).tools}
    assert pattern["import_broker_csv"].confirm_above == 25, "a pattern does not approve what has to be confirmed"


def test_a_tool_that_no_policy_was_applied_to_is_not_taken() -> None:
    stray = msgspec.structs.replace(OURS.tools[0], name="ops__stray", upstream="ops")
    with pytest.raises(ValueError, match="no policy was applied to ops__stray"):
        assemble(OURS, Profile(), theirs=[stray])
    with pytest.raises(ValueError, match="no policy was applied to ops__stray"):
        assemble(OURS, Profile(), withheld=[stray])


def test_no_other_code_makes_a_catalogue() -> None:
    """`Definitions(...)` where files are read, and a copy with other tools in the one function that binds them."""
    makers = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = {keyword.arg for keyword in node.keywords}
            if called == "Definitions" or (called == "replace" and given & {"tools", "meta_tools", "withheld"}):
                makers.add(path.relative_to(SOURCE).as_posix())
    assert makers == {"gateway/assembly.py", "serving/catalog/load.py"}


OPS, WIKI, BARE = (
    Server(name="ops", command="x"),
    Server(name="wiki", command="x"),
    Server(name="bare", command="x", prefix=False),
)


@pytest.mark.parametrize(
    ("entry", "unknown", "told"),
    [
        ("list_trades", (), False),
        ("list_*", (), False),
        ("List_trades", (), True),
        ("ops__x", (), True),
        ("ops__x", (WIKI,), True),
        ("ops__x", (OPS,), False),
        ("ops*", (OPS,), False),
        ("o*", (OPS,), False),
        ("opsx*", (OPS,), True),
        ("*x", (OPS,), False),
        ("anything", (BARE,), False),
        ("anything", (OPS, WIKI), True),
    ],
)
def test_an_entry_that_names_no_tool_is_told_when_none_can_come(
    entry: str, unknown: tuple[Server, ...], told: bool
) -> None:
    found = names_no_tool(Profile(deny_tool=(entry,)), {"list_trades"}, unknown)
    assert found == ([f'deny_tool: "{entry}" matches no tool'] if told else [])


async def test_the_log_names_each_such_entry_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lists: dict[str, Any] = {"approve_tool": ("ops__echo", "ops__gone"), "deny_tool": ("nothing*",)}
    with caplog.at_level(logging.WARNING):
        async with house(tmp_path, ("ops", Fake()), **lists) as found:
            found.gateway._rebuild()
    said = [record.getMessage() for record in caplog.records if "matches no tool" in record.getMessage()]
    assert said == ['approve_tool: "ops__gone" matches no tool', 'deny_tool: "nothing*" matches no tool']
