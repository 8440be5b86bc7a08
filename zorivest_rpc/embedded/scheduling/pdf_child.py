"""The process in which a report becomes a PDF: given the body of an HTML page on stdin, it lays out what a report is
made of and knows nothing else.

Run as a script by `pdf.py`; it imports nothing of this project. Headings, paragraphs, lists, tables, the cards of our
layout and our own charts are drawn; scripts, styles, pictures, links and forms of a policy's HTML are not, so nothing
is ever fetched and the document holds no active content. Input is one JSON object; output is the document, or one JSON
object that says why there is none."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

from fpdf import FPDF

MEMORY = 768 * 1024 * 1024
CPU_SECONDS = 20
MOST_PAGES = 300

FONT = "sans-serif"  # what the charts ask for, so that one font serves both
SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
MARGIN, FOOT = 15.0, 18.0
GREY, LINE, BLACK = (107, 114, 128), (229, 231, 235), (17, 24, 39)
HEADINGS = {"h1": 17.0, "h2": 13.0, "h3": 11.0, "h4": 10.0, "h5": 9.0, "h6": 9.0}
MUTE = frozenset({"script", "style", "head", "title", "template", "iframe", "object", "noscript", "svg", "math"})
BREAKS = frozenset(
    {*HEADINGS, "p", "div", "li", "ul", "ol", "table", "section", "article", "header", "footer", "blockquote", "pre"}
    | {"figure", "hr", "dl", "dt", "dd", "address", "form"}
)


class PdfRefused(Exception):
    """Why there is no document."""


@dataclass
class Block:
    """One thing on the page; `rows` of a table hold (text, is a heading, is a number)."""

    kind: str
    text: str = ""
    value: str = ""
    rows: list[list[tuple[str, bool, bool]]] = field(default_factory=list)


class Reader(HTMLParser):
    """HTML to blocks, in order; what it does not know is read as text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[Block] = []
        self._text: list[str] = []
        self._kind = "p"
        self._mute: list[str] = []
        self._table: Block | None = None
        self._cell: tuple[bool, bool] | None = None
        self._card: list[str] | None = None
        self._pre = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._mute or tag in MUTE:
            if tag in MUTE:
                self._mute.append(tag)
            return
        given = dict(attrs)
        classes = (given.get("class") or "").split()
        if tag == "table":
            self._flush()
            self._table = Block("table")
        elif self._table is not None:
            self._in_table(tag, classes)
        elif tag == "div" and "card" in classes:
            self._flush()
            self._card = []
        elif tag == "b" and self._card is not None:
            self._card.append(self._take_text())
        elif tag in BREAKS:
            self._flush()
            self._kind = tag if tag in HEADINGS or tag in ("li", "pre") else "note" if "note" in classes else "p"
            self._pre = tag == "pre"
            if tag == "figure" and given.get("data-chart"):
                self.blocks.append(Block("chart", str(given["data-chart"])))
            elif tag == "hr":
                self.blocks.append(Block("rule"))
        elif tag == "br":
            self._text.append("\n")

    def _in_table(self, tag: str, classes: list[str]) -> None:
        assert self._table is not None
        if tag == "tr":
            self._end_cell()
            self._table.rows.append([])
        elif tag in ("td", "th"):
            self._end_cell()
            self._cell = (tag == "th", "n" in classes)
        elif tag == "br":
            self._text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._mute:
            if tag == self._mute[-1]:
                self._mute.pop()
        elif tag == "table" and self._table is not None:
            self._end_cell()
            self.blocks += [self._table] if any(self._table.rows) else []
            self._table = None
        elif self._table is not None:
            if tag in ("td", "th", "tr"):
                self._end_cell()
        elif tag == "div" and self._card is not None:
            parts = [*self._card, self._take_text()]
            self.blocks.append(Block("card", parts[0], " ".join(parts[1:])))
            self._card = None
        elif tag in BREAKS:
            self._flush()
            self._kind, self._pre = "p", False

    def handle_data(self, data: str) -> None:
        if not self._mute:
            self._text.append(data)

    def finish(self) -> list[Block]:
        self.close()
        if self._table is not None:
            self.handle_endtag("table")
        self._flush()
        return self.blocks

    def _take_text(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        if self._pre:
            return text.strip("\n")
        return "\n".join(" ".join(line.split()) for line in text.split("\n") if line.strip())

    def _end_cell(self) -> None:
        text = " ".join(self._take_text().split())
        if self._cell is not None and self._table is not None:
            if not self._table.rows:
                self._table.rows.append([])
            self._table.rows[-1].append((text, *self._cell))
        self._cell = None

    def _flush(self) -> None:
        text = self._take_text()
        if text:
            self.blocks.append(Block(self._kind, text if self._pre else " ".join(text.split("\n"))))


class Paper(FPDF):
    """Pages with a foot, and text in one font that knows what it lacks."""

    def __init__(self, request: dict[str, Any], orientation: Any) -> None:
        super().__init__(orientation=orientation, unit="mm", format="A4")
        self.add_font(FONT, "", request["fonts"][0])
        self.add_font(FONT, "B", request["fonts"][1])
        self._foot = request["title"]
        self._widths: dict[tuple[str, float, str], float] = {}
        self.set_margins(MARGIN, MARGIN, MARGIN)
        self.set_auto_page_break(False)
        self.alias_nb_pages()
        self.set_title(request["title"])
        self.set_creator("zorivest-rpc")
        self.set_producer("zorivest-rpc")
        self.set_lang("en")
        self.set_creation_date(datetime.fromisoformat(request["created"]))
        self.style(9)
        known = self.fonts[FONT].cmap  # type: ignore[union-attr]
        self._known = frozenset(chr(code) for code in known)

    def footer(self) -> None:
        self.style(7, colour=GREY)
        bottom = self.h - 9
        self.text(MARGIN, bottom, self.fit(self.clean(self._foot), self.epw - 25))
        self.set_xy(self.w - MARGIN - 24, bottom - 3)
        self.cell(24, 4, f"{self.page_no()} / {{nb}}", align="R")

    def style(self, size: float, bold: bool = False, colour: tuple[int, int, int] = BLACK) -> None:
        self.set_font(FONT, "B" if bold else "", size)
        self.set_text_color(*colour)

    def clean(self, text: str) -> str:
        """Only characters that the font can show; others become a mark that something is missing."""
        return "".join(char if char in self._known else " " if char.isspace() else "\ufffd" for char in text)

    def wide(self, text: str) -> float:
        """The width of a text at the present style, character by character from memory."""
        style, size, total = self.font_style, self.font_size_pt, 0.0
        for char in text:
            key = (char, size, style)
            width = self._widths.get(key)
            if width is None:
                width = self._widths[key] = self.get_string_width(char)
            total += width
        return total

    def fit(self, text: str, width: float) -> str:
        if self.wide(text) <= width:
            return text
        while text and self.wide(text + "…") > width:
            text = text[:-1]
        return text + "…"

    def wrap(self, text: str, width: float) -> list[str]:
        """Lines that fit; a word that is too long is cut where it must be."""
        lines: list[str] = []
        line = ""
        for word in text.split(" "):
            longer = f"{line} {word}" if line else word
            if self.wide(longer) <= width:
                line = longer
                continue
            if line:
                lines.append(line)
            line = ""
            for char in word:
                if line and self.wide(line + char) > width:
                    lines.append(line)
                    line = ""
                line += char
        return [*lines, line]

    def room(self, height: float) -> bool:
        """Make room for something of a height; True if that took a new page."""
        if self.get_y() + height <= self.h - FOOT:
            return False
        if self.page_no() >= MOST_PAGES:
            raise PdfRefused(f"the report has more than {MOST_PAGES} pages")
        self.add_page()
        self.set_y(MARGIN)
        return True

    def lines(self, text: str, size: float, indent: float = 0.0, **style: Any) -> None:
        self.style(size, **style)
        step = size * 0.5
        for part in text.split("\n"):
            for line in self.wrap(self.clean(part), self.epw - indent):
                if self.room(step):
                    self.style(size, **style)
                self.text(MARGIN + indent, self.get_y() + step * 0.75, line)
                self.set_y(self.get_y() + step)


def draw(paper: Paper, blocks: list[Block], charts: dict[str, str]) -> None:
    paper.add_page()
    paper.set_y(MARGIN)
    cards: list[Block] = []
    for block in blocks:
        if block.kind == "card":
            cards.append(block)
            continue
        draw_cards(paper, cards)
        cards = []
        if block.kind in HEADINGS:
            size = HEADINGS[block.kind]
            paper.room(size + 12)
            paper.set_y(paper.get_y() + (0 if block.kind == "h1" else 3))
            paper.lines(block.text, size, bold=True)
            paper.set_y(paper.get_y() + 1)
        elif block.kind == "table":
            draw_table(paper, block.rows)
        elif block.kind == "chart":
            draw_chart(paper, charts.get(block.text, ""))
        elif block.kind == "rule":
            paper.room(4)
            paper.set_draw_color(*LINE)
            paper.line(MARGIN, paper.get_y() + 1, paper.w - MARGIN, paper.get_y() + 1)
            paper.set_y(paper.get_y() + 3)
        else:
            note = block.kind == "note"
            mark = "• " if block.kind == "li" else ""
            paper.lines(mark + block.text, 8 if note else 9, 4 if mark else 0, colour=GREY if note else BLACK)
            paper.set_y(paper.get_y() + (0.5 if mark else 1.5))
    draw_cards(paper, cards)


def draw_cards(paper: Paper, cards: list[Block]) -> None:
    """Side by side, as many as fit."""
    width, height, gap = 42.0, 14.0, 3.0
    across = max(1, int((paper.epw + gap) // (width + gap)))
    for start in range(0, len(cards), across):
        paper.room(height + gap)
        top = paper.get_y()
        for number, card in enumerate(cards[start : start + across]):
            left = MARGIN + number * (width + gap)
            paper.set_draw_color(*LINE)
            paper.rect(left, top, width, height)
            paper.style(7.5, colour=GREY)
            paper.text(left + 3, top + 5, paper.fit(paper.clean(card.text), width - 6))
            paper.style(11, bold=True)
            paper.text(left + 3, top + 11, paper.fit(paper.clean(card.value), width - 6))
        paper.set_y(top + height + gap)


def natural(paper: Paper, rows: list[list[tuple[str, bool, bool]]]) -> list[float]:
    """How wide each column would like to be."""
    widths = [0.0] * max(len(row) for row in rows)
    for row in rows[:500]:
        for index, (text, heading, _) in enumerate(row):
            paper.style(8, bold=heading)
            widths[index] = max(widths[index], min(paper.wide(paper.clean(text[:80])) + 4.5, 90.0))
    return widths


def fit_columns(wanted: list[float], room: float) -> list[float]:
    """Columns that fit the page: the widest give way first; what is left over widens all alike."""
    if sum(wanted) <= room:
        extra = (room - sum(wanted)) / len(wanted)
        return [width + extra for width in wanted]
    low, high = 0.0, max(wanted)
    for _ in range(40):
        cap = (low + high) / 2
        low, high = (cap, high) if sum(min(width, cap) for width in wanted) <= room else (low, cap)
    return [min(width, low) for width in wanted]


def draw_table(paper: Paper, rows: list[list[tuple[str, bool, bool]]]) -> None:
    """Row by row; the heading is repeated on every page."""
    widths = fit_columns(natural(paper, rows), paper.epw)
    if min(widths) < 5:
        raise PdfRefused("a table has more columns than a page can hold")
    heading = None
    if rows[0] and all(cell[1] for cell in rows[0]):
        below = [cell[2] for cell in rows[1]] if len(rows) > 1 else []
        below += [False] * len(rows[0])
        heading = rows[0] = [(text, True, number) for (text, _, _), number in zip(rows[0], below, strict=False)]
    for row in rows:
        lines = laid(paper, row, widths)
        if paper.room(4.0 * max(map(len, lines), default=1) + 1.5) and heading is not None and row is not heading:
            draw_row(paper, heading, laid(paper, heading, widths), widths)
        draw_row(paper, row, lines, widths)
    paper.set_y(paper.get_y() + 2)


def laid(paper: Paper, row: list[tuple[str, bool, bool]], widths: list[float]) -> list[list[str]]:
    """The lines of each cell; a cell that would not fit a page ends with a mark."""
    found = []
    for (text, heading, _), width in zip(row, widths, strict=False):
        paper.style(8, bold=heading)
        lines = paper.wrap(paper.clean(text), width - 3)
        found.append(lines if len(lines) <= 30 else [*lines[:29], "…"])
    return found


def draw_row(paper: Paper, row: list[tuple[str, bool, bool]], lines: list[list[str]], widths: list[float]) -> None:
    top, left = paper.get_y(), MARGIN
    height = 4.0 * max(map(len, lines), default=1) + 1.5
    for (_, heading, number), cell, width in zip(row, lines, widths, strict=False):
        paper.style(8, bold=heading)
        for index, line in enumerate(cell):
            x = left + width - 1.5 - paper.wide(line) if number else left + 1.5
            paper.text(x, top + 3.6 + 4.0 * index, line)
        left += width
    paper.set_draw_color(*LINE)
    paper.line(MARGIN, top + height, paper.w - MARGIN, top + height)
    paper.set_y(top + height)


def draw_chart(paper: Paper, svg: str) -> None:
    """Our own SVG; lines stay lines and text stays text."""
    size = SIZE.search(svg)
    if size is None:
        return
    width, height = map(float, size.groups())
    scale = min(paper.epw / width, (paper.h - MARGIN - FOOT) / height, 0.28)
    paper.room(height * scale + 2)
    top = paper.get_y()
    drawn = BytesIO(paper.clean(svg).encode())
    paper.image(drawn, x=MARGIN, y=top, w=width * scale, h=height * scale)
    paper.set_y(top + height * scale + 2)


def restrict() -> None:
    """No more memory, processor time or files than a report needs; where the system cannot limit, the parent kills."""
    try:
        import resource
    except ImportError:
        return
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(what, (limit, limit))
        except (ValueError, OSError):
            continue


def make(request: dict[str, Any]) -> bytes:
    reader = Reader()
    reader.feed(request["html"])
    blocks = reader.finish()
    paper = Paper(request, "portrait")
    if any(sum(natural(paper, block.rows)) > paper.epw for block in blocks if block.kind == "table"):
        paper = Paper(request, "landscape")
    draw(paper, blocks, request["charts"])
    return bytes(paper.output())


def main() -> int:
    request = json.load(sys.stdin)
    restrict()
    try:
        output = make(request)
    except PdfRefused as exc:
        output = json.dumps({"error": str(exc)}).encode()
    except (MemoryError, RecursionError):
        output = b'{"error": "it needs too much memory"}'
    sys.stdout.buffer.write(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
