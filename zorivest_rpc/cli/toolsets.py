"""`zorivest-rpc toolsets`: the groups of tools, with counts and the size of their definitions."""

from __future__ import annotations

import sys

from zorivest_rpc.app import Journal
from zorivest_rpc.audience import sizes
from zorivest_rpc.catalog.toolsets import members, nearest, toolset_names
from zorivest_rpc.cli.terminal import Words, print_json, session_as, table
from zorivest_rpc.errors import ConfigError

__all__ = ["run"]


def run(argv: list[str]) -> int:
    words = Words("toolsets", argv)
    if not words.words or words.words[0] not in ("list", "show") or (words.words[0] == "show" and len(words.words) < 2):
        print("usage: zorivest-rpc toolsets list | show NAME [--as CLIENT] [--json]", file=sys.stderr)
        return 2
    journal = Journal(words.settings)
    session = session_as(journal, words.flags.get("--as"))
    definitions = journal.audience.definitions
    if words.words[0] == "show":
        name = words.words[1]
        if name not in toolset_names(definitions):
            near = nearest(name, toolset_names(definitions))
            raise ConfigError(name, "no such toolset" + (f"; did you mean {near}?" if near else ""))
        tools = members(definitions, name)
        if words.json:
            print_json([{"name": spec.name, "description": spec.description.minimal} for spec in tools])
        else:
            print(table([[spec.name, spec.description.minimal] for spec in tools], ["TOOL", "WHAT IT DOES"]))
        return 0
    told = [
        {
            "name": toolset.name,
            "tools": len(members(definitions, toolset.name)),
            "loaded": journal.audience.loaded(session, toolset.name),
            "bytes": sizes(journal.audience, session, members(definitions, toolset.name)),
            "description": toolset.description,
        }
        for toolset in definitions.toolsets
    ]
    if words.json:
        print_json(told)
    else:
        rows = [
            [
                str(each["name"]),
                str(each["tools"]),
                "yes" if each["loaded"] else "",
                str(each["bytes"]),
                str(each["description"]),
            ]
            for each in told
        ]
        print(table(rows, ["TOOLSET", "TOOLS", "LISTED", "BYTES", "COVERS"]))
    return 0
