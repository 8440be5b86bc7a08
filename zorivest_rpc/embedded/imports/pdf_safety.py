"""Refuses a PDF that would unpack to far more than a statement holds, before any parser meets it.

Streams stand as plain objects in the file, so each can be found, its filters read, and its data inflated with a bound.
Filters whose output we cannot bound, or that hide behind references and escapes, are refused: statements have none.
"""

from __future__ import annotations

import re
import zlib

from zorivest_rpc.embedded.imports.drafts import ImportRefused
from zorivest_rpc.embedded.imports.source import Budget

__all__ = ["check_streams", "is_encrypted"]

TOTAL = 256 * 1024 * 1024
IMAGE = 64 * 1024 * 1024
FONT = 32 * 1024 * 1024
CONTENT = 4 * 1024 * 1024
FORM_CALLS = 16
PIECE = 64 * 1024
DICTIONARY = 8 * 1024

_STREAM = re.compile(rb"(?<!end)stream\r?\n")
_FILTER = re.compile(rb"/Filter\s*(\[[^\]]*\]|/[^\s/\[\]<>()]+|\d+\s+\d+\s+R)")
_NAME = re.compile(rb"/([^\s/\[\]<>()]+)")
_FLATE = frozenset({b"FlateDecode", b"Fl"})
_ASCII = {b"ASCII85Decode": 85, b"A85": 85, b"ASCIIHexDecode": 16, b"AHx": 16}
_PICTURES = frozenset({b"DCTDecode", b"DCT", b"JPXDecode", b"CCITTFaxDecode", b"CCF", b"JBIG2Decode"})


def is_encrypted(data: bytes) -> bool:
    return re.search(rb"/Encrypt\s*(?:\d+\s+\d+\s+R|<<)", data) is not None


def _unsafe(what: str, at: int) -> ImportRefused:
    return ImportRefused(
        "unsafe_pdf",
        what,
        where=f"byte {at}",
        next="Print the statement to a new PDF, or export it as CSV.",
    )


def check_streams(data: bytes, budget: Budget) -> None:
    """Inflate every stream within bounds, keeping nothing."""
    total, calls = 0, 0
    for match in _STREAM.finditer(data):
        start = match.end()
        budget.check()
        head = data[max(0, match.start() - DICTIONARY) : match.start()]
        head = head[head.rfind(b" obj") + 1 :]
        limit = _limit(head)
        size, form_calls = _measure_unpacked(data, start, _filters(head, start), limit, b"/Form" in head)
        total, calls = total + size, calls + form_calls
        if size > limit or total > TOTAL:
            raise _unsafe("The PDF unpacks to far more than a statement holds.", start)
        if calls > FORM_CALLS:
            raise _unsafe("The PDF nests its drawings too deeply.", start)


def _limit(head: bytes) -> int:
    if b"/Form" in head:
        return CONTENT
    if re.search(rb"/Subtype\s*/Image", head):
        return IMAGE
    return FONT if b"/Length1" in head or b"/Type0C" in head or b"Type1C" in head or b"/OpenType" in head else CONTENT


def _filters(head: bytes, at: int) -> list[bytes]:
    match = _FILTER.search(head)
    if b"#" in head or (b"/Filter" in head and match is None) or (match and match[1].endswith(b"R")):
        raise _unsafe("The PDF hides how its streams are packed.", at)
    names = _NAME.findall(match[1]) if match else []
    known = _FLATE | _ASCII.keys() | _PICTURES
    odd = next((name for name in names if name not in known), None)
    if odd is not None or len(names) > 3 or sum(name in _FLATE for name in names) > 1:
        raise _unsafe("The PDF packs its streams in a way that statements do not use.", at)
    return names


def _measure_unpacked(data: bytes, start: int, filters: list[bytes], limit: int, is_form: bool) -> tuple[int, int]:
    """Size after unpacking (just above `limit` when larger), and how often a form draws another one."""
    if filters and filters[0] in _ASCII:
        from pdfminer.ascii85 import ascii85decode, asciihexdecode

        end = data.find(b"endstream", start)
        packed = data[start : end if end >= 0 else len(data)]
        try:
            packed = ascii85decode(packed) if _ASCII[filters[0]] == 85 else asciihexdecode(packed)
        except Exception:  # noqa: BLE001 - whatever the decoder dislikes, the parser will dislike in the same words
            return 0, 0
        source, at = packed, 0
    else:
        source, at = data, start
    if not any(name in _FLATE for name in filters):
        end = source.find(b"endstream", at)
        body = source[at : end if end >= 0 else len(source)]
        return (0 if filters else len(body)), (body.count(b" Do") if is_form and not filters else 0)
    return _inflate(source, at, limit, is_form)


def _inflate(source: bytes, at: int, limit: int, is_form: bool) -> tuple[int, int]:
    engine = zlib.decompressobj()
    size = calls = 0
    pending = b""
    try:
        while not engine.eof and size <= limit:
            if not pending:
                pending = source[at : at + PIECE]
                at += PIECE
                if not pending:
                    break
            piece = engine.decompress(pending, PIECE)
            pending = engine.unconsumed_tail
            size += len(piece)
            calls += piece.count(b" Do") if is_form else 0
    except zlib.error:
        pass
    return size, calls
