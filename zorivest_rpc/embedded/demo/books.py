"""The rest of the demo: forty lines of a bank account, and two policies that wait for approval, one of them tried."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

from sqlalchemy import Connection, or_, select

from ..database.schema.books import bank_transactions, import_batches
from ..database.schema.scheduling import pipeline_runs, policies, report_deliveries, reports
from ..imports.dedup import bank_hash
from ..imports.stored.trades import record_batch
from ..scheduling.document import content_hash, normal_form
from .story import BALANCES, BANK, SOURCE

__all__ = ["POLICY_IDS", "RESULTS", "StatementLine", "bank_lines", "load_bank", "load_policies", "remove_books"]

BATCH = "demo-bank-statement"
LINES = 40

_SPACE = uuid.UUID("6f1a3c1e-1df1-4b0e-9d4d-2f1b5f0c7a11")
RESULTS = str(uuid.uuid5(_SPACE, "results"))
MISTAKES = str(uuid.uuid5(_SPACE, "mistakes"))
POLICY_IDS = (RESULTS, MISTAKES)


class StatementLine(NamedTuple):
    """One line of the statement; money in is positive."""

    day: date
    description: str
    amount: Decimal
    category: str
    balance: Decimal


_MONTHLY = (
    ("ACH credit Northwind Payroll", "ach_credit", 2900, 0),
    ("Card purchase groceries", "card_purchase", -420, 60),
    ("Transfer to Demo broker", "transfer_out", -600, 0),
    ("ACH debit rent", "ach_debit", -1500, 0),
    ("Interest paid", "interest", 9, 2),
)


def bank_lines(days: tuple[date, ...]) -> tuple[StatementLine, ...]:
    """Forty lines that lead from the account's first balance to its last, the newest eight months of them."""
    chance = Random("demo bank")
    first, last = (Decimal(amount) for amount in BALANCES[BANK])
    found: list[tuple[date, str, Decimal, str]] = []
    end = days[-1]
    for number in range(LINES - 1):
        text, category, amount, spread = _MONTHLY[number % len(_MONTHLY)]
        value = Decimal(amount) + (Decimal(chance.randrange(-100 * spread, 100 * spread + 1)) / 100)
        found.append((end - timedelta(days=6 * (LINES - 1 - number)), text, value, category))
    missing = last - first - sum((line[2] for line in found), Decimal(0))
    found.append((end, "Card purchase travel", missing, "card_purchase" if missing < 0 else "refund"))
    lines, balance = [], first
    for day, text, value, category in found:
        balance += value
        lines.append(StatementLine(day, text, value, category, balance))
    return tuple(lines)


def load_bank(conn: Connection, days: tuple[date, ...], now: datetime, actor: str) -> int:
    """Write the statement as an import would have."""
    lines = bank_lines(days)
    twins: Counter[tuple[date, str, Decimal]] = Counter()
    rows = []
    for line in lines:
        key = (line.day, line.description.casefold(), line.amount)
        twins[key] += 1
        rows.append(
            {
                "account_id": BANK,
                "date": line.day,
                "description": line.description,
                "amount": line.amount,
                "category": line.category,
                "running_balance": line.balance,
                "dedup_hash": bank_hash(line.day, line.description, line.amount, twins[key]),
                "source": SOURCE,
                "import_batch_id": BATCH,
                "created_at": now,
            }
        )
    conn.execute(bank_transactions.insert(), rows)
    answer = {
        "batch_id": BATCH,
        "account_id": BANK,
        "status": "success",
        "total_rows": len(rows),
        "parsed_rows": len(rows),
        "skipped_rows": 0,
        "error_rows": 0,
        "imported": len(rows),
        "detected_format": "demo",
        "errors": [],
        "warnings": [],
    }
    record_batch(
        conn,
        answer,
        kind="bank",
        file_name="demo-statement.csv",
        first_day=lines[0].day,
        last_day=lines[-1].day,
        actor=actor,
    )
    return len(rows)


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    yield RESULTS, _describe_results()
    yield MISTAKES, _describe_mistakes()


def _describe_results() -> dict[str, Any]:
    results = (
        "SELECT instrument, count(*) AS trades, round(sum(realized_pnl), 2) AS pnl "
        "FROM round_trips WHERE status = 'closed' AND currency = 'USD' GROUP BY instrument ORDER BY pnl DESC"
    )
    total = "SELECT round(sum(realized_pnl), 2) AS pnl FROM round_trips WHERE status = 'closed' AND currency = 'USD'"
    return {
        "name": "Demo: results by instrument",
        "metadata": {
            "author": SOURCE,
            "description": "What was earned where, as a page. Tried once, not approved yet.",
        },
        "trigger": {"cron_expression": "0 18 * * 5"},
        "steps": [
            _report(
                "Results by instrument",
                [
                    {"type": "metric_card", "title": "Closed result", "query": "total"},
                    {"type": "chart", "title": "By instrument", "query": "results", "kind": "bar", "y": ["pnl"]},
                    {"type": "data_table", "title": "All", "query": "results"},
                ],
                {"total": total, "results": results},
            ),
            {"id": "page", "type": "render", "params": {}},
        ],
    }


def _describe_mistakes() -> dict[str, Any]:
    mistakes = (
        "SELECT category, count(*) AS times, round(sum(estimated_cost), 2) AS cost "
        "FROM mistake_entries JOIN trades ON trades.exec_id = mistake_entries.trade_id "
        "WHERE trades.currency = 'USD' GROUP BY category ORDER BY cost DESC"
    )
    return {
        "name": "Demo: what my mistakes cost",
        "metadata": {
            "author": SOURCE,
            "description": "A page of the mistakes, filed every Monday. Not approved yet.",
        },
        "trigger": {"cron_expression": "30 7 * * 1"},
        "steps": [
            _report(
                "Mistakes",
                [{"type": "data_table", "title": "By category", "query": "mistakes"}],
                {"mistakes": mistakes},
            ),
            {"id": "page", "type": "render", "params": {}},
            {"id": "file", "type": "send", "params": {"channel": "local_file"}},
        ],
    }


def _report(title: str, sections: list[dict[str, Any]], queries: dict[str, str]) -> dict[str, Any]:
    return {
        "id": "report",
        "type": "store_report",
        "params": {
            "report_name": title,
            "spec": {"title": title, "sections": sections},
            "data_queries": [{"name": name, "sql": sql} for name, sql in queries.items()],
        },
    }


def load_policies(conn: Connection, now: datetime) -> list[str]:
    """The ids of those written; a name that the user has taken stays the user's."""
    written = []
    for policy_id, document in _documents():
        taken = or_(policies.c.name == document["name"], policies.c.id == policy_id)
        if conn.execute(select(policies.c.id).where(taken)).first() is not None:
            continue
        normal = normal_form(document, "UTC")
        digest = content_hash(normal)
        conn.execute(
            policies.insert().values(
                id=policy_id,
                name=normal["name"],
                schema_version=normal["schema_version"],
                policy_json=normal,
                content_hash=digest,
                enabled=normal["trigger"]["enabled"],
                created_at=now,
            )
        )
        written.append(policy_id)
    return written


def remove_books(conn: Connection) -> None:
    """Every row of the two, what their runs left included."""
    conn.execute(bank_transactions.delete().where(bank_transactions.c.import_batch_id == BATCH))
    conn.execute(import_batches.delete().where(import_batches.c.batch_id == BATCH))
    mine = select(pipeline_runs.c.run_id).where(pipeline_runs.c.policy_id.in_(POLICY_IDS))
    conn.execute(report_deliveries.delete().where(report_deliveries.c.run_id.in_(mine)))
    conn.execute(reports.delete().where(reports.c.policy_id.in_(POLICY_IDS)))
    conn.execute(pipeline_runs.delete().where(pipeline_runs.c.policy_id.in_(POLICY_IDS)))
    conn.execute(policies.delete().where(policies.c.id.in_(POLICY_IDS)))
