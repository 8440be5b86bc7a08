"""update_policy_schedule: read, replace what was given, write everything back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serving.tools.stage import FakeBackend, Stage, Turn, fits, kit, make_call, payload, refused
from zorivest_rpc.errors import BackendError, InvalidArguments, OutcomeUnknown
from zorivest_rpc.mcp.call import Outcome
from zorivest_rpc.serving.tools.scheduling import Schedules

DOCUMENT = {
    "schema_version": 1,
    "name": "Weekly report",
    "metadata": {"author": "ada"},
    "trigger": {"cron_expression": "0 9 * * 1", "timezone": "UTC", "enabled": True, "coalesce": True},
    "steps": [{"id": "fetch", "type": "fetch", "params": {"provider": "x"}, "timeout": 30}],
}
POLICY: dict[str, Any] = {
    "id": "p-1",
    "name": "Weekly report",
    "schema_version": 1,
    "enabled": True,
    "approved": True,
    "content_hash": "abc",
    "policy_json": DOCUMENT,
}
PATH = "/scheduling/policies/p-1"


def storing(policy: Any = POLICY, answer: Any = None) -> FakeBackend:
    return FakeBackend({f"GET {PATH}": policy, f"PUT {PATH}": POLICY if answer is None else answer})


async def update(backend: FakeBackend, **arguments: Any) -> Outcome:
    return await Schedules(kit(backend)).update(
        make_call("update_policy_schedule", **{"policy_id": "p-1", **arguments})
    )


async def written(backend: FakeBackend, **arguments: Any) -> dict[str, Any]:
    await update(backend, **arguments)
    sent: dict[str, Any] = backend.asked[-1].body["policy_json"]
    return sent


@pytest.mark.parametrize(
    "changes",
    [
        {"cron_expression": "30 7 * * 1-5"},
        {"timezone": "America/New_York"},
        {"enabled": False},
        {"enabled": True},
        {"cron_expression": "0 0 1 * *", "timezone": "Europe/Berlin", "enabled": False},
    ],
)
async def test_only_the_given_fields_of_the_trigger_change(changes: dict[str, Any]) -> None:
    backend = storing()
    assert await written(backend, **changes) == {**DOCUMENT, "trigger": {**DOCUMENT["trigger"], **changes}}  # type: ignore[dict-item]
    assert backend.paths() == [f"GET {PATH}", f"PUT {PATH}"]


async def test_a_document_that_comes_as_text_is_understood() -> None:
    backend = storing({**POLICY, "policy_json": json.dumps(DOCUMENT)}, {**POLICY, "policy_json": json.dumps(DOCUMENT)})
    outcome = await update(backend, enabled=False)
    assert backend.asked[-1].body["policy_json"]["trigger"]["enabled"] is False
    fits("update_policy_schedule", payload(outcome))
    assert payload(outcome)["policy_json"] == DOCUMENT


async def test_a_policy_without_a_trigger_gets_one() -> None:
    bare = {name: value for name, value in DOCUMENT.items() if name != "trigger"}
    backend = storing({**POLICY, "policy_json": bare})
    assert (await written(backend, enabled=False))["trigger"] == {"enabled": False}


async def test_an_empty_text_counts_as_not_given() -> None:
    backend = storing()
    assert (await written(backend, timezone="", enabled=False))["trigger"]["timezone"] == "UTC"


async def test_without_a_change_nothing_is_asked() -> None:
    backend = storing()
    with pytest.raises(InvalidArguments, match="nothing to change"):
        await update(backend)
    assert backend.asked == []


async def test_an_unknown_policy_ends_after_the_read() -> None:
    backend = storing(refused(404))
    with pytest.raises(BackendError, match=r'There is no policy "p-1"; nothing was changed\. list_policies'):
        await update(backend, enabled=False)
    assert backend.paths() == [f"GET {PATH}"]


async def test_a_backend_without_the_route_is_not_a_missing_policy() -> None:
    with pytest.raises(BackendError, match="Nothing is served"):
        await update(storing(refused(404, "Nothing is served there.", code="unknown_route")), enabled=False)


@pytest.mark.parametrize("policy", [None, [], {}, {"policy_json": "{broken"}, {"policy_json": [1]}])
async def test_a_policy_that_cannot_be_read_is_not_written(policy: Any) -> None:
    backend = storing(Turn(policy))
    with pytest.raises(BackendError, match="nothing was changed"):
        await update(backend, enabled=False)
    assert backend.paths() == [f"GET {PATH}"]


async def test_a_refused_schedule_is_the_backends_own_words() -> None:
    with pytest.raises(BackendError, match="bad cron"):
        await update(storing(answer=refused(422, "bad cron")), cron_expression="x")


async def test_a_lost_write_is_unknown_and_names_the_tool_to_check_with() -> None:
    with pytest.raises(OutcomeUnknown, match="Check with list_policies"):
        await update(storing(answer=OutcomeUnknown("No answer.")), enabled=False)


async def test_the_result_is_the_policy_with_a_sentence_and_a_receipt() -> None:
    outcome = await update(storing(answer={**POLICY, "approved": False}), timezone="Asia/Tokyo")
    found = payload(outcome)
    fits("update_policy_schedule", found)
    assert found["id"] == "p-1"
    assert found["message"].startswith('The schedule of policy "Weekly report" is updated; approved is now false.')
    assert "person approves" in found["message"]
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/receipt"]["changed"] == f"PUT {PATH}"


@pytest.mark.parametrize(
    ("policy_id", "path"),
    [("a/b", "/scheduling/policies/a%2Fb"), ("../settings", "/scheduling/policies/..%2Fsettings")],
)
async def test_an_identifier_stays_one_segment_of_the_path(policy_id: str, path: str) -> None:
    backend = FakeBackend({f"GET {path}": POLICY, f"PUT {path}": POLICY})
    await update(backend, policy_id=policy_id, enabled=False)
    assert {asked.path for asked in backend.asked} == {path}


@pytest.mark.parametrize("policy_id", [".", ".."])
async def test_dots_alone_are_no_identifier(policy_id: str) -> None:
    with pytest.raises(InvalidArguments):
        await update(storing(), policy_id=policy_id, enabled=False)


async def test_a_client_pauses_a_policy() -> None:
    backend = storing(answer={**POLICY, "enabled": False})
    backend.answers["POST /mcp-guard/check"] = {"allowed": True}
    answer = await (await Stage(backend).connect()).call("update_policy_schedule", policy_id="p-1", enabled=False)
    assert answer["structuredContent"]["enabled"] is False
    assert "com.zorivest/receipt" in answer["_meta"]
