"""What a session sees and may call, asked of the audience itself: every word of a header, every kind of limit."""

from __future__ import annotations

import msgspec
import pytest

from tests.serving.middleware.fake import NoWire
from zorivest_rpc.errors import InvalidArguments
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.mcp.protocol.types import Implementation
from zorivest_rpc.serving.audience import Audience, Policy
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import Annotations, Definitions, Description, ToolsetSpec, ToolSpec
from zorivest_rpc.serving.catalog.toolsets import ToolsetConfig

DEFINITIONS = load()
WRITE, READ = "create_trade", "list_trades"


def session_of(name: str | None = "cline", version: str = "1", *asked: str) -> Session:
    """`asked`: the values of X-MCP-Toolsets, -Tools, -Exclude-Tools and -Readonly."""
    session = Session(client=None if name is None else Implementation(name, version))
    session.asked = asked
    return session


def refusal_code(audience: Audience, session: Session, name: str) -> str | None:
    refused = audience.refusal(session, name)
    return None if refused is None else refused.code


@pytest.mark.parametrize(
    ("word", "reads_only"),
    [
        *((word, False) for word in ("", "0", "false", "no", "off", " ", " False ", "NO", "OFF")),
        *((word, True) for word in ("1", "true", "yes", "on", "TRUE", "00", "f", "n", "nonsense")),
    ],
)
def test_a_read_only_header_binds_unless_it_says_no(word: str, reads_only: bool) -> None:
    session = session_of("cline", "1", "", "", "get_settings", word)
    audience = Audience(DEFINITIONS, Policy())
    assert refusal_code(audience, session, WRITE) == ("read_only" if reads_only else None)
    assert refusal_code(audience, session, READ) is None
    strict = Audience(DEFINITIONS, Policy(read_only=True))
    assert refusal_code(strict, session, WRITE) == "read_only"


@pytest.mark.parametrize(
    ("asked", "open_tools", "closed"),
    [
        (("tax", ""), {"get_tax_lots"}, {READ, "get_sqn"}),
        (("", READ), {READ}, {"get_tax_lots", "get_sqn"}),
        (("tax", READ), {"get_tax_lots", READ}, {"get_sqn"}),
        ((" tax , trade-analytics ", ""), {"get_tax_lots", "get_sqn", READ}, {"create_trade_plan"}),
        (("nothing-known", ""), set(), {"get_tax_lots", READ, "get_sqn"}),
        (("", "nothing_known"), set(), {"get_tax_lots", READ, "get_sqn"}),
        (("all", ""), {"get_tax_lots", READ, "get_sqn"}, set()),
    ],
)
def test_toolset_and_tool_headers_narrow_and_leave_the_brake(
    asked: tuple[str, str], open_tools: set[str], closed: set[str]
) -> None:
    audience, session = Audience(DEFINITIONS, Policy(toolsets="all")), session_of("cline", "1", *asked)
    for name in open_tools | {"zorivest_emergency_stop", "zorivest_diagnose", "tool_search", "call_tool"}:
        assert refusal_code(audience, session, name) is None, name
    for name in closed:
        assert refusal_code(audience, session, name) == "narrowed", name


def test_what_the_operator_and_the_client_exclude_adds_up() -> None:
    audience = Audience(DEFINITIONS, Policy(excluded=frozenset({"get_sqn"})))
    both = session_of("cline", "1", "", "", "get_settings,get_tax_lots")
    for name in ("get_sqn", "get_settings", "get_tax_lots"):
        assert refusal_code(audience, both, name) == "excluded"
    assert refusal_code(audience, both, READ) is None
    assert refusal_code(audience, session_of(), "get_sqn") == "excluded"


def test_a_list_per_client_is_for_that_client_and_none_other() -> None:
    config = ToolsetConfig(default_toolsets=("tax",), client_overrides={"cursor": ("trade-analytics",)})
    audience = Audience(DEFINITIONS, Policy(config=config))
    for name, found, missing in (
        ("cursor", "get_sqn", "get_tax_lots"),
        ("cline", "get_tax_lots", "get_sqn"),
        (None, "get_tax_lots", "get_sqn"),
    ):
        listed = {spec.name for spec in audience.visible_tools(session_of(name))}
        assert (found in listed, missing in listed) == (True, False), name
        assert {tool.name for tool in audience.view(session_of(name)).listed} == listed


@pytest.mark.parametrize(("version", "asks_for"), [("2.1.198", {"write"}), ("2.1.199", None), ("", None)])
def test_a_profile_knows_the_version_that_the_client_sent(version: str, asks_for: set[str] | None) -> None:
    profile = Audience(DEFINITIONS, Policy()).profile(session_of("claude-code", version))
    assert profile.version == version
    newest = Audience(DEFINITIONS, Policy()).profile(session_of("claude-code", "99.0"))
    if asks_for is None:
        assert profile.traits == newest.traits
    else:
        assert set(profile.traits.asks_for) == asks_for != set(newest.traits.asks_for)


def test_a_toolset_is_loaded_when_every_tool_that_may_be_called_is_listed() -> None:
    audience = Audience(DEFINITIONS, Policy(toolsets="tax"))
    assert audience.is_loaded(session_of(), "tax")
    assert not audience.is_loaded(session_of(), "trade-analytics")
    only = session_of("cline", "1", "", "get_tax_lots")
    assert [spec.name for spec in audience.callable_tools(only, "tax")] == ["get_tax_lots"]
    assert audience.is_loaded(only, "tax")
    assert not audience.is_loaded(session_of("cline", "1", "", READ), "tax"), "no tool of it may be called"


def test_a_call_with_a_view_does_not_look_for_its_profile_again(monkeypatch: pytest.MonkeyPatch) -> None:
    audience, session = Audience(DEFINITIONS, Policy()), session_of("claude-code", "2.1.326")
    call, without = Call(WRITE, {}, session, NoWire(), audience.view(session)), Call("x://y", {}, session, NoWire())
    assert audience.profile_of(without) is audience.profile_of(call)
    looked: list[Session] = []
    monkeypatch.setattr(audience, "profile", looked.append)
    audience.profile_of(call)
    audience.asks_before(call.dispatch(WRITE, {}))
    assert looked == []


@pytest.mark.parametrize(
    ("confirm", "trusts_names", "dispatched", "asks"),
    [
        ("always", True, False, True),
        ("never", False, True, False),
        ("auto", True, False, False),
        ("auto", True, True, True),
        ("auto", False, False, True),
    ],
)
def test_the_server_asks_unless_the_client_is_known_to(
    confirm: str, trusts_names: bool, dispatched: bool, asks: bool
) -> None:
    audience = Audience(DEFINITIONS, Policy(confirm=confirm, trusts_names=trusts_names))  # type: ignore[arg-type]
    spec = audience.specs[WRITE]
    session = session_of("claude-code", "2.1.326")
    call = Call("call_tool" if dispatched else WRITE, {}, session, NoWire(), audience.view(session))
    assert audience.asks_before(call.dispatch(WRITE, {}) if dispatched else call) is asks
    if confirm == "auto":
        assert audience.asks(session_of("an unknown client"), spec) is True
        assert audience.asks(session_of("claude-code", "2.1.326"), spec, trusts_names=False) is True
        assert audience.asks(session_of("claude-code", "2.1.326"), spec, trusts_names=True) is False


def test_what_is_remembered_of_clients_is_bounded() -> None:
    audience = Audience(DEFINITIONS, Policy())
    for number in range(300):
        session = session_of(f"client-{number}", "1", "", f"tool_{number}")
        audience.view(session)
        audience.gated_tools(session)
    kept = (audience._profiles, audience._views, audience._limits, audience._asked_by_client)
    assert [len(each) <= 256 for each in kept] == [True] * 4


# --- a catalogue that is replaced


def other_tool(name: str, **changes: object) -> ToolSpec:
    given = ToolSpec(
        name=name,
        title="Elsewhere",
        description=Description(f"[far] {name}", f"[far] {name}"),
        input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        annotations=Annotations(False, True, False, True),
        python="forward",
        toolset="mcp-far",
        upstream="far",
        hints={"readOnlyHint": False},
    )
    return msgspec.structs.replace(given, **changes)


def with_tools(*tools: ToolSpec, default: bool = True) -> Definitions:
    toolset = ToolsetSpec("mcp-far", "Tools from MCP server far", default=default, upstream="far", status="ready")
    return msgspec.structs.replace(
        DEFINITIONS, toolsets=(*DEFINITIONS.toolsets, toolset), tools=(*DEFINITIONS.tools, *tools)
    )


def names_of(audience: Audience, session: Session) -> list[str]:
    return [tool.name for tool in audience.view(session).listed]


@pytest.mark.parametrize("client", ["cline", "claude-code", None])
def test_a_catalogue_that_is_adopted_is_what_every_session_sees_from_then_on(client: str | None) -> None:
    audience, session = Audience(DEFINITIONS, Policy()), session_of(client)
    before = audience.view(session)
    audience.adopt(with_tools(other_tool("far__a"), other_tool("far__b")))
    listed = names_of(audience, session)
    ours = [tool.name for tool in before.listed]
    assert [name for name in listed if name in ours] == ours
    assert [name for name in listed if name not in ours] == ["far__a", "far__b"]
    assert before.find("far__a") is None, "a view that was handed out does not change"
    audience.adopt(with_tools(other_tool("far__b")))
    assert "far__a" not in names_of(audience, session)
    assert "far__b" in names_of(audience, session)
    audience.adopt(DEFINITIONS)
    assert names_of(audience, session) == ours


def test_a_toolset_that_does_not_load_by_itself_is_loaded_by_the_session() -> None:
    audience, session = Audience(with_tools(other_tool("far__a"), default=False), Policy()), session_of()
    assert "far__a" not in names_of(audience, session)
    session.toolsets |= {"mcp-far"}
    assert "far__a" in names_of(audience, session)


@pytest.mark.parametrize(("toolsets", "shown"), [("all", True), ("mcp-far", True), ("tax", False), ("default", True)])
def test_the_toolset_of_a_server_is_chosen_like_any_other(toolsets: str, shown: bool) -> None:
    audience = Audience(with_tools(other_tool("far__a")), Policy(toolsets=toolsets))
    assert ("far__a" in names_of(audience, session_of())) is shown


def test_hints_of_another_server_are_published_as_they_are_given() -> None:
    audience = Audience(with_tools(other_tool("far__a")), Policy())
    tool = audience.view(session_of()).find("far__a")
    assert tool is not None
    assert tool.definition["annotations"] == {"readOnlyHint": False}


def test_limits_bind_the_tools_of_other_servers() -> None:
    definitions = with_tools(
        other_tool("far__a"), other_tool("far__read", annotations=Annotations(True, False, True, True))
    )
    strict = Audience(definitions, Policy(read_only=True))
    assert refusal_code(strict, session_of(), "far__a") == "read_only"
    assert refusal_code(strict, session_of(), "far__read") is None
    assert refusal_code(Audience(definitions, Policy()), session_of("cline", "1", "tax"), "far__a") == "narrowed"


def test_a_tool_that_stays_keeps_its_compiled_validator() -> None:
    stays, goes = other_tool("far__a"), other_tool("far__b")
    audience, session = Audience(with_tools(stays, goes), Policy()), session_of()

    def check(name: str, text: object) -> object:
        tool = audience.view(session).find(name)
        assert tool is not None
        return tool.check({"text": text})

    check("far__a", "x")
    first = audience.view(session).find("far__a")
    strict = {"type": "object", "properties": {"text": {"type": "string", "minLength": 2}}}
    audience.adopt(with_tools(stays, other_tool("far__b", input_schema=strict)))
    again = audience.view(session).find("far__a")
    assert first is not None
    assert again is not None
    assert again._checks is first._checks
    with pytest.raises(InvalidArguments):
        check("far__b", "x")


def test_gated_tools_are_those_of_the_catalogue_in_force() -> None:
    audience = Audience(DEFINITIONS, Policy())
    gated, ours = audience.gated, set(audience.gated)
    audience.adopt(with_tools(other_tool("far__a", confirm=True)))
    assert set(gated) == {*ours, "far__a"}
    audience.adopt(DEFINITIONS)
    assert set(gated) == ours
