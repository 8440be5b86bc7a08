"""`zorivest-rpc stop`: a person's emergency stop. No tool releases it; `zorivest-rpc unlock` does."""

from __future__ import annotations

import argparse
import sys

from zorivest_rpc.cli.admin import RequestRefused, tell
from zorivest_rpc.cli.brake import add_place, describe_lock, open_backend
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]

_UNSAVED = (
    "zorivest-rpc stop: the disk takes no more data, so the lock is in memory alone and ends with the backend. "
    "Free some space, then run stop again."
)


def run(argv: list[str]) -> int:
    """Exit code 0 stopped, 1 not stopped, 2 misused. It asks nothing: a brake is pulled at once."""
    arguments = _parser().parse_args(argv)
    try:
        body = {"reason": arguments.reason, "by": "person"}
        status = open_backend(arguments).ask("POST", "/mcp-guard/lock", body)
        if not isinstance(status, dict) or status.get("is_locked") is not True:
            raise RequestRefused("the backend took the request and still reports an open guard; NOTHING is stopped")
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc stop: {exc}", file=sys.stderr)
        return 1
    text = "Stopped: every guarded tool is refused until you run zorivest-rpc unlock."
    tell(status, f"{text}\nThe guard is {describe_lock(status)}.", arguments.json)
    if status.get("is_saved") is False:
        print(_UNSAVED, file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc stop",
        description="Lock the guard at once: no guarded tool of any client runs any more. What was locked here, a "
        "person unlocks (zorivest-rpc unlock); the tool zorivest_emergency_unlock does not.",
    )
    parser.add_argument("--reason", type=_reason, default="manual", help="why, in up to 100 characters (%(default)s)")
    add_place(parser)
    return parser


def _reason(text: str) -> str:
    if not 1 <= len(text.strip()) <= 100:
        raise argparse.ArgumentTypeError("1 to 100 characters")
    return text.strip()
