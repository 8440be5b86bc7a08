"""Writes small PDFs for the tests: ruled tables or lines of text in Helvetica."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

HEIGHT = 792


def _escaped(text: str) -> bytes:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("latin-1")


def _show(x: float, y: float, text: str) -> bytes:
    return b"BT /F1 7 Tf %.1f %.1f Td (%s) Tj ET\n" % (x, y, _escaped(text))


def lines_page(lines: Sequence[str]) -> bytes:
    return b"".join(_show(40, HEIGHT - 40 - 14 * at, line) for at, line in enumerate(lines))


def table_page(rows: Sequence[Sequence[str]], title: str = "") -> bytes:
    width, height, left, top = 84.0, 16.0, 10.0, HEIGHT - 60.0
    columns = len(rows[0])
    out = [_show(left, top + 20, title)] if title else []
    for at in range(len(rows) + 1):
        y = top - at * height
        out.append(b"%.1f %.1f m %.1f %.1f l S\n" % (left, y, left + columns * width, y))
    for place in range(columns + 1):
        x = left + place * width
        out.append(b"%.1f %.1f m %.1f %.1f l S\n" % (x, top, x, top - len(rows) * height))
    for at, row in enumerate(rows):
        out += [_show(left + place * width + 3, top - at * height - 11, cell) for place, cell in enumerate(row)]
    return b"".join(out)


def document(
    pages: Sequence[bytes], *, compress: bool = True, filters: str = "/FlateDecode", trailer: str = ""
) -> bytes:
    """A whole PDF around page contents."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, content in enumerate(pages):
        page = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 {HEIGHT}] "
            f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * at} 0 R >>"
        )
        body = zlib.compress(content) if compress else content
        head = f"<< /Length {len(body)}" + (f" /Filter {filters}" if compress else "") + " >>"
        objects += [page.encode(), head.encode() + b"\nstream\n" + body + b"\nendstream"]
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, obj in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + obj + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    tail = f"<< /Size {len(objects) + 1} /Root 1 0 R {trailer} >>".encode()
    out += b"trailer\n" + tail + b"\nstartxref\n%d\n%%%%EOF\n" % start
    return bytes(out)
