"""A process that has imported what tests need of other packages, and forks for each run of pytest.

Run as `python -m tests.mutants.zygote` in a copy of the project. Nothing of the project's own is imported before the
fork, so each run sees the files as they are then. A JSON object a line comes in: `rung`, `limit` in seconds or null,
`compile`. The exit code of pytest goes out, negative for a run that was ended because it took too long."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from importlib import import_module

# what most test modules import in the end; a name that is missing here costs time, not truth
PACKAGES = (
    *("pytest", "pytest_asyncio", "hypothesis", "hypothesis.strategies", "psutil"),
    *("aiohttp", "aiohttp.web", "aiohttp.test_utils", "uvloop", "msgspec", "orjson", "jsonschema", "jsonschema_rs"),
    *("sqlalchemy", "sqlalchemy.dialects.sqlite", "sqlcipher3", "numpy", "argon2", "PIL.Image"),
    "cryptography.hazmat.primitives.ciphers.aead",
)
# plugins that were imported before pytest cannot have their assertions rewritten; they have none that matter here
OPTIONS = ("-x", "--no-header", "-W", "ignore::pytest.PytestAssertRewriteWarning")


def run(rung: list[str], limit: float | None) -> int:
    """Run pytest in a fork with a process group of its own, and end whatever is left of the group afterwards."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # a session of its own would leave the priority group of the run
        _become_pytest(rung)
    timer = threading.Timer(limit or threading.TIMEOUT_MAX, _end_group, (child,))
    timer.start()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    timer.join()
    _end_group(child)
    return os.waitstatus_to_exitcode(status)


def _become_pytest(rung: list[str]) -> None:
    """In the fork: run pytest without a terminal, and end without returning to the loop above."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        import pytest

        code = int(pytest.main([*OPTIONS, *rung]))
    finally:
        os._exit(code)


def _end_group(leader: int) -> None:
    """A broken server may not have ended with its test."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def main() -> None:
    for name in PACKAGES:
        with suppress(ImportError):
            import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        sys.dont_write_bytecode = not request["compile"]
        if sys.dont_write_bytecode:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        print(run(request["rung"], request["limit"]), flush=True)


if __name__ == "__main__":
    main()
