"""`python -m tests.bench.scale_imports`: files of ten thousand and of a hundred thousand rows, imported over REST.

Each size has a backend process of its own on an empty journal. It is sent a broker's CSV, the same file again, and a
bank statement; what counts is how the time and the memory grow when a file is ten times as long."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.bench.page import IMPORTS
from tests.bench.scale import PAGE, _peak, fill
from tests.crash.lives import Life, Nursery
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.imports.drafts import ImportLimits
from zorivest_rpc.embedded.vault.crypto import new_api_key

MOST = 12.0
"""Ten times the rows may take this many times the work."""
MOST_MEMORY = 6.0
"""Kilobytes of memory that one row of a file may cost at the peak."""
PATIENCE = 900.0
EASTERN = ZoneInfo("America/New_York")
BOUNDARY = "zorivest-scale-boundary"


@dataclass
class Figures:
    """Seconds per step and size, on the clock and of the processor, and the memory of each backend at rest and at its
    peak, in MB."""

    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    busy: dict[str, dict[int, float]] = field(default_factory=dict)
    rest: dict[int, float] = field(default_factory=dict)
    peak: dict[int, float] = field(default_factory=dict)
    bytes: dict[int, int] = field(default_factory=dict)

    def ratio(self, step: str, small: int, large: int) -> float:
        """How the processor's time grows for ten times the rows, whatever the two sizes are: a busy machine stretches
        the clock of a long run and a short one differently."""
        found = self.busy[step]
        return 10 * (found[large] / found[small]) / (large / small)

    def memory_per_row(self, small: int, large: int) -> float:
        """Kilobytes that each further row costs at the peak."""
        return (self.peak[large] - self.peak[small]) * 1024 / (large - small)


def trades_csv(count: int) -> bytes:
    """Fills of a hundred positions in turn, as Webull writes them, in the order of time."""
    lines = ["Date,Time,Symbol,Side,Qty,Price,Amount,Commission,Fee"]
    for number in range(count):
        row = fill(number)
        moment = datetime.fromisoformat(row["time"]).astimezone(EASTERN)
        side = "Buy" if row["action"] == "BOT" else "Sell"
        amount = row["quantity"] * row["price"]
        symbol = f"{row['instrument']}{row['account_id'][1:]}"
        lines.append(
            f"{moment:%m/%d/%Y},{moment:%H:%M:%S},{symbol},{side},{row['quantity']},"
            f"{row['price']:.2f},{amount:.2f},{row['commission']:.2f},{row['fees']:.2f}"
        )
    return ("\n".join(lines) + "\n").encode()


def statement_csv(count: int) -> bytes:
    """A bank's CSV with a running balance; ten lines a day."""
    lines, balance = ["Date,Type,Check #,Description,Withdrawal,Deposit,RunningBalance"], 100_000
    for number in range(count):
        day = datetime(1995, 1, 2, tzinfo=UTC) + timedelta(days=number // 10)
        amount = number % 97 + 1
        out = number % 2
        balance += -amount if out else amount
        cells = (f"{amount}.00", "") if out else ("", f"{amount}.00")
        lines.append(f"{day:%m/%d/%Y},POS,,Shop {number % 1000},{cells[0]},{cells[1]},{balance}.00")
    return ("\n".join(lines) + "\n").encode()


STEPS: dict[str, tuple[str, str, Callable[[int], bytes], str]] = {
    "broker CSV, all new": ("/import/csv", "BROKER", trades_csv, "imported"),
    "the same file again, nothing new": ("/import/csv", "BROKER", trades_csv, "duplicates_skipped"),
    "bank CSV, all new": ("/banking/import", "BANK", statement_csv, "imported"),
    "the same statement again": ("/banking/import", "BANK", statement_csv, "duplicates"),
}


def send(life: Life, path: str, account_id: str, data: bytes) -> Any:
    """One file as a form, answered 200."""
    parts = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="account_id"\r\n\r\n{account_id}\r\n'.encode(),
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="rows.csv"\r\n\r\n'.encode(),
        data,
        f"\r\n--{BOUNDARY}--\r\n".encode(),
    )
    connection = http.client.HTTPConnection("127.0.0.1", life.port, timeout=PATIENCE)
    try:
        headers = {
            "Authorization": f"Bearer {life.token}",
            "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
        }
        connection.request("POST", f"/api/v1{path}", b"".join(parts), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    if response.status != 200:
        raise RuntimeError(f"{path} was answered {response.status}: {answer}")
    return answer


def _busy(pid: int) -> float:
    """Seconds that a process has kept processors busy."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def backend(place: Path) -> Iterator[Life]:
    place.mkdir()
    with Nursery(DataDir(place / "data"), new_api_key()) as nursery:
        life = nursery.bear()
        if not life.ready():
            raise RuntimeError("a backend did not start")
        yield life
        life.ask("POST", "/service/graceful-shutdown")


def measure(place: Path, small: int, large: int, repeats: int) -> Figures:
    """The best of a few runs per size, the sizes taking turns."""
    figures = Figures()
    for turn in range(repeats):
        for count in (small, large):
            with backend(place / f"{turn}-{count}") as life:
                rest = _peak(life.pid)
                for step, (path, account_id, make, counted) in STEPS.items():
                    data = make(count)
                    began, busy = time.perf_counter(), _busy(life.pid)
                    answer = send(life, path, account_id, data)
                    seconds, busy = time.perf_counter() - began, _busy(life.pid) - busy
                    if answer[counted] != count:
                        raise RuntimeError(f"{step}: {answer[counted]} of {count} rows are {counted}")
                    for kept, found in ((figures.seconds, seconds), (figures.busy, busy)):
                        best = kept.setdefault(step, {})
                        best[count] = min(found, best.get(count, found))
                    figures.bytes[count] = max(len(data), figures.bytes.get(count, 0))
                    print(
                        f"{step}, {count} rows: {seconds:.2f} s, busy {busy:.2f} s, {_peak(life.pid):.0f} MB",
                        file=sys.stderr,
                    )
                figures.rest[count] = rest
                figures.peak[count] = _peak(life.pid)
    return figures


def report(figures: Figures, small: int, large: int, repeats: int) -> str:
    """The block that stands between the markers."""
    limits = ImportLimits()
    lines = [
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M UTC} on {os.cpu_count()} cores, "
        f"{platform.python_implementation()} {platform.python_version()}, load average {os.getloadavg()[0]:.1f}. "
        f"Best of {repeats}; one upload over REST: read, recognised, written with round trips in one transaction. "
        f"The bar is {MOST:g} times the CPU for ten times the rows.",
        "",
        f"| import | {small:,} rows, s | of it CPU | {large:,} rows, s | of it CPU "
        "| CPU for 10 times the rows | rows/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for step, found in figures.seconds.items():
        ratio, busy = figures.ratio(step, small, large), figures.busy[step]
        lines.append(
            f"| {step} | {found[small]:.2f} | {busy[small]:.2f} | {found[large]:.2f} | {busy[large]:.2f} "
            f"| {ratio:.1f} × | {large / found[large]:,.0f} |"
        )
    lines += [
        "",
        f"- Peak memory of the backend: {figures.peak[small]:.0f} MB for {small:,} rows, {figures.peak[large]:.0f} MB "
        f"for {large:,} ({figures.rest[large]:.0f} MB at rest); each further row costs "
        f"{figures.memory_per_row(small, large):.1f} KB while it is imported. A file has at most "
        f"{limits.max_rows:,} rows and {limits.max_bytes // 2**20} MB, so that memory has an end.",
    ]
    return "\n".join(lines) + "\n"


def missed(figures: Figures, small: int, large: int) -> list[str]:
    """The bars that were not reached."""
    ratios = {step: figures.ratio(step, small, large) for step in figures.seconds}
    found = [f"{step} takes {ratio:.1f} times as long" for step, ratio in ratios.items() if ratio > MOST]
    if (per_row := figures.memory_per_row(small, large)) > MOST_MEMORY:
        found.append(f"a row costs {per_row:.1f} KB of memory")
    return found


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale_imports", description=__doc__)
    parser.add_argument("--small", type=int, default=10_000, help="rows of the short files (default 10000)")
    parser.add_argument("--large", type=int, default=100_000, help="rows of the long files (default 100000)")
    parser.add_argument("--repeats", type=int, default=2, help="runs per size, of which the best counts (default 2)")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write (default docs/benchmarks.md)")
    chosen = parser.parse_args(argv)
    if chosen.repeats < 1 or not 0 < chosen.small < chosen.large:
        parser.error("--repeats must be positive, and --small below --large")
    with tempfile.TemporaryDirectory(prefix="zorivest-imports-") as place:
        figures = measure(Path(place), chosen.small, chosen.large, chosen.repeats)
    block = report(figures, chosen.small, chosen.large, chosen.repeats)
    print(block)
    IMPORTS.write(chosen.out, block)
    print(f"written: {chosen.out}", file=sys.stderr)
    problems = missed(figures, chosen.small, chosen.large)
    for problem in problems:
        print(f"above the bar: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
