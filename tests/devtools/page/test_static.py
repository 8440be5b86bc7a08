"""The two scripts that a page loads: ours within its size, and axe-core as its authors published it."""

from __future__ import annotations

import hashlib
import json

from tests.browser.axe import RECORD, STATIC, package_files


def test_the_collector_is_within_its_size_and_has_no_build_step() -> None:
    text = (STATIC / "collector.js").read_text()
    assert len(text.encode()) <= 40 << 10
    assert max(len(line) for line in text.splitlines()) < 180
    assert "eval(" not in text
    assert "new Function" not in text


def test_the_vendored_engine_is_the_packages_with_its_licence_and_its_hash() -> None:
    files, record = package_files()
    assert json.loads(RECORD.read_bytes()) == record
    for name, data in files.items():
        assert (STATIC / name).read_bytes() == data
    assert hashlib.sha256((STATIC / "axe.min.js").read_bytes()).hexdigest() == record["sha256"]
    assert record["license"] == "MPL-2.0"
    assert b"Mozilla Public License" in files["axe.LICENSE.txt"]
