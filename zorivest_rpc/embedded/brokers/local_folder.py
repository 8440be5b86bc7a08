"""Files as a broker: everything new below `imports/<account_id>/`, read by the same importers as an upload."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ..imports.broker import import_broker_file
from ..imports.broker_pdf import import_broker_pdf
from ..imports.drafts import BrokerHints, ImportRefused, Limits
from ..imports.source import read_source
from .pulled import Pulled, Source, Wanted

__all__ = ["pull"]

MOST_FILES = 500
_BANK = frozenset({".ofx", ".qfx", ".qif"})


def pull(folder: Path, wanted: Wanted, known: Callable[[str, str], bool]) -> Pulled:
    """Read what is new; `known(sha256, account_id)` says what is not. Reads files, so it belongs on a thread.

    A file that cannot be read is told every time until it is gone or can be read."""
    sources: list[Source] = []
    problems: list[str] = []
    limits = Limits()
    for number, (account_id, path) in enumerate(_files(folder)):
        name = path.relative_to(folder).as_posix()
        if number >= MOST_FILES:
            problems.append(f"There are more than {MOST_FILES} files; the rest was left for the next sync.")
            break
        try:
            data = read_source(path, limits)
            if known(hashlib.sha256(data).hexdigest(), account_id):
                continue
            if path.suffix.lower() in _BANK:
                raise ImportRefused(
                    "bank_statement", "This is a bank statement.", next="Use import_bank_statement for it."
                )
            read = import_broker_pdf if data.startswith(b"%PDF-") else import_broker_file
            hints = BrokerHints(
                account_id=account_id, file_name=path.name, timezone=wanted.timezone, currency=wanted.currency
            )
            sources.append(Source(read(data, hints, limits=limits), name))
        except ImportRefused as exc:
            problems.append(f"{name}: {exc}")
    return Pulled(tuple(sources), problems=tuple(problems))


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
