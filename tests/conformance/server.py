"""The conformance fixture server: `python -m tests.conformance.server --port PORT` serves /mcp, without a key."""

from __future__ import annotations

import sys
import tempfile

from tests.conformance.fixtures import build
from zorivest_rpc.cli.serve import serve_http
from zorivest_rpc.config import parse


def main() -> int:
    with tempfile.TemporaryDirectory() as data:
        return serve_http(build, parse("serve", ["--no-auth", "--data-dir", data, *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
