"""Tagged mistakes: the whole answer, the round trip a flip closed, and costs at the rate of the right execution."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tests.embedded.driver import Journal
from zorivest_rpc.embedded.analytics.mistakes import CATEGORIES
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import audit_log


async def tag(journal: Journal, exec_id: str, category: str = "chasing", **more: Any) -> dict[str, Any]:
    body = {"trade_exec_id": exec_id, "category": category, **more}
    answer: dict[str, Any] = await journal.expect(201, "POST", "/mistakes", body)
    return answer


async def summary(journal: Journal, **query: str) -> dict[str, Any]:
    answer: dict[str, Any] = await journal.get("/mistakes/summary", params={"period": "all", **query})
    return answer


async def test_a_tag_is_answered_and_listed_whole(journal: Journal) -> None:
    await journal.buy(3, 100, exec_id="in")
    await journal.sell(3, 98, exec_id="out")
    await journal.buy(1, 5, instrument="QQQ", exec_id="other")
    tagged = await tag(journal, "in", "NO STOP", notes="again")
    expected = {
        "id": tagged["id"],
        "trade_id": "in",
        "category": "no_stop",
        "estimated_cost": 6,
        "cost_source": "derived",
        "currency": "USD",
        "notes": "again",
        "auto_detected": False,
        "created_at": tagged["created_at"],
    }
    assert tagged == expected
    more = await tag(journal, "other", "no_stop")
    assert (more["estimated_cost"], more["cost_source"]) == (None, "unknown")  # it is open
    listed = await journal.get("/mistakes")
    assert (listed["items"], listed["total"]) == ([more, expected], 2)
    for exec_id, items in (("in", [expected]), ("other", [more]), ("out", [])):
        own = await journal.get("/mistakes", params={"trade_id": exec_id})
        assert (own["items"], own["total"]) == (items, len(items))
    await journal.refused(404, "POST", "/mistakes", {"trade_exec_id": "none", "category": "no_stop"})
    found = await summary(journal)
    assert (found["total_mistakes"], found["total_cost"], found["most_costly"]) == (2, 6, "no_stop")


async def test_every_category_can_be_tagged_and_no_other(journal: Journal) -> None:
    await journal.buy(3, 100, exec_id="in")
    for cost, category in enumerate(CATEGORIES):
        tagged = await tag(journal, "in", category, estimated_cost=cost)
        assert (tagged["category"], tagged["estimated_cost"], tagged["cost_source"]) == (category, cost, "user")
    body = {"trade_id": "in", "category": "chasing", "estimated_cost": -0.01}
    assert "estimated_cost" in (await journal.refused(422, "POST", "/mistakes", body))["detail"]["errors"]
    refused = await journal.refused(422, "POST", "/mistakes", {"trade_id": "in", "category": "sloth"})
    assert "revenge_trade" in refused["detail"]["errors"]["category"][0]


async def test_a_flip_answers_for_the_round_trip_that_it_closed(journal: Journal) -> None:
    await journal.buy(2, 100)
    await journal.sell(5, 90, exec_id="flip")  # closes 2 with −20, opens 3 short
    assert (await tag(journal, "flip"))["estimated_cost"] == 20
    await journal.buy(3, 190)  # −300, of the round trip that the flip opened
    (tagged,) = (await journal.get("/mistakes"))["items"]
    assert (tagged["estimated_cost"], (await summary(journal))["total_cost"]) == (20, 20)


async def test_a_cost_abroad_has_the_rate_of_its_trade_and_a_loss_that_of_the_execution_that_closed_it(
    journal: Journal,
) -> None:
    euro: dict[str, Any] = {"instrument": "SAP", "currency": "EUR"}
    await journal.buy(1, 100, exec_id="in", fx_rate=2, **euro)
    await journal.sell(1, 90, exec_id="out", fx_rate=4, **euro)
    await tag(journal, "in", "chasing", estimated_cost=3)  # 3 euros at 2
    await tag(journal, "in", "oversized")  # 10 euros lost, at 4
    await tag(journal, "out", "early_exit", estimated_cost=5)  # 5 euros at 4
    found = await summary(journal)
    assert {row["category"]: row["total_cost"] for row in found["by_category"]} == {
        "chasing": 6,
        "oversized": 40,
        "early_exit": 20,
    }
    assert (found["total_mistakes"], found["total_cost"], found["most_costly"]) == (3, 66, "oversized")
    assert found["converted"] == [{"kind": "mistakes", "currency": "EUR", "count": 3}]
    assert "unconverted" not in found


async def test_a_pair_has_its_own_price_as_the_rate_of_its_mistakes(journal: Journal) -> None:
    pair: dict[str, Any] = {"instrument": "USD/JPY", "asset_class": "FOREX"}
    await journal.buy(10, 100, exec_id="in", **pair)
    await journal.sell(10, 80, exec_id="out", **pair)
    await tag(journal, "in", "oversized")  # 200 yen lost, at 80 yen a dollar
    await tag(journal, "in", "chasing", estimated_cost=50)  # 50 yen at 100 yen a dollar
    found = await summary(journal)
    assert {row["category"]: row["total_cost"] for row in found["by_category"]} == {"oversized": 2.5, "chasing": 0.5}


async def test_a_mistake_on_a_foreign_gain_or_an_open_trade_costs_nothing_and_waits_for_no_rate(
    journal: Journal,
) -> None:
    euro: dict[str, Any] = {"instrument": "SAP", "currency": "EUR"}
    await journal.buy(1, 100, exec_id="in", **euro)
    await journal.sell(1, 130, exec_id="out", **euro)
    await journal.buy(1, 100, exec_id="open", instrument="AIR", currency="EUR")
    for name in ("in", "open"):
        await tag(journal, name)
    found = await summary(journal)
    assert (found["total_mistakes"], found["total_cost"]) == (2, 0)
    assert {"converted", "unconverted", "missing_rates"}.isdisjoint(found)


async def test_a_tag_is_in_the_audit_log(journal: Journal, backend: Embedded) -> None:
    await journal.buy(3, 100, exec_id="in")
    await tag(journal, "in", "chasing")
    said = select(audit_log.c.action).where(audit_log.c.resource_id == "in").order_by(audit_log.c.id)
    actions = await backend.database().read(lambda conn: conn.execute(said).scalars().all())
    assert actions[-1] == "mistake.track"
