"""Files as a broker: everything new below `imports/<account_id>/`, read by the same importers as an upload.

What a file is follows from its content: trades of a broker, a PDF of them, or the statement of a bank."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..imports.bank import import_bank_file
from ..imports.broker import import_broker_file
from ..imports.broker_pdf import import_broker_pdf
from ..imports.drafts import BankHints, BankImport, BrokerImport, ImportLimits, ImportRefused
from ..imports.source import read_source
from .pulled import SECONDS, Pulled, PullWindow, Source, within

__all__ = ["pull"]

MOST_FILES = 500
_BANK = frozenset({".ofx", ".qfx", ".qif"})


def pull(folder: Path, wanted: PullWindow, known: Callable[[str, str], bool]) -> Pulled:
    """Read what is new; `known(sha256, account_id)` says what is not. Reads files, so it belongs on a thread.

    A file that cannot be read is told every time until it is gone or can be read."""
    sources: list[Source] = []
    problems: list[str] = []
    limits = ImportLimits()
    rows = 0
    for account_id, path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if len(sources) + len(problems) >= MOST_FILES or rows >= limits.max_rows:
            problems.append("There is more than one sync takes; sync again for the rest.")
            break
        try:
            data = read_source(path, limits)
            if known(hashlib.sha256(data).hexdigest(), account_id):
                continue
            found = _read(data, account_id, path, wanted, limits)
            sources.append(Source(found, name))
            rows += found.total_rows
        except ImportRefused as exc:
            problems.append(f"{name}: {exc}")
    return Pulled(tuple(sources), problems=tuple(problems))


def _read(
    data: bytes, account_id: str, path: Path, wanted: PullWindow, limits: ImportLimits
) -> BrokerImport | BankImport:
    expired = within(SECONDS)
    trades = wanted.hints(account_id, file_name=path.name)
    lines = BankHints(account_id=account_id, file_name=path.name, currency=wanted.currency)
    if data.startswith(b"%PDF-"):
        return import_broker_pdf(data, trades, limits=limits, expired=expired)
    if path.suffix.lower() in _BANK:
        return import_bank_file(data, lines, limits=limits, expired=expired)
    try:
        return import_broker_file(data, trades, limits=limits, expired=expired)
    except ImportRefused as exc:
        if exc.code != "unknown_broker_format":
            raise
        try:
            return import_bank_file(data, lines, limits=limits, expired=expired)
        except ImportRefused:
            raise exc from None


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Files with the account whose folder they are in, in a fixed order; links lead elsewhere and are left."""
    for account in sorted(folder.iterdir()) if folder.is_dir() else ():
        if account.is_symlink() or account.name.startswith("."):
            continue
        for place, below, names in os.walk(account, followlinks=False):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(names):
                path = Path(place, name)
                if not name.startswith(".") and not path.is_symlink():
                    yield account.name, path
