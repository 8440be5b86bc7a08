"""The documentation says what is there: references are current, links lead somewhere, options and tools are named."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.__main__ import ROOT, stale
from zorivest_rpc.config import OPTIONS


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_generated_references_are_current() -> None:
    assert [path.name for path, _ in stale()] == [], "run make docs"


def test_every_relative_link_leads_to_a_file() -> None:
    assert [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages()
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ] == []


def test_every_option_that_the_docs_name_exists() -> None:
    known = {option.flag for option in OPTIONS}
    own = {"--json", "--as", "--json-args", "--help", "--write", "--peers", "--rounds", "--seconds", "--tests", "--out"}
    for page in (ROOT / "README.md", ROOT / "docs" / "architecture.md"):
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text()):
            assert flag in known | own, f"{page.name}: {flag}"


def test_every_make_target_that_the_docs_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in pages():
        for target in re.findall(r"`?make ([a-z][a-z-]+)(?=[`\s])", page.read_text()):
            if f"`make {target}" in page.read_text() or f"\nmake {target}" in page.read_text():
                assert target in targets, f"{page.name}: make {target}"


def test_every_test_that_the_protocol_matrix_names_exists() -> None:
    matrix = ROOT / "docs" / "reference" / "protocol-support.md"
    named = set(re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", matrix.read_text()))
    assert named
    for file, function in named:
        source = ROOT / file
        assert source.exists(), file
        if function:
            assert f"def {function}(" in source.read_text(), f"{file}::{function}"
