"""A journal with five tools that observe, with the rules that such tools have, and a way to move their counters.

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
from zorivest_rpc.config import parse
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call, Handler, Outcome, give
from zorivest_rpc.mcp.offer import Offer
from zorivest_rpc.serving.catalog.load import CHECKED, make_stamp, schemas_dir
from zorivest_rpc.serving.pipeline import Pipeline

__all__ = ["TOOLS", "ObservingJournal", "make_journal", "offer", "schemas"]

Json = Any
TOOLS = ("observe", "analyze", "generate", "configure", "query_dom")
ANY_DATA = ["devtools.logs", "devtools.network", "devtools.ws_events", "devtools.actions", "devtools.perf"]


def counted(name: str) -> dict[str, Json]:
    return {"show": f"devtools.{name}", "count": f"devtools.{name}"}


MODES: dict[str, tuple[str, dict[str, Json]]] = {
    "observe": (
        "what",
        {
            "errors": {"show": True, "count": "devtools.errors"},
            "logs": {"show": True, "count": "devtools.logs"},
            "network": counted("network"),
            "websocket_events": counted("ws_events"),
            "websocket_status": counted("ws_open"),
            "actions": counted("actions"),
            "vitals": counted("perf"),
            "page": {"show": True},
        },
    ),
    "analyze": (
        "target",
        {
            "performance": counted("perf"),
            "api": counted("endpoints"),
            "accessibility": {"show": True},
            "changes": {"show": {"any": ANY_DATA}},
            "timeline": counted("actions"),
        },
    ),
    "generate": (
        "format",
        {
            "reproduction": counted("actions"),
            "test": counted("actions"),
            "pr_summary": {"show": {"any": ["devtools.logs", "devtools.actions", "devtools.network", "devtools.perf"]}},
            "sarif": {"show": True},
            "har": counted("network"),
        },
    ),
    "configure": (
        "action",
        {name: {"show": True} for name in ("store", "load", "noise_rule", "dismiss", "clear", "capture")},
    ),
}
GATED = ("analyze", "generate", "configure")


def rule_of(name: str) -> dict[str, Json]:
    rule: dict[str, Json] = {"v": 1}
    if name in GATED:
        rule["gate"] = "devtools.observed"
    if name == "observe":
        rule["raises"] = "devtools.observed"
    if name in MODES:
        chooser, values = MODES[name]
        rule["modes"] = {"property": chooser, "values": values}
        rule["hint"] = "No data yet. Load a page with the collector script."
    return rule


def tool_file(name: str, order: int) -> dict[str, Json]:
    properties: dict[str, Json] = {}
    required = []
    if name in MODES:
        chooser, values = MODES[name]
        properties[chooser] = {"type": "string", "description": "What is looked at.", "enum": list(values)}
        required = [chooser]
    properties["page"] = {"type": "string", "description": "The page that is meant."}
    rich = f"{name} of the tests: looks at what a page has sent. " * 5
    return {
        "name": name,
        "title": f"The {name} tool",
        "order": order,
        "description": {
            "minimal": f"The tool {name} of the tests looks at what a page has sent.",
            "rich": rich.strip(),
        },
        "inputSchema": {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        },
        "outputSchema": {"type": "object"},
        "annotations": {
            "readOnlyHint": name not in ("generate", "configure"),
            "destructiveHint": name == "configure",
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "guarded": False,
        "python": f"fixture_{name}",
        **({} if name == "query_dom" else {"exposure": rule_of(name)}),
    }


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
    shutil.rmtree(base / "tools" / "devtools", ignore_errors=True)
    (base / "tools" / "devtools").mkdir()
    for order, name in enumerate(TOOLS):
        (base / "tools" / "devtools" / f"{name}.json").write_text(json.dumps(tool_file(name, order)))
    (base / "tools" / "core" / "feed_state.json").write_text(json.dumps(FEED))
    toolsets = json.loads((base / "toolsets.json").read_text())
    if not any(toolset["name"] == "devtools" for toolset in toolsets["toolsets"]):
        about = {
            "name": "devtools",
            "description": "Observe a live web page.",
            "always_loaded": False,
            "default": False,
        }
        toolsets["toolsets"].append(about)
        (base / "toolsets.json").write_text(json.dumps(toolsets))
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
                engine.state().add(counter, change)
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


def advisory() -> Offer:
    return make_journal("--exposure", "advisory").offer
