"""What `connect` and `disconnect` share: their words, whose backend they are for, and which connection a name means."""

from __future__ import annotations

import argparse
import urllib.parse
from typing import Any, NoReturn

from zorivest_rpc.cli.admin import Admin, RequestRefused, add_data_dir, place_of
from zorivest_rpc.config import parse

__all__ = ["Parser", "backend_of", "describe", "find_connection", "place", "read_words"]

_LISTS = {"provider": "providers", "broker": "brokers"}
KINDS = (*_LISTS, "mail")


class Parser(argparse.ArgumentParser):
    """An argument parser that repeats no word it does not know: it may be a key."""

    def __init__(self, command: str, description: str, **options: Any) -> None:

        super().__init__(prog=f"zorivest-rpc {command}", description=description, allow_abbrev=False, **options)
        self.add_argument("--json", action="store_true", help="print JSON for programs")
        self.add_argument("--passphrase", action="store_true", help="open the journal with its passphrase, typed first")
        add_data_dir(self)
        self.add_argument("--api-url", help=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        head, explicit, _ = message.partition("ignored explicit argument")
        super().error(f"{head}takes no value" if explicit else message)


def read_words(parser: Parser, argv: list[str], *, list_without: bool = False) -> argparse.Namespace:
    """The command line; misuse ends the program with code 2 and without repeating what was typed."""
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.error("there are more words or options than it takes; a key is asked for, it is never an argument")
    if arguments.kind is None and list_without:
        return arguments
    if arguments.kind not in KINDS:
        parser.error(f"the first word is one of {', '.join(KINDS)}")
    if (arguments.kind == "mail") != (arguments.name is None):
        parser.error("mail takes no name" if arguments.name else f"which {arguments.kind}? zorivest-rpc connect lists")
    return arguments


def backend_of(arguments: argparse.Namespace) -> Admin:
    if arguments.tenant is None and (arguments.api_url or parse("stdio", []).api_url):
        raise RequestRefused(
            "this command is for the embedded backend, and an API URL is set: the keys of that Zorivest are entered "
            "there (without --api-url and ZORIVEST_API_URL it is the embedded one)"
        )
    return Admin.at(place_of(arguments), by_passphrase=arguments.passphrase, timeout=180)


def find_connection(listed: Any, kind: str, name: str) -> Any:
    """The connection of this name, in any case and spelling; Refused with the names that are near."""
    entries = listed[_LISTS[kind]]
    wanted = _fold(name)
    for entry in entries:
        if wanted in map(_fold, (entry["name"], *entry["aliases"])):
            if entry.get("files_only"):
                raise RequestRefused(
                    f"{entry['display_name']} has no connection; its trades are imported from files (import_broker_csv)"
                )
            return entry
    from zorivest_rpc.mcp.catalog.names import nearest

    names = [entry["name"] for entry in entries]
    near = [known for known in names if wanted and _fold(known).startswith(wanted)] or [nearest(name, names)]
    hint = f"did you mean {' or '.join(filter(None, near))}?" if any(near) else "zorivest-rpc connect lists the names"
    raise RequestRefused(f"there is no {kind} of that name; {hint}")


def place(kind: str, entry: Any, *further: str) -> str:
    """The path of a connection's route."""
    root = "/market-data/providers" if kind == "provider" else "/brokers"
    return "/".join((root, urllib.parse.quote(entry["name"], safe=""), *further))


def describe(credentials: Any) -> str:
    """The labels, those in brackets that may be left out."""
    return ", ".join(one["label"] if one["required"] else f"[{one['label']}]" for one in credentials) or "nothing"


def _fold(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())
