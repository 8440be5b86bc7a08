"""The demo's policies: they can be previewed over the demo data and over nothing, and go with it unless one's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded import demo
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.scheduling.demo_policies import DOCUMENTS

from .conftest import Approve
from .test_runs import POLICIES, run


async def listed(admin: Caller) -> list[Any]:
    """By name, the later in the alphabet first."""
    found: list[Any] = (await admin.get(POLICIES))["policies"]
    return sorted(found, key=lambda policy: policy["name"], reverse=True)


@pytest.mark.parametrize("with_data", [True, False])
async def test_both_can_be_previewed(backend: Embedded, admin: Caller, with_data: bool) -> None:
    if with_data:
        await demo.load_into(backend)
    else:
        for document in DOCUMENTS:
            await admin.expect(201, "POST", POLICIES, {"policy_json": document})
    weekly, mistakes = await listed(admin)
    assert (weekly["approved"], mistakes["approved"]) == (False, False)
    assert [one["name"] for one in (weekly, mistakes)] == [one["name"] for one in DOCUMENTS]
    done = await run(admin, weekly, dry_run=True)
    assert (done["status"], done["error"]) == ("success", None)
    assert ("<rect" in done["preview"], "no data" in done["preview"]) == (True, not with_data)
    done = await run(admin, mistakes, dry_run=True)
    assert (done["status"], [one["status"] for one in done["steps"]]) == (
        *("success", ["success", "success", "success"] if with_data else ["success", "skipped", "skipped"]),
    )
    if with_data:
        assert "revenge_trade" in done["preview"]


async def test_loading_and_removing_leaves_what_is_the_user_s_own(
    backend: Embedded, admin: Caller, approve: Approve
) -> None:
    await demo.load_into(backend)
    weekly, _ = await listed(admin)
    await approve(weekly["id"])
    await backend.database().write(demo.remove)
    (left,) = await listed(admin)
    assert (left["id"], left["approved"]) == (weekly["id"], True)
    await demo.load_into(backend)
    assert [one["name"] for one in await listed(admin)] == [one["name"] for one in DOCUMENTS]
    await admin.expect(204, "DELETE", f"{POLICIES}/{weekly['id']}")
    await backend.database().write(demo.remove)
    assert await listed(admin) == []
