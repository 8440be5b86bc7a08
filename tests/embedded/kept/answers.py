"""What a kept journal holds and answers: rows by table, answers by area.

`python -m tests.embedded.kept.answers` prints what differs from the golden files, `--write` rewrites the answers; a
diff there is a figure that changed for every owner of a journal, and has to be meant. Rows are never rewritten: what
an earlier release stored is not this one's to change. A migration that moves or rebuilds rows on purpose names their
table in `REBUILT`, with the reason."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import Connection

from tests.embedded.conftest import Caller
from tests.embedded.kept.clock import fixed_clock
from tests.embedded.upstream import NOWHERE, addresses
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir

__all__ = [
    "AREAS",
    "GROWING",
    "REBUILT",
    "VARIANTS",
    "answers_of",
    "changes",
    "golden",
    "open_kept",
    "rows_of",
    "unpack",
]

HERE = Path(__file__).parent
VARIANTS = ("encrypted", "plain")
GROWING = frozenset({"audit_log", "schema_migrations"})  # opening a journal adds rows, and changes none
REBUILT: dict[str, str] = {}  # table: why a migration rewrites its rows
_LISTED = 200  # a table with more rows is compared by a digest
_VOLATILE = frozenset({"request_id", "last_used_at"})
_PROSE = frozenset({"assumptions", "disclaimer", "hint"})  # sentences may be said better; figures may not change

ALL = "period=all"
AREAS: dict[str, tuple[tuple[str, str, Any], ...]] = {
    "journal": (
        ("GET", "/trades?limit=200&sort=time", None),
        ("GET", "/trades/KEPT-2/report", None),
        ("GET", "/trades/KEPT-2/fees", None),
        ("GET", "/corporate-actions", None),
        ("GET", "/mistakes", None),
        ("GET", f"/mistakes/summary?{ALL}", None),
        ("GET", "/trade-plans", None),
        ("GET", "/journal/DEMO-WEEK", None),
    ),
    "round_trips": (("GET", "/round-trips?limit=200", None),),
    "accounts": (
        ("GET", "/accounts", None),
        ("GET", "/accounts/DEMO-BROKER/balances", None),
        ("GET", "/banking/accounts", None),
        ("GET", "/fees/periodic", None),
        ("GET", "/brokers", None),
    ),
    "analytics": (
        ("GET", f"/analytics/expectancy?{ALL}", None),
        ("GET", f"/analytics/sqn?{ALL}", None),
        ("GET", f"/analytics/drawdown?{ALL}&seed=7&simulations=200", None),
        ("GET", f"/analytics/strategy-breakdown?{ALL}", None),
        ("GET", f"/analytics/pfof-report?account_id=DEMO-ZERO&{ALL}", None),
        ("GET", f"/analytics/cost-of-free?account_id=DEMO-ZERO&{ALL}", None),
        ("GET", f"/fees/summary?{ALL}", None),
        ("POST", "/analytics/ai-review", {"trade_id": "KEPT-6"}),
    ),
    "tax": (
        ("GET", "/tax/lots?status=all", None),
        ("POST", "/tax/wash-sales", {"date_range_start": "2024-01-01", "date_range_end": "2026-03-02"}),
        ("GET", "/tax/ytd-summary?tax_year=2024", None),
        ("GET", "/tax/ytd-summary?tax_year=2025&group_by=symbol", None),
        ("POST", "/tax/estimate", {"tax_year": 2024}),
        ("GET", "/tax/quarterly?quarter=Q4&tax_year=2024", None),
        ("GET", "/tax/profiles/2024", None),
        ("GET", "/tax/harvest?min_loss_threshold=0", None),
        (
            "POST",
            "/tax/simulate",
            {"ticker": "MSFT", "account_id": "OWN-1", "action": "sell", "quantity": 10, "price": 250},
        ),
    ),
    "settings": (
        ("GET", "/settings", None),
        ("GET", "/mcp-guard/status", None),
        ("GET", "/auth/passphrase", None),
        ("GET", "/auth/keys", None),
        ("GET", "/mcp/state-summary", None),
    ),
    "scheduling": (("GET", "/scheduling/policies", None), ("GET", "/scheduling/runs", None)),
}


def unpack(variant: str, place: Path) -> DataDir:
    """A copy of a kept data directory that a test may change."""
    directory = DataDir(place).create()
    source = HERE / "release_0_1" / variant
    for name in ("api.key", "bootstrap.json"):
        shutil.copyfile(source / name, place / name)
    if variant == "plain":
        directory.database.write_bytes(gzip.decompress((source / "zorivest.db.gz").read_bytes()))
    else:
        shutil.copyfile(source / "zorivest.db", directory.database)
    return directory


@asynccontextmanager
async def open_kept(directory: DataDir) -> AsyncIterator[tuple[Embedded, Caller]]:
    """The backend of a kept journal and its owner, by the key in its file; nothing else is asked."""
    backend = Embedded.load(directory)
    backend.outbound.addresses |= addresses(NOWHERE)
    try:
        async with TestClient(TestServer(create_app(backend))) as client:
            yield backend, await Caller(client).unlock(directory.key_file.read_text().strip())
    finally:
        await backend.close()


def rows_of(conn: Connection, table: str, columns: list[str] | None = None) -> dict[str, Any]:
    """The columns of a table and its rows as they are stored; `columns` are those of the golden file."""
    if columns is None:
        columns = [row[1] for row in conn.exec_driver_sql(f'PRAGMA table_info("{table}")')]
    names = ", ".join(f'"{name}"' for name in columns)
    rows = [[_plain(value) for value in row] for row in conn.exec_driver_sql(f'SELECT {names} FROM "{table}"')]
    rows.sort(key=json.dumps)
    if len(rows) <= _LISTED:
        return {"columns": columns, "rows": rows}
    return {"columns": columns, "count": len(rows), "sha256": hashlib.sha256(json.dumps(rows).encode()).hexdigest()}


def tables_of(conn: Connection) -> list[str]:
    names = conn.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return sorted(row[0] for row in names)


async def answers_of(owner: Caller, area: str) -> dict[str, Any]:
    """Each answer of an area, by what was asked."""
    answers = {}
    for method, path, body in AREAS[area]:
        response = await owner.ask(method, path, body)
        answers[f"{method} {path}"] = {"status": response.status, "body": _steady(await response.json())}
    return answers


def changes(before: Any, now: Any, at: str = "") -> list[str]:
    """What is no longer as it was; a field that came later is no change."""
    if isinstance(before, dict) and isinstance(now, dict):
        before = {name: value for name, value in before.items() if name not in _PROSE}
        kept = [line for name in before if name in now for line in changes(before[name], now[name], f"{at}/{name}")]
        return kept + [f"{at}/{name}: gone" for name in before if name not in now]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [line for number in range(len(now)) for line in changes(before[number], now[number], f"{at}/{number}")]
    return [] if before == now and type(before) is type(now) else [f"{at}: {before!r} became {now!r}"]


def golden(variant: str, kind: str, name: str) -> Path:
    return HERE / "release_0_1" / variant / kind / f"{name}.json"


def _plain(value: Any) -> Any:
    return {"sha256": hashlib.sha256(value).hexdigest()} if isinstance(value, bytes) else value


def _steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _steady(each) for name, each in value.items() if name not in _VOLATILE | _PROSE}
    return [_steady(each) for each in value] if isinstance(value, list) else value


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


async def _record(write: bool) -> int:
    different = 0
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as place:
            async with open_kept(unpack(variant, Path(place))) as (backend, owner):
                if write and not golden(variant, "rows", "").parent.exists():  # once, by the release that made it
                    for table in await backend.database().read(tables_of):
                        rows = await backend.database().read(partial(rows_of, table=table))
                        _write(golden(variant, "rows", table), rows)
                for area in AREAS:
                    answers = await answers_of(owner, area)
                    path = golden(variant, "answers", area)
                    lines = changes(json.loads(path.read_text()), answers) if path.exists() else ["new"]
                    if lines:
                        different += 1
                        print(f"{variant}: {area}", *lines, sep="\n  ")
                        if write:
                            _write(path, answers)
    return different


if __name__ == "__main__":
    with fixed_clock():
        sys.exit(1 if asyncio.run(_record("--write" in sys.argv)) and "--write" not in sys.argv else 0)
