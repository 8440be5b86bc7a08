"""Killed in the middle of writing: what was acknowledged is there exactly once, the rest is whole or absent."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from pathlib import Path

from sqlalchemy import select, text

from tests.places import ROOT
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.database.schema.journal import audit_log, settings

KEY = b"k" * 32
WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from zorivest_rpc.embedded.database import audit
from zorivest_rpc.embedded.database.engine import Database, cipher_driver
from zorivest_rpc.embedded.database.schema.journal import settings

async def main(path, first):
    db = Database(path, b"k" * 32, cipher_driver())
    async def one(number):
        def job(conn):   # two tables in one transaction
            row = {"key": f"k{number}", "value": "v", "value_type": "str", "updated_at": datetime.now(UTC)}
            conn.execute(settings.insert(), row)
            audit.record(conn, "writer", "write", "setting", f"k{number}")
        await db.write(job)
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
    number = first
    while True:
        await asyncio.gather(*(one(number + offset) for offset in range(5)))
        number += 5

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    chance = random.Random(7)
    acknowledged: set[str] = set()
    first = 0
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(first)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        with writer.stdout:
            for _ in range(chance.randint(1, 120)):
                acknowledged.add(f"k{int(writer.stdout.readline())}")
            writer.send_signal(signal.SIGKILL)
            acknowledged |= {f"k{int(line)}" for line in writer.stdout if line.endswith("\n")}
        writer.wait(30)
        first += 1000
        asyncio.run(check(path, acknowledged))


async def check(path: Path, acknowledged: set[str]) -> None:
    db = Database(path, KEY, cipher_driver())
    assert await db.read(lambda conn: conn.execute(text("PRAGMA integrity_check")).scalars().all()) == ["ok"]
    kept = await db.read(lambda conn: conn.execute(select(settings.c.key)).scalars().all())
    assert acknowledged <= set(kept)
    logged = await db.read(lambda conn: conn.execute(select(audit_log.c.resource_id)).scalars().all())
    assert sorted(logged) == sorted(kept)  # both tables or neither, and each once
    await db.close()
