"""A real result of every tool for the reference: recorded from the walk through all tools on demo data.

`python -m tests.docs.examples --write` records anew. What only the day or the run decides (dates, ids, amounts) is no
change: an example is replaced when it was called otherwise or its result has another shape."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TypedDict

import psutil

from tests.places import ROOT
from tests.serving.product.everything import every_tool
from tests.serving.product.plain import plain_client
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.serving.catalog.load import load

FILE = Path(__file__).with_name("examples.json")
LONGEST = 320
MARK = "…"
SECONDS = 90.0


class Example(TypedDict):
    """What was given, and what came back: the object, or the text blocks where there is none."""

    arguments: dict[str, Any]
    refused: bool
    result: Any


def record() -> dict[str, Example]:
    """Every tool, called on a fresh journal with demo data."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ZORIVEST_")}
        environ |= {"ZORIVEST_KEYRING": "off", "HOME": place, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "zorivest_rpc"]
        try:
            load_demo = [*command, "demo", "load", "--data-dir", str(data)]
            subprocess.run(load_demo, env=environ, check=True, capture_output=True, timeout=SECONDS)
            options = ["--data-dir", str(data), "--toolsets", "all", "--import-root", place]
            calls = asyncio.run(_walk([*command, "stdio", *options], environ, Path(place)))
        finally:
            if (located := find(data)) is not None:
                backend = psutil.Process(located.pid)
                backend.terminate()
                backend.wait(SECONDS)  # what it writes while it ends would keep the directory from being removed
    return chosen(calls, place)


def chosen(calls: list[tuple[str, dict[str, Any], Any]], place: str) -> dict[str, Example]:
    """The first call of each tool that succeeded, or the first at all."""
    found: dict[str, Example] = {}
    for name, arguments, result in calls:
        if name not in found or (found[name]["refused"] and not result.get("isError")):
            seen = result.get("structuredContent")
            if name == "zorivest_diagnose" and seen:  # its note tells what else listens on this machine just now
                seen = {key: value for key, value in seen.items() if key != "note"}
            blocks = [_tidy(_block(block), place) for block in result["content"]]
            given: Example = {
                "arguments": _tidy(arguments, place),
                "refused": bool(result.get("isError")),
                "result": _tidy(seen, place) if seen else blocks,
            }
            found[name] = given
    return {spec.name: found[spec.name] for spec in load().tools}


async def _walk(command: list[str], environ: dict[str, str], place: Path) -> list[tuple[str, dict[str, Any], Any]]:
    async with plain_client(command, environ, place) as client:
        await every_tool(client, place, demo=True)
    return client.calls


def _block(block: dict[str, Any]) -> Any:
    return {**block, "data": MARK} if "data" in block else block


def _tidy(value: Any, place: str) -> Any:
    """Short enough to read: the beginning of lists and texts, and no path of this machine."""
    if isinstance(value, dict):
        return {key: _tidy(entry, place) for key, entry in value.items()}
    if isinstance(value, list):
        most = 1 if value and isinstance(value[0], dict) else 3
        kept = [_tidy(entry, place) for entry in value[:most]]
        return kept if len(value) <= most else [*kept, f"{MARK} {len(value) - most} more"]
    if isinstance(value, str):
        text = value.replace(place, "/home/you")
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + MARK
    return value


def shape(value: Any) -> Any:
    """Names and kinds, without values. None and an empty list can be anything, so they say nothing."""
    if isinstance(value, dict):
        return {re.sub(r"\d+", "0", key): shape(entry) for key, entry in sorted(value.items())}
    if isinstance(value, list):
        return ["list", shape(value[0])] if value else None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else None


def alike(one: Any, other: Any) -> bool:
    """Whether two shapes are the same wherever both say something."""
    if one is None or other is None:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return alike(one[1], other[1])
    return bool(one == other)


def is_current(kept: Example | None, found: Example) -> bool:
    return (
        kept is not None
        and kept["refused"] == found["refused"]
        and alike(shape(kept["arguments"]), shape(found["arguments"]))
        and alike(shape(kept["result"]), shape(found["result"]))
    )


def stored() -> dict[str, Example]:
    examples: dict[str, Example] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return examples


def stale_in(kept: dict[str, Example], found: dict[str, Example]) -> list[str]:
    return [name for name, example in found.items() if not is_current(kept.get(name), example)]


def main() -> int:
    kept, found = stored(), record()
    stale = stale_in(kept, found)
    gone = [name for name in kept if name not in found]
    for name in (*stale, *gone):
        print(f"example of {name}")
    if "--write" not in sys.argv:
        return 1 if stale or gone else 0
    merged = {name: example if name in stale else kept[name] for name, example in found.items()}
    FILE.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
