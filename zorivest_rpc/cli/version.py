"""`zorivest-rpc version`: version, Python, revisions served."""

from __future__ import annotations

import platform
import sys

from zorivest_rpc import __version__

__all__ = ["run"]


USAGE = "usage: zorivest-rpc version [--json]"


def run(argv: list[str]) -> int:
    if "--help" in argv or "-h" in argv:
        print(USAGE)
        return 0
    if set(argv) - {"--json"}:
        print(USAGE, file=sys.stderr)
        return 2
    from zorivest_rpc.mcp.protocol.revisions import REVISIONS

    facts = {
        "version": __version__,
        "python": platform.python_version(),
        "revisions": [revision.name for revision in REVISIONS],
    }
    if "--json" in argv:
        import json

        print(json.dumps(facts))
    else:
        print(f"zorivest-rpc {facts['version']}, Python {facts['python']}, MCP {', '.join(facts['revisions'])}")
    return 0
