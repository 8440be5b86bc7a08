"""The era of a server, concluded from its answer to `server/discover`; and the opening that follows from it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from zorivest_rpc.errors import ProtocolError
from zorivest_rpc.mcp.client.caller import Answer, Caller, Identity, Note, Refused, Request
from zorivest_rpc.mcp.client.ladder import Sighting, Verdict, choose_version, conclude
from zorivest_rpc.mcp.client.opening import Opening, Seen, TurnedAway, Welcome, open_server
from zorivest_rpc.mcp.protocol.replies import ErrorBody
from zorivest_rpc.mcp.protocol.revisions import BY_NAME, Era

OURS = ("2026-07-28",)
ROWS = [
    (Sighting(200, has_result=True, versions=OURS), Verdict.MODERN),
    (Sighting(200, has_result=True, versions=("2027-01-01", *OURS)), Verdict.MODERN),
    (Sighting(200, has_result=True, versions=("2027-01-01",)), Verdict.NO_COMMON),
    (Sighting(200, has_result=True, versions=()), Verdict.NO_COMMON),
    (Sighting(200, has_result=True), Verdict.LEGACY),
    *((Sighting(status, -32020), Verdict.UNDISCOVERED) for status in (400, 404, 422, 200)),
    *((Sighting(status, -32021), Verdict.UNDISCOVERED) for status in (400, 404, 422, 200)),
    *((Sighting(status, -32022), Verdict.OTHER_VERSION) for status in (400, 404, 422, 200)),
    (Sighting(404, -32601), Verdict.UNCLEAR),
    *((Sighting(status), Verdict.LEGACY) for status in (400, 404, 405, 406, 415)),
    *((Sighting(status, -32600), Verdict.LEGACY) for status in (400, 404, 405, 406, 415, 200)),
    *((Sighting(status, -32601), Verdict.LEGACY) for status in (400, 405, 406, 415, 200)),
    *((Sighting(status, -32001), Verdict.LEGACY) for status in (400, 404, 200)),  # a number of an old draft
    *((Sighting(status, error), Verdict.AUTH) for status in (401, 403) for error in (None, -32022, -32601)),
    *((Sighting(status), Verdict.REDIRECT) for status in (300, 301, 302, 303, 307, 308)),
    *((Sighting(status, error), Verdict.FAILED) for status in (500, 502, 503, 504) for error in (None, -32022)),
    *((Sighting(status), Verdict.FAILED) for status in (408, 429, 418)),
    *((Sighting(status), Verdict.NO_MESSAGE) for status in (200, 202, 204)),
    # a pipe
    (Sighting(has_result=True, versions=OURS), Verdict.MODERN),
    (Sighting(error=-32020), Verdict.UNDISCOVERED),
    (Sighting(error=-32022), Verdict.OTHER_VERSION),
    (Sighting(error=-32601), Verdict.LEGACY),
    (Sighting(error=-32602), Verdict.LEGACY),
    (Sighting(is_silent=True), Verdict.LEGACY),
]


@pytest.mark.parametrize(("seen", "verdict"), ROWS)
def test_each_row_of_the_table(seen: Sighting, verdict: Verdict) -> None:
    assert conclude(seen) is verdict


@pytest.mark.parametrize(
    ("supported", "chosen"),
    [
        (["2025-06-18", "2026-07-28"], "2026-07-28"),
        (["2025-06-18", "2025-11-25", "2030-01-01"], "2025-11-25"),
        (["2030-01-01"], None),
        (["2024-11-05"], None),  # its HTTP transport is another one
        (["2024-11-05", "2025-03-26"], "2025-03-26"),
        ([], None),
        ("2026-07-28", None),
        ([7, None, "2025-03-26"], "2025-03-26"),
        (None, None),
    ],
)
def test_the_newest_version_that_both_speak_is_chosen(supported: Any, chosen: str | None) -> None:
    assert choose_version(supported) == chosen


# --- the opening, driven by hand


class Shell:
    """Plays a server: one `Seen` per request, and what was sent is kept."""

    def __init__(self, *answers: Any, era: Era | None = None, known: Era | None = None) -> None:
        self.caller = Caller(Identity("zorivest-rpc", "1.2"))
        self.sent: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._answers = list(answers)
        self._opening: Opening = open_server(self.caller, era, known, b'"com.zorivest/via":["a"]')

    def run(self) -> Welcome:
        step: Request | Note = next(self._opening)
        try:
            while True:
                self.sent.append(json.loads(step.frame))
                self.headers.append(step.headers)
                step = self._opening.send(Seen() if isinstance(step, Note) else self._reply(step))
        except StopIteration as done:
            welcome = done.value
            assert isinstance(welcome, Welcome)
            return welcome

    def _reply(self, request: Request) -> Seen:
        status, body = self._answers.pop(0)
        if body is None:
            return Seen(status)
        if "code" in body:
            return Seen(status, Answer(request, error=ErrorBody(body["code"], "no", body.get("data"))))
        return Seen(status, Answer(request, msgspec.Raw(json.dumps(body).encode())))

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.sent]


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}, "prompts": {}},
    "instructions": "Be kind.",
    "ttlMs": 5000,
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "ops", "version": "9"}},
}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"resources": {"subscribe": True}},
    "serverInfo": {"name": "old", "version": "1"},
}


def test_a_modern_server_is_asked_once_and_says_what_it_has() -> None:
    shell = Shell((200, DISCOVERED))
    welcome = shell.run()
    assert shell.methods == ["server/discover"]
    meta = shell.sent[0]["params"]["_meta"]
    assert meta == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "zorivest-rpc", "version": "1.2"},
        "io.modelcontextprotocol/clientCapabilities": {},
        "com.zorivest/via": ["a"],
    }
    assert shell.headers[0] == {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "server/discover",
    }
    assert (welcome.revision.name, welcome.name, welcome.version) == ("2026-07-28", "ops", "9")
    assert (welcome.instructions, welcome.ttl_ms) == ("Be kind.", 5000)
    assert (welcome.offered.tools, welcome.offered.tools_changed) == (True, True)
    assert (welcome.offered.prompts, welcome.offered.prompts_changed, welcome.offered.resources) == (True, False, False)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_legacy_server_gets_the_handshake_in_whichever_version_it_answers(version: str) -> None:
    shell = Shell((400, None), (200, {**INITIALIZED, "protocolVersion": version}))
    welcome = shell.run()
    assert shell.methods == ["server/discover", "initialize", "notifications/initialized"]
    assert shell.sent[1]["params"] == {
        "_meta": {"com.zorivest/via": ["a"]},
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {"form": {}}},
        "clientInfo": {"name": "zorivest-rpc", "version": "1.2"},
    }
    assert "MCP-Protocol-Version" not in shell.headers[1]
    assert shell.headers[2].get("MCP-Protocol-Version") == (version if BY_NAME[version].version_header else None)
    assert "Mcp-Method" not in shell.headers[2]
    assert shell.caller.revision is welcome.revision is BY_NAME[version]
    assert (welcome.name, welcome.offered.resources_subscribe) == ("old", True)


@pytest.mark.parametrize("version", ["2024-11-05", "2026-07-28", "1", ""])
def test_a_handshake_in_any_other_version_is_broken(version: str) -> None:
    with pytest.raises(ProtocolError, match="protocol version") as refused:
        Shell((404, None), (200, {**INITIALIZED, "protocolVersion": version})).run()
    assert ("not supported" in refused.value.message) is (version == "2024-11-05")


def test_a_version_that_is_refused_is_replaced_by_the_best_of_those_offered() -> None:
    error = {"code": -32022, "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"}}
    shell = Shell((400, error), (200, DISCOVERED))
    assert shell.run().revision.name == "2026-07-28"
    assert shell.methods == ["server/discover", "server/discover"]
    assert shell.sent[0]["id"] != shell.sent[1]["id"]


def test_a_modern_refusal_that_offers_legacy_alone_leads_to_the_handshake() -> None:
    error = {"code": -32022, "data": {"supported": ["2025-11-25", "2025-06-18"]}}
    shell = Shell((400, error), (200, INITIALIZED))
    assert shell.run().revision.name == "2025-11-25"
    assert shell.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize("supported", [["2031-01-01", "2030-01-01"], [], None, "x"])
def test_without_a_common_version_the_offered_ones_are_named(supported: Any) -> None:
    with pytest.raises(ProtocolError, match=r"no common protocol version \(server offers ") as refused:
        Shell((400, {"code": -32022, "data": {"supported": supported}})).run()
    assert ("2031-01-01, 2030-01-01" in refused.value.message) is (isinstance(supported, list) and bool(supported))


def test_a_server_that_refuses_our_version_twice_is_not_asked_a_third_time() -> None:
    error = {"code": -32022, "data": {"supported": ["2026-07-28"]}}
    shell = Shell((400, error), (400, error))
    with pytest.raises(ProtocolError, match="no common protocol version"):
        shell.run()
    assert len(shell.sent) == 2


def test_supported_versions_without_ours_end_it_without_a_handshake() -> None:
    shell = Shell((200, {"supportedVersions": ["2030-01-01"], "capabilities": {}}))
    with pytest.raises(ProtocolError, match="server offers 2030-01-01"):
        shell.run()
    assert shell.methods == ["server/discover"]


@pytest.mark.parametrize("kind", ["input_required", "new", 5])
def test_a_discovery_that_is_not_complete_breaks_the_protocol(kind: Any) -> None:
    shell = Shell((200, {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": kind}))
    with pytest.raises(ProtocolError, match="server/discover was answered with resultType"):
        shell.run()
    assert shell.methods == ["server/discover"]


@pytest.mark.parametrize("code", [-32020, -32021])
def test_a_modern_error_means_modern_without_discovery(code: int) -> None:
    shell = Shell((400, {"code": code}))
    welcome = shell.run()
    assert (welcome.revision.name, welcome.offered.tools, welcome.offered.prompts) == ("2026-07-28", True, False)


def test_an_unclear_answer_is_settled_by_initialize() -> None:
    modern = Shell((404, {"code": -32601}), (400, {"code": -32022, "data": {"supported": ["2026-07-28"]}}))
    assert modern.run().revision.name == "2026-07-28"
    assert modern.caller.revision.modern
    legacy = Shell((404, {"code": -32601}), (200, INITIALIZED))
    assert legacy.run().revision.name == "2025-11-25"
    refused = Shell((404, {"code": -32601}), (400, {"code": -32603}))
    with pytest.raises(Refused) as error:
        refused.run()
    assert error.value.code == -32603


@pytest.mark.parametrize("status", [401, 403, 301, 307, 500, 503, 429])
@pytest.mark.parametrize("era", [None, Era.MODERN, Era.LEGACY])
def test_what_a_status_alone_says_never_leads_to_another_request(status: int, era: Era | None) -> None:
    shell = Shell((status, None), era=era)
    with pytest.raises(TurnedAway) as away:
        shell.run()
    assert away.value.status == status
    assert shell.methods == ["initialize" if era is Era.LEGACY else "server/discover"]


def test_a_configured_era_skips_the_detection() -> None:
    legacy = Shell((200, INITIALIZED), era=Era.LEGACY)
    legacy.run()
    assert legacy.methods == ["initialize", "notifications/initialized"]
    modern = Shell((404, None), era=Era.MODERN)
    with pytest.raises(ProtocolError, match="server/discover was answered HTTP 404 without"):
        modern.run()
    assert modern.methods == ["server/discover"]


def test_a_remembered_legacy_era_saves_the_probe_and_is_looked_at_again_when_it_fails() -> None:
    still = Shell((200, INITIALIZED), known=Era.LEGACY)
    still.run()
    assert still.methods == ["initialize", "notifications/initialized"]
    moved = Shell((400, {"code": -32022, "data": {"supported": ["2026-07-28"]}}), (200, DISCOVERED), known=Era.LEGACY)
    assert moved.run().revision.name == "2026-07-28"
    assert moved.methods == ["initialize", "server/discover"]
    locked = Shell((401, None), known=Era.LEGACY)
    with pytest.raises(TurnedAway):
        locked.run()
    assert locked.methods == ["initialize"]


def test_an_endpoint_of_the_old_transport_is_named_as_such() -> None:
    with pytest.raises(ProtocolError, match="HTTP\\+SSE transport of 2024-11-05 is not supported"):
        Shell((405, None), (405, None)).run()


def test_success_without_a_message_is_broken() -> None:
    with pytest.raises(ProtocolError, match="HTTP 202 without a JSON-RPC message"):
        Shell((202, None)).run()
