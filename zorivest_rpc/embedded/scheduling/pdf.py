"""A rendered report as a PDF: its text, tables and charts on A4 pages, in a font that comes with the program.

The pages are made from the HTML that is delivered, by a process of its own (`pdf_child.py`): the two never differ, and
a policy's own HTML can do no harm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from .child import run_child

__all__ = ["LARGEST", "SECONDS", "PdfRefused", "make_pdf"]

SECONDS = 30.0
LARGEST = 8_000_000
_CHILD = Path(__file__).with_name("pdf_child.py")
_FONTS = Path(__file__).with_name("fonts")


class PdfRefused(Exception):
    """The report is too large or too slow to lay out; the text says which."""


async def make_pdf(title: str, body: str, charts: Mapping[str, str], now: datetime) -> bytes:
    """The document for the body of a page; `charts` are the SVG elements of ours in it, by name."""
    for name, svg in charts.items():
        body = body.replace(svg, f'<figure data-chart="{name}"></figure>')
    fonts = [str(_FONTS / f"DejaVuSans{style}.ttf") for style in ("", "-Bold")]
    request = {"title": title, "html": body, "charts": dict(charts), "created": now.isoformat(), "fonts": fonts}
    try:
        output, code = await run_child(_CHILD, json.dumps(request).encode(), SECONDS)
    except TimeoutError:
        raise PdfRefused(f"The PDF took longer than {SECONDS:g} seconds.") from None
    return _check_output(output, code)


def _check_output(output: bytes, code: int | None) -> bytes:
    if output.startswith(b"%PDF-"):
        if len(output) > LARGEST:
            raise PdfRefused(f"The PDF is larger than {LARGEST} bytes; show fewer rows.")
        return output
    try:
        reason = json.loads(output)["error"]
    except (ValueError, KeyError, TypeError):
        reason = f"it needs too much time or memory (its process ended with {code})"
    raise PdfRefused(f"There is no PDF: {reason}.")
