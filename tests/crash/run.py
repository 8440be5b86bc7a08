"""Writes trades and guard changes to a backend that is killed at random moments, and checks what the next one has.

A trade whose answer never came is sent again in the next life, as a careful caller would: it must then be created or be
called a duplicate of itself. A change of the guard whose answer never came may be there or not; nothing else may."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from tests.crash.lives import Life, Nursery
from tests.embedded.journal.test_crash import created, trade
from tests.embedded.journal.test_round_trips import assert_in_step
from zorivest_rpc.embedded.database.engine import cipher_driver
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.vault.crypto import new_api_key
from zorivest_rpc.embedded.vault.vault import Vault

__all__ = ["Run", "crash"]

WRITERS = 4
LONGEST = 0.5  # seconds a life may write
EARLY = 8  # one life in so many is killed while it starts
GUARD = ("is_enabled", "is_locked", "lock_reason", "calls_per_minute_limit", "calls_per_hour_limit")
GONE = (OSError, http.client.HTTPException)


@dataclass
class Run:
    """What the writer knows, and what was found wrong."""

    acknowledged: set[str] = field(default_factory=set)
    unanswered: dict[str, dict[str, Any]] = field(default_factory=dict)
    guard: dict[str, Any] = field(default_factory=dict)
    guard_asked: dict[str, Any] | None = None
    kills: int = 0
    early: int = 0
    checks: int = 0
    guard_changes: int = 0
    kept_unanswered: int = 0
    lost: set[str] = field(default_factory=set)
    duplicated: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        return not (self.lost or self.duplicated or self.problems)

    def figures(self) -> dict[str, int | float]:
        return {
            "kills": self.kills,
            "kills while starting": self.early,
            "restarts checked": self.checks,
            "acknowledged trades": len(self.acknowledged),
            "kept though their answer was cut off": self.kept_unanswered,
            "acknowledged guard changes": self.guard_changes,
            "lost trades": len(self.lost),
            "duplicated trades": len(self.duplicated),
            "other findings": len(self.problems),
            "seconds": round(self.seconds, 1),
        }


def crash(place: Path, kills: int, seed: int, most_seconds: float = float("inf")) -> Run:
    """Kill a backend so many times, or until the time is over."""
    directory, key = DataDir(place / "data"), new_api_key()
    asyncio.run(created(directory, key))
    _, dek = Vault.load(directory).unlock(key)
    chance, run, numbers = random.Random(seed), Run(), itertools.count()
    began = time.monotonic()
    with Nursery(directory, key) as nursery:
        while run.kills < kills and time.monotonic() - began < most_seconds:
            life = nursery.bear()
            early = chance.randrange(EARLY) == 0 and run.kills > 0
            timer = life.kill_after(chance.uniform(0.0, 0.4)) if early else None
            if life.ready() and timer is None:
                check(run, life, directory, dek)
                live(run, life, chance, numbers)
            elif timer is None:
                run.problems.append(f"after kill {run.kills} the backend did not start")
            if timer is not None:
                timer.join()
                run.early += 1
            if (code := nursery.bury()) != -9:
                run.problems.append(f"life {run.kills} ended by itself with {code}")
            run.kills += 1
        life = nursery.bear()
        if life.ready():
            check(run, life, directory, dek)
            read_all(run, life)
            life.ask("POST", "/service/graceful-shutdown")
        else:
            run.problems.append("the backend did not start for the last look")
        if nursery.bury() != 0:
            run.problems.append("the last life did not end in order")
    in_step(run, directory, dek)
    run.seconds = time.monotonic() - began
    return run


def live(run: Run, life: Life, chance: random.Random, numbers: itertools.count[int]) -> None:
    """Write from several connections until the process is gone."""
    again, lock = list(run.unanswered.values()), threading.Lock()

    def write_trades() -> None:
        connection = life.connect()
        try:
            while True:
                with lock:
                    body = again.pop() if again else trade(next(numbers), chance)
                    known = body["exec_id"] in run.unanswered
                    run.unanswered[body["exec_id"]] = body
                status, answer = life.ask("POST", "/trades", body, connection)
                with lock:
                    _settle(run, body["exec_id"], known, status, answer)
        except GONE:
            pass  # killed, which is the point
        finally:
            connection.close()

    threads = [threading.Thread(target=write_trades) for _ in range(WRITERS)]
    threads.append(threading.Thread(target=change_guard, args=(run, life, random.Random(chance.random()))))
    timer = life.kill_after(chance.uniform(0.0, LONGEST))
    for thread in threads:
        thread.start()
    for thread in (*threads, timer):
        thread.join()


def _settle(run: Run, name: str, known: bool, status: int, answer: Any) -> None:
    """An answer came; one to a repetition may say that the trade was already there."""
    twice = known and status == 409 and answer.get("error") == "duplicate_trade"
    if status != 201 and not twice:
        run.problems.append(f"{name} was answered {status}: {answer}")
        return
    run.kept_unanswered += twice
    run.acknowledged.add(name)
    del run.unanswered[name]


def change_guard(run: Run, life: Life, chance: random.Random) -> None:
    """One change after the other; each is remembered before it is sent and settled when it is answered."""
    connection = life.connect()
    try:
        while True:
            limit, reason = chance.randint(1, 10_000), f"reason {chance.randrange(10**6)}"
            choices: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
                ("/mcp-guard/config", "PUT", {"calls_per_minute_limit": limit}, {"calls_per_minute_limit": limit}),
                ("/mcp-guard/lock", "POST", {"reason": reason}, {"is_locked": True, "lock_reason": reason}),
                ("/mcp-guard/unlock", "POST", {}, {"is_locked": False, "lock_reason": None}),
            ]
            path, method, body, change = chance.choice(choices)
            run.guard_asked = {**run.guard, **change}
            status, answer = life.ask(method, path, body, connection)
            if status != 200:
                run.problems.append(f"{path} was answered {status}: {answer}")
                return
            run.guard, run.guard_asked = run.guard_asked, None
            run.guard_changes += 1
    except GONE:
        pass
    finally:
        connection.close()


def check(run: Run, life: Life, directory: DataDir, dek: bytes) -> None:
    """What a restarted backend must show before anybody writes to it again."""
    run.checks += 1
    status, shown = life.ask("GET", "/mcp-guard/status")
    guard = {name: shown[name] for name in GUARD} if status == 200 else {"status": status}
    if run.guard and guard not in (run.guard, run.guard_asked):
        run.problems.append(f"the guard is {guard}, not {run.guard} or {run.guard_asked}")
    run.guard, run.guard_asked = guard, None
    _compare(run, _stored(run, directory, dek))


def _stored(run: Run, directory: DataDir, dek: bytes) -> Counter[str]:
    """The trades in the file, which must be whole, and each of which the round trips must hold once."""
    driver: Any = cipher_driver()
    raw = driver.connect(f"{directory.database.absolute().as_uri()}?mode=ro", uri=True)
    try:
        raw.execute(f"PRAGMA key = \"x'{dek.hex()}'\"")
        for pragma, good in (("integrity_check", [("ok",)]), ("foreign_key_check", []), ("cipher_integrity_check", [])):
            if (found := raw.execute(f"PRAGMA {pragma}").fetchall()) != good:
                run.problems.append(f"{pragma} after kill {run.kills}: {found[:3]}")
        kept: Counter[str] = Counter(name for (name,) in raw.execute("SELECT exec_id FROM trades"))
        wrong = raw.execute(
            "SELECT t.exec_id FROM trades t LEFT JOIN round_trip_legs l ON l.exec_id = t.exec_id "
            "GROUP BY t.exec_id HAVING coalesce(sum(l.quantity), 0) != t.quantity"
        ).fetchall()
        run.problems += [f"the round trips do not hold {name} once" for (name,) in wrong]
    finally:
        raw.close()
    return kept


def _compare(run: Run, kept: Counter[str]) -> None:
    run.lost |= run.acknowledged - kept.keys()
    run.duplicated |= {name for name, count in kept.items() if count > 1}
    run.problems += [f"{name} was never sent" for name in kept.keys() - run.acknowledged - run.unanswered.keys()]


def read_all(run: Run, life: Life) -> None:
    """Every trade as the interface lists it, page by page."""
    kept: Counter[str] = Counter()
    while True:
        status, page = life.ask("GET", f"/trades?limit=1000&offset={kept.total()}&sort=time")
        if status != 200:
            run.problems.append(f"the list was answered {status}")
            return
        kept.update(item["exec_id"] for item in page["items"])
        if not page["items"]:
            break
    _compare(run, kept)


def in_step(run: Run, directory: DataDir, dek: bytes) -> None:
    """The round trips, kept step by step through all the kills, equal those of the whole history matched at once."""
    driver: Any = cipher_driver()

    def connect() -> Any:
        raw = driver.connect(str(directory.database), isolation_level=None, check_same_thread=False)
        raw.execute(f"PRAGMA key = \"x'{dek.hex()}'\"")
        return raw

    engine = create_engine("sqlite://", module=driver, creator=connect)
    try:
        with engine.connect() as conn:
            assert conn.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
            assert_in_step(conn)
    except AssertionError:
        run.problems.append("the round trips are not those of the whole history")
    finally:
        engine.dispose()
