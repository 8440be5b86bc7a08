"""The benchmark judged by itself: lies are counted, misses are named, and the floors still answer."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.bench import scale_imports
from tests.bench.bars import BARS, Bar, Figures, Verdict, judge, judge_all
from tests.bench.catalog import ECHO_TEXT, tools, write_catalog
from tests.bench.loadgen import Stdio, stdio_load
from tests.bench.loadgen_http import http_load
from tests.bench.page import CORE, GATEWAY, IMPORTS, PRODUCT, SCALE, Section
from tests.bench.report import about_run, bars_table, report
from tests.bench.rows import FLOOR, REAL, ROOT, Row, environment, rows

EVERYWHERE = frozenset(os.sched_getaffinity(0))
# Answers correctly but for every nth answer of each kind of lie; an n of 0 never lies.
LIAR = """
import json, os, sys
text, wrong_text, is_error, wrong_id = sys.argv[1], *map(int, sys.argv[2:])
count = 0
def every(n):
    return n and count % n == 0
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "liar", "version": "1"}}
    else:
        count += 1
        said = "nope" if every(wrong_text) else text
        result = {"content": [{"type": "text", "text": said}], "isError": bool(every(is_error))}
        if every(wrong_id):
            message["id"] += 5_000_000
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\\n")
"""


@contextmanager
def liar(wrong_text: int = 0, is_error: int = 0, wrong_id: int = 0) -> Iterator[Stdio]:
    lies = [str(each) for each in (wrong_text, is_error, wrong_id)]
    server = Stdio([sys.executable, "-c", LIAR, ECHO_TEXT, *lies], dict(os.environ), EVERYWHERE, ROOT)
    try:
        server.initialize()
        yield server
    finally:
        server.close()


def test_every_lie_of_a_server_is_counted_one_request_at_a_time() -> None:
    with liar(wrong_text=7, is_error=13, wrong_id=10) as server:
        figures = stdio_load(server, "echo", 1, count=910, warmup=0)
    assert (figures["n"], figures["errors"]) == (648, 262)
    assert figures["first_error"]


def test_every_lie_of_a_server_is_counted_with_many_in_flight() -> None:
    with liar(wrong_text=7) as server:
        figures = stdio_load(server, "echo", 64, count=700, warmup=0)
    answered = figures["n"] + figures["errors"]
    assert answered >= 700
    assert figures["errors"] == answered // 7


def test_answers_to_nothing_are_errors_and_do_not_hang_the_load() -> None:
    with liar(wrong_id=1) as server:
        figures = stdio_load(server, "echo", 4, count=100, warmup=0)
    assert (figures["n"], figures["errors"]) == (0, 4)


def test_an_honest_server_has_no_errors() -> None:
    with liar() as server:
        figures = stdio_load(server, "echo", 64, count=500, warmup=1)
    assert figures["errors"] == 0
    assert figures["n"] >= 500


class LyingHandler(BaseHTTPRequestHandler):
    """Every fifth answer is wrong: in turn by its status, and by its text."""

    protocol_version = "HTTP/1.1"
    count = 0

    def do_POST(self) -> None:
        message = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
        LyingHandler.count += 1
        status = 500 if LyingHandler.count % 10 == 0 else 200
        text = "nope" if LyingHandler.count % 10 == 5 else ECHO_TEXT
        result = {"content": [{"type": "text", "text": text}]}
        body = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


def test_every_lie_over_http_is_counted() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), LyingHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/mcp"
            figures = http_load(url, "echo", 1, 0.5, modern=True, warmup=0)
        finally:
            server.shutdown()
            thread.join()
    assert figures["errors"] > 0
    assert abs(figures["errors"] * 5 - (figures["n"] + figures["errors"])) < 5


@pytest.mark.parametrize("row", [FLOOR, REAL], ids=lambda row: row.name)
def test_the_floors_answer_echo_and_list_every_tool(row: Row, tmp_path: Path) -> None:
    assert row.stdio is not None
    server = Stdio(row.stdio, environment(row, write_catalog(tmp_path)), EVERYWHERE, ROOT)
    try:
        server.initialize()
        assert stdio_load(server, "echo", 8, count=100, warmup=1)["errors"] == 0
        assert stdio_load(server, "list", 1, count=5, warmup=1)["errors"] == 0
    finally:
        server.close()


def test_the_catalogue_has_seventy_tools_with_names_of_their_own() -> None:
    names = [tool["name"] for tool in tools()]
    assert len(set(names)) == len(names) == 70
    assert names[-2:] == ["echo", "forward"]


def record(name: str, test: str, round: int = 1, **figures: Any) -> dict[str, Any]:
    return {"round": round, "name": name, "test": test, **figures}


AT_MOST = Bar("memory", "A.rss", "rss_mb", "floor", 1.25)
AT_LEAST = Bar("requests", "B.seq", "rps", "floor", 0.75, at_least=True)
VS_BEST = Bar("requests", "B.seq", "rps", "best peer", 4.0, at_least=True)
CROSSED = Bar("first list", "A.cold", "list_ms", "floor", 1.7, reference_metric="init_ms")


@pytest.mark.parametrize(("ours", "verdict"), [(25.0, Verdict.PASS), (25.1, Verdict.MISS)])
def test_more_than_the_bar_allows_is_a_miss(ours: float, verdict: Verdict) -> None:
    figures = Figures([record("ours", "A.rss", rss_mb=ours), record("floor", "A.rss", rss_mb=20.0)])
    assert judge(AT_MOST, figures).verdict is verdict


@pytest.mark.parametrize(("ours", "verdict"), [(75.0, Verdict.PASS), (74.9, Verdict.MISS)])
def test_less_than_the_bar_demands_is_a_miss(ours: float, verdict: Verdict) -> None:
    figures = Figures([record("ours", "B.seq", rps=ours), record("floor", "B.seq", rps=100.0)])
    assert judge(AT_LEAST, figures).verdict is verdict


def test_the_ratio_is_the_median_of_those_within_the_rounds() -> None:
    mine, floor = (100.0, 20.0, 60.0), (100.0, 40.0, 50.0)
    figures = Figures(
        [record("ours", "B.seq", round, rps=value) for round, value in enumerate(mine)]
        + [record("floor", "B.seq", round, rps=value) for round, value in enumerate(floor)]
    )
    judgement = judge(AT_LEAST, figures)
    assert judgement.ratio == pytest.approx(1.0)
    assert judgement.spread == pytest.approx((0.5, 1.2))


def test_the_first_list_is_compared_with_the_floors_initialize() -> None:
    figures = Figures(
        [
            record("ours", "A.cold", init_ms=60.0, list_ms=80.0),
            record("floor", "A.cold", init_ms=50.0, list_ms=500.0),
        ]
    )
    assert judge(CROSSED, figures).ratio == pytest.approx(1.6)


def test_the_best_peer_is_the_one_that_is_hardest_to_beat() -> None:
    peers = [record("ts1-low", "B.seq", rps=100.0), record("mcp2-low", "B.seq", rps=300.0)]
    judgement = judge(VS_BEST, Figures([record("ours", "B.seq", rps=900.0), *peers]))
    assert judgement.verdict is Verdict.MISS
    assert judgement.ratio == pytest.approx(3.0)
    assert "mcp2-low" in judgement.note


def test_one_wrong_answer_makes_a_fast_figure_invalid() -> None:
    floor = [record("floor", "B.seq", round, rps=100.0, errors=0) for round in (1, 2)]
    mine = [record("ours", "B.seq", 1, rps=900.0, errors=0), record("ours", "B.seq", 2, rps=900.0, errors=1)]
    assert judge(AT_LEAST, Figures([*floor, *mine])).verdict is Verdict.INVALID


def test_a_server_that_did_not_start_passes_nothing() -> None:
    figures = Figures([record("floor", "B.seq", rps=100.0), record("ours", "stdio", failed="it ended")])
    assert judge(AT_LEAST, figures).verdict is Verdict.INVALID
    assert not any(each.verdict is Verdict.PASS for each in judge_all(figures))


def test_a_bar_without_its_peer_is_not_measured_and_not_passed() -> None:
    figures = Figures([record("ours", "B.seq", rps=900.0), record("floor", "B.seq", rps=100.0)])
    assert judge(VS_BEST, figures).verdict is Verdict.NOT_MEASURED


def test_the_table_names_a_miss_and_the_report_counts_it() -> None:
    records = [record("ours", "A.rss", rss_mb=40.0), record("floor", "A.rss", rss_mb=20.0)]
    (line,) = bars_table([judge(AT_MOST, Figures(records))])[2:]
    assert "2.00 (2.00–2.00)" in line
    assert line.endswith("| **miss** |")
    about = about_run(rows(), rounds=1, seconds=1.0, spawns=5)
    assert f"Bars: 1 miss, {len(BARS) - 1} not measured" in report(records, about)


SECTIONS = (CORE, PRODUCT, GATEWAY, SCALE, IMPORTS)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_report_replaces_only_what_stands_between_its_markers(section: Section) -> None:
    page = "# Title\n\nbefore\n"
    for other in SECTIONS:
        page = other.insert(page, f"first of {other.begin}")
    again = section.insert(page + "\nafter\n", "second")
    assert again == page.replace(f"first of {section.begin}", "second") + "\nafter\n"
    assert section.insert(again, "second") == again


def test_a_page_that_does_not_exist_is_begun(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "figures.md"
    PRODUCT.write(page, "figures")
    assert page.read_text() == f"# Benchmarks\n\n## The product\n\n{PRODUCT.begin}\n\nfigures\n{PRODUCT.end}\n"


def test_the_page_has_every_section_once() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for section in SECTIONS:
        assert page.count(section.begin) == page.count(section.end) == 1


def test_imports_that_cost_more_than_in_proportion_are_named() -> None:
    figures = scale_imports.Figures()
    for step, (few, many) in {"linear": (2.0, 20.0), "squared": (2.0, 200.0)}.items():
        figures.seconds[step] = figures.busy[step] = {1000: few, 10_000: many}
    figures.rest, figures.peak = {10_000: 100.0}, {1000: 100.0, 10_000: 110.0}
    assert scale_imports.missed(figures, 1000, 10_000) == ["squared takes 100.0 times as long"]
    figures.peak[10_000] = 500.0
    assert any("KB of memory" in problem for problem in scale_imports.missed(figures, 1000, 10_000))
    block = scale_imports.report(figures, 1000, 10_000, 1)
    assert "| linear | 2.00 | 2.00 | 20.00 | 20.00 | 10.0 × | 500 |" in block


def test_imports_are_really_measured(tmp_path: Path) -> None:
    figures = scale_imports.measure(tmp_path, 100, 300, 1)
    assert set(figures.busy) == set(scale_imports.STEPS)
    assert all(set(found) == {100, 300} for found in figures.seconds.values())
