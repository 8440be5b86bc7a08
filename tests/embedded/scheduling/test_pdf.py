"""Reports as PDF: what the page says is in the document, as text and as drawn charts, and nothing else gets in."""

from __future__ import annotations

import io
import socket
from datetime import UTC, datetime
from typing import Any

import pdfplumber
import pytest

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling import pdf
from zorivest_rpc.embedded.scheduling.charts import Series, chart
from zorivest_rpc.embedded.scheduling.pdf import PdfRefused, make_pdf

from .conftest import FILE, RENDER, REPORT, Create, step
from .running import files, run

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
BOTH = {**RENDER, "params": {"output_format": "both"}}
PDF = {**RENDER, "params": {"output_format": "pdf"}}


def opened(document: bytes) -> Any:
    return pdfplumber.open(io.BytesIO(document))


def words(document: bytes) -> str:
    with opened(document) as pages:
        return "\n".join(page.extract_text() for page in pages.pages)


async def test_text_numbers_tables_and_charts_are_in_the_document() -> None:
    line = chart("line", ["Mon", "Tue"], [Series("Equity", [1.0, 4.0])], "Équité – €")
    bars = chart("bar", ["a", "b"], [Series("n", [3, -1])], "P&L <b>")
    body = (
        "<h1>Wochenbericht – Ωμέγα Москва</h1><p>First &amp; second</p><ul><li>an item</li></ul>"
        '<div class="card">Net<b>1,234.50</b></div><div class="card">Trades<b>17</b></div>'
        f"<h2>Charts</h2>{line}{bars}"
        '<table><tr><th>Ticker</th><th>Profit</th></tr><tr><td>AAPL</td><td class="n">-12.75</td></tr></table>'
    )
    document = await make_pdf("Weekly", body, {"chart_0": line, "chart_1": bars}, NOW)
    said = words(document)
    for text in (
        *("Wochenbericht – Ωμέγα Москва", "First & second", "• an item", "Net Trades", "1,234.50 17"),
        *("Équité – €", "P&L <b>", "Mon", "AAPL -12.75", "Weekly 1 / 1"),
    ):
        assert text in said
    with opened(document) as pages:
        (page,) = pages.pages
        assert (page.width < page.height, pages.metadata["Title"]) == (True, "Weekly")
        assert len(page.rects) >= 4, "two bars, two cards, the grounds"
        profit = next(word for word in page.extract_words() if word["text"] == "-12.75")
        heading = next(word for word in page.extract_words() if word["text"] == "Profit")
        assert abs(profit["x1"] - heading["x1"]) < 1, "numbers and their heading end at one line"


async def test_a_chart_is_drawn_as_its_svg_says() -> None:
    """Colours, sizes and places of the SVG, as a reader of the page sees them; what the font lacks leaves a mark."""
    line = chart(
        "line", ["Mon", "Tue", "Wed"], [Series("up", [1.0, 4.0, 2.0]), Series("dot", [None, 3.0])], "日 P&L \ud800"
    )
    document = await make_pdf("Weekly", f"{line}<p>after</p>", {"chart_0": line}, NOW)
    left = top = 15 * 72 / 25.4
    scale = 0.28 * 72 / 25.4  # points of a unit of the SVG, which is 0.28 mm
    with opened(document) as pages:
        (page,) = pages.pages
        assert "\ufffd P&L \ufffd" in page.extract_text()
        monday = [char for char in page.chars if char["text"] == "M"]
        (colour,) = [char["non_stroking_color"] for char in monday]
        assert colour == pytest.approx((0x37 / 255, 0x41 / 255, 0x51 / 255), abs=0.001)
        assert monday[0]["size"] == pytest.approx(11 * scale, abs=0.01)
        (curve,) = [shape for shape in page.curves if shape["stroke"] and len(shape["pts"]) == 3]
        assert curve["stroking_color"] == pytest.approx((0x25 / 255, 0x63 / 255, 0xEB / 255), abs=0.001)
        assert (curve["x0"], curve["x1"]) == pytest.approx((left + 64 * scale, left + 624 * scale), abs=0.1)
        after = next(word for word in page.extract_words() if word["text"] == "after")
        assert after["top"] > top + 280 * scale
        fonts = {char["fontname"].partition("+")[2] for char in page.chars}
        assert len(fonts) == 1, "one font, embedded once"


async def test_a_long_table_goes_on_over_pages_under_its_heading() -> None:
    rows = "".join(f"<tr><td>row {n}</td><td class='n'>{n}</td></tr>" for n in range(400))
    document = await make_pdf("Long", f"<table><tr><th>Name</th><th>N</th></tr>{rows}</table>", {}, NOW)
    with opened(document) as pages:
        texts = [page.extract_text() for page in pages.pages]
    assert len(texts) > 5
    assert all(text.startswith("Name N") for text in texts)
    assert [line for text in texts for line in text.splitlines() if line.startswith("row")] == [
        f"row {n} {n}" for n in range(400)
    ]


async def test_a_wide_table_turns_the_page() -> None:
    cells = "".join(f"<td>quite a long value {n}</td>" for n in range(9))
    document = await make_pdf("Wide", f"<table><tr>{cells}</tr></table>", {}, NOW)
    with opened(document) as pages:
        assert pages.pages[0].width > pages.pages[0].height


async def test_the_same_report_is_the_same_document() -> None:
    assert await make_pdf("A", "<p>b</p>", {}, NOW) == await make_pdf("A", "<p>b</p>", {}, NOW)


async def test_html_of_others_fetches_and_runs_nothing() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.settimeout(0.2)
        place = f"http://127.0.0.1:{listening.getsockname()[1]}/x.png"
        body = (
            f'<p>seen</p><img src="{place}"><img src="file:///etc/passwd"><link rel=stylesheet href="{place}">'
            f'<iframe src="{place}">hidden</iframe><script>alert("hidden")</script><style>hidden</style>'
            f'<a href="javascript:alert(1)">a link</a><object data="{place}">hidden</object>'
            f'<svg><image href="{place}"/><text>hidden</text></svg><figure data-chart="none"></figure><p>end'
        )
        document = await make_pdf("x", body, {}, NOW)
        with pytest.raises(TimeoutError):
            listening.accept()
    said = words(document)
    assert "seen\na link\nend" in said
    assert "hidden" not in said
    for active in (b"/JavaScript", b"/JS", b"/URI", b"/Launch", b"/EmbeddedFile", b"/OpenAction /S"):
        assert active not in document


@pytest.mark.parametrize(
    "body",
    [
        *("", "<table></table>", "<table><tr></tr></table>", "<table><tr><td>", "</table></tr>", "<" * 500),
        *("<div class=card>", "<div class=card><b>", "<h1>", "&#0;&#x10ffff;\u202e", "<p>" * 5000, "<table>" * 500),
        *("<pre>a\n  b</pre>", "<p>" + "x" * 20_000, "<td>alone</td>", "<figure data-chart=chart_0>"),
    ],
)
async def test_broken_html_still_gives_a_document(body: str) -> None:
    assert (await make_pdf("x", body, {}, NOW)).startswith(b"%PDF-")


async def test_what_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = "<td>x</td>" * 200
    with pytest.raises(PdfRefused, match="more columns than a page can hold"):
        await make_pdf("x", f"<table><tr>{cells}</tr></table>", {}, NOW)
    with pytest.raises(PdfRefused, match="more than 300 pages"):
        await make_pdf("x", "<h1>a</h1>" * 13_000, {}, NOW)
    monkeypatch.setattr(pdf, "SECONDS", 0.01)
    with pytest.raises(PdfRefused, match="longer than"):
        await make_pdf("x", "", {}, NOW)


async def test_a_report_becomes_a_page_and_a_pdf_with_the_same_numbers(
    create_approved: Create, admin: Caller, directory: DataDir
) -> None:
    done = await run(admin, await create_approved(REPORT, BOTH, FILE))
    assert done["error"] is None
    page, document = (next(name for name in files(directory) if name.endswith(end)) for end in (".html", ".pdf"))
    assert len(files(directory)) == 2
    assert done["steps"][1]["summary"]["pdf"] == document
    assert done["steps"][2]["summary"]["files"] == sorted([page, document])
    said = words((directory.reports / document).read_bytes())
    for text in ("Accounts & more", "Number", "System default", "Bars", "Daily · 2026-01-05"):
        assert text in said
    assert (directory.reports / document).stat().st_mode & 0o777 == 0o600


async def test_a_pdf_alone_is_one_file_however_often_it_runs(
    create_approved: Create, admin: Caller, directory: DataDir
) -> None:
    policy = await create_approved(REPORT, PDF, FILE)
    first = await run(admin, policy)
    (name,) = files(directory)
    again = await run(admin, policy)
    assert files(directory) == [name]
    assert first["steps"][2]["summary"]["files"] == again["steps"][2]["summary"]["files"] == [name]
    (directory.reports / name).unlink()
    assert (await run(admin, policy))["status"] == "success"
    assert files(directory) == [name]


async def test_a_dry_run_lays_the_pdf_out_and_keeps_no_file(create: Create, admin: Caller, directory: DataDir) -> None:
    done = await run(admin, await create(REPORT, PDF, FILE), dry_run=True)
    assert (done["status"], files(directory)) == ("success", [])
    assert done["steps"][1]["summary"]["pdf_bytes"] > 1000
    assert "<h1>Accounts &amp; more</h1>" in done["preview"]


async def test_a_template_of_the_policy_s_own_becomes_a_pdf_too(
    create_approved: Create, admin: Caller, directory: DataDir
) -> None:
    source = "<h1>{{ title }}</h1><p>{{ data.accounts[0].name }}</p>{{ charts.chart_2 }}<script>x()</script>"
    own = step("page", "render", {"output_format": "pdf", "template_source": source, "title": "My own"})
    done = await run(admin, await create_approved(REPORT, own))
    assert done["error"] is None
    (name,) = files(directory)
    said = words((directory.reports / name).read_bytes())
    assert said.startswith("My own\nSystem default\nBars")
    assert "x()" not in said
