"""`zorivest-rpc demo load | remove`: the demo data of the embedded backend."""

from __future__ import annotations

import argparse
import sys

from zorivest_rpc.cli.admin import add_data_dir, place_of
from zorivest_rpc.errors import ConfigError, ZorivestError

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Exit code 0 done, 1 refused, 2 misused."""
    parser = argparse.ArgumentParser(prog="zorivest-rpc demo", description="Load or remove the demo data.")
    parser.add_argument("verb", choices=("load", "remove"))
    add_data_dir(parser)
    arguments = parser.parse_args(argv)
    try:
        place = place_of(arguments)
    except ConfigError:
        raise
    except ZorivestError as exc:
        print(f"zorivest-rpc demo: {exc}", file=sys.stderr)
        return 1
    from zorivest_rpc.embedded.demo.load import change

    return change(arguments.verb, place.data_dir, place.environ, wakeable=place.tenant is not None)
