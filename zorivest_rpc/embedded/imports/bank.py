"""A bank statement in, drafts out: size, encoding, format, lines, balances."""

from __future__ import annotations

import os
from collections.abc import Callable

from zorivest_rpc.embedded.imports.bank_csv import read_bank_csv
from zorivest_rpc.embedded.imports.camt import read_camt
from zorivest_rpc.embedded.imports.detect import detect_bank_format
from zorivest_rpc.embedded.imports.drafts import BankHints, BankImport, ImportLimits
from zorivest_rpc.embedded.imports.ofx import read_ofx
from zorivest_rpc.embedded.imports.qif import read_qif
from zorivest_rpc.embedded.imports.source import Budget, lines_of, open_text, sha256
from zorivest_rpc.embedded.imports.statement import StatementCollector

__all__ = ["import_bank_file"]


def import_bank_file(
    source: bytes | os.PathLike[str],
    hints: BankHints,
    *,
    limits: ImportLimits | None = None,
    expired: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> BankImport:
    """Read a statement as CSV, OFX, QFX, QIF or CAMT.053. Raises `ImportRefused` when nothing can be used."""
    limits = limits or ImportLimits()
    budget = Budget(limits, expired, progress)
    into = StatementCollector(hints, limits)
    data, text = open_text(source, hints, budget, into, instead_of_pdf="Download the statement as CSV, OFX or QIF.")
    kind = detect_bank_format(text.value, hints)
    if kind == "ofx":
        read_ofx(text.value, budget, into)
    elif kind == "qif":
        read_qif(lines_of(text.value), budget, into)
    elif kind == "camt":
        read_camt(data, budget, into)
    else:
        read_bank_csv(lines_of(text.value), budget, into)
    budget.finish()
    return into.finish(kind, data_sha256=sha256(data), size=len(data), encoding=text.encoding)
