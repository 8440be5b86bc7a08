"""The life of a session as a table, without a loop."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.connect import PREFIX, meta
from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.protocol.capabilities import Capabilities, read_capabilities
from zorivest_rpc.mcp.protocol.jsonrpc import INVALID_REQUEST
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, LATEST_LEGACY, MODERN, REVISIONS, SUPPORTED_MODERN
from zorivest_rpc.mcp.protocol.session import ANY, LEGAL, Phase, Session, negotiate
from zorivest_rpc.mcp.protocol.stateless import check_meta, claims_modern, session_for
from zorivest_rpc.mcp.protocol.types import Meta

METHODS = ("initialize", "ping", "tools/call", "notifications/initialized", "no/such")


def test_a_tool_call_before_initialize_is_refused() -> None:
    session = Session()
    with pytest.raises(ProtocolError) as refused:
        session.check("tools/call", 7)
    assert (refused.value.code, refused.value.id, session.phase) == (INVALID_REQUEST, 7, Phase.NEW)


@pytest.mark.parametrize(
    ("phase", "legal"),
    [
        (Phase.NEW, {"initialize": Phase.GREETED, "ping": Phase.NEW}),
        (
            Phase.GREETED,
            {
                "ping": Phase.GREETED,
                "tools/call": Phase.GREETED,
                "notifications/initialized": Phase.READY,
                "no/such": Phase.GREETED,
            },
        ),
        (Phase.READY, {method: Phase.READY for method in METHODS if method != "initialize"}),
        (Phase.CLOSED, {}),
    ],
)
def test_what_is_legal_in_a_phase_and_where_it_leads(phase: Phase, legal: dict[str, Phase]) -> None:
    for method in METHODS:
        session = Session(phase=phase)
        if method in legal:
            session.check(method, 1)
            assert session.phase is legal[method]
        else:
            with pytest.raises(ProtocolError):
                session.check(method, 1)
            assert session.phase is phase


def test_the_table_names_every_phase_and_any_never_means_initialize() -> None:
    assert set(LEGAL) == set(Phase)
    assert [phase for phase, steps in LEGAL.items() if ANY in steps] == [Phase.GREETED, Phase.READY]


@pytest.mark.parametrize("row", REVISIONS, ids=lambda row: row.name)
def test_negotiation_agrees_on_what_has_a_handshake(row: Any) -> None:
    assert negotiate(row.name) is (LATEST_LEGACY if row.modern else row)


def test_the_rows_are_in_order_and_only_one_knows_batches() -> None:
    names = [row.name for row in REVISIONS]
    assert names == sorted(names)
    assert [row.name for row in REVISIONS if row.batches] == ["2025-03-26"]
    assert SUPPORTED_MODERN == ("2026-07-28",)
    assert LATEST_LEGACY.name == "2025-11-25"
    assert [row.name for row in REVISIONS if "initialize" in row.methods] == names[:4]
    assert [row.name for row in REVISIONS if "tasks/result" in row.methods] == ["2025-11-25"]


@pytest.mark.parametrize(
    ("revision", "declared", "expected"),
    [
        ("2025-11-25", {}, Capabilities()),
        ("2025-11-25", {"elicitation": {}}, Capabilities(elicitation_form=True)),
        ("2025-11-25", {"elicitation": {"url": {}}}, Capabilities(elicitation_url=True)),
        ("2025-06-18", {"elicitation": {"url": {}}}, Capabilities(elicitation_form=True)),
        ("2025-03-26", {"elicitation": {}}, Capabilities()),
        ("2025-11-25", {"sampling": {"tools": {}}}, Capabilities(sampling=True, sampling_tools=True)),
        ("2025-11-25", {"sampling": None, "roots": 1, "elicitation": []}, Capabilities()),
        ("2025-11-25", {"extensions": {"io.modelcontextprotocol/tasks": {}}}, Capabilities()),
        ("2026-07-28", {"extensions": {"io.modelcontextprotocol/tasks": {}}}, Capabilities(tasks=True)),
        ("2026-07-28", {"extensions": {"io.modelcontextprotocol/tasks": 1}}, Capabilities()),
        ("2026-07-28", {"extensions": []}, Capabilities()),
    ],
)
def test_capabilities_are_read_as_their_revision_means_them(revision: str, declared: Any, expected: Any) -> None:
    assert read_capabilities(declared, BY_NAME[revision]) == expected


def read(about: Any) -> Meta:
    return msgspec.json.decode(msgspec.json.encode(about), type=Meta)


def test_a_modern_session_is_born_ready_and_knows_only_its_request() -> None:
    about = read(meta({"roots": {}}) | {PREFIX + "logLevel": "alert"})
    session = session_for(check_meta(about, 1), "ada", 1)
    assert (session.phase, session.revision, session.principal) == (Phase.READY, MODERN, "ada")
    assert (session.log_level, session.capabilities.roots) == ("alert", True)
    assert session.client is not None
    assert session.client.name == "tests"
    assert session_for(check_meta(read(meta()), 1), "", 1).log_level is None


def test_a_version_is_a_claim_whatever_it_is_worth() -> None:
    assert claims_modern(read({PREFIX + "protocolVersion": None}))
    assert not claims_modern(read({PREFIX + "clientCapabilities": {}}))
