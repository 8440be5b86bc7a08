"""The 70 tools that every benchmarked server offers: 68 of a realistic shape, `echo` and `forward`.

The servers read them from one JSON file, so that a server in another language or environment offers exactly the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

__all__ = ["CALL_ARGUMENTS", "ECHO_TEXT", "catalog", "tools", "write_catalog"]

VERBS = ("list", "get", "create", "update")
NOUNS = (
    "orders",
    "positions",
    "accounts",
    "watchlists",
    "alerts",
    "quotes",
    "trades",
    "transfers",
    "documents",
    "instruments",
    "portfolios",
    "strategies",
    "reports",
    "calendars",
    "dividends",
    "holdings",
    "statements",
)
ENUMS = (
    ("status", ["open", "filled", "cancelled", "expired", "rejected"]),
    ("interval", ["1m", "5m", "1h", "1d"]),
    ("currency", ["USD", "EUR", "GBP", "JPY", "CHF"]),
    ("sort", ["asc", "desc"]),
)
ECHO_TEXT = (
    "Order accepted: BUY 100 ACME at limit 182.25, account 7781-A, time in force DAY, route SMART, "
    "estimated commission 0.35 USD, estimated margin impact 1822.50 USD, reference 8f14e45f-ceea-467a."
)
ORDER_SCHEMA = {
    "type": "object",
    "properties": {
        "ticker": {"type": "string", "description": "Exchange ticker of the instrument"},
        "quantity": {"type": "integer", "minimum": 1, "description": "Number of units"},
        "side": {"type": "string", "enum": ["buy", "sell"], "description": "Direction of the order"},
    },
    "required": ["ticker", "quantity", "side"],
}
CALL_ARGUMENTS = {"ticker": "ACME", "quantity": 100, "side": "buy"}


def _plain_tool(verb: str, noun: str, enum: str, values: list[str]) -> dict[str, Any]:
    return {
        "name": f"{verb}_{noun}",
        "description": f"{verb.capitalize()} {noun} of the trading account, filtered by identifier, "
        f"{enum} and time range; pages by limit.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "account_id": {"type": "string", "description": "Account identifier"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 500, "description": "Rows to return"},
                enum: {"type": "string", "enum": values, "description": f"Wanted {enum}"},
                "since": {"type": "string", "description": "ISO 8601 start of the range"},
            },
            "required": ["account_id", "limit"],
        },
    }


def tools() -> list[dict[str, Any]]:
    """The wire definitions, always in the same order."""
    plain = [
        _plain_tool(verb, noun, *ENUMS[(i + j) % len(ENUMS)])
        for i, noun in enumerate(NOUNS)
        for j, verb in enumerate(VERBS)
    ]
    echo = "Return a fixed confirmation of about two hundred bytes for a well-formed order."
    forward = "Post the order to the backend over HTTP and return the backend's JSON as text."
    return [
        *plain,
        {"name": "echo", "description": echo, "inputSchema": ORDER_SCHEMA},
        {"name": "forward", "description": forward, "inputSchema": ORDER_SCHEMA},
    ]


def catalog() -> dict[str, Any]:
    """What the file holds: the tools, and the text that `echo` answers."""
    return {"tools": tools(), "echo_text": ECHO_TEXT}


def write_catalog(directory: Path) -> Path:
    """Write `catalog.json` into a directory and return its path; the servers get it as `BENCH_CATALOG`."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "catalog.json"
    path.write_bytes(orjson.dumps(catalog(), option=orjson.OPT_INDENT_2))
    return path
