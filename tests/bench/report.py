"""One run as Markdown: the bars with their verdicts, the figures behind them, and how they were taken."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.bench.bars import Figures, Judgement, Verdict, judge_all
from tests.bench.rows import OURS, OURS_PLAIN, PEERS, Row, rows
from tests.bench.run import QUIET, TRIES

__all__ = ["about_run", "bars_table", "report"]

# title, and the columns as test, metric, heading
TABLES: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Cold start and memory, stdio",
        (
            ("A.cold", "init_ms", "spawn → `initialize`, ms"),
            ("A.cold", "list_ms", "→ first `tools/list`, ms"),
            ("A.cold", "call_ms", "→ first `tools/call`, ms"),
            ("A.rss", "rss_mb", "RSS after `initialize`, MB"),
        ),
    ),
    (
        "stdio",
        (
            ("B.seq", "rps", "1 in flight, req/s"),
            ("B.seq", "p50_ms", "p50 ms"),
            ("B.seq", "cpu_us", "CPU µs/call"),
            ("B.pipe64", "rps", "64 in flight, req/s"),
            ("B.pipe64", "p99_ms", "p99 ms"),
            ("B.pipe64", "cpu_us", "CPU µs/call"),
            ("C.list", "p50_ms", "`tools/list` p50, ms"),
            ("C.list", "bytes", "bytes"),
        ),
    ),
    *(
        (
            f"HTTP echo, {era}",
            tuple(
                (f"D.{year}.c{count}", metric, heading)
                for count in (16, 64)
                for metric, heading in (
                    ("rps", f"{count} connections, req/s"),
                    ("p99_ms", "p99 ms"),
                    ("cpu_us", "CPU µs/call"),
                )
            ),
        )
        for year, era in ((2025, "2025-11-25 with a session per connection"), (2026, "2026-07-28 without sessions"))
    ),
    (
        "Forward to a backend",
        (
            ("E.pipe64", "rps", "stdio, 64 in flight, req/s"),
            ("E.c16", "rps", "HTTP 16, req/s"),
            ("E.c64", "rps", "HTTP 64, req/s"),
        ),
    ),
    (
        "Idle sessions with an open stream",
        (
            ("G", "sessions", "sessions"),
            ("G", "kb_per_session", "KB per session"),
            ("G", "broadcast_ms", "one `list_changed` to all, ms"),
            ("G", "broadcast_busy_ms", "processor time of it, ms"),
        ),
    ),
)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} absent"


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores ({model}), {memory:.0f} GB, {platform.system()} {platform.release()}"


def about_run(chosen: Sequence[Row], rounds: int, seconds: float, spawns: int) -> dict[str, Any]:
    """What the figures depend on; the first line of the raw file."""
    packages = ("aiohttp", "orjson", "msgspec", "jsonschema-rs")
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": _machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": [_package(name) for name in packages],
        "load": [round(value, 2) for value in os.getloadavg()],
        "rows": [row.name for row in chosen],
        "rounds": rounds,
        "seconds": seconds,
        "spawns": spawns,
    }


def _method(about: dict[str, Any]) -> list[str]:
    return [
        f"Measured {about['date']} on {about['machine']}; {about['python']}, {', '.join(about['packages'])}; "
        f"load average before the run {about['load'][0]}.",
        "",
        f"- Rounds: {about['rounds']}, the order of the servers rotated each round, every cell measured for all of "
        f"them before the next cell, {about['seconds']:g} s per cell after a discarded warm-up. Every figure is the "
        "median over the rounds, every ratio the median of the ratios within single rounds, and the range behind it is "
        "theirs. Compare only figures of one run.",
        f"- A cell during which other programs (or the hypervisor) took more than {QUIET:.0%} of the server's core is "
        f"taken again, up to {TRIES} times, and the quietest try is kept; ‡ marks figures that never found a quiet "
        "moment in most rounds.",
        "- Closed loop on loopback, the load generator on one core and the server on another. stdio: 1 or 64 requests "
        "outstanding. HTTP: one request in flight per keep-alive connection.",
        f"- Cold start: {about['spawns']} spawns a round, alternating between the servers in changing order and not "
        "pinned to a core; `initialize`, then `tools/list`, then a call, each timed from the spawn. The fastest "
        "quarter of a round is its figure, because other programs only add to a start.",
        "- Every answer is parsed and checked (status, id, exact text, number of tools); one wrong answer makes "
        "a bar invalid. CPU per call is user and system time of the server process.",
    ]


def _bar_line(judgement: Judgement) -> str:
    bar, verdict = judgement.bar, judgement.verdict
    shown = verdict.value if verdict is Verdict.PASS else f"**{verdict.value}**"
    if verdict is Verdict.NOT_MEASURED:
        shown = verdict.value
    rule = bar.rule
    if judgement.ratio is None:
        return f"| {bar.what} | {rule} | | | {shown}: {judgement.note} |"
    low, high = judgement.spread or (judgement.ratio, judgement.ratio)
    named = f" ({judgement.note})" if judgement.note else ""
    figures = f"{_number(judgement.ours or 0)} / {_number(judgement.theirs or 0)}{named}"
    return f"| {bar.what} | {rule} | {judgement.ratio:.2f} ({low:.2f}–{high:.2f}) | {figures} | {shown} |"


def bars_table(judgements: Sequence[Judgement]) -> list[str]:
    """The bars as a Markdown table: rule, ratio with its range, the two figures, verdict."""
    head = ["| figure | bar | ratio (range) | ours / theirs | verdict |", "|---|---|---|---|---|"]
    return head + [_bar_line(judgement) for judgement in judgements]


def _plain_table(figures: Figures) -> list[str]:
    """The fallback against the same references, shown beside the bars and not judged by them."""
    judged = [each for each in judge_all(figures, OURS_PLAIN.name) if each.bar.test.startswith("D.")]
    lines = [
        f"| {each.bar.what} | `{each.bar.reference}` | {each.ratio:.2f} |"
        if each.ratio is not None
        else f"| {each.bar.what} | `{each.bar.reference}` | {each.verdict.value} |"
        for each in judged
    ]
    return ["| figure of `ours-plain` | reference | ratio |", "|---|---|---|", *lines]


def _mark(figures: Figures, name: str, test: str) -> str:
    client, foreign = (figures.median(name, test, metric) or 0 for metric in ("client_busy", "foreign"))
    return (" †" if client > 0.75 else "") + (" ‡" if foreign > QUIET else "")


def _figures_table(figures: Figures, title: str, columns: Sequence[tuple[str, str, str]]) -> list[str]:
    lines = []
    for name in figures.names:
        values = [figures.median(name, test, metric) for test, metric, _ in columns]
        if all(value is None for value in values):
            continue
        marks = [_mark(figures, name, test) if metric == "rps" else "" for test, metric, _ in columns]
        cells = ["" if value is None else _number(value) + mark for value, mark in zip(values, marks, strict=True)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if not lines:
        return []
    head = f"| server | {' | '.join(heading for _, _, heading in columns)} |"
    return [f"### {title}", "", head, "|---" * (len(columns) + 1) + "|", *lines, ""]


def _problems(figures: Figures) -> list[str]:
    found = [
        f"- round {record['round']}, `{record['name']}`, {record['test']}: "
        + (
            record.get("failed")
            or f"{record['errors']} wrong answers, first {record.get('first_error', 'a silent stream')}"
        )
        for record in figures.records
        if "failed" in record or record.get("errors")
    ]
    return ["### Failed or wrong", "", *found, ""] if found else ["No cell failed and no answer was wrong.", ""]


def report(records: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """The block that stands between the markers."""
    figures = Figures(records)
    judgements = judge_all(figures)
    counts = {verdict: sum(each.verdict is verdict for each in judgements) for verdict in Verdict}
    summary = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    known = {row.name: row.about for row in rows(tuple(name for name in PEERS if name in about["rows"]))}
    lines = [
        *_method(about),
        "",
        "| server | what it is |",
        "|---|---|",
        *(f"| `{name}` | {known.get(name, '')} |" for name in about["rows"]),
        "",
    ]
    if OURS.name in figures.names:
        lines += [f"### Bars: {summary}", "", *bars_table(judgements), ""]
    if OURS_PLAIN.name in figures.names:
        lines += ["### The public HTTP writer, for comparison", "", *_plain_table(figures), ""]
    for title, columns in TABLES:
        lines += _figures_table(figures, title, columns)
    lines += ["† the load generator was over 75 % busy, so the true figure is higher.", "", *_problems(figures)]
    return "\n".join(lines).rstrip() + "\n"
