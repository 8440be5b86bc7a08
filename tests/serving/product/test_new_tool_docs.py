"""Adding a tool as a contributor does it, on a copy: one file, `make golden docs`, and the catalogue's tests pass."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalogue import ALL, META, toolsets
from tests.places import ROOT
from tests.serving.product.test_new_tool import TOOL
from zorivest_rpc.embedded.locate import find

PARTS = ("Makefile", "README.md", "pyproject.toml", "zorivest_rpc", "schemas", "docs", "tests")
NAME = "read_one_setting"
CONTRACT = (  # what counts, orders, presents and documents tools; the rest of the suite does not look at the catalogue
    "tests/golden",
    "tests/docs/test_examples.py",
    "tests/serving/catalog/test_contract.py",
    "tests/serving/catalog/test_load.py",
    "tests/serving/catalog/test_toolsets.py",
    "tests/serving/modes/test_detect.py",
    "tests/serving/modes/test_present.py",
    "tests/serving/tools/test_resources.py",
    "tests/serving/product/test_lists.py",
    "tests/terminal/test_toolsets_and_budget.py",
)
SECONDS = 600  # for one command on a busy machine; a quiet one needs less than 30 for all of them

pytestmark = pytest.mark.slow


class Clone:
    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
        self.environ = kept | {"PYTHONPATH": str(root), "HOME": str(home), "ZORIVEST_KEYRING": "off"}

    def make(self, target: str, only: str = "") -> list[subprocess.CompletedProcess[str]]:
        """The commands that the Makefile has for a target, with this interpreter; `only` picks those that name it."""
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (self.root / "Makefile").read_text(), re.MULTILINE)
        assert recipe, target
        lines = [line.strip().lstrip("@") for line in recipe[1].splitlines()]
        chosen = [
            line.removeprefix("$(BIN)/python ").split() for line in lines if "$(BIN)/python" in line and only in line
        ]
        assert chosen, (target, only)
        return [self.run(*words) for words in chosen]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env=self.environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    root = tmp_path / "clone"
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", ".env", "node_modules", "*.pyc")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, root / part, ignore=ignored)
        else:
            shutil.copy(source, root)
    (tmp_path / "home").mkdir()
    made = Clone(root, tmp_path / "home")
    yield made
    for runtime in made.home.rglob("runtime.json"):
        if (located := find(runtime.parent)) is not None:
            os.kill(located.pid, signal.SIGTERM)


@pytest.mark.parametrize("toolset", ["trade-analytics", "behavioral"], ids=["listed by default", "not listed"])
def test_one_file_and_make_golden_docs_add_a_tool(clone: Clone, toolset: str) -> None:
    (clone.root / "schemas" / "tools" / toolset / f"{NAME}.json").write_text(json.dumps(TOOL, indent=2) + "\n")
    (stale,) = clone.make("check", "tests.docs")
    assert stale.returncode == 1, "the page that lacks the new tool is stale"
    assert "docs/reference/tools.md is stale: run make docs" in stale.stdout

    for done in (*clone.make("golden"), *clone.make("docs")):
        assert done.returncode == 0, done.stderr

    golden = json.loads((clone.root / "tests" / "golden" / "tools" / f"{NAME}.json").read_text())
    assert len(golden) == 6, "three modes in two eras"
    page = (clone.root / "docs" / "reference" / "tools.md").read_text()
    part = page.partition(f"### {NAME}\n")[2].partition("\n### ")[0]
    assert TOOL["description"]["rich"] in part  # type: ignore[index]
    assert '{"key": "ui.theme", "value": "dark"' in part, "a real result"
    assert page.startswith("<!-- generated")
    assert f"{ALL - META + 1} tools in {len(toolsets())} toolsets" in page
    assert [check.returncode for check in clone.make("check", "tests.docs")] == [0]

    listed = clone.run("-m", "zorivest_rpc", "tools", "list", "--toolsets", toolset, "--json")
    assert NAME in [tool["name"] for tool in json.loads(listed.stdout)]
    called = clone.run("-m", "zorivest_rpc", "tools", "call", NAME, "key=logging.api.level")
    assert called.returncode == 0, called.stdout
    assert json.loads(called.stdout)["key"] == "logging.api.level"

    tested = clone.run("-m", "pytest", "-x", *CONTRACT)
    assert tested.returncode == 0, tested.stdout[-4000:]


def test_make_check_fails_when_a_reference_is_stale(clone: Clone) -> None:
    pages = ("tools.md", "cli.md", "configuration.md")
    for page in pages:
        file = clone.root / "docs" / "reference" / page
        file.write_text(file.read_text() + "\nAn edit by hand.\n")
    (stale,) = clone.make("check", "tests.docs")
    assert stale.returncode == 1
    assert stale.stdout.splitlines() == [f"docs/reference/{page} is stale: run make docs" for page in pages]
