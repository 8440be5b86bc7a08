"""Killed while trades come in: what was acknowledged is there once, and its round trips agree with it."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, text

from tests.embedded.conftest import CHEAP
from tests.embedded.driver import START
from tests.places import ROOT
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.engine import cipher_driver
from zorivest_rpc.embedded.database.schema.journal import trades
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import new_api_key

from .test_round_trips import assert_in_step

KILLS = 20
SERVER = """
import asyncio, sys
from pathlib import Path
from aiohttp import web
from zorivest_rpc.embedded.app import create_app
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.paths import DataDir

async def main():
    sys.stdin.readline()   # imported and ready; the one before is dead
    backend = Embedded.load(DataDir(Path(sys.argv[1])))
    token, _, _ = await backend.unlock(sys.argv[2])
    runner = web.AppRunner(create_app(backend))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], token, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def trade(number: int, chance: random.Random) -> dict[str, Any]:
    """A fill of one of two symbols, now and then one that lands in the past."""
    seconds = number - chance.choice([0, 0, 0, 40])
    return {
        "exec_id": f"K{number:05d}",
        "instrument": chance.choice(["SPY", "QQQ"]),
        "action": chance.choice(["BOT", "SLD"]),
        "quantity": chance.randint(1, 9),
        "price": chance.randint(1, 900),
        "account_id": "A1",
        "time": (START + timedelta(seconds=seconds)).isoformat(),
    }


def write_until_killed(server: subprocess.Popen[str], first: int, kill_after: int, chance: random.Random) -> list[str]:
    """Post from four connections; the process is killed once so many answers came, in the middle of the others."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("go\n")
    server.stdin.flush()
    port, token = server.stdout.readline().split()
    numbers = iter(range(first, first + 1000))
    acknowledged: list[str] = []
    lock = threading.Lock()

    def post() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        try:
            while True:
                with lock:
                    body = trade(next(numbers), chance)
                connection.request("POST", "/api/v1/trades", json.dumps(body), headers)
                response = connection.getresponse()
                response.read()
                with lock:
                    if response.status == 201:
                        acknowledged.append(body["exec_id"])
                    if len(acknowledged) >= kill_after:
                        server.kill()
        except (OSError, http.client.HTTPException):
            pass  # the process is gone, which is the point
        finally:
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return acknowledged


def start(directory: DataDir, key: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SERVER, str(directory.root), key]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_every_acknowledged_trade_survives_twenty_kills(tmp_path: Path) -> None:
    directory, key = DataDir(tmp_path / "data"), new_api_key()
    asyncio.run(created(directory, key))
    chance = random.Random(3)
    acknowledged: list[str] = []
    following = start(directory, key)
    for kill in range(KILLS):
        server, following = following, start(directory, key)  # one imports while the other is written to and killed
        with server:
            acknowledged += write_until_killed(server, kill * 1000, chance.randint(1, 25), chance)
    following.kill()
    with following:
        pass
    kept = asyncio.run(look(directory, key))
    assert len(acknowledged) == len(set(acknowledged)) >= KILLS
    assert set(acknowledged) <= set(kept)


async def created(directory: DataDir, key: str) -> None:
    backend = Embedded.create(directory, key, key_source="client", driver=cipher_driver(), kdf=CHEAP)
    await backend.open(key)
    await backend.close()


async def look(directory: DataDir, key: str) -> list[str]:
    backend = Embedded.load(directory)
    await backend.open(key)

    def job(conn: Connection) -> list[str]:
        assert conn.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
        assert conn.execute(text("PRAGMA foreign_key_check")).all() == []
        assert_in_step(conn)
        return list(conn.execute(select(trades.c.exec_id)).scalars())

    try:
        return await backend.database().read(job)
    finally:
        await backend.close()
