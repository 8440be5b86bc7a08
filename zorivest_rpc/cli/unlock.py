"""`zorivest-rpc unlock`: release the guard's lock, also one that a person set; only a person at a terminal can."""

from __future__ import annotations

import argparse
import sys

from zorivest_rpc.cli.admin import RequestRefused, tell
from zorivest_rpc.cli.brake import add_place, describe_lock, open_backend
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Exit code 0 open, 1 refused, declined or unreachable, 2 misused."""
    arguments = _parser().parse_args(argv)
    try:
        backend = open_backend(arguments)
        status = backend.ask("GET", "/mcp-guard/status")
        if not status["is_locked"]:
            tell(status, "The guard is open; there is nothing to unlock.", arguments.json)
            return 0
        print(f"The guard is {describe_lock(status)}.", file=sys.stderr)
        if not sys.stdin.isatty():  # no program unlocks by piping the word in
            raise RequestRefused("unlocking needs a person at a terminal")
        if not _agrees():
            print("Still locked.", file=sys.stderr)
            return 1
        # Only the lock that was shown: a newer one has not been agreed to.
        body = {"by": "person", "locked_at": status.get("locked_at")}
        status = backend.ask("POST", "/mcp-guard/unlock", body)
        if status["is_locked"]:
            raise RequestRefused("the guard was locked again meanwhile")
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc unlock: {exc}", file=sys.stderr)
        return 1
    tell(status, "Unlocked: guarded tools work again.", arguments.json)
    return 0


def _agrees() -> bool:
    print('Type "unlock" to let tools work again: ', end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "unlock"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc unlock",
        description="Show who locked the guard and why, and unlock it after you typed the word. It needs a terminal.",
    )
    add_place(parser)
    return parser
