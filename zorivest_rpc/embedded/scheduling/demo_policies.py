"""Two policies to look at and preview, which run only if somebody approves them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from . import policies
from .document import content_hash, normal_form
from .tables import policies as table

__all__ = ["DOCUMENTS", "add", "drop"]

_CLOSED = "FROM round_trips WHERE status = 'closed'"

DOCUMENTS: tuple[dict[str, Any], ...] = (
    {
        "name": "Demo: weekly review",
        "metadata": {"author": "demo", "description": "Closed round trips by month, as a page and a PDF in reports/."},
        "trigger": {"cron_expression": "0 7 * * 1", "timezone": "America/New_York"},
        "steps": [
            {
                "id": "report",
                "type": "store_report",
                "params": {
                    "report_name": "Weekly review",
                    "spec": {
                        "title": "Weekly review",
                        "sections": [
                            {"type": "metric_card", "title": "Round trips", "query": "totals", "value": "n"},
                            {"type": "metric_card", "title": "Realised", "query": "totals", "value": "pnl"},
                            {"type": "metric_card", "title": "Winners %", "query": "totals", "value": "won"},
                            {"type": "chart", "title": "Realised by month", "query": "months", "kind": "bar"},
                            {"type": "data_table", "title": "The last twenty", "query": "latest"},
                        ],
                    },
                    "data_queries": [
                        {
                            "name": "totals",
                            "sql": "SELECT count(*) AS n, round(sum(realized_pnl), 2) AS pnl, "
                            f"round(100.0 * sum(realized_pnl > 0) / count(*), 1) AS won {_CLOSED}",
                        },
                        {
                            "name": "months",
                            "sql": "SELECT strftime('%Y-%m', closed_at) AS month, round(sum(realized_pnl), 2) AS pnl "
                            f"{_CLOSED} GROUP BY 1 ORDER BY 1",
                        },
                        {
                            "name": "latest",
                            "sql": "SELECT date(closed_at) AS closed, instrument, direction, total_quantity AS "
                            f"quantity, round(realized_pnl, 2) AS pnl {_CLOSED} ORDER BY closed_at DESC LIMIT 20",
                        },
                    ],
                },
            },
            {"id": "page", "type": "render", "params": {"output_format": "both"}},
            {"id": "deliver", "type": "send", "params": {"channel": "local_file"}},
        ],
    },
    {
        "name": "Demo: mistakes of the month",
        "metadata": {"author": "demo", "description": "What mistakes cost, unless there were none."},
        "trigger": {"cron_expression": "30 17 L * *", "timezone": "America/New_York"},
        "steps": [
            {
                "id": "found",
                "type": "query",
                "params": {
                    "queries": [
                        {
                            "name": "mistakes",
                            "sql": "SELECT category, count(*) AS times, coalesce(sum(estimated_cost), 0) AS cost "
                            "FROM mistake_entries GROUP BY category ORDER BY cost DESC",
                        }
                    ]
                },
            },
            {
                "id": "page",
                "type": "render",
                "params": {
                    "title": "Mistakes",
                    "template_source": "<h1>{{ title }}</h1><table><tr><th>What</th><th>Times</th><th>Cost</th></tr>"
                    "{% for row in ctx.found.results.mistakes %}<tr><td>{{ row.category }}</td>"
                    '<td class="n">{{ row.times }}</td><td class="n">{{ row.cost | number }}</td></tr>'
                    "{% endfor %}</table>",
                },
                "skip_if": {"field": "ctx.found.counts.mistakes", "operator": "eq", "value": 0},
            },
            {
                "id": "deliver",
                "type": "send",
                "params": {"channel": "local_file", "body_template": "No mistakes were recorded."},
                "skip_if": {"field": "ctx.found.counts.mistakes", "operator": "eq", "value": 0},
            },
        ],
    },
)


def add(conn: Connection, now: datetime) -> None:
    """Beside the user's own; a name that is taken stays theirs."""
    for document in map(_normal, DOCUMENTS):
        if conn.execute(select(table.c.id).where(table.c.name == document["name"])).first() is None:
            policies.insert(conn, document, now)


def drop(conn: Connection) -> None:
    """Unless somebody changed or approved one: then it is theirs."""
    for document in map(_normal, DOCUMENTS):
        ours = (table.c.content_hash == content_hash(document)) & table.c.approved_hash.is_(None)
        conn.execute(table.delete().where(ours))


def _normal(document: dict[str, Any]) -> dict[str, Any]:
    return normal_form(document, "UTC")
