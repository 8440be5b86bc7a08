"""`zorivest-rpc version`: version, Python, revisions served."""

from __future__ import annotations

import platform

from zorivest_rpc import __version__

__all__ = ["run"]


def run(argv: list[str]) -> int:
    from zorivest_rpc.protocol.revisions import REVISIONS

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
