"""Stands between an agent and the command it starts, and keeps every line of both directions.

`python tee.py RECORD COMMAND…`: a line of RECORD is `{"run": …, "from": "client" | "server", "line": …}`, in the order
in which the lines passed; `run` tells apart the servers that one agent started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import IO


def copy(side: str, source: IO[bytes], target: IO[bytes], record: IO[bytes], lock: threading.Lock) -> None:
    for line in source:
        with lock:  # a server answers only what it has read, so what is written down first was said first
            record.write(json.dumps({"run": os.getpid(), "from": side, "line": line.decode()}).encode() + b"\n")
            record.flush()
        try:
            target.write(line)
            target.flush()
        except BrokenPipeError:
            break
    if side == "client":
        target.close()


def main(record: str, command: list[str]) -> int:
    lock = threading.Lock()
    with open(record, "ab") as file, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        inward = threading.Thread(target=copy, args=("client", sys.stdin.buffer, child.stdin, file, lock), daemon=True)
        inward.start()
        copy("server", child.stdout, sys.stdout.buffer, file, lock)
        return child.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
