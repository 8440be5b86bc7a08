"""`zorivest-rpc install CLIENT`: write this server's entry into a client's configuration file."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Mapping

from zorivest_rpc.clients.apply import Done, put_in
from zorivest_rpc.clients.command import check_url, own_command, server_options, starts_anywhere
from zorivest_rpc.clients.entries import CLIENTS, KEY_VARIABLE, Client, Launch, find_client
from zorivest_rpc.clients.places import locate
from zorivest_rpc.clients.refusal import ClientFileRefused
from zorivest_rpc.errors import ConfigError

__all__ = ["add_shared_arguments", "check_name", "refuse", "run", "tell"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")


def run(argv: list[str]) -> int:
    """Exit code 0 done or nothing to do, 1 the file was refused, 2 misused."""
    split = argv.index("--") if "--" in argv else len(argv)
    arguments, options = _parser().parse_args(argv[:split]), argv[split + 1 :]
    client = find_client(arguments.client)
    name = check_name(arguments.name)
    launch = _launch(client, arguments, options, os.environ)
    try:
        if launch.command and not starts_anywhere(launch.command, os.environ):
            root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
            next = f"Install it first: {launch.command[0]} -m pip install {shlex.quote(root)}"
            raise ClientFileRefused("this program is not installed, so a client could not start it", next)
        done = put_in(client, locate(client.id, os.environ), name, launch, dry_run=arguments.dry_run)
    except ClientFileRefused as refused:
        return refuse(client, name, refused, arguments.json)
    notes = [] if done.status == "unchanged" else [client.restart, *_notes(launch, os.environ)]
    tell(client, name, done, notes, arguments.dry_run, arguments.json)
    return 0


def add_shared_arguments(parser: argparse.ArgumentParser) -> None:
    """What install and uninstall have in common."""
    parser.add_argument("client", metavar="CLIENT", help=", ".join(client.id for client in CLIENTS))
    parser.add_argument("--name", default="zorivest", help="the entry's name (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="show the change and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError("--name", "takes a letter and then at most 31 letters, digits, - and _")
    return name


def tell(client: Client, name: str, done: Done, notes: list[str], dry_run: bool, as_json: bool) -> None:
    """What was done, or would be."""
    if as_json:
        from zorivest_rpc.cli.terminal import print_json

        facts = {"client": client.id, "name": name, "status": done.status, "file": done.file, "backup": done.backup}
        print_json({**facts, "dry_run": dry_run, "diff": done.diff, "notes": notes})
        return
    if done.status == "unchanged":
        print(f'{client.title}: nothing to change for "{name}" in {done.file}')
        return
    if dry_run:
        print(done.diff)
        print(f'{client.title}: "{name}" would be {done.status} in {done.file}; nothing was written')
        return
    print(f'{client.title}: "{name}" {done.status} in {done.file}')
    if done.backup:
        print(f"The file as it was: {done.backup}")
    for note in notes:
        print(note)


def refuse(client: Client, name: str, refused: ClientFileRefused, as_json: bool) -> int:
    """The file stays as it is; say what is wrong, where, and what to do."""
    if as_json:
        from zorivest_rpc.cli.terminal import print_json

        facts = {"client": client.id, "name": name, "status": "refused", "where": refused.where}
        print_json({**facts, "problem": refused.problem, "next": refused.next})
    else:
        print(f"zorivest-rpc: {refused}", file=sys.stderr)
    return 1


def _launch(client: Client, arguments: argparse.Namespace, given: list[str], environ: Mapping[str, str]) -> Launch:
    if not arguments.http:
        if arguments.no_auth:
            raise ConfigError("--no-auth", "goes with --http; a server that the client starts asks for no key")
        options = server_options(given, environ)
        return Launch((*own_command(), *options), keyed="--api-url" in options)
    if given:
        raise ConfigError("--", "server options go to the server itself when --http names one that runs already")
    if client.remote != "yes":
        raise ConfigError("--http", f"not for {client.title}: {client.remote}")
    if client.keyed_remote != "yes" and not arguments.no_auth:
        raise ConfigError("--http", f"not for {client.title}: {client.keyed_remote}")
    return Launch(url=check_url(arguments.http, "--http"), keyed=not arguments.no_auth)


def _notes(launch: Launch, environ: Mapping[str, str]) -> list[str]:
    if not launch.keyed:
        return []
    have = "" if environ.get(KEY_VARIABLE) else f" ({KEY_VARIABLE} is not set here)"
    return [f"The key is not in the file: start the client with {KEY_VARIABLE} in its environment{have}."]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc install",
        usage="zorivest-rpc install CLIENT [options] [-- options of zorivest-rpc stdio]",
        description="Write this server's entry into a client's configuration file. Everything else in the file stays "
        "as it is, the file from before is kept beside it, and no key is ever written.",
        epilog="Options for the server itself follow --: zorivest-rpc install cursor -- --toolsets core --read-only",
    )
    add_shared_arguments(parser)
    parser.add_argument("--http", metavar="URL", help="a server that runs already, such as http://127.0.0.1:8766/mcp")
    parser.add_argument("--no-auth", action="store_true", help="with --http: that server asks for no key")
    return parser
