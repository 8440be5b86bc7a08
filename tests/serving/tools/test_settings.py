"""Log settings: the logging namespace and nothing else, and one level at a time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.tools.stage import FakeBackend, Stage, Turn, fits, kit, make_call, payload, refused
from zorivest_rpc.errors import BackendError, OutcomeUnknown
from zorivest_rpc.serving.tools.settings import LogSettings

STORED = {
    "logging.trades.level": "INFO",
    "logging.tax.level": "DEBUG",
    "logging.rotation_mb": "10",
    "loggingextra": "no",
    "ui.theme": "dark",
    "market.api_key": "SECRET",
}


async def read(stored: Any = STORED, **arguments: Any) -> dict[str, Any]:
    backend = FakeBackend({"GET /settings": Turn(stored)})
    outcome = await LogSettings(kit(backend)).read(make_call("get_log_settings", **arguments))
    found = payload(outcome)
    fits("get_log_settings", found)
    return found


async def test_without_a_prefix_all_log_settings_are_read() -> None:
    assert set(await read()) == {"logging.trades.level", "logging.tax.level", "logging.rotation_mb"}


@pytest.mark.parametrize(
    ("prefix", "keys"),
    [
        ("logging.t", {"logging.trades.level", "logging.tax.level"}),
        ("logging.rotation_mb", {"logging.rotation_mb"}),
        ("", {"logging.trades.level", "logging.tax.level", "logging.rotation_mb"}),
        ("logging.nothing", set()),
        ("ui.", set()),
        ("market.", set()),
    ],
)
async def test_a_prefix_narrows_and_never_leaves_the_namespace(prefix: str, keys: set[str]) -> None:
    assert set(await read(prefix=prefix)) == keys


async def test_values_are_text_whatever_the_backend_stores() -> None:
    stored = {"logging.rotation_mb": 10, "logging.json": True}
    assert await read(stored) == {"logging.rotation_mb": "10", "logging.json": "true"}


async def test_an_answer_that_is_no_object_is_an_error() -> None:
    with pytest.raises(BackendError) as failed:
        await read([])
    assert failed.value.code == "bad_answer"


async def test_one_level_is_written_under_its_computed_key() -> None:
    backend = FakeBackend({"PUT /settings": {"status": "updated", "count": 1}})
    outcome = await LogSettings(kit(backend, tenant=lambda call: "acme")).write_level(
        make_call("update_log_level", feature="marketdata", level="DEBUG")
    )
    found = payload(outcome)
    fits("update_log_level", found)
    assert found == {
        "updated": "logging.marketdata.level",
        "level": "DEBUG",
        "result": {"status": "updated", "count": 1},
    }
    (asked,) = backend.asked
    assert asked.body == {"logging.marketdata.level": "DEBUG"}
    assert outcome.meta is not None
    assert outcome.meta["com.zorivest/receipt"] == {
        "changed": "PUT /settings",
        "status": 200,
        "backend": "http://backend.test/api/v1",
        "guard": "checked",
        "idempotency_key": asked.key,
        "request_id": "r-1",
        "tenant": "acme",
    }


async def test_an_unknown_feature_is_the_backends_refusal() -> None:
    settings = LogSettings(kit(FakeBackend({"PUT /settings": refused(422, "Unknown setting logging.x.level.")})))
    with pytest.raises(BackendError, match="Unknown setting"):
        await settings.write_level(make_call("update_log_level", feature="x", level="INFO"))


async def test_a_lost_answer_says_with_what_to_check() -> None:
    settings = LogSettings(kit(FakeBackend({"PUT /settings": OutcomeUnknown("No answer.")})))
    with pytest.raises(OutcomeUnknown, match="Check with get_log_settings before you call update_log_level again"):
        await settings.write_level(make_call("update_log_level", feature="tax", level="INFO"))


async def test_a_client_reads_and_writes_levels() -> None:
    stage = Stage(
        FakeBackend(
            {
                "POST /mcp-guard/check": {"allowed": True},
                "GET /settings": STORED,
                "PUT /settings": {"status": "updated"},
            }
        )
    )
    client = await stage.connect()
    assert len((await client.call("get_log_settings"))["structuredContent"]) == 3
    answer = await client.call("update_log_level", feature="tax", level="ERROR")
    assert answer["structuredContent"]["updated"] == "logging.tax.level"
    assert (await client.call("update_log_level", feature="tax", level="LOUD"))["isError"] is True
