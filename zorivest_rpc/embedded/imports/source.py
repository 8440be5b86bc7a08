"""One file's bytes and text, and the budget its reading may spend.

Size is checked before a byte is read; text is decoded line by line where a file mixes encodings; what is not text at
all is refused here, so that no format module ever meets it.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from zorivest_rpc.embedded.imports.drafts import BankHints, BrokerHints, ImportLimits, ImportRefused

__all__ = ["Budget", "Text", "check_dialect", "decode", "lines_of", "open_text", "read_source", "sha256"]

_ARCHIVES = {
    b"PK\x03\x04": "a ZIP archive or an Excel workbook",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
}
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Text(msgspec.Struct, frozen=True):
    """Decoded text and how it was decoded."""

    value: str
    encoding: str
    is_mixed: bool = False


class Budget:
    """Rows and time that one import may use; `progress(done, total)` hears how far it is, never backwards."""

    STEP = 512

    def __init__(
        self,
        limits: ImportLimits,
        expired: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.limits = limits
        self.rows = 0
        self._expired = expired
        self._progress = progress
        self._done = 0
        self._total = 1

    def row(self, done: int, total: int) -> None:
        """Count one row and tell from time to time that `done` of `total` is reached."""
        self.count()
        if self.rows % self.STEP == 0:
            self.tell(done, total)

    def count(self) -> None:
        """Count one row."""
        self.rows += 1
        if self.rows > self.limits.max_rows:
            raise ImportRefused(
                "too_many_rows",
                f"The file has more than {self.limits.max_rows} rows.",
                where=f"row {self.rows}",
                next="Export a shorter period and import the parts one after another.",
                status=413,
            )
        if self.rows % self.STEP == 0:
            self.check()

    @property
    def is_expired(self) -> bool:
        return self._expired()

    def check(self) -> None:
        """Refuse the file when its time is up."""
        if self.is_expired:
            raise ImportRefused(
                "deadline_exceeded",
                "Reading the file took longer than allowed.",
                where=f"after {self.rows} rows",
                next="Export a shorter period and import the parts one after another.",
            )

    def tell(self, done: int, total: int) -> None:
        self._done = max(self._done, done)
        self._total = max(total, self._done)
        self._progress(self._done, self._total)

    def finish(self) -> None:
        self._progress(self._total, self._total)


class _Warned(Protocol):
    """What gathers the notes on a file."""

    def warn(self, code: str, message: str) -> None: ...


def open_text(
    source: bytes | os.PathLike[str],
    hints: BrokerHints | BankHints,
    budget: Budget,
    into: _Warned,
    *,
    instead_of_pdf: str,
) -> tuple[bytes, Text]:
    """The bytes and the text of an export, within its budget; `instead_of_pdf` is what to do with a PDF."""
    data = read_source(source, budget.limits)
    if data.startswith(b"%PDF-"):
        raise ImportRefused("is_pdf", "The file is a PDF.", next=instead_of_pdf)
    check_dialect(hints.delimiter, hints.decimal)
    text = decode(data, hints.encoding)
    if text.is_mixed:
        into.warn("mixed_encodings", "Some lines are UTF-8 and some Windows-1252; each was read as what it is.")
    budget.check()
    return data, text


def check_dialect(delimiter: str | None, decimal: str | None) -> None:
    """Refuse hints about the dialect that no file can have."""
    if delimiter and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter.isalnum()):
        raise ImportRefused(
            "unknown_delimiter", f"{delimiter[:20]!r} cannot separate cells.", next="Use one of , ; | or a tab."
        )
    if decimal and decimal not in (".", ","):
        raise ImportRefused("unknown_decimal", f"{decimal[:20]!r} is no decimal mark.", next="Use a dot or a comma.")


def read_source(source: bytes | os.PathLike[str], limits: ImportLimits) -> bytes:
    """The bytes of a file, refused before reading when there are too many or it is no regular file."""
    if isinstance(source, bytes):
        _check_size(len(source), limits)
        return source
    path = Path(source)
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise ImportRefused("not_a_file", f"{path.name} is not a regular file.", next="Name an exported file.")
        _check_size(facts.st_size, limits)
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "the path is not usable"
        raise ImportRefused(
            "unreadable_file",
            f"{path.name!r} cannot be read: {reason}.",
            next="Check the path and its permissions.",
        ) from None
    _check_size(len(data), limits)
    return data


def _check_size(size: int, limits: ImportLimits) -> None:
    if size > limits.max_bytes:
        raise ImportRefused(
            "file_too_large",
            f"The file has {size} bytes; at most {limits.max_bytes} are read.",
            next="Export a shorter period and import the parts one after another.",
            status=413,
        )


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decode(data: bytes, encoding: str | None = None) -> Text:
    """Text by its byte order mark, else UTF-8, else Windows-1252, line by line where both occur."""
    if not data.strip():
        raise ImportRefused("empty_file", "The file is empty.", next="Export it again and check that it has rows.")
    for magic, kind in _ARCHIVES.items():
        if data.startswith(magic):
            raise ImportRefused(
                "not_text", f"The file is {kind}, not text.", where="first bytes", next="Unpack it or export it as CSV."
            )
    text = _with_encoding(data, encoding) if encoding else _guess_encoding(data)
    nul = text.value.find("\x00")
    if nul >= 0:
        raise ImportRefused(
            "binary_file",
            "The file contains NUL bytes, so it is not a text export.",
            where=f"character {nul + 1}",
            next="Export it again as CSV, OFX, QIF or XML.",
        )
    return text


def _with_encoding(data: bytes, encoding: str) -> Text:
    try:
        if not codecs.lookup(encoding)._is_text_encoding:  # base64, zlib and the like decode bytes to bytes
            raise LookupError
        return Text(data.decode(encoding).removeprefix("\ufeff"), encoding.lower())
    except LookupError:
        raise ImportRefused(
            "unknown_encoding", f"{encoding!r} is not an encoding.", next="Leave the encoding out."
        ) from None
    except UnicodeError as exc:
        where = f"byte {exc.start}" if isinstance(exc, UnicodeDecodeError) else ""
        raise ImportRefused(
            "wrong_encoding", f"The file is not {encoding}.", where=where, next="Leave the encoding out."
        ) from None


def _guess_encoding(data: bytes) -> Text:
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            if encoding == "utf-8":
                data = data[len(bom) :]
                break
            return Text(data.decode(encoding, errors="replace").removeprefix("\ufeff"), encoding)
    head = data[:4096]
    if head.count(0) * 3 > len(head):  # UTF-16 without a mark: every other byte of western text is zero
        encoding = "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
        return Text(data.decode(encoding, errors="replace"), encoding)
    try:
        return Text(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _line_by_line(data)


def _line_by_line(data: bytes) -> Text:
    parts: list[str] = []
    has_utf8 = False
    for line in data.split(b"\n"):
        try:
            parts.append(line.decode("utf-8"))
            has_utf8 |= not line.isascii()
        except UnicodeDecodeError:
            parts.append(_windows_1252(line))
    return Text("\n".join(parts), "windows-1252", has_utf8)


def _windows_1252(line: bytes) -> str:
    try:
        return line.decode("cp1252")
    except UnicodeDecodeError:  # five bytes have no meaning there
        return line.decode("latin-1")


def lines_of(text: str) -> list[str]:
    """Physical lines; only CR, LF and CRLF end one, so that numbers agree with a text editor."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
