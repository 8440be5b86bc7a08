"""`zorivest-rpc demo`: load or remove the demo data of the embedded backend."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Exit code 0 done, 1 refused or unreachable, 2 misused."""
    from zorivest_rpc.embedded.demo import main as run

    return run(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
