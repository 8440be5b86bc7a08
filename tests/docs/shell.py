"""The commands of a page as one script, run the way a reader would: an empty home, the product first in the path."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.places import ROOT
from zorivest_rpc.embedded.locate import find

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SERVED_AT, SHOWN_AT = "8766", "8768"  # in the pages; the tests take free ports instead
SECONDS = 120
PREAMBLE = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"


class Block(NamedTuple):
    """A fenced block: its language, the words after it, and what is inside."""

    language: str
    words: str
    inside: str


def blocks(page: Path) -> list[Block]:
    found = []
    for info, inside in FENCE.findall(page.read_text()):
        language, _, words = info.strip().partition(" ")
        found.append(Block(language, words, inside))
    return found


class Machine:
    """A machine as a reader has it after `make setup`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = _free_port()
        (home / "bin").mkdir(parents=True)
        (home / ".venv").mkdir()
        (home / ".venv" / "bin").symlink_to(home / "bin")
        command = home / "bin" / "zorivest-rpc"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zorivest_rpc "$@"\n')
        command.chmod(0o755)
        (home / "chart.png").write_bytes(_picture())
        self.environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("ZORIVEST_", "XDG_", "CLAUDE", "CODEX_", "CLINE_"))
        }
        self.environ |= {
            "HOME": str(home),
            "PATH": os.pathsep.join((str(home / "bin"), str(Path(sys.executable).parent), self.environ["PATH"])),
            "PYTHONPATH": str(ROOT),
            "ZORIVEST_KEYRING": "off",
            "ZORIVEST_PORT": str(self.port),
        }

    def run(self, page: Path) -> str:
        """What the page's `sh` blocks print, run from top to bottom in one shell; the first that fails, fails."""
        script = "\n".join(block.inside for block in blocks(page) if block.language == "sh")
        script = script.replace(SERVED_AT, str(self.port)).replace(SHOWN_AT, str(_free_port()))
        assert script, f"{page.name} has no commands"
        shell = subprocess.Popen(
            ["bash", "-c", PREAMBLE + script],
            cwd=self.home,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = shell.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)  # the page's own servers with it; the group is ours alone
            said, _ = shell.communicate()
            raise AssertionError(f"{page.name} did not end: {said[-3000:]}") from None
        assert shell.returncode == 0, f"{page.name}: {said[-3000:]}"
        return said

    def secrets(self) -> list[str]:
        """The keys that a page left in files."""
        return [json.loads(file.read_text())["raw_key"] for file in self.home.glob("key.json")]


@contextmanager
def machine(home: Path) -> Iterator[Machine]:
    """A machine whose backends are stopped at the end, wherever the page put them."""
    made = Machine(home)
    try:
        yield made
    finally:
        running = [found for runtime in home.rglob("runtime.json") if (found := find(runtime.parent))]
        processes = [psutil.Process(backend.pid) for backend in running]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(30)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _picture() -> bytes:
    """A small blue PNG, the reader's chart."""
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x20\x80\xff" * 8) * 8)
    parts = ((b"IHDR", head), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
