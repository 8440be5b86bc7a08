"""Keeps the memory of processes that hold keys out of core dumps.

`RLIMIT_CORE` stops the files. A handler to which the kernel pipes a dump (systemd-coredump, apport) is not bound by it,
so on Linux the process is also marked as not dumpable; other processes of the user cannot attach to it either then."""

from __future__ import annotations

import sys

__all__ = ["forbid_core_dumps"]

_PR_SET_DUMPABLE = 4


def forbid_core_dumps() -> None:
    """For this process; children that are started later inherit the limit."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        try:
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        except (ImportError, OSError, AttributeError):
            pass  # a Python without ctypes, or a libc without prctl: the limit has to do
