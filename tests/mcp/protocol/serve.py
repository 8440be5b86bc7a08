"""Any offer on stdio: `python -m tests.mcp.protocol.serve MODULE:FUNCTION [options of zorivest-rpc stdio]`."""

from __future__ import annotations

import sys
from importlib import import_module

from zorivest_rpc.cli.stdio import serve_stdio
from zorivest_rpc.config import parse


def main() -> None:
    module, _, function = sys.argv[1].partition(":")
    serve_stdio(getattr(import_module(module), function), parse("stdio", sys.argv[2:], {"HOME": "/nonexistent"}))


if __name__ == "__main__":
    main()
