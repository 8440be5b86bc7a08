"""Settings: every known key is there, writes are checked per key and all or nothing, levels change live."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, select

from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import Database
from zorivest_rpc.embedded.database.schema.journal import app_defaults, settings
from zorivest_rpc.embedded.disk.logs import FEATURES
from zorivest_rpc.embedded.settings import REGISTRY

from .conftest import Caller


async def test_a_fresh_install_shows_every_key_as_a_string(admin: Caller) -> None:
    found = await admin.get("/settings")
    assert set(found) == set(REGISTRY)
    assert all(isinstance(value, str) for value in found.values())
    assert {f"logging.{feature}.level" for feature in FEATURES} <= set(found)
    assert len(FEATURES) == 11


async def test_every_built_in_value_passes_its_own_check(admin: Caller) -> None:
    await admin.expect(200, "PUT", "/settings", {key: spec.default for key, spec in REGISTRY.items()})


async def test_resolved_values_are_typed_and_name_their_source(admin: Caller, backend: Embedded) -> None:
    from datetime import UTC, datetime

    await backend.database().write(
        lambda conn: conn.execute(
            app_defaults.insert().values(
                key="ui.sidebar.width", value="300", value_type="int", category="ui", updated_at=datetime.now(UTC)
            )
        )
    )
    await admin.expect(200, "PUT", "/settings", {"display.hide_dollars": "yes"})
    found = await admin.get("/settings/resolved")
    hidden = {"key": "display.hide_dollars", "value": True, "value_type": "bool", "source": "user"}
    assert found["display.hide_dollars"] == hidden
    assert (found["ui.sidebar.width"]["value"], found["ui.sidebar.width"]["source"]) == (300, "default")
    assert (found["ui.theme"]["value"], found["ui.theme"]["source"]) == ("dark", "hardcoded")
    assert found["tax.agi_estimate"]["value"] == 0.0


async def test_one_key_can_be_read_and_written(admin: Caller) -> None:
    theme = {"key": "ui.theme", "value": "dark", "value_type": "str"}
    assert await admin.get("/settings/ui.theme") == theme
    assert await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"}) == {"status": "updated", "count": 1}
    assert (await admin.get("/settings/ui.theme"))["value"] == "light"


async def test_an_unknown_key_is_not_found(admin: Caller) -> None:
    assert (await admin.expect(404, "GET", "/settings/ui.colour"))["error"] == "setting_not_found"


async def test_a_stored_setting_of_another_version_does_no_harm(admin: Caller, backend: Embedded) -> None:
    row = {"key": "ai.engine", "value": "llm", "value_type": "str", "updated_at": datetime(2026, 1, 1, tzinfo=UTC)}
    await backend.database().write(lambda conn: conn.execute(settings.insert(), row))
    assert "ai.engine" not in await admin.get("/settings")
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    assert (await admin.expect(404, "GET", "/settings/ai.engine"))["error"] == "setting_not_found"


BAD = {
    "ui.theme": "blue",
    "ui.sidebar.width": "wide",
    "logging.rotation_mb": "501",
    "logging.trades.level": "LOUD",
    "logging.nothing.level": "INFO",
    "display.hide_dollars": "maybe",
    "tax.federal_bracket": "1.5",
    "tax.agi_estimate": "NaN",
    "import.timezone": "Mars/Olympus",
    "ui.activePage": "../../etc/passwd",
    "ui.panel.a.b.collapsed": "true",
    "no.such.key": "1",
}


@pytest.mark.parametrize("key", sorted(BAD))
async def test_a_bad_value_is_refused_and_nothing_is_written(key: str, admin: Caller, backend: Embedded) -> None:
    before = await admin.get("/settings")
    batch = {"display.percent_mode": "total", key: BAD[key], "backup.max_age_days": "10"}
    refused = await admin.expect(422, "PUT", "/settings", batch)
    assert list(refused["detail"]["errors"]) == [key]
    assert await admin.get("/settings") == before
    assert await backend.database().read(lambda conn: conn.execute(select(settings)).all()) == []


async def test_all_bad_keys_are_named_together(admin: Caller) -> None:
    refused = await admin.expect(422, "PUT", "/settings", BAD)
    assert set(refused["detail"]["errors"]) == set(BAD)
    assert all(len(reasons) == 1 for reasons in refused["detail"]["errors"].values())


@pytest.mark.parametrize(
    "value",
    [
        "x'; DROP TABLE trades",
        "1 or 1=1",
        "a UNION SELECT b",
        "<script>alert(1)</script>",
        "javascript:alert(1)",
        "<img onerror=x>",
        "..\\secret",
        "x" * 257,
        "nul\x00byte",
    ],
)
async def test_values_that_look_like_an_attack_are_refused(value: str, admin: Caller) -> None:
    await admin.expect(422, "PUT", "/settings", {"ui.activePage": value})


@pytest.mark.parametrize(
    "body", [{}, [], "text", {"ui.theme": {"deep": 1}}, {"ui.theme": None}, {"ui.theme": ["dark"]}]
)
async def test_bodies_of_the_wrong_shape_are_refused(body: Any, admin: Caller) -> None:
    await admin.expect(422, "PUT", "/settings", body)


async def test_numbers_and_booleans_are_accepted_as_such(admin: Caller) -> None:
    await admin.expect(200, "PUT", "/settings", {"ui.sidebar.width": 320, "display.hide_dollars": True})
    found = await admin.get("/settings")
    assert (found["ui.sidebar.width"], found["display.hide_dollars"]) == ("320", "true")


async def test_a_panel_has_a_setting_of_its_own(admin: Caller) -> None:
    await admin.expect(200, "PUT", "/settings", {"ui.panel.trades.collapsed": "true"})
    assert (await admin.get("/settings/ui.panel.trades.collapsed"))["value"] == "true"
    assert (await admin.get("/settings/ui.panel.other.collapsed"))["value"] == "false"
    many = {f"ui.panel.p{number}.collapsed": "true" for number in range(201)}
    await admin.expect(422, "PUT", "/settings", many)


async def test_a_read_that_began_before_a_write_does_not_hide_it(
    admin: Caller, backend: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, go_on = asyncio.Event(), asyncio.Event()
    original = Database.read

    async def slow(self: Database, job: Callable[[Connection], Any]) -> Any:
        result = await original(self, job)
        found.set()
        await go_on.wait()
        return result

    backend.settings()._forget()
    monkeypatch.setattr(Database, "read", slow)
    reading = asyncio.create_task(backend.settings().value("ui.theme"))
    await found.wait()
    monkeypatch.setattr(Database, "read", original)
    await admin.expect(200, "PUT", "/settings", {"ui.theme": "light"})
    go_on.set()
    assert await reading == "dark"  # it was asked before
    assert await backend.settings().value("ui.theme") == "light"


async def test_of_many_concurrent_level_changes_the_stored_one_is_in_force(admin: Caller, backend: Embedded) -> None:
    for _ in range(3):
        levels = ["DEBUG", "ERROR", "WARNING", "CRITICAL", "INFO"] * 2
        await asyncio.gather(*(admin.ask("PUT", "/settings", {"logging.tax.level": level}) for level in levels))
        stored = (await admin.get("/settings/logging.tax.level"))["value"]
        assert backend.logs.levels()["tax"] == stored


async def test_error_notifications_cannot_be_switched_off(admin: Caller) -> None:
    await admin.expect(200, "PUT", "/settings", {"notification.error.enabled": "false"})
    assert (await admin.get("/settings/notification.error.enabled"))["value"] == "true"
