"""`zorivest-rpc version`: version, Python, revisions served."""

from __future__ import annotations

import platform
import sys

from zorivest_rpc import __version__
from zorivest_rpc.cli.words import Words

__all__ = ["run"]


USAGE = "usage: zorivest-rpc version [--json]"


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(USAGE)
        return 0
    words = Words(argv, flags=())
    if words.words or words.options:
        print(USAGE, file=sys.stderr)
        return 2
    from zorivest_rpc.mcp.protocol.revisions import REVISIONS

    facts = {
        "version": __version__,
        "python": platform.python_version(),
        "revisions": [revision.name for revision in REVISIONS],
    }
    if words.json:
        import json

        print(json.dumps(facts))
    else:
        print(f"zorivest-rpc {facts['version']}, Python {facts['python']}, MCP {', '.join(facts['revisions'])}")
    return 0
