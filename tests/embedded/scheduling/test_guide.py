"""Every command of the page on scheduling works as written, at a terminal with somebody who answers its questions."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

from tests.docs.shell import SECONDS, blocks, machine
from tests.places import ROOT

GUIDE = ROOT / "docs" / "guide" / "scheduling.md"
PASSWORD = "an-app-password"
ANSWERS = {b'Type "approve" to let it run: ': b"approve\n", b"Password: ": PASSWORD.encode() + b"\n"}


def at_a_terminal(script: str, home: Path, environ: dict[str, str]) -> tuple[int, str]:
    """What a terminal shows while the script runs; its questions are answered when they are asked."""
    ours, theirs = pty.openpty()
    take = f"exec 0<>{os.ttyname(theirs)} 1>&0 2>&0\n"  # the first terminal that a new session opens is its own
    shell = subprocess.Popen(["bash", "-c", take + script], cwd=home, env=environ, start_new_session=True)
    said, answered, ends = b"", 0, time.monotonic() + SECONDS
    try:
        while time.monotonic() < ends:
            if not select.select([ours], [], [], 1.0)[0]:
                continue
            try:
                said += os.read(ours, 65536)
            except OSError:  # the other end is closed: everybody has gone
                break
            if said and theirs >= 0:
                os.close(theirs)  # held open until the shell has it too
                theirs = -1
            for question, answer in ANSWERS.items():
                if question in said[answered:]:
                    answered = said.index(question, answered) + len(question)
                    os.write(ours, answer)
        else:
            os.killpg(shell.pid, signal.SIGKILL)  # the group is ours alone
        return shell.wait(30), said.decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            shell.kill()
        os.close(ours)


def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    with machine(tmp_path / "home") as reader:
        script = "set -euo pipefail\n" + "\n".join(block.inside for block in blocks(GUIDE) if block.language == "sh")
        code, said = at_a_terminal(script, reader.home, reader.environ)
    assert code == 0, said[-3000:]
    assert "waits for a person's approval" in said
    assert 'Approved "Weekly review". Next run:' in said
    reports = [path.suffix for path in (reader.home / ".local/share/zorivest/reports").iterdir()]
    assert sorted(reports) == [".html", ".pdf"]
    assert '"status": "success"' in said
    assert "mail: stored; from me@gmail.com through smtp.gmail.com:587 (starttls)" in said
    assert PASSWORD not in said
