"""Policies through the routes: validated as a whole, bound to an approval, and shaped as the tools promise."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import pytest

from tests.embedded.conftest import Caller
from tests.places import ROOT
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling import budget
from zorivest_rpc.embedded.scheduling.document import content_hash, normal_form, policy_schema
from zorivest_rpc.embedded.scheduling.engine import Scheduling

from .conftest import FILE, MAIL, RENDER, REPORT, Approve, Create, Wall, document, query, reschedule, step

TOOLS = ROOT / "schemas" / "tools" / "scheduling"
POLICIES = "/scheduling/policies"


def fits(tool: str, answer: Any) -> None:
    schema = json.loads((TOOLS / f"{tool}.json").read_text())["outputSchema"]
    jsonschema.validate(answer, schema)


async def test_a_new_policy_waits_for_approval_and_is_not_scheduled(
    engine: Scheduling, create: Create, admin: Caller
) -> None:
    policy = await create()
    fits("create_policy", policy)
    assert (policy["approved"], policy["next_run"], policy["enabled"]) == (False, None, True)
    assert policy["policy_json"]["trigger"]["timezone"] == "UTC"
    assert await admin.get(f"{POLICIES}/{policy['id']}") == policy
    assert engine.jobs() == []
    listed = await admin.get(POLICIES)
    fits("list_policies", listed)
    assert [one["id"] for one in listed["policies"]] == [policy["id"]]


async def test_the_document_may_arrive_as_text(engine: Scheduling, admin: Caller) -> None:
    body = {"policy_json": json.dumps(document())}
    assert (await admin.expect(201, "POST", POLICIES, body))["policy_json"]["name"] == "Daily"
    for wrong in ({"policy_json": "{"}, {"policy_json": 7}, {"policy_json": None}, {}):
        await admin.expect(422, "POST", POLICIES, wrong)


async def test_the_served_schema_is_valid_and_accepts_what_is_accepted(
    engine: Scheduling, admin: Caller, create: Create
) -> None:
    schema = await admin.get(f"{POLICIES}/schema")
    jsonschema.Draft202012Validator.check_schema(schema)
    policy = await create(REPORT, RENDER, FILE)
    jsonschema.validate(policy["policy_json"], schema)
    assert list(jsonschema.Draft202012Validator(schema).iter_errors({"name": "x"}))
    types = await admin.get("/scheduling/step-types")
    assert [one["type"] for one in types] == [
        *("fetch", "transform", "query", "compose", "store_report", "render", "send")
    ]
    assert [one["type"] for one in types if one["side_effects"]] == ["transform", "store_report", "render", "send"]
    for one in types:
        jsonschema.Draft202012Validator.check_schema(one["params_schema"])


def fetch(**changes: Any) -> dict[str, Any]:
    return step("f", "fetch", {"provider": "local", "data_type": "quote", **changes})


def twice(kind: str, field: str) -> dict[str, Any]:
    return step("q", kind, {field: [{"name": "same", "sql": "SELECT 1"}, {"name": "same", "sql": "SELECT 2"}]})


def unknown_section() -> dict[str, Any]:
    spec = {"title": "x", "sections": [{"type": "data_table", "query": "nothing"}]}
    queries = [{"name": "something", "sql": "SELECT 1"}]
    return step("r", "store_report", {"report_name": "x", "spec": spec, "data_queries": queries})


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"schema_version": 3}, "schema_version", "3"),
    ({"name": " "}, "name", "match"),
    ({"name": "x" * 129}, "name", "128"),
    ({"extra": 1}, "policy_json", "extra"),
    ({"metadata": {"description": "x" * 501}}, "metadata.description", "500"),
    ({"trigger": {}}, "trigger", "cron_expression"),
    ({"trigger": {"cron_expression": "61 * * * *"}}, "trigger.cron_expression", "minute"),
    ({"trigger": {"cron_expression": "0 0 30 2 *"}}, "trigger.cron_expression", "day"),
    ({"trigger": {"cron_expression": "0 8 * * *", "timezone": "Mars/X"}}, "trigger.timezone", "zone"),
    ({"trigger": {"cron_expression": "0 8 * * *", "max_instances": 4}}, "trigger.max_instances", "4"),
    ({"trigger": {"cron_expression": "0 8 * * *", "misfire_grace_time": 59}}, "trigger.misfire_grace_time", "59"),
    ({"steps": []}, "steps", "at least 1"),
    ({"steps": [query("SELECT 1", step_id=f"s{n}") for n in range(11)]}, "steps", "at most 10"),
    ({"steps": [query("SELECT 1"), query("SELECT 1")]}, "steps.1.id", "already"),
    ({"steps": [query("SELECT 1", step_id="Bad")]}, "steps.0.id", "match"),
    ({"steps": [step("a", "teleport", {})]}, "steps.0.type", "teleport"),
    ({"steps": [query("DROP TABLE trades")]}, "steps.0.params.queries.0.sql", "DROP"),
    ({"steps": [query("SELECT * FROM settings")]}, "steps.0.params.queries.0.sql", "not allowed"),
    ({"steps": [query("SELECT nowhere FROM trades")]}, "steps.0.params.queries.0.sql", "no such column"),
    ({"steps": [{**query("SELECT 1"), "timeout": 9}]}, "steps.0.timeout", "9"),
    ({"steps": [{**query("SELECT 1"), "retry": {"max_attempts": 11}}]}, "steps.0.retry.max_attempts", "11"),
    ({"steps": [step("a", "compose", {"sources": {"x": {"ref": "ctx.b.output"}}})]}, "sources.x", "earlier"),
    ({"steps": [step("a", "compose", {"sources": {"x": {"ref": "ctx.a"}}})]}, "sources.x", "earlier"),
    ({"steps": [step("a", "compose", {"sources": {"x": {"ref": "env.HOME"}}})]}, "sources.x", "not a reference"),
    (
        {"steps": [{**query("SELECT 1"), "skip_if": {"field": "ctx.later.x", "operator": "is_null"}}]},
        "steps.0.skip_if.field",
        "earlier",
    ),
    ({"steps": [RENDER]}, "steps.0", "store_report"),
    ({"steps": [REPORT, FILE]}, "steps.1", "render"),
    ({"steps": [REPORT, RENDER, step("s", "send", {"channel": "email"})]}, "recipients", "at least one"),
    (
        {"steps": [REPORT, RENDER, step("s", "send", {"channel": "email", "recipients": ["nobody"]})]},
        "recipients.0",
        "match",
    ),
    (
        {
            "steps": [
                REPORT,
                RENDER,
                step("s", "send", {"channel": "email", "recipients": {"ref": "ctx.page.title"}}),
            ]
        },
        "recipients",
        "array",
    ),
    ({"steps": [step("p", "render", {"template_source": "{% if %}"})]}, "template_source", "template"),
    ({"steps": [step("f", "transform", {"target_table": "trades"})]}, "target_table", "trades"),
    ({"steps": [fetch(provider="nobody")]}, "steps.0.params.provider", "local"),
    ({"steps": [fetch(criteria={"since": {"type": "relative", "offset": "soon"}})]}, "criteria.since.offset", "match"),
    ({"steps": [fetch(criteria={"since": {"type": "relative"}})]}, "criteria.since", "offset"),
    ({"steps": [fetch(criteria={"since": {"type": "magic"}})]}, "criteria.since.type", "magic"),
    ({"steps": [fetch(criteria={"tickers": {"type": "db_query"}})]}, "criteria.tickers", "sql"),
    (
        {"steps": [fetch(criteria={"tickers": {"type": "db_query", "sql": "SELECT value FROM settings"}})]},
        "criteria.tickers.sql",
        "not allowed",
    ),
    (
        {"steps": [fetch(), step("t", "transform", {"target_table": "market_quotes", "source_step_id": "nobody"})]},
        "steps.1.params.source_step_id",
        "not an earlier step",
    ),
    ({"steps": [twice("query", "queries")]}, "steps.0.params.queries.1.name", "two queries"),
    ({"steps": [unknown_section()]}, "steps.0.params.spec.sections.0.query", 'no query "nothing"'),
    ({"metadata": {"author": "password: hunter22"}}, "metadata.author", "credential"),
    (
        {"steps": [step("f", "fetch", {"provider": "x", "data_type": "quote", "criteria": {"api_key": "abc"}})]},
        "criteria.api_key",
        "credential",
    ),
    ({"metadata": {"description": "https://me:secret@host/"}}, "metadata.description", "credential"),
    ({"name": "a\x00b"}, "name", "valid text"),
]


async def test_what_is_wrong_is_told_with_its_place(engine: Scheduling, admin: Caller) -> None:
    for change, field, word in WRONG:
        answer = await admin.expect(422, "POST", POLICIES, {"policy_json": {**document(), **change}})
        errors = answer["detail"]["validation_errors"]
        assert any(field in error["field"] and word in error["message"] for error in errors), (change, errors)
    assert (await admin.get(POLICIES))["total"] == 0


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        *(("[" * depth + "]" * depth, "levels deep") for depth in (40, 300, 900)),
        *(('{"a":' * depth + "1" + "}" * depth, "levels deep") for depth in (40, 300, 900)),
        ("1" + "0" * 30, "too large"),
        ("-1" + "0" * 30, "too large"),
        ("1e400", "too large"),
    ],
)
async def test_what_no_answer_could_carry_is_not_stored(
    engine: Scheduling, admin: Caller, value: str, problem: str, as_text: bool
) -> None:
    params = f'{{"provider":"local","data_type":"quote","criteria":{{"a":{value}}}}}'
    text = '{"name":"x","trigger":{"cron_expression":"0 8 * * *"},"steps":[{"id":"f","type":"fetch","params":%s}]}'
    policy = text % params
    body = f'{{"policy_json":{json.dumps(policy) if as_text else policy}}}'
    headers = {"Content-Type": "application/json"}
    answer = await admin.expect(422, "POST", POLICIES, data=body, headers=headers)
    assert problem in str(answer) or "JSON" in str(answer)
    assert (await admin.get(POLICIES))["policies"] == []


async def test_all_problems_are_told_together(engine: Scheduling, admin: Caller) -> None:
    wrong = document(query("DELETE FROM trades"), RENDER, cron="99 * * * *", timezone="Nowhere")
    answer = await admin.expect(422, "POST", POLICIES, {"policy_json": wrong})
    fields = {error["field"] for error in answer["detail"]["validation_errors"]}
    assert fields == {"trigger.cron_expression", "trigger.timezone", "steps.1", "steps.0.params.queries.0.sql"}


def test_the_hash_ignores_spelling_and_the_pause_and_nothing_else() -> None:
    plain = normal_form(document(), "UTC")
    spelled = normal_form(
        {**document(timezone="UTC", coalesce=True), "schema_version": 1, "metadata": {}}, "Asia/Tokyo"
    )
    assert content_hash(plain) == content_hash(spelled)
    assert normal_form(plain, "Asia/Tokyo") == plain
    paused = normal_form(document(enabled=False), "UTC")
    assert content_hash(paused) == content_hash(plain)
    for other in (document(cron="1 8 * * *"), document(query("SELECT 2 AS one")), document(name="Other")):
        assert content_hash(normal_form(other, "UTC")) != content_hash(plain)
    assert len(content_hash(plain)) == 64


def test_backoff_seconds_is_another_name_for_the_factor() -> None:
    one = normal_form(document({**query("SELECT 1"), "retry": {"backoff_seconds": 3}}), "UTC")
    other = normal_form(document({**query("SELECT 1"), "retry": {"backoff_factor": 3}}), "UTC")
    assert content_hash(one) == content_hash(other)
    jsonschema.validate(one, policy_schema())


async def test_numbers_that_mean_the_same_hash_the_same(engine: Scheduling, create: Create, admin: Caller) -> None:
    policy = await create({**query("SELECT 1"), "retry": {"backoff_factor": 2.0}})
    again = {**policy["policy_json"]}
    again["steps"] = [{**again["steps"][0], "retry": {"max_attempts": 3, "backoff_factor": 2, "jitter": True}}]
    changed = await admin.expect(200, "PUT", f"{POLICIES}/{policy['id']}", {"policy_json": again})
    assert changed["content_hash"] == policy["content_hash"]


async def test_approval_schedules_and_any_change_but_a_pause_takes_it_back(
    engine: Scheduling, create: Create, approve: Approve, admin: Caller
) -> None:
    policy = await create(cron="0 8 * * *", timezone="America/New_York")
    approved = await approve(policy["id"])
    assert (approved["approved"], approved["approved_hash"]) == (True, policy["content_hash"])
    assert approved["next_run"].startswith("2026-01-05T13:00:00")
    assert [job["id"] for job in engine.jobs()] == [policy["id"]]
    path = f"{POLICIES}/{policy['id']}"

    paused = await reschedule(admin, policy, enabled=False)
    assert (paused["approved"], paused["enabled"], paused["next_run"]) == (True, False, None)
    assert engine.jobs() == []
    resumed = await reschedule(admin, policy, enabled=True)
    assert (resumed["approved"], len(engine.jobs())) == (True, 1)

    same = await admin.expect(200, "PUT", path, {"policy_json": resumed["policy_json"]})
    fits("update_policy_schedule", same)
    assert same["approved"]

    moved = await reschedule(admin, policy, cron_expression="0 9 * * *")
    assert (moved["approved"], moved["approved_at"], moved["next_run"]) == (False, None, None)
    assert engine.jobs() == []
    back = await reschedule(admin, policy, cron_expression="0 8 * * *")
    assert back["content_hash"] == policy["content_hash"]
    assert not back["approved"]  # the old consent does not come back with the old text
    await admin.expect(400, "POST", f"{path}/run", {})


async def test_approving_needs_the_token_and_uses_it_up(
    engine: Scheduling, create: Create, admin: Caller, directory: DataDir, with_role: Callable[[str], Awaitable[Caller]]
) -> None:
    policy = await create()
    path = f"{POLICIES}/{policy['id']}/approve"
    file = directory.root / "approval.token"
    token = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600
    for headers in ({}, {"X-Approval-Token": ""}, {"X-Approval-Token": "apt_wrong"}, {"X-Approval-Token": "é"}):
        answer = await admin.expect(403, "POST", path, headers=headers)
        assert answer["error"] == "approval_token_required"
        assert token not in str(answer)
    writer = await with_role("read-write")
    await writer.expect(403, "POST", path, headers={"X-Approval-Token": token})
    await admin.expect(
        409, "POST", path, {"content_hash": "0" * 64}, headers={"X-Approval-Token": file.read_text().strip()}
    )
    assert not (await admin.get(f"{POLICIES}/{policy['id']}"))["approved"]
    fresh = file.read_text().strip()
    assert fresh != token  # also a refused attempt has spent it
    await admin.expect(403, "POST", path, headers={"X-Approval-Token": token})
    approved = await admin.expect(
        200, "POST", path, {"content_hash": policy["content_hash"]}, headers={"X-Approval-Token": fresh}
    )
    assert approved["approved"]
    await admin.expect(403, "POST", path, headers={"X-Approval-Token": fresh})


async def test_the_token_is_gone_while_the_journal_is_locked(
    engine: Scheduling, admin: Caller, directory: DataDir
) -> None:
    file = directory.root / "approval.token"
    assert file.exists()
    await admin.expect(200, "POST", "/auth/lock")
    assert not file.exists()


async def test_names_are_unique_and_a_deleted_policy_is_gone(
    engine: Scheduling, create: Create, approve: Approve, admin: Caller
) -> None:
    first, second = await create(name="One"), await create(name="Two")
    await admin.expect(409, "POST", POLICIES, {"policy_json": document(name="One")})
    await admin.expect(409, "PUT", f"{POLICIES}/{second['id']}", {"policy_json": document(name="One")})
    await approve(first["id"])
    await admin.expect(204, "DELETE", f"{POLICIES}/{first['id']}")
    assert engine.jobs() == []
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/runs"), ("POST", "/run")):
        await admin.expect(404, method, f"{POLICIES}/{first['id']}{path}", {} if method == "POST" else None)
    await admin.expect(404, "PUT", f"{POLICIES}/{first['id']}", {"policy_json": document()})


async def test_twenty_policies_a_day_are_the_limit(
    engine: Scheduling, create: Create, admin: Caller, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert budget.POLICIES_PER_DAY == 20
    monkeypatch.setattr(budget, "POLICIES_PER_DAY", 3)
    for number in range(3):
        await create(name=f"P{number}")
    answer = await admin.expect(429, "POST", POLICIES, {"policy_json": document(name="One more")})
    assert answer["error"] == "policy_limit"
    wall.forward(hours=24, seconds=1)
    await create(name="Tomorrow")


async def test_disabled_policies_can_be_left_out(engine: Scheduling, create: Create, admin: Caller) -> None:
    await create(name="Off", enabled=False)
    kept = await create(name="On")
    listed = await admin.get(f"{POLICIES}?enabled_only=true")
    assert [one["id"] for one in listed["policies"]] == [kept["id"]]


async def test_the_default_zone_is_a_setting(engine: Scheduling, create: Create, admin: Caller) -> None:
    await admin.expect(200, "PUT", "/settings", {"scheduling.default_timezone": "Asia/Tokyo"})
    assert (await create())["policy_json"]["trigger"]["timezone"] == "Asia/Tokyo"


async def test_roles_are_kept_apart(engine: Scheduling, create: Create, with_role: Callable[[str], Any]) -> None:
    policy = await create(REPORT, RENDER, MAIL)
    reader = await with_role("read-only")
    await reader.get(POLICIES)
    for method, path in (("POST", ""), ("PUT", f"/{policy['id']}"), ("POST", f"/{policy['id']}/run")):
        await reader.expect(403, method, POLICIES + path, {})
    writer = await with_role("read-write")
    await writer.expect(403, "PUT", "/scheduling/email", {})


async def test_the_summary_and_the_health_count_policies(
    engine: Scheduling, create_approved: Create, admin: Caller
) -> None:
    policy = await create_approved()
    assert (await admin.get("/mcp/state-summary"))["counters"]["policies"] == 1
    health = await admin.get("/health")
    assert health["scheduler"] == {"active_policies": 1, "next_run": policy["next_run"]}
