"""How many tools there are, counted from the names of their files and not by the code under test.

The numbers of the requirement stand in `tests/serving/catalog/test_contract.py` and nowhere else, so that a new tool
breaks no test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.places import ROOT

__all__ = ["ALL", "ALWAYS", "DEFAULT", "DEFERRED", "META", "count", "gated_tools", "names_of", "toolsets"]

SCHEMAS: Final = ROOT / "schemas"


def toolsets(flag: str = "name") -> list[str]:
    """The toolsets for which a flag of `toolsets.json` is set, in their order; without one all of them.

    Those that exist only where they are named are never among them."""
    entries = json.loads((SCHEMAS / "toolsets.json").read_text())["toolsets"]
    return [entry["name"] for entry in entries if entry[flag] and not entry.get("opt_in")]


def names_of(*wanted: str, schemas: Path = SCHEMAS) -> set[str]:
    """The tools of some toolsets, those included that are at home in another one."""
    files = [*schemas.glob("tools/*/*.json")]
    return {
        file.stem
        for file in files
        if not json.loads(file.read_text()).get("tenancy")
        and (file.parent.name in wanted or set(json.loads(file.read_text()).get("also_in", ())) & set(wanted))
    }


def count(*wanted: str) -> int:
    return len(names_of(*wanted))


def gated_tools(*without: str) -> list[str]:
    """The tools that ask before they run, except those with one of some hints."""
    tools = [json.loads(file.read_text()) for file in SCHEMAS.glob("tools/*/*.json")]
    gated = [tool for tool in tools if tool.get("confirm")]
    return sorted(tool["name"] for tool in gated if not any(tool["annotations"][hint] for hint in without))


META: Final = len([*SCHEMAS.glob("meta/*.json")])
ALL: Final = count(*toolsets()) + META
"""Every tool and the meta-tools, as a client that lists everything sees them."""
DEFAULT: Final = count(*toolsets("default")) + META
ALWAYS: Final = count(*toolsets("always_loaded")) + META
DEFERRED: Final = ALL - ALWAYS
