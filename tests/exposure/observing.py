"""A journal with the five tools that observe, with their own rules and schemas, and a way to move their counters.

The tools answer from the counters alone, so that the engine is tested by itself; what real ones collect is not its own.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from zorivest_rpc.app import Journal
from zorivest_rpc.app.exposing import ALONE
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome, give
from zorivest_rpc.mcp.offer import Offer
from zorivest_rpc.serving.catalog.load import CHECKED, make_stamp, schemas_dir
from zorivest_rpc.serving.pipeline import Pipeline

__all__ = ["MODES", "TOOLS", "ObservingJournal", "make_journal", "offer", "schemas"]

Json = Any
TOOLS = ("observe", "analyze", "generate", "configure", "query_dom")
REAL = {name: json.loads(Path(schemas_dir(), "tools", "devtools", f"{name}.json").read_text()) for name in TOOLS}
MODES: dict[str, tuple[str, list[str]]] = {}
"""By tool: the input that chooses a mode, and all its values."""
for _name, _file in REAL.items():
    _required = _file["inputSchema"].get("required", [])
    _enum = _file["inputSchema"]["properties"].get(_required[0], {}).get("enum") if _required else None
    if _enum:
        MODES[_name] = (_required[0], _enum)


def tool_file(name: str) -> dict[str, Json]:
    """The real tool without a guard and a page: its answers are those of this module."""
    kept = {key: value for key, value in REAL[name].items() if key not in ("guard_offline", "outputSchema")}
    return {**kept, "outputSchema": {"type": "object"}, "guarded": False, "python": f"fixture_{name}"}


FEED: dict[str, Json] = {
    "name": "feed_state",
    "title": "Feed the state",
    "description": {
        "minimal": "Move a counter of the tests up or down, as data that comes and goes does.",
        "rich": "Move a counter of the tests up or down, as data that comes and goes does. " * 3
        + "Only for the tests.",
    },
    "inputSchema": {
        "type": "object",
        "properties": {"changes": {"type": "object", "additionalProperties": {"type": "integer"}}},
        "required": ["changes"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False},
    "guarded": False,
    "python": "fixture_feed",
}


@cache
def schemas() -> str:
    """A copy of the tool files with these tools in it, stamped as checked."""
    root = Path(tempfile.mkdtemp(prefix="observing-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    shutil.copytree(schemas_dir(), root / "schemas")
    base = root / "schemas"
    for name in TOOLS:
        (base / "tools" / "devtools" / f"{name}.json").write_text(json.dumps(tool_file(name)))
    (base / "tools" / "core" / "feed_state.json").write_text(json.dumps(FEED))
    (base / CHECKED).write_text(json.dumps(make_stamp(str(base))))
    return str(base)


class ObservingJournal(Journal):
    def _own_handlers(self, pipeline: Pipeline) -> dict[str, Handler]:
        engine = self.exposure
        assert engine is not None

        def answer(name: str) -> Handler:
            async def handler(call: Call) -> Outcome:
                mode = call.arguments.get(MODES[name][0]) if name in MODES else None
                if name == "query_dom" or mode == "page":
                    raise ToolError("No page is connected.", code="no_page", next="Add the collector script to a page.")
                return give({"what": mode, "entries": [], "hint": "No data yet."})

            return handler

        async def feed(call: Call) -> Outcome:
            for counter, change in call.arguments["changes"].items():
                engine.state(call.scope.name or ALONE).add(counter, change)
            return give({})

        own = {f"fixture_{name}": answer(name) for name in TOOLS}
        return {**super()._own_handlers(pipeline), **own, "fixture_feed": feed}


def make_journal(*options: str) -> ObservingJournal:
    directory = tempfile.mkdtemp(prefix="observing-data-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    settings = parse("stdio", ["--toolsets", "devtools", *options], {"HOME": directory, "ZORIVEST_DATA_DIR": directory})
    return ObservingJournal(settings, schemas())


def offer() -> Offer:
    return make_journal("--exposure", "filter").offer


def strict() -> Offer:
    return make_journal("--exposure", "filter", "--exposure-strict").offer


def auto() -> Offer:
    return make_journal().offer
