"""The demo's policies show the amounts that the journal has."""

from __future__ import annotations

from sqlalchemy import func, select

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import mistake_entries, round_trips
from zorivest_rpc.embedded.demo import load as demo

from ..scheduling.running import POLICIES, run


async def test_a_preview_of_the_demo_s_reports_has_its_results_and_costs(backend: Embedded, admin: Caller) -> None:
    await demo.load_into(backend)
    closed = select(func.sum(round_trips.c.realized_pnl)).where(round_trips.c.status == "closed")
    costs = select(func.max(mistake_entries.c.estimated_cost))
    earned = await backend.database().read(lambda conn: conn.execute(closed).scalar_one())
    dearest = await backend.database().read(lambda conn: conn.execute(costs).scalar_one())
    policies = {one["name"]: one for one in (await admin.get(POLICIES))["policies"]}
    results = await run(admin, policies["Demo: results by instrument"], dry_run=True)
    assert f"<b>{float(earned):,.2f}".rstrip("0").rstrip(".") in results["preview"]
    assert results["preview"].count("<rect") > 3
    mistakes = await run(admin, policies["Demo: what my mistakes cost"], dry_run=True)
    assert f">{float(dearest):,.2f}".rstrip("0").rstrip(".") in mistakes["preview"]
