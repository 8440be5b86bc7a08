"""The command: `zorivest-rpc`, also `python -m zorivest_rpc`. No verb means stdio, and stdio takes the short way."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    from zorivest_rpc.cli.stdio import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
