"""What twenty embedded clients cost where two of them are in use: memory of the server and of every backend it started.

Two servers in one run, in turns: one with the two clients alone, one with eighteen more that have journals and sleep.
The memory is what is a process's own (USS), summed over the server and its backends after the same calls."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import psutil

from tests.tenants.test_served import KEYS, Served, end_backends
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.tenants.access import hash_key
from zorivest_rpc.tenants.embedded import directory_of

__all__ = ["measure"]

USED = ("c0", "c1")
CALLS = 20


def measure(rounds: int = 3) -> tuple[float, float]:
    """Mebibytes with two clients, and with twenty."""
    taken: dict[int, list[float]] = {2: [], 20: []}
    for turn in range(rounds):
        for count in (2, 20) if turn % 2 == 0 else (20, 2):
            taken[count].append(_weigh(count))
    return statistics.median(taken[2]), statistics.median(taken[20])


def _weigh(count: int) -> float:
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        clients = "".join(f"[clients.c{number}]\nembedded = true\n" for number in range(count))
        rule = f'[[access]]\nkeySha256 = "{hash_key(KEYS["all"])}"\nname = "all"\nclients = "*"\n'
        for number in range(count):
            _put_to_sleep(directory_of(home / "data", f"c{number}"), is_new=f"c{number}" in USED)
        served = Served(home, text=clients + rule)
        try:
            for _ in range(CALLS):
                for client in USED:
                    assert not served.call("all", "list_trades", clientId=client).get("isError")
            found = [located for path in (home / "data" / "tenants").iterdir() if (located := find(path))]
            assert len(found) == len(USED), [located.shown for located in found]
            pids = [served.process.pid, *(located.pid for located in found)]
            return float(sum(psutil.Process(pid).memory_full_info().uss for pid in pids)) / 2**20
        finally:
            served.end()
            end_backends(home / "data")


def _put_to_sleep(directory: Path, *, is_new: bool) -> None:
    """As a backend with nothing scheduled leaves its directory; its journal need not be opened to sleep."""
    if not is_new:
        DataDir(directory).create()
        DataDir(directory).bootstrap.write_text("{}")
        DataDir(directory).due.write_text(json.dumps({"next_due": None}))


def main() -> int:
    os.environ.setdefault("ZORIVEST_KEYRING", "off")
    two, twenty = measure()
    print(f"2 clients: {two:.1f} MiB; 20 clients, two in use: {twenty:.1f} MiB; ratio {twenty / two:.3f} (bar 1.05)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
