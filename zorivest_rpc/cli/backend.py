"""`zorivest-rpc backend`: run the embedded backend in the foreground."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from zorivest_rpc.config import chosen_data_dir
from zorivest_rpc.embedded.runtime import GENERATION

__all__ = ["run"]


def run(argv: list[str]) -> int:
    """Run until interrupted; messages go to stderr."""
    arguments = _parser(os.environ).parse_args(argv)
    if arguments.detached and arguments.generation < GENERATION:
        # Release 0.1 is still in that server's memory, and looks for a port that this release does not publish.
        _say("the server that needs it is of an older release than the one installed now: restart that server")
        return 1
    import asyncio

    from zorivest_rpc.embedded.process import Options
    from zorivest_rpc.embedded.process import run as serve

    options = Options(
        data_dir=arguments.data_dir,
        port=arguments.port,
        idle_exit=arguments.idle_exit,
        api_key=os.environ.get("ZORIVEST_API_KEY") or None,
        use_keyring=os.environ.get("ZORIVEST_KEYRING") != "off",
        detached=arguments.detached,
        demo=arguments.demo,
        wakeable=arguments.wakeable,
    )
    try:
        return asyncio.run(serve(options, _say))
    except KeyboardInterrupt:
        return 130
    except OSError as exc:
        _say(f"cannot use {options.data_dir}: {exc.strerror or exc}")
        return 1


def _say(text: str) -> None:
    print(f"zorivest-rpc backend: {text}", file=sys.stderr, flush=True)


def _parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zorivest-rpc backend",
        description="Run the embedded backend of one data directory: an encrypted journal behind a REST interface, on "
        "a Unix socket in that directory. A second start for the same directory names the running one and ends.",
        epilog="The first start adopts ZORIVEST_API_KEY as its admin key, or makes one and keeps it in the system's "
        "keyring (not with ZORIVEST_KEYRING=off) or in a file of the data directory.",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=Path(chosen_data_dir(environ)),
        help="where the journal lives (ZORIVEST_DATA_DIR; default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        default=environ.get("ZORIVEST_BACKEND_PORT"),
        help="listen on this port of 127.0.0.1 instead of a socket in the data directory, 0 for any free one "
        "(ZORIVEST_BACKEND_PORT; where there are no such sockets: 8765, or any if that is taken)",
    )
    parser.add_argument(
        "--idle-exit",
        type=_seconds,
        default=environ.get("ZORIVEST_IDLE_EXIT", "0"),
        help="end after so many seconds without use, 0 for never (ZORIVEST_IDLE_EXIT; default: %(default)s)",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        default=environ.get("ZORIVEST_DEMO") in ("1", "true", "yes"),
        help="load the demo data first, if it is not there (ZORIVEST_DEMO=1)",
    )
    parser.add_argument("--wakeable", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--generation", type=int, default=1, help=argparse.SUPPRESS)
    return parser


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65_535:
        raise argparse.ArgumentTypeError(f"{value} is not a port")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return value


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
