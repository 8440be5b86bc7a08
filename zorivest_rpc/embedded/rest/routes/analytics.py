"""`/analytics`: the edge, its steadiness, its risk, and single trades judged."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import msgspec
from aiohttp import web
from sqlalchemy import Connection, select

from ...analytics.drawdown import drawdown
from ...analytics.excursion import SPANS, Resolution
from ...analytics.expectancy import expectancy
from ...analytics.options import OptionFill, detect
from ...analytics.review import Review, review_trade, review_week
from ...analytics.sqn import sqn
from ...analytics.stored import results
from ...analytics.stored import reviews as judgement
from ...analytics.strategies import breakdown
from ...database.schema.journal import trades
from ...errors import Invalid, NotFound, Unavailable
from ...journal.coverage import cover
from ...journal.expiry import settle_due
from ...values.answers import to_json
from ...values.fields import Fields
from ...values.inputs import fill_aliases, page
from ..routing import READ, WRITE, RestCall, Route, reply
from .market_data import market_of
from .selection import scope_of, tell_period, zone_of

__all__ = ["ROUTES"]

"""What a review by rules costs, in cents."""
_APART = "have different currencies, which are not added; ask about the legs of one currency at a time"


async def show_expectancy(ask: RestCall) -> web.StreamResponse:
    scope = await scope_of(ask, "all")
    fields = Fields(ask.query)
    strategy = fields.text("strategy", None, least=1, most=200)
    fields.done()

    def job(conn: Connection) -> dict[str, Any]:
        if strategy is None:
            sums, streaks = results.moments(conn, scope), results.streaks(conn, scope)
            slippage = results.average_slippage(conn, scope)
        else:
            sums, streaks, slippage = results.of_strategy(conn, scope, strategy)
        found = expectancy(
            sums,
            streaks=streaks,
            avg_slippage=slippage,
            period=scope.period.text,
            account_id=scope.account_id,
            strategy=strategy,
        )
        return _tell(conn, scope, found)

    await settle_due(ask.db)
    return reply(await ask.db.read(job))


def _tell(conn: Connection, scope: results.Scope, found: msgspec.Struct) -> dict[str, Any]:
    """An answer over results, with what it says about currencies and days."""
    return {**to_json(found), **results.tell_currencies(conn, scope), **tell_period(scope.period)}


async def show_drawdown(ask: RestCall) -> web.StreamResponse:
    """The simulation runs on worker threads; other requests are answered meanwhile."""
    scope = await scope_of(ask, "all")
    fields = Fields(ask.query)
    simulations = fields.integer("simulations", 10_000, least=100, most=100_000)
    risk = fields.decimal("risk_pct", Decimal(1), above=0, most=100)
    horizon = fields.integer("horizon", 100, least=1, most=1_000)
    seed = fields.integer("seed", None, least=0, most=2**63 - 1)
    fields.done()
    await settle_due(ask.db)
    found, told = await ask.db.read(lambda conn: (results.results(conn, scope), results.tell_currencies(conn, scope)))
    stopping = ask.backend.stop_requested

    def checkpoint(done: int, wanted: int) -> None:
        if stopping.is_set():  # a simulation does not hold up the end of the process
            raise Unavailable("shutting_down", "The backend is ending; ask again.")

    answer = await ask.backend.work(
        "figures",
        lambda: drawdown(
            found,
            simulations=simulations,
            risk_pct=float(risk),
            horizon=horizon,
            seed=seed,
            account_id=scope.account_id,
            checkpoint=checkpoint,
        ),
    )
    return reply({**to_json(answer), **told, **tell_period(scope.period)})


async def show_sqn(ask: RestCall) -> web.StreamResponse:
    scope = await scope_of(ask, "all")
    await settle_due(ask.db)

    def job(conn: Connection) -> dict[str, Any]:
        sums, unit = results.risk_moments(conn, scope)
        return _tell(conn, scope, sqn(sums, unit, period=scope.period.text, account_id=scope.account_id))

    return reply(await ask.db.read(job))


async def strategy_breakdown(ask: RestCall) -> web.StreamResponse:
    scope = await scope_of(ask, "all")
    await settle_due(ask.db)

    def job(conn: Connection) -> dict[str, Any]:
        groups, everything = results.by_strategy(conn, scope)
        found = breakdown(groups, everything, period=scope.period.text, account_id=scope.account_id)
        return _tell(conn, scope, found)

    return reply(await ask.db.read(job))


async def execution_quality(ask: RestCall) -> web.StreamResponse:
    """Of one trade, or without `trade_id` a page of all."""
    fields = Fields(fill_aliases(ask.query, {"trade_exec_id": "trade_id"}))
    exec_id = fields.text("trade_id", None, least=1, most=128)
    account_id = fields.text("account_id", None, most=128)
    wanted = page(fields, 50, 200)
    fields.done()
    if exec_id is not None:
        return reply(to_json(await ask.db.read(lambda conn: judgement.score(conn, exec_id))))
    answer = await ask.db.read(lambda conn: judgement.list_scores(conn, account_id, wanted))
    answer["items"] = [to_json(mark) for mark in answer["items"]]
    if not answer["total"]:
        answer["hint"] = "No trades to score; record fills with create_trade."
    return reply(answer)


async def excursion(ask: RestCall) -> web.StreamResponse:
    exec_id = ask.path["exec_id"]
    fields = Fields(await ask.json())
    wanted = fields.choice("resolution", SPANS, None)
    fields.done()
    now = datetime.now(UTC)
    await settle_due(ask.db)
    resolution = cast(Resolution | None, wanted)
    try:
        found = await judgement.enrich(ask.db, exec_id, resolution, now)
    except Unavailable as missing:
        await cover(ask.db, market_of(ask), exec_id, resolution, now, missing)
        found = await judgement.enrich(ask.db, exec_id, resolution, now)
    return reply(to_json(found))


async def options_strategy(ask: RestCall) -> web.StreamResponse:
    """Reads only; asking twice is asking once."""
    fields = Fields(await ask.json())
    ids = list(dict.fromkeys(fields.texts("leg_exec_ids", least=1, most=100)))
    fields.done()

    def job(conn: Connection) -> dict[str, Any]:
        rows = conn.execute(select(trades).where(trades.c.exec_id.in_(ids))).mappings().all()
        missing = [name for name in ids if name not in {row["exec_id"] for row in rows}]
        if missing:
            raise NotFound("trade", ", ".join(missing), "list_trades shows the recorded ones.")
        paid_in = {row["exec_id"]: row["currency"] for row in rows}
        if len(set(paid_in.values())) > 1:
            named = ", ".join(f"{name}: {paid_in[name]}" for name in ids)
            raise Invalid({"leg_exec_ids": [f"{_APART} ({named})"]})
        found = detect(
            OptionFill(
                row["exec_id"],
                row["symbol"],
                1 if row["action"] == "BOT" else -1,
                row["quantity"],
                row["price"],
                row["multiplier"],
            )
            for row in rows
        )
        return {**to_json(found), "currency": paid_in[ids[0]]}

    return reply(await ask.db.read(job))


async def ai_review(ask: RestCall) -> web.StreamResponse:
    """By rules: no network and no cost, so every cap is high enough; the answer repeats it."""
    fields = Fields(fill_aliases(await ask.json(), {"trade_id": "trade_exec_id"}))
    exec_id = fields.text("trade_exec_id", least=1, most=128)
    kind = fields.choice("review_type", ("single", "weekly"), "single")
    cap = fields.decimal("budget_cap", None, least=0)
    fields.done()
    zone = await zone_of(ask)

    def job(conn: Connection) -> Review:
        if kind == "single":
            return review_trade(judgement.facts_of_trade(conn, exec_id, zone), cap)
        return review_week(judgement.facts_of_week(conn, exec_id, zone), exec_id, cap)

    await settle_due(ask.db)
    return reply(to_json(await ask.db.read(job)))


ROUTES = (
    Route("GET", "/analytics/expectancy", READ, show_expectancy),
    Route("GET", "/analytics/drawdown", READ, show_drawdown),
    Route("GET", "/analytics/sqn", READ, show_sqn),
    Route("GET", "/analytics/strategy-breakdown", READ, strategy_breakdown),
    Route("GET", "/analytics/execution-quality", READ, execution_quality),
    Route("POST", "/analytics/excursion/{exec_id}", WRITE, excursion),
    Route("POST", "/analytics/options-strategy", READ, options_strategy),
    Route("POST", "/analytics/ai-review", READ, ai_review),
)
