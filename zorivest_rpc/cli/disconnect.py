"""`zorivest-rpc disconnect`: delete the key of a provider, the credentials of a broker or the mail account for good."""

from __future__ import annotations

import sys

from zorivest_rpc.cli.admin import tell
from zorivest_rpc.cli.connections import Parser, backend_of, find_connection, place, read_words
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Exit code 0 done or nothing to do, 1 refused or unreachable, 2 misused."""
    arguments = read_words(_parser(), argv)
    kind = arguments.kind
    try:
        backend = backend_of(arguments)
        listed = backend.ask("GET", "/connections")
        entry = listed["mail"] if kind == "mail" else find_connection(listed, kind, arguments.name)
        who = "mail" if kind == "mail" else entry["display_name"]
        if kind == "mail" and not entry["connected"]:
            status, text = "not_connected", "mail: was not connected"
        else:
            backend.ask("DELETE", "/scheduling/email" if kind == "mail" else place(kind, entry, "key"))
            done = ["what was entered is deleted"] if entry["credentials"] else []
            if kind == "provider" or not done:
                done.append("it is switched off")
            status, text = "disconnected", f"{who}: {', and '.join(done)}"
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc disconnect: {exc}", file=sys.stderr)
        return 1
    told = {"status": status, "kind": kind, "name": None if kind == "mail" else entry["name"]}
    tell(told, text, arguments.json)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "disconnect",
        "Delete what was entered for a provider, a broker or the mail server of the embedded backend. A provider or "
        "folder that takes nothing is switched off; connect switches it on again.",
    )
    parser.add_argument("kind", nargs="?", help="provider, broker or mail")
    parser.add_argument("name", nargs="?", help="which provider or broker")
    return parser
