"""Where an agent lives during a run: a home, a project and a journal of its own, and nothing but this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.conformance import node
from zorivest_rpc.embedded.locate import find

NOWHERE = "http://127.0.0.1:9"  # the discard port: whatever an agent wants of the internet fails at once


class Home(NamedTuple):
    """`record` is the file that tee.py fills."""

    root: Path
    project: Path
    data: Path
    record: Path
    errors: Path

    @classmethod
    def make(cls, root: Path) -> Home:
        home = cls(root, root / "project", root / "data", root / "record.jsonl", root / "errors.log")
        home.project.mkdir(parents=True)
        return home

    def server(self) -> list[str]:
        """The installed command, with its lines written down on the way."""
        tee = Path(__file__).with_name("tee.py")
        command = Path(sys.executable).with_name("zorivest-rpc")
        return [sys.executable, str(tee), str(self.record), str(command), "stdio", "--data-dir", str(self.data)]

    def environment(self, **more: str) -> dict[str, str]:
        """No variable of ours but the path: no key, no proxy, no setting of the machine's user."""
        return {
            "PATH": os.pathsep.join([str(node.node().parent), os.environ.get("PATH", "")]),
            "HOME": str(self.root),
            "XDG_CONFIG_HOME": str(self.root / ".config"),
            "XDG_DATA_HOME": str(self.root / ".local/share"),
            "XDG_CACHE_HOME": str(self.root / ".cache"),
            "XDG_STATE_HOME": str(self.root / ".local/state"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "CI": "1",
            "ZORIVEST_KEYRING": "off",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
            **more,
        }

    def load_demo(self) -> None:
        command = Path(sys.executable).with_name("zorivest-rpc")
        done = subprocess.run(
            [str(command), "demo", "load", "--data-dir", str(self.data)],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the demo data could not be loaded:\n{done.stderr}")

    def stop_backend(self) -> None:
        """End the journal's process, which the demo data started."""
        located = find(self.data)
        if located is not None:
            os.kill(located.pid, signal.SIGTERM)

    def messages(self) -> list[tuple[str, dict[str, object]]]:
        """What passed between the agent and the server: (who said it, the message).

        Gemini CLI starts the server twice, once to look at it; the longest conversation is the one that counts."""
        runs: dict[int, list[tuple[str, dict[str, object]]]] = {}
        for line in map(json.loads, self.record.read_text().splitlines()):
            if line["line"].strip():
                runs.setdefault(line["run"], []).append((line["from"], json.loads(line["line"])))
        return max(runs.values(), key=len)
