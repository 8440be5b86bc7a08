"""`zorivest-rpc uninstall CLIENT`: take this server's entry out of a client's configuration file."""

from __future__ import annotations

import argparse
import os

from zorivest_rpc.cli.install import add_shared_arguments, check_name, refuse, tell
from zorivest_rpc.clients.apply import take_out
from zorivest_rpc.clients.entries import find_client
from zorivest_rpc.clients.places import locate
from zorivest_rpc.clients.refusal import ClientFileRefused

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Exit code 0 done or nothing to do, 1 the file was refused, 2 misused."""
    arguments = _parser().parse_args(argv)
    client = find_client(arguments.client)
    name = check_name(arguments.name)
    try:
        done = take_out(client, locate(client.id, os.environ), name, dry_run=arguments.dry_run)
    except ClientFileRefused as refused:
        return refuse(client, name, refused, arguments.json)
    tell(client, name, done, [], arguments.dry_run, arguments.json)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc uninstall",
        description="Take this server's entry out of a client's configuration file. If nothing else was changed since "
        "install, the file is byte for byte what it was before.",
    )
    add_shared_arguments(parser)
    return parser
