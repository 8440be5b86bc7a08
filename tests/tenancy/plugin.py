"""`pytest --tenancy`: what runs, what is left out and why, and the switch itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from tests.tenancy.edges import PROBLEMS, problems
from tests.tenancy.imports import switch_on

__all__ = ["Tenancy"]

CHILD: Final = Path(__file__).parent / "child"
ROOT: Final = Path(__file__).parents[1]
MARKER: Final = "one_journal"
PLACES: Final = {
    "embedded": "the backend, which knows no clients",
    "tenants": "tenancy itself",
    "mcp": "the protocol machine, with offers of its own",
    "conformance": "the protocol machine, with offers of its own",
    "crash": "the backend, which knows no clients",
    "mutants": "the tools of development",
    "bench": "the tools of development",
    "browser": "the tools of development",
    "docs": "the commands and samples of the pages, which are of one journal or name their clients",
}
"""Directories that are not run once more, and what they run."""


class Tenancy:
    """Loaded with the option alone."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        _, self._file = tempfile.mkstemp(prefix="tenancy-", suffix=".problems")
        os.environ[PROBLEMS] = self._file
        switch_on()
        _switch_children(self._file)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        place = _place(collection_path)
        if place in PLACES and collection_path.is_dir():
            self.left_out[f"tests/{place}: {PLACES[place]}"] += 0
            return True
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            marker = item.get_closest_marker(MARKER)
            (kept if marker is None else dropped).append(item)
            if marker is not None:
                self.left_out[str(marker.args[0])] += 1
        items[:] = kept
        if dropped:
            config.hook.pytest_deselected(items=dropped)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        problems()
        result = yield
        if found := problems():
            pytest.fail("tenancy is on, and: " + "; ".join(dict.fromkeys(found)), pytrace=False)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):  # one of several processes, each of which collects everything
            session.config.workeroutput[MARKER] = dict(self.left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.left_out = Counter(getattr(node, "workeroutput", {}).get(MARKER, self.left_out))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("tenancy on: left out")
        for reason, count in sorted(self.left_out.items()):
            terminalreporter.line(f"{count:5d}  {reason}" if count else f"  all  {reason}")

    def pytest_unconfigure(self) -> None:
        os.unlink(self._file)


def _place(path: Path) -> str:
    return path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) and path != ROOT else ""


def _switch_children(problems_file: str) -> None:
    """Every Python process that a test starts finds `child/sitecustomize.py`, whatever environment it is given."""
    make = subprocess.Popen.__init__

    def __init__(self: Any, *words: Any, **named: Any) -> None:
        given = named.get("env")
        env = dict(os.environ if given is None else given)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHILD), env.get("PYTHONPATH"), str(ROOT.parent))))
        env[PROBLEMS] = problems_file
        named["env"] = env
        make(self, *words, **named)

    subprocess.Popen.__init__ = __init__  # type: ignore[method-assign]
