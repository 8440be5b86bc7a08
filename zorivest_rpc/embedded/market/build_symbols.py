"""Makes `data/symbols.json` from the wheel of pytickersymbols (MIT), whose data are read as literals, not run.

    python -m zorivest_rpc.embedded.market.build_symbols pytickersymbols-1.17.10-py3-none-any.whl

The wheel comes from PyPI (`pip download --no-deps pytickersymbols`). The same wheel and day give the same file."""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..values.identifiers import IdentifierType, is_valid
from .directory import Entry

__all__ = ["build"]

_DATA = Path(__file__).parent / "data"
_SHARE_CLASS = re.compile(r"([A-Z]+)-([A-Z])")
_SYMBOL = re.compile(r"[A-Z0-9][A-Z0-9.\-]{0,14}")


def build(wheel: Path, generated: str) -> tuple[bytes, bytes]:
    """The directory as JSON, one symbol per line, and the licence that came with its source."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("pytickersymbols/indices_data.py"))
        meta = archive.read(_member(archive, ".dist-info/METADATA")).decode()
        licence = archive.read(_member(archive, "/LICENSE"))
    version = re.search(r"^Version: (.+)$", meta, re.M)
    indices = next(ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    found: dict[str, Entry] = {}
    for entry in _entries(indices):
        known = found.setdefault(entry.symbol, entry)
        if known.isin is None and entry.isin is not None:
            found[entry.symbol] = entry
    seen = Counter(entry.isin for entry in found.values())
    rows = [
        entry if seen[entry.isin] == 1 else msgspec.structs.replace(entry, isin=None)  # two classes, one code: neither
        for _, entry in sorted(found.items())
    ]
    head = msgspec.json.encode(
        {
            "source": "the Python package named pytickersymbols.",
            "version": version[1] if version else "",
            "licence": "MIT, see symbols.LICENSE",
            "generated": generated,
        }
    )
    lines = b",\n".join(msgspec.json.encode(row) for row in rows)
    return head[:-1] + b',"symbols":[\n' + lines + b"\n]}\n", licence


def _member(archive: zipfile.ZipFile, ending: str) -> str:
    return next(name for name in archive.namelist() if name.endswith(ending))


def _entries(indices: dict[str, Any]) -> Iterator[Entry]:
    for index in indices.values():
        for company in index["companies"]:
            written, name = str(company.get("symbol", "")).strip().upper(), " ".join(str(company["name"]).split())
            if not _SYMBOL.fullmatch(written) or not name:
                continue
            symbol = _SHARE_CLASS.sub(r"\1.\2", written)
            names = {written, symbol, symbol.replace(".", "-")}
            listing: dict[str, str] = next((row for row in company.get("symbols", []) if row.get("yahoo") in names), {})
            place, colon, _ = listing.get("google", "").partition(":")
            isins = [isin for isin in company.get("isins", []) if is_valid(IdentifierType.ISIN, isin)]
            only = isins[0] if len(isins) == 1 else None
            yield Entry(symbol, name, place if colon else None, listing.get("currency"), only)


def main() -> None:
    symbols, licence = build(Path(sys.argv[1]), datetime.now(UTC).date().isoformat())
    (_DATA / "symbols.json").write_bytes(symbols)
    (_DATA / "symbols.LICENSE").write_bytes(licence)


if __name__ == "__main__":
    main()
