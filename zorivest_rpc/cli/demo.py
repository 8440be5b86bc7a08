"""`zorivest-rpc demo load | remove`: the demo data of the embedded backend."""

from __future__ import annotations

__all__ = ["run"]


def run(argv: list[str]) -> int:
    from zorivest_rpc.embedded.demo.load import main

    return main(argv)
