"""Copies axe-core out of its npm package into the static files, with its licence and its hash.

python -m tests.browser.axe            say whether the copy is the package's
python -m tests.browser.axe --write    take the version that tests/browser/package.json names
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from tests.browser import chromium
from tests.places import ROOT

__all__ = ["FILES", "RECORD", "STATIC", "package_files"]

STATIC = ROOT / "zorivest_rpc" / "devtools" / "static"
RECORD = STATIC / "axe.json"
FILES = {
    "axe.min.js": "axe.min.js",
    "LICENSE": "axe.LICENSE.txt",
    "LICENSE-3RD-PARTY.txt": "axe.LICENSE-3RD-PARTY.txt",
}


def package_files() -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of the installed package by our names, and the record of them."""
    package = chromium.modules() / "axe-core"
    manifest = json.loads((package / "package.json").read_bytes())
    files = {ours: (package / theirs).read_bytes() for theirs, ours in FILES.items()}
    digest = hashlib.sha256(files["axe.min.js"]).hexdigest()
    record = {"name": "axe-core", "version": manifest["version"], "license": manifest["license"], "sha256": digest}
    return files, record


def _main(arguments: list[str]) -> int:
    files, record = package_files()
    text = (json.dumps(record, indent=2) + "\n").encode()
    wanted = {STATIC / name: data for name, data in files.items()} | {RECORD: text}
    if "--write" in arguments:
        for path, data in wanted.items():
            path.write_bytes(data)
    differing = [path.name for path, data in wanted.items() if not _is(path, data)]
    print(f"axe-core {record['version']}, SHA-256 {record['sha256']}: {', '.join(differing) or 'nothing'} differs")
    return 1 if differing else 0


def _is(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
