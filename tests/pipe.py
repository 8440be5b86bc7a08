"""A conversation with a server on stdin and stdout that lasts until every request has its answer.

Closing stdin is a client's end: the server gives running calls a second then and ends within two, so a test that sends
everything and closes at once measures how busy the machine is."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Conversation", "converse"]


class Conversation(NamedTuple):
    """What a server wrote, and how it ended."""

    lines: list[str]
    stderr: str
    code: int

    @property
    def answers(self) -> dict[Any, Any]:
        """By the id of the request."""
        return {answer["id"]: answer for answer in map(json.loads, self.lines) if "id" in answer}


def converse(
    command: Sequence[str],
    *messages: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    patience: float = 120,
) -> Conversation:
    """Send the messages, wait for the answers to those with an id, then close stdin and wait for the end.

    A server that does not answer is killed after `patience` seconds; what it wrote until then is returned."""
    waited = {message["id"] for message in messages if "id" in message}
    lines: list[str] = []
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=env,
            cwd=cwd,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        end = threading.Timer(patience, process.kill)
        end.start()
        try:
            process.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
            process.stdin.flush()
            while waited and (line := process.stdout.readline()):
                lines.append(line.rstrip("\n"))
                waited.discard(json.loads(line).get("id"))
            rest, _ = process.communicate()
            lines += rest.splitlines()
        finally:
            end.cancel()
            process.kill()
            process.wait()
        errors.seek(0)
        return Conversation(lines, errors.read().decode(errors="replace"), process.returncode)
