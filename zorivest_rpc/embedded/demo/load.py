"""The demo data: loaded and removed as a whole, in one transaction, without touching what is the user's own. The one
policy that has been approved is then run once, so that its history is a real one.

`python -m zorivest_rpc.embedded.demo.load load` and `remove` do the same from a terminal, through the running backend
of the data directory or one that they start."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, or_, select
from sqlalchemy.exc import IntegrityError

from ..analytics.excursion import Bar
from ..analytics.stored import costs
from ..analytics.stored import mistakes as mistake_log
from ..backend import Embedded
from ..database import audit
from ..database.schema.books import tax_pending, tax_stale, tax_state
from ..database.schema.journal import accounts as account_table
from ..database.schema.journal import balance_snapshots, journal_entries, periodic_fees, price_bars, trade_plans
from ..database.schema.journal import corporate_actions as action_table
from ..database.schema.journal import trades as trade_table
from ..database.schema.scheduling import policies
from ..errors import Refusal
from ..journal import accounts, corporate_actions, expiry, images, plans, trades
from ..journal import reports as journal
from ..journal.pictures import Picture, prepare
from ..market import stored_bars as bars
from ..tax.stored import profiles as tax_profiles
from ..tax.stored import sync as tax_store
from . import books as demo_books
from . import story as demo_data
from .story import SOURCE, SYNTHETIC, Story

if TYPE_CHECKING:
    from ..locate import Located

__all__ = ["change", "chart", "count_trades", "load", "load_into", "main", "remove", "remove_from"]

_ACTOR = "demo"
_REPORTS = (
    (demo_data.BREAKOUT, (5, 4), True, "confident", "Selling in thirds kept me in the move.", ["breakout", "momentum"]),
    (demo_data.FLIP, (3, 3), False, "neutral", "The flip was not planned; it worked by luck.", ["mean_reversion"]),
    (demo_data.STOPPED, (2, 1), False, "frustrated", "Bought the high and waited far too long.", ["breakout"]),
)


def count_trades(conn: Connection) -> int:
    """How many demo trades there are."""
    return conn.execute(
        select(func.count()).select_from(trade_table).where(trade_table.c.source == SOURCE)
    ).scalar_one()


def load(conn: Connection, story: Story, picture: Picture, now: datetime) -> dict[str, Any]:
    """Write the story; a second time changes nothing."""
    if count_trades(conn):
        return {"status": "already_loaded", "trades": count_trades(conn)}
    for account in demo_data.ACCOUNTS:
        if accounts.find(conn, account["account_id"]) is None:
            accounts.create(conn, {**account, "source": SOURCE}, _ACTOR)
    for account_id, (first, last) in demo_data.BALANCES.items():
        begin = datetime.combine(story.days[0], time(), UTC) - timedelta(days=1)
        accounts.record_balance(conn, account_id, Decimal(first), begin, _ACTOR, SOURCE)
        end = datetime.combine(story.days[-1], time(21), UTC)
        accounts.record_balance(conn, account_id, Decimal(last), end, _ACTOR, SOURCE)
    stored = sum(_bars(conn, symbol, found) for symbol, found in story.bars.items())
    for draft in story.drafts:
        trades.insert(conn, draft, actor=_ACTOR, auto_create=False)
    expiry.settle(conn, now)
    _write_about(conn, story, picture)
    counts = {
        "trades": count_trades(conn),
        "bars": stored,
        "accounts": len(demo_data.ACCOUNTS),
        "bank_lines": demo_books.load_bank(conn, story.days, now, _ACTOR),
        "policies": len(demo_books.load_policies(conn, now)),
    }
    audit.record(conn, _ACTOR, "demo.load", "demo", None, **counts)
    return {"status": "loaded", **counts}


def _bars(conn: Connection, symbol: str, synthetic: tuple[Bar, ...]) -> int:
    """Only where nothing is known: a real bar is never replaced by an invented one."""
    known = set(
        conn.execute(
            select(price_bars.c.time).where(price_bars.c.symbol == symbol, price_bars.c.resolution == "1d")
        ).scalars()
    )
    return bars.store(conn, symbol, "1d", [bar for bar in synthetic if bar.time not in known], SYNTHETIC)


def _write_about(conn: Connection, story: Story, picture: Picture) -> None:
    """Reports, a plan, mistakes, a picture, an entry and monthly fees."""
    for fact, grades, followed, mood, lesson, tags in _REPORTS:
        values = {
            "setup_quality": grades[0],
            "execution_quality": grades[1],
            "followed_plan": followed,
            "emotional_state": mood,
            "lessons_learned": lesson,
            "tags": tags,
        }
        journal.add_report(conn, story.exec_id(fact), values, _ACTOR)
    _plan(conn, story)
    for fact, category, cost, note in (
        (demo_data.REVENGE, "revenge_trade", None, "Two and a half times the size, six minutes after a loss."),
        (demo_data.OVERSIZED, "oversized", Decimal(450), "Half again the usual size at the top of the range."),
        (demo_data.EARLY, "early_exit", Decimal(300), "Sold the first part on noise."),
    ):
        values = {"category": category, "estimated_cost": cost, "notes": note}
        mistake_log.add(conn, story.exec_id(fact), values, _ACTOR)
    images.attach(conn, "trade", story.exec_id(demo_data.BREAKOUT), picture, "NVDA, synthetic daily closes", _ACTOR)
    journal.add_entry(
        conn,
        entry_id="DEMO-WEEK",
        title="Weekly review",
        body="Three trades in one morning on SPY, two of them not in the plan. Fewer, and smaller after a loss.",
        entry_date=story.days[-1],
        tags=["review"],
        actor=_ACTOR,
        source=SOURCE,
    )
    journal.link(conn, story.exec_id(demo_data.REVENGE), "DEMO-WEEK", _ACTOR)
    months = sorted({f"{day:%Y-%m}" for day in story.days})[-6:]
    for month in months:
        costs.add_periodic(
            conn,
            account_id=demo_data.BROKER,
            fee_type="platform",
            amount=Decimal("10.00"),
            month=month,
            description="Data feed",
            actor=_ACTOR,
            source=SOURCE,
        )


def _plan(conn: Connection, story: Story) -> None:
    exec_id = story.exec_id(demo_data.PLANNED)
    entry = trades.require(conn, exec_id)["price"]
    cent = Decimal("0.01")
    other = conn.execute(
        select(trade_plans.c.id).where(
            trade_plans.c.ticker == "SPY",
            trade_plans.c.direction == "BOT",
            trade_plans.c.status.in_(("draft", "active")),
        )
    ).first()
    if other is not None:
        return  # the user plans this very trade; theirs goes first
    plan = plans.add(
        conn,
        {
            "ticker": "SPY",
            "direction": "BOT",
            "conviction": "high",
            "strategy_name": "trend_follow",
            "strategy_description": "Buy the turn after the pullback, hold while the trend does.",
            "entry_price": entry,
            "stop_loss": (entry * Decimal("0.98")).quantize(cent),
            "target_price": (entry * Decimal("1.04")).quantize(cent),
            "entry_conditions": "Close above the prior day's high\nVolume above average",
            "timeframe": "2-5 weeks",
            "account_id": demo_data.BROKER,
            "source": SOURCE,
        },
        _ACTOR,
    )
    plans.change(conn, plan["id"], {"status": "executed", "linked_trade_id": exec_id}, _ACTOR)


def remove(conn: Connection) -> dict[str, Any]:
    """Delete every demo row; an account that holds something of the user's own stays."""
    removed = 0
    conn.execute(trade_plans.delete().where(trade_plans.c.source == SOURCE))
    demo_trades = select(trade_table.c.exec_id).where(trade_table.c.source == SOURCE)
    on_them = or_(action_table.c.closing_trade_id.in_(demo_trades), action_table.c.related_trade_id.in_(demo_trades))
    for number in list(conn.execute(select(action_table.c.id).where(on_them)).scalars()):
        corporate_actions.delete(conn, number, _ACTOR)  # first, because it takes back the trades it made
    latest_first = demo_trades.order_by(trade_table.c.time.desc(), trade_table.c.exec_id.desc())
    for exec_id in list(conn.execute(latest_first).scalars()):
        trades.delete(conn, exec_id, _ACTOR)
        removed += 1
    demo_books.remove_books(conn)
    conn.execute(journal_entries.delete().where(journal_entries.c.source == SOURCE))
    conn.execute(periodic_fees.delete().where(periodic_fees.c.source == SOURCE))
    conn.execute(price_bars.delete().where(price_bars.c.source == SYNTHETIC))
    conn.execute(balance_snapshots.delete().where(balance_snapshots.c.source == SOURCE))
    kept = []
    for account in demo_data.ACCOUNTS:
        account_id = account["account_id"]
        try:
            with conn.begin_nested():
                conn.execute(
                    account_table.delete().where(
                        account_table.c.account_id == account_id, account_table.c.source == SOURCE
                    )
                )
        except IntegrityError:
            kept.append(account_id)
    if removed:
        _settle_taxes(conn)
        audit.record(conn, _ACTOR, "demo.remove", "demo", None, trades=removed)
    return {"status": "removed" if removed else "nothing_to_remove", "trades": removed, "accounts_kept": kept}


def _settle_taxes(conn: Connection) -> None:
    """Remove the demo's tax lots, and the note by which the next tax question would make them again."""
    now = datetime.now(UTC)
    if conn.execute(select(tax_state.c.id)).first() is not None:
        tax_store.sync(conn, tax_store.rules_of(conn, tax_profiles.load(conn, now)), now)
    if tax_store.is_empty(conn):
        for table in (tax_state, tax_stale, tax_pending):
            conn.execute(table.delete())
    else:
        traded = select(trade_table.c.underlying)
        conn.execute(tax_stale.delete().where(tax_stale.c.underlying.not_in(traded)))


async def load_into(backend: Embedded) -> dict[str, Any]:
    """Tell the story that ends today and write it into an open backend."""
    now = datetime.now(UTC)
    story = await backend.work("figures", lambda: demo_data.tell(now.date()))
    picture = await backend.work("pictures", lambda: chart(story))
    answer = await backend.database().write(lambda conn: load(conn, story, picture, now))
    if answer["status"] == "loaded" and answer["policies"]:
        with contextlib.suppress(Refusal):  # too many runs this hour: then its history is empty, and says so
            run = await backend.scheduling.run(demo_books.RESULTS, dry_run=True, trigger_type="manual", actor=_ACTOR)
            answer["run"] = run["status"]
    return answer


async def remove_from(backend: Embedded) -> dict[str, Any]:
    """Take every demo row out of an open backend; a demo policy that runs at the moment is ended first."""
    db = backend.database()
    there = select(policies.c.id).where(policies.c.id.in_(demo_books.POLICY_IDS))
    for policy_id in await db.read(lambda conn: list(conn.execute(there).scalars())):
        await backend.scheduling.delete(policy_id, _ACTOR)
    return await db.write(remove)


def chart(story: Story) -> Picture:
    """A drawing of synthetic closes, as a screenshot would come; slow, so not on the event loop."""
    from PIL import Image, ImageDraw

    closes = [float(bar.close) for bar in story.bars["NVDA"][:120]]
    width, height, low, high = 640, 360, min(closes), max(closes)
    image = Image.new("RGB", (width, height), "white")
    step = width / (len(closes) - 1)
    points = [
        (number * step, height - 20 - (close - low) / (high - low) * (height - 40))
        for number, close in enumerate(closes)
    ]
    draw = ImageDraw.Draw(image)
    draw.line(points, fill=(30, 90, 160), width=3)
    draw.text((12, 10), "NVDA (synthetic)", fill=(60, 60, 60))
    out = io.BytesIO()
    image.save(out, "PNG")
    return prepare(out.getvalue())


def main(argv: list[str], environ: dict[str, str] | None = None) -> int:
    """`load` or `remove`, told on stdout; 1 with the reason on stderr."""
    from zorivest_rpc.config import chosen_data_dir

    env = dict(os.environ) if environ is None else environ
    parser = argparse.ArgumentParser(prog="zorivest-rpc demo", description="Load or remove the demo data.")
    parser.add_argument("verb", choices=("load", "remove"))
    parser.add_argument("--data-dir", type=Path, default=Path(chosen_data_dir(env)), help="default: %(default)s")
    options = parser.parse_args(argv)
    return change(options.verb, options.data_dir, env)


def change(verb: str, data_dir: Path, environ: Mapping[str, str], *, wakeable: bool = False) -> int:
    """`load` or `remove` the demo data of the backend of a directory; the exit code."""
    from zorivest_rpc.errors import ZorivestError

    from ..locate import find_or_start, stored_key

    try:
        found = find_or_start(data_dir, environ=environ, wakeable=wakeable)
        key = stored_key(data_dir, environ)
        if key is None:
            raise ZorivestError("no API key for this journal is stored here; set ZORIVEST_API_KEY")
        token = _ask(found, "POST", "/auth/unlock", {"api_key": key})["session_token"]
        method = "POST" if verb == "load" else "DELETE"
        answer = _ask(found, method, "/demo", None, token)
    except (ZorivestError, OSError, http.client.HTTPException) as exc:
        print(f"zorivest-rpc demo: {exc}", file=sys.stderr)
        return 1
    more = f", {answer['bank_lines']} bank lines, {answer['policies']} policies" if "bank_lines" in answer else ""
    print(f"{answer['status'].replace('_', ' ')}: {answer['trades']} trades{more}")
    return 0


def _ask(located: Located, method: str, path: str, body: Any, token: str | None = None) -> Any:
    from zorivest_rpc.errors import ZorivestError

    headers = {"Authorization": f"Bearer {token}"} if token is not None else None
    with contextlib.closing(located.connect(120)) as connection:
        status, data, _ = connection.ask(method, path, body or {}, headers)
    answer = json.loads(data)
    if status >= 400:
        raise ZorivestError(str(answer.get("detail", answer)))
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
