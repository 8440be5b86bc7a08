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
from typing import Any

import pytest

from tests.catalogue import ALL, META, toolsets
from tests.places import ROOT
from tests.serving.product.test_new_tool import TOOL
from zorivest_rpc.embedded.locate import find

PARTS = ("Makefile", "README.md", "pyproject.toml", "zorivest_rpc", "schemas", "docs", "tests")
READER = "read_one_setting"
WRITER: dict[str, Any] = {  # what a reader is not: it writes, asks first and deletes; no other tool has its route
    "name": "forget_trade_plan",
    "title": "Forget trade plan",
    "description": {
        "minimal": "Delete one trade plan for good, after the user has confirmed it.",
        "rich": (
            "Delete one trade plan for good, after the user has confirmed it. Use when a plan was entered by mistake. "
            'Not for making another one, which create_trade_plan does. Example: {"plan_id":"999999"}. What is '
            "deleted does not come back."
        ),
    },
    "inputSchema": {
        "type": "object",
        "properties": {
            "plan_id": {"type": "string", "description": "Number of the plan.", "minLength": 1},
            "confirmation_token": {"type": "string", "description": "One-time token.", "minLength": 1},
        },
        "required": ["plan_id"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
    "confirm": True,
    "rest": "DELETE /trade-plans/{plan_id}",
}
ADDED: dict[str, dict[str, Any]] = {"trade-analytics": TOOL, "behavioral": WRITER}  # listed by default, and not listed
CONTRACT = (  # what counts, orders, presents, guards and documents tools
    "tests/golden",
    "tests/docs/test_docs.py",
    "tests/docs/test_examples.py",
    "tests/embedded/test_routes.py",
    "tests/serving/catalog/test_contract.py",
    "tests/serving/catalog/test_search.py",
    "tests/serving/catalog/test_spec.py",
    "tests/serving/catalog/test_toolsets.py",
    "tests/serving/middleware/test_guard.py",
    "tests/serving/modes",
    "tests/serving/tools/test_registration.py",
    "tests/serving/tools/test_resources.py",
    "tests/serving/tools/test_rest.py",
    "tests/serving/product/test_lists.py",
)
# The suite itself keeps the limit; a tool more on the copy would break it when the shipped ones fill it.
LIMIT = "tests/serving/product/test_lists.py::test_by_default_at_most_forty_tools_are_listed"
SECONDS = 600  # for one command on a busy machine; a quiet one needs less than 30 for all of them

pytestmark = [pytest.mark.slow, pytest.mark.one_journal("runs the tools of development on a copy")]


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


def test_a_file_in_a_default_toolset_and_one_in_another_and_make_golden_docs_add_two_tools(clone: Clone) -> None:
    for toolset, tool in ADDED.items():
        path = clone.root / "schemas" / "tools" / toolset / f"{tool['name']}.json"
        path.write_text(json.dumps(tool, indent=2) + "\n")
    (stale,) = clone.make("check", "tests.docs")
    assert stale.returncode == 1, "the page that lacks the new tools is stale"
    assert "docs/reference/tools.md is stale: run make docs" in stale.stdout

    for done in (*clone.make("golden"), *clone.make("docs")):
        assert done.returncode == 0, done.stderr

    page = (clone.root / "docs" / "reference" / "tools.md").read_text()
    parts = {}
    for tool in ADDED.values():
        golden = json.loads((clone.root / "tests" / "golden" / "tools" / f"{tool['name']}.json").read_text())
        assert len(golden) == 6, "three modes in two eras"
        parts[tool["name"]] = page.partition(f"### {tool['name']}\n")[2].partition("\n### ")[0]
        assert tool["description"]["rich"] in parts[tool["name"]]
    assert '{"key": "ui.theme", "value": "dark"' in parts[READER], "a real result"
    assert "is refused with" in parts[WRITER["name"]], "there is no such plan, and the page says so"
    assert page.startswith("<!-- generated")
    assert f"{ALL - META + len(ADDED)} tools in {len(toolsets())} toolsets" in page
    assert [check.returncode for check in clone.make("check", "tests.docs")] == [0]

    lists = json.loads((clone.root / "tests" / "golden" / "lists.json").read_text())
    assert [READER in lists["default"], WRITER["name"] in lists["default"]] == [True, False]
    assert {READER, WRITER["name"]} < set(lists["all"])
    called = clone.run("-m", "zorivest_rpc", "tools", "call", READER, "key=logging.api.level")
    assert called.returncode == 0, called.stdout
    assert json.loads(called.stdout)["key"] == "logging.api.level"

    tested = clone.run("-m", "pytest", "-x", *CONTRACT, "--deselect", LIMIT)
    assert tested.returncode == 0, tested.stdout[-4000:]


def test_make_check_fails_when_a_reference_is_stale(clone: Clone) -> None:
    pages = ("tools.md", "cli.md", "configuration.md")
    for page in pages:
        file = clone.root / "docs" / "reference" / page
        file.write_text(file.read_text() + "\nAn edit by hand.\n")
    (stale,) = clone.make("check", "tests.docs")
    assert stale.returncode == 1
    assert stale.stdout.splitlines() == [f"docs/reference/{page} is stale: run make docs" for page in pages]
