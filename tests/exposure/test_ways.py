"""Which client is served how: the operator's choice, the client's traits and the revision."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exposure.observing import MODES, TOOLS, ObservingJournal, make_journal
from tests.serving.test_audience import session_of
from zorivest_rpc.mcp.protocol.revisions import BY_NAME
from zorivest_rpc.mcp.protocol.session import Session
from zorivest_rpc.serving.catalog.load import load_clients
from zorivest_rpc.serving.modes.detect import Profile, profile_of
from zorivest_rpc.serving.modes.exposure import choose

Json = Any
TABLE = load_clients()
# Of the clients that are known, those that reload a list when they are told, in the mode in which a list may change.
FILTERED = {"vscode", "copilot-cli", "gemini-cli", "cline", "opencode", "zed", "mcp-inspector"}


def profile(client: str) -> Profile:
    found = profile_of(TABLE, client)
    assert found is not None
    return found


@pytest.mark.parametrize("client", [client.id for client in TABLE.clients])
def test_auto_hides_only_from_a_client_that_hears_of_what_appears(client: str) -> None:
    wanted = "filter" if client in FILTERED else "advisory"
    assert choose("auto", profile(client), modern=False) == wanted
    assert choose("auto", profile(client), modern=True) == "filter"
    for setting in ("filter", "advisory", "off"):
        assert choose(setting, profile(client), modern=False) == setting
        assert choose(setting, profile(client), modern=True) == setting


def tools_of(journal: ObservingJournal, session: Session) -> dict[str, Json]:
    import json

    view = journal.audience.view(session)
    page = json.loads(b"{%b}" % view.page(session.revision.shape, 0, 1_000))
    return {tool["name"]: tool for tool in page["tools"] if tool["name"] in TOOLS}


def session_in(revision: str, name: str = "cline") -> Session:
    session = session_of(name)
    session.revision = BY_NAME[revision]
    return session


@pytest.mark.parametrize(
    ("options", "client", "revision", "shown", "gated", "told", "hinted"),
    [
        ((), "cline", "2025-11-25", 3, True, True, False),
        ((), "claude-code", "2025-11-25", 8, False, True, True),
        ((), "windsurf", "2025-11-25", 8, False, True, True),
        ((), "roo-code", "2025-11-25", 8, False, True, True),
        ((), "cursor", "2025-11-25", 8, False, False, False),
        ((), "cline", "2026-07-28", 3, False, True, False),
        ((), "cline", "2025-06-18", 3, True, True, False),
        ((), "cline", "2025-03-26", 3, True, False, False),
        ((), "cline", "2024-11-05", 3, True, False, False),
        (("--exposure", "filter"), "windsurf", "2025-11-25", 3, True, True, False),
        (("--exposure", "advisory"), "cline", "2025-11-25", 8, False, True, True),
        (("--exposure", "off"), "cline", "2025-11-25", 8, False, False, False),
        (("--exposure", "off"), "cline", "2026-07-28", 8, False, False, False),
        (("--exposure-meta-skip", "Cline"), "cline", "2025-11-25", 3, True, False, False),
        (("--exposure-meta-skip", "zed"), "cursor-vscode", "2025-11-25", 8, False, False, False),
    ],
)
def test_what_each_kind_of_client_is_shown(
    options: tuple[str, ...], client: str, revision: str, shown: int, gated: bool, told: bool, hinted: bool
) -> None:
    tools = tools_of(make_journal(*options), session_in(revision, client))
    assert list(tools) == (["observe", "query_dom"] if gated else list(TOOLS))
    modes = tools["observe"]["inputSchema"]["properties"]["what"]["enum"]
    assert len(modes) == shown
    meta = tools["observe"].get("_meta", {})
    assert ("data_counts" in meta) == ("available_modes" in meta) == told
    assert ("hint" in meta) == hinted
    assert "data_counts" not in tools["query_dom"].get("_meta", {})


def test_a_client_that_searches_keeps_its_marks_beside_the_counts() -> None:
    tools = tools_of(make_journal(), session_in("2025-11-25", "claude-code"))
    assert list(tools["observe"]["_meta"])[-3:] == ["available_modes", "data_counts", "hint"]
    assert tools["observe"]["_meta"]["defer_loading"] is True


def test_the_definition_for_people_and_for_calls_is_the_whole_one() -> None:
    journal = make_journal("--exposure", "filter")
    session = session_in("2025-11-25")
    assert "analyze" not in tools_of(journal, session)
    spec = journal.audience.specs["analyze"]
    whole = journal.audience.definition(session, spec)
    assert whole["inputSchema"]["properties"]["target"]["enum"] == MODES["analyze"][1]  # type: ignore[index]
    assert spec in journal.audience.loaded_tools(session)
    assert spec not in journal.audience.visible_tools(session)
    assert journal.audience.is_loaded(session, "devtools")


def test_at_most_sixty_four_lists_are_kept_and_the_least_used_goes() -> None:
    journal = make_journal("--exposure", "filter")
    engine = journal.exposure
    assert engine is not None
    sessions = []
    for number in range(70):
        session = session_in("2025-11-25")
        session.asked = ("", "", f"tool_{number}", "")
        sessions.append(session)
    first = journal.audience.view(sessions[0])
    for session in sessions[1:64]:
        journal.audience.view(session)
    assert journal.audience.view(sessions[0]) is first
    for session in sessions[64:]:
        journal.audience.view(session)
    assert journal.audience.view(sessions[0]) is first
    assert len(engine._views) == 64
