"""Killed while trades are written: what was acknowledged is there once, and its round trips agree with it."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

from sqlalchemy import Connection, select, text

from zorivest_rpc.embedded.db import Database, cipher_driver
from zorivest_rpc.embedded.tables import trades

from .test_round_trips import assert_in_step

ROOT = Path(__file__).resolve().parents[3]
KEY = b"k" * 32
KILLS = 20
WRITER = """
import asyncio, sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from zorivest_rpc.embedded import trades
from zorivest_rpc.embedded.db import Database, cipher_driver
from zorivest_rpc.embedded.symbols import parse_instrument

START = datetime(2026, 3, 2, 15, tzinfo=UTC)

async def main(path, first):
    db = Database(path, b"k" * 32, cipher_driver())
    chance = Random(first)
    async def one(number):
        draft = trades.Draft(
            f"K{number}", START + timedelta(seconds=number - chance.choice([0, 0, 0, 30])), "SPY",
            parse_instrument("SPY"), chance.choice(["BOT", "SLD"]), Decimal(chance.randint(1, 9)),
            Decimal(chance.randint(1, 900)), "A1", Decimal(chance.randint(0, 3)),
        )
        await db.write(lambda conn: trades.insert(conn, draft, actor="test", auto_create=True))
        sys.stdout.write(f"K{number}\\n")
        sys.stdout.flush()
    number = first
    while True:
        await asyncio.gather(*(one(number + offset) for offset in range(5)))
        number += 5

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def start(path: Path, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(first)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_every_acknowledged_trade_survives_twenty_kills(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    chance = random.Random(3)
    acknowledged: list[str] = []
    for kill in range(KILLS):
        with start(path, kill * 1000) as writer:
            assert writer.stdout is not None
            acknowledged += [writer.stdout.readline().strip() for _ in range(chance.randint(1, 25))]
            writer.send_signal(signal.SIGKILL)
            acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]
    asyncio.run(check(path, acknowledged))


async def check(path: Path, acknowledged: list[str]) -> None:
    db = Database(path, KEY, cipher_driver())

    def look(conn: Connection) -> list[str]:
        assert conn.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
        assert conn.execute(text("PRAGMA foreign_key_check")).all() == []
        assert_in_step(conn)
        return list(conn.execute(select(trades.c.exec_id)).scalars())

    kept = await db.read(look)
    await db.close()
    assert len(acknowledged) == len(set(acknowledged)) >= KILLS
    assert set(acknowledged) <= set(kept)
