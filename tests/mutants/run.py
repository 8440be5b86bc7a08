"""Tries mutants on copies of the project, the narrowest tests first.

A copy is the committed and changed files of the clone. A mutant is one changed file in a copy; the tests of its module
run there rung by rung and stop at the first failure. A mutant that no rung notices is a survivor, and a survivor is a
finding unless `equivalent.json` says, with a reason, that the change makes no difference.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from random import Random

from tests.mutants.operators import Mutant, find_mutants

__all__ = ["HERE", "ROOT", "Finding", "Plan", "load_equivalents", "load_plans", "sample", "try_module"]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# a mutant may loop for ever: it counts as noticed once it has taken this many times as long as the unchanged module
PATIENCE = 4.0
LEAST_SECONDS = 30.0
# what may differ between two runs of the same tests must not differ between two mutants
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Plan:
    """A module and its tests, from the narrowest to the widest."""

    module: str
    rungs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Finding:
    """What became of one mutant."""

    module: str
    mutant: Mutant
    noticed_by: str | None
    reason: str | None = None

    @property
    def is_survivor(self) -> bool:
        return self.noticed_by is None and self.reason is None


def load_plans(path: Path = HERE / "modules.json") -> list[Plan]:
    table: dict[str, list[str]] = json.loads(path.read_text())
    return [Plan(module, tuple(tuple(rung.split()) for rung in rungs)) for module, rungs in table.items()]


def load_equivalents(path: Path = HERE / "equivalent.json") -> dict[str, dict[tuple[str, str, str], str]]:
    """Module -> (function, line before, line after) -> why no test could notice it."""
    table: dict[str, list[dict[str, str]]] = json.loads(path.read_text())
    return {
        module: {(row["function"], row["before"], row["after"]): row["reason"] for row in rows}
        for module, rows in table.items()
    }


def sample(plan: Plan, count: int | None, seed: int) -> list[Mutant]:
    """A module's mutants; `count` of them, the same ones for the same seed and text."""
    mutants = find_mutants((ROOT / plan.module).read_bytes())
    if count is None or count >= len(mutants):
        return mutants
    chosen = Random(f"{seed}/{plan.module}").sample(mutants, count)
    return sorted(chosen, key=lambda mutant: mutant.start)


def try_module(
    plan: Plan, mutants: list[Mutant], equivalents: dict[tuple[str, str, str], str], workers: int
) -> Iterator[Finding]:
    """Run the tests on every mutant that is not known to be equivalent; yield findings as they come."""
    pending: list[Mutant] = []
    for mutant in mutants:
        if mutant.key in equivalents:
            yield Finding(plan.module, mutant, None, equivalents[mutant.key])
        else:
            pending.append(mutant)
    if not pending:
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory, ExitStack() as stack:
        free: SimpleQueue[_Copy] = SimpleQueue()
        first = stack.enter_context(closing(_Copy(Path(directory) / "0")))
        limits = first.measure(plan)
        free.put(first)
        for number in range(1, workers):
            free.put(stack.enter_context(closing(_Copy(Path(directory) / str(number), first.root))))

        def judge(mutant: Mutant) -> Finding:
            copy = free.get()
            try:
                return Finding(plan.module, mutant, copy.noticed_by(plan, mutant, limits))
            finally:
                free.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(judge, pending)


class _Copy:
    """A copy of the project in which one module at a time is changed."""

    def __init__(self, root: Path, source: Path | None = None) -> None:
        self.root = root
        if source is None:
            self._copy_project()
        else:
            shutil.copytree(source, root, symlinks=True)
        self._zygote = self._start_zygote()

    def _copy_project(self) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for name in listed.stdout.splitlines():
            self._take(name)

    def _take(self, name: str) -> None:
        """Copy a file and what was compiled of it; compiling the package for each mutant takes seconds."""
        names = [name, os.path.relpath(cache_from_source(ROOT / name), ROOT)] if name.endswith(".py") else [name]
        for each in names:
            if (ROOT / each).is_file():
                (self.root / each).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / each, self.root / each)

    def measure(self, plan: Plan) -> list[float]:
        """The time limit of each rung. A rung that fails on the unchanged module would notice everything."""
        limits = []
        for rung in plan.rungs:
            started = time.monotonic()
            code = self._run(rung, None, compile_files=True)
            if code != 0:
                raise SystemExit(
                    f"{plan.module}: {' '.join(rung)} fails without a change (exit {code}); mend that first"
                )
            limits.append(max(LEAST_SECONDS, PATIENCE * (time.monotonic() - started)))
        # a compiled file is trusted by time and size, and a mutant may have both in common with its module
        Path(cache_from_source(self.root / plan.module)).unlink(missing_ok=True)
        return limits

    def noticed_by(self, plan: Plan, mutant: Mutant, limits: list[float]) -> str | None:
        path = self.root / plan.module
        source = path.read_bytes()
        path.write_bytes(mutant.apply(source))
        try:
            for rung, limit in zip(plan.rungs, limits, strict=True):
                if self._run(rung, limit) != 0:
                    return " ".join(rung)
            return None
        finally:
            path.write_bytes(source)

    def _run(self, rung: tuple[str, ...], limit: float | None, *, compile_files: bool = False) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        request = {"rung": rung, "limit": limit, "compile": compile_files}
        self._zygote.stdin.write(json.dumps(request) + "\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())

    def _start_zygote(self) -> subprocess.Popen[str]:
        home = self.root / ".home"
        home.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.zygote"],
            cwd=self.root,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(self.root), "HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        with self._zygote:  # closes its stdin, at which it ends, and waits
            pass
