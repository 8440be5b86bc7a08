"""Every declared route: the arguments that go in, the request that goes out, the outcome that comes back."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tests.serving.catalog.test_contract import PROMISED
from tests.serving.middleware.fake import FakeBackend, make_call
from zorivest_rpc.errors import BackendError, BackendUnreachable, FileRefused, InvalidArguments, OutcomeUnknown
from zorivest_rpc.mcp.call import Outcome
from zorivest_rpc.serving.backend.failures import no_answer
from zorivest_rpc.serving.backend.interface import Reply, Request
from zorivest_rpc.serving.catalog.load import load
from zorivest_rpc.serving.catalog.spec import ToolSpec, routes
from zorivest_rpc.serving.tools.files import ImportRoots
from zorivest_rpc.serving.tools.receipt import RECEIPT_KEY
from zorivest_rpc.serving.tools.rest import rest_handler

SPECS = {spec.name: spec for spec in load().tools}
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "requests.json").read_bytes())
TRADE: dict[str, Any] = {
    "exec_id": "T1",
    "instrument": "QQQ STK",
    "action": "SLD",
    "quantity": 25,
    "price": 5,
    "account_id": "A",
}


async def run(name: str | ToolSpec, arguments: dict[str, Any], backend: FakeBackend, **options: Any) -> Outcome:
    spec = SPECS[name] if isinstance(name, str) else name
    handler = rest_handler(spec, lambda call: backend, today=lambda: date(2031, 1, 1), **options)
    return await handler(make_call(spec.name, **arguments))


def seen(asked: Request) -> dict[str, Any]:
    """A request in the form of the table."""
    found: dict[str, Any] = {"method": asked.method, "path": asked.path}
    if asked.query:
        found["query"] = asked.query
    if asked.body is not UNSET:
        found["body"] = asked.body
    if asked.form is not None:
        upload = msgspec.structs.asdict(asked.form.upload)
        found["fields"] = asked.form.fields
        found["file"] = {**upload, "data": b64encode(upload["data"]).decode()}
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['tool']}-{len(case['arguments'])}")
async def test_a_tool_sends_the_request_that_was_agreed(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "statement 1.csv").write_bytes(b"hello")
    backend = FakeBackend()
    jsonschema.validate(case["arguments"], SPECS[case["tool"]].input_schema)
    await run(case["tool"], case["arguments"], backend, files=lambda call: ImportRoots([str(tmp_path)]))
    (asked,) = backend.asked
    assert seen(asked) == case["request"]


def test_the_table_has_every_route_of_every_required_tool() -> None:
    declared = {
        (spec.name, route.method, len(route.path.split("/"))) for spec in SPECS.values() for route in routes(spec)
    }
    tried = {(case["tool"], case["request"]["method"], len(case["request"]["path"].split("/"))) for case in CASES}
    assert tried <= declared
    assert {route for route in declared - tried if route[0] in PROMISED} == set()


# --- what is never sent


async def test_a_confirmation_token_never_reaches_the_backend() -> None:
    backend = FakeBackend()
    for name in ("create_trade", "sync_broker", "disconnect_market_provider"):
        given = {"broker_id": "b", "provider_name": "p", **TRADE, "confirm_destructive": True}
        allowed = SPECS[name].input_schema["properties"]
        arguments = {key: value for key, value in given.items() if key in allowed}
        await run(name, {**arguments, "confirmation_token": "ctk_planted"}, backend)
    assert "ctk_planted" not in repr(backend.asked)


@pytest.mark.parametrize("value", [".", ".."])
async def test_dots_do_not_climb_to_another_route(value: str) -> None:
    backend = FakeBackend()
    with pytest.raises(InvalidArguments, match="is not an identifier"):
        await run("disconnect_market_provider", {"provider_name": value, "confirm_destructive": True}, backend)
    assert backend.asked == []


@settings(deadline=None, max_examples=100)
@given(st.text(min_size=1, max_size=20))
async def test_a_path_value_stays_one_segment_and_comes_back_whole(value: str) -> None:
    from urllib.parse import unquote

    backend = FakeBackend()
    try:
        await run("get_trade_screenshots", {"trade_id": value}, backend)
    except InvalidArguments:
        assert value in (".", "..") or any("\ud800" <= character <= "\udfff" for character in value)
        return
    path = backend.asked[0].path
    assert path.isascii()
    assert path.startswith("/trades/")
    assert path.endswith("/images")
    middle = path.removeprefix("/trades/").removesuffix("/images")
    assert not {"/", "?", "#", " ", "\\"} & set(middle)
    assert unquote(middle) == value


async def test_fixed_values_cannot_be_overruled() -> None:
    backend = FakeBackend()
    await run("preview_report", {"policy_id": "p", "dry_run": False}, backend)
    assert backend.asked[0].body == {"dry_run": True}


async def test_false_and_nought_are_values() -> None:
    backend = FakeBackend()
    await run("harvest_losses", {"min_loss_threshold": 0, "exclude_wash_risk": False}, backend)
    assert backend.asked[0].query == {"min_loss_threshold": 0, "exclude_wash_risk": False}


async def test_a_default_that_depends_on_the_date_is_taken_at_the_call() -> None:
    backend = FakeBackend()
    days = iter([date(2031, 12, 31), date(2032, 1, 1)])
    handler = rest_handler(SPECS["get_ytd_tax_summary"], lambda call: backend, today=lambda: next(days))
    for _ in range(2):
        await handler(make_call("get_ytd_tax_summary"))
    assert [asked.query for asked in backend.asked] == [{"tax_year": 2031}, {"tax_year": 2032}]


async def test_the_arguments_of_the_call_are_left_as_they_were() -> None:
    call = make_call("list_trades")
    await rest_handler(SPECS["list_trades"], lambda call: FakeBackend())(call)
    assert call.arguments == {}


# --- how it is sent


async def test_only_reads_that_reach_nobody_else_may_be_repeated() -> None:
    asked = {}
    for case in CASES:
        if "file" not in case["request"]:
            backend = FakeBackend()
            await run(case["tool"], case["arguments"], backend)
            asked[case["tool"]] = backend.asked[0]
    repeated = {name for name, each in asked.items() if each.repeatable}
    assert all(SPECS[name].reads_only for name in repeated)
    assert not repeated & {"create_trade", "update_settings", "ai_review_trade", "test_market_provider", "sync_broker"}
    assert {"calculate_position_size", "simulate_tax_impact", "list_trades"} <= repeated
    keyed = {name for name, each in asked.items() if each.key}
    assert keyed == {name for name in asked if not SPECS[name].reads_only or SPECS[name].progress}
    patient = {name for name, each in asked.items() if each.timeout}
    assert patient == {name for name in asked if SPECS[name].annotations.open_world_hint}


async def test_every_write_has_a_key_of_its_own() -> None:
    backend = FakeBackend()
    for _ in range(3):
        await run("create_trade", TRADE, backend)
    assert len({asked.key for asked in backend.asked}) == 3


async def test_the_guards_question_travels_where_it_was_asked_for() -> None:
    backend = FakeBackend(inline=True)
    await run("list_trades", {}, backend)
    await run("list_trades", {}, backend, guard=True)
    assert [asked.guard for asked in backend.asked] == [False, True]


# --- outcomes


async def test_an_object_comes_back_as_structure_and_as_the_same_text() -> None:
    outcome = await run("list_trades", {}, FakeBackend({"GET /trades": {"items": [], "total": 0}}))
    assert outcome.structured == {"items": [], "total": 0}
    assert outcome.content == [{"type": "text", "text": '{"items":[],"total":0}'}]
    assert (outcome.is_error, outcome.meta) == (False, None)


async def test_an_array_is_wrapped() -> None:
    outcome = await run("list_brokers", {}, FakeBackend({"GET /brokers": [{"broker_id": "b"}]}))
    assert outcome.structured == {"items": [{"broker_id": "b"}]}


async def test_an_empty_answer_says_that_it_is_done() -> None:
    outcome = await run("create_trade", TRADE, FakeBackend({"POST /trades": Reply(204)}))
    assert outcome.structured == {"done": True}


async def test_a_message_is_filled_from_the_result() -> None:
    backend = FakeBackend({"POST /scheduling/policies/p/run": {"run_id": "r1", "status": "pending", "dry_run": False}})
    outcome = await run("run_pipeline", {"policy_id": "p"}, backend)
    assert outcome.structured["message"] == "Pipeline run r1 has the status pending."
    assert json.loads(outcome.content[0]["text"]) == outcome.structured


async def test_what_the_client_is_shown_is_decided_by_the_caller() -> None:
    def shape(call: Any, payload: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in payload.items() if key != "run_id"}

    backend = FakeBackend({"POST /scheduling/policies/p/run": {"run_id": "r1", "status": "pending"}})
    outcome = await run("run_pipeline", {"policy_id": "p"}, backend, shape=shape)
    assert outcome.structured == {"status": "pending", "message": "Pipeline run r1 has the status pending."}


async def test_a_write_leaves_a_receipt() -> None:
    backend = FakeBackend({"POST /trades": Reply(201, {"status": "created", "exec_id": "T1"}, b"x", "", "r-7")})
    outcome = await run("create_trade", TRADE, backend, tenant=lambda call: "acme")
    assert outcome.meta == {
        RECEIPT_KEY: {
            "changed": "POST /trades",
            "status": 201,
            "backend": "http://backend.test/api/v1",
            "tenant": "acme",
            "guard": "checked",
            "idempotency_key": backend.asked[0].key,
            "request_id": "r-7",
        }
    }


async def test_what_is_not_found_is_told_in_the_tools_own_words() -> None:
    missing = BackendError(404, "generic", code="not_found", reported="trade_not_found", detail="No trade.")
    with pytest.raises(BackendError) as failed:
        await run("get_trade_screenshots", {"trade_id": "E-1"}, FakeBackend({"GET /trades/E-1/images": missing}))
    assert failed.value.text == 'No trade "E-1"; list_trades gives the execution ids.'
    assert (failed.value.status, failed.value.code) == (404, "not_found")
    assert failed.value.next == "list_trades gives the execution ids."


@pytest.mark.parametrize(
    "error",
    [
        BackendError(404, "Nothing is served there.", code="unknown_route"),
        BackendError(404, "generic", detail="Not Found"),
        BackendError(500, "It failed."),
    ],
)
async def test_other_failures_keep_their_words(error: BackendError) -> None:
    with pytest.raises(BackendError) as failed:
        await run("get_trade_screenshots", {"trade_id": "E-1"}, FakeBackend({"GET /trades/E-1/images": error}))
    assert failed.value is error


async def test_a_write_of_unknown_outcome_names_the_tool_to_check_with() -> None:
    lost = OutcomeUnknown("The backend did not answer POST /trades (timed out). Whether it was done is unknown.")
    backend = FakeBackend({"POST /trades": lost})
    with pytest.raises(OutcomeUnknown) as failed:
        await run("create_trade", TRADE, backend)
    assert failed.value.code == "outcome_unknown"
    assert "Check with list_trades before you call create_trade again." in failed.value.text
    assert backend.count("/trades") == 1


async def test_a_read_without_an_answer_may_simply_be_repeated() -> None:
    lost = no_answer("http://backend.test", "POST", "/x", "the connection was lost", unknown=True)
    backend = FakeBackend({"POST /market-data/providers/p/test": lost})
    with pytest.raises(BackendUnreachable) as failed:
        await run("test_market_provider", {"provider_name": "p"}, backend)
    told = "The backend did not answer POST /x (the connection was lost). Nothing was changed; it may be called again."
    assert (failed.value.text, failed.value.next) == (told, "Nothing was changed; it may be called again.")


# --- uploads


@pytest.mark.parametrize("spelled", ["iVBO\nRw0K\n Ggo=", "data:image/png;base64,iVBORw0KGgo="])
async def test_base64_may_be_broken_into_lines_or_be_a_data_url(spelled: str) -> None:
    backend = FakeBackend()
    await run("attach_screenshot", {"trade_id": "T", "image_base64": spelled}, backend)
    form = backend.asked[0].form
    assert form is not None
    assert form.upload.data == b64decode("iVBORw0KGgo=")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("!!!", "not base64"),
        ("abc", "not base64"),
        (" ", "0 bytes"),
        ("é", "not base64"),
        ("A" * 16_000_000, "more than"),
    ],
)
async def test_what_is_no_image_is_refused_before_anything_is_sent(given: str, words: str) -> None:
    backend = FakeBackend()
    with pytest.raises(InvalidArguments, match=words):
        await run("attach_screenshot", {"trade_id": "T", "image_base64": given}, backend)
    assert backend.asked == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [("image/svg+xml; charset=x", "screenshot.svg"), ("nonsense", "screenshot.bin"), ("a/../b", "screenshot.b")],
)
async def test_a_media_type_cannot_make_a_strange_file_name(kind: str, name: str) -> None:
    backend = FakeBackend()
    await run("attach_screenshot", {"trade_id": "T", "image_base64": "AAAA", "mime_type": kind}, backend)
    form = backend.asked[0].form
    assert form is not None
    assert form.upload.filename == name


async def test_without_import_roots_no_file_is_read() -> None:
    backend = FakeBackend()
    with pytest.raises(FileRefused, match="--import-root"):
        await run("import_broker_csv", {"file_path": "/etc/passwd", "account_id": "A"}, backend)
    assert backend.asked == []


async def test_a_file_outside_the_roots_is_not_sent(tmp_path: Path) -> None:
    backend = FakeBackend()
    files = ImportRoots([str(tmp_path)])
    with pytest.raises(FileRefused, match="may be read"):
        await run(
            "import_broker_csv", {"file_path": "/etc/passwd", "account_id": "A"}, backend, files=lambda call: files
        )
    assert backend.asked == []
