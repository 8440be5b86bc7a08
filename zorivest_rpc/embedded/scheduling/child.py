"""A script of ours in a process of its own: given its input on stdin, killed when it takes too long."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

__all__ = ["run_child"]


async def run_child(script: Path, data: bytes, seconds: float) -> tuple[bytes, int | None]:
    """What it wrote, and the code it ended with; TimeoutError when it did not end in time.

    It gets nothing of this process's environment, and ends with the caller whatever happens."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(script)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in ("SYSTEMROOT", "LANG") if name in os.environ},
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await child.communicate(data)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return output, child.returncode
