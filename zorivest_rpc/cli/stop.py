"""`zorivest-rpc stop`: a person's emergency stop. No tool releases it; `zorivest-rpc unlock` does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from zorivest_rpc.cli.admin import RequestRefused, tell
from zorivest_rpc.cli.brake import add_place, clients_meant, describe_lock, open_backend
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]

_AT_ONCE: Final = 8
_UNSAVED = (
    "zorivest-rpc stop: the disk takes no more data, so the lock is in memory alone and ends with the backend. "
    "Free some space, then run stop again."
)


def run(argv: list[str]) -> int:
    """Exit code 0 stopped, 1 not stopped, 2 misused. It asks nothing: a brake is pulled at once."""
    arguments = _parser().parse_args(argv)
    if (ids := clients_meant(arguments)) is not None:
        return _stop_all(arguments, ids)
    try:
        status = _lock(arguments)
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


def _lock(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The guard's state, once it is locked."""
    body = {"reason": arguments.reason, "by": "person"}
    status = open_backend(arguments).ask("POST", "/mcp-guard/lock", body)
    if not isinstance(status, dict) or status.get("is_locked") is not True:
        raise RequestRefused("the backend took the request and still reports an open guard; NOTHING is stopped")
    return status


def _stop_all(arguments: argparse.Namespace, ids: list[str]) -> int:
    """Every client at once: to wait for one that does not answer would leave the others open."""

    def stop(id: str) -> Mapping[str, Any] | ZorivestError:
        try:
            return _lock(argparse.Namespace(**{**vars(arguments), "tenant": id}))
        except ZorivestError as exc:
            return exc

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = dict(zip(ids, pool.map(stop, ids), strict=True))
    locked = {id: each for id, each in results.items() if not isinstance(each, ZorivestError)}
    told = [
        {"id": id, **locked[id]} if id in locked else {"id": id, "is_locked": False, "error": str(each)}
        for id, each in results.items()
    ]
    lines = [f"{id}: {describe_lock(status)}" for id, status in locked.items()]
    if len(locked) == len(ids):
        lines.insert(
            0, "Stopped: every guarded tool is refused until you run zorivest-rpc unlock --tenant ID for each."
        )
    tell({"is_locked": len(locked) == len(ids), "clients": told}, "\n".join(lines), arguments.json)
    for id, each in results.items():
        if isinstance(each, ZorivestError):
            print(f'zorivest-rpc stop: client "{id}" is NOT stopped: {each}', file=sys.stderr)
        elif each.get("is_saved") is False:
            print(f'client "{id}": {_UNSAVED}', file=sys.stderr)
    return 0 if len(locked) == len(ids) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc stop",
        description="Lock the guard at once: no guarded tool of any client runs any more. On a server with several "
        "clients that is the guard of each of them, or with --tenant of one. What was locked here, a "
        "person unlocks (zorivest-rpc unlock); the tool zorivest_emergency_unlock does not.",
    )
    parser.add_argument("--reason", type=_reason, default="manual", help="why, in up to 100 characters (%(default)s)")
    add_place(parser)
    return parser


def _reason(text: str) -> str:
    if not 1 <= len(text.strip()) <= 100:
        raise argparse.ArgumentTypeError("1 to 100 characters")
    return text.strip()
