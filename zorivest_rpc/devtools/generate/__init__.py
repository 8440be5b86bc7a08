"""Artefacts made of a recording: pure functions from what the buffers hold to a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zorivest_rpc.devtools.entries import Artefact, Recording
from zorivest_rpc.devtools.generate.har import make_har
from zorivest_rpc.devtools.generate.sarif import make_sarif
from zorivest_rpc.devtools.generate.script import make_reproduction, make_test
from zorivest_rpc.devtools.generate.summary import make_summary
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["FORMATS", "make_artefact"]

FORMATS: Final[dict[str, Callable[[Recording, Mapping[str, Json]], Artefact]]] = {
    "reproduction": make_reproduction,
    "test": make_test,
    "pr_summary": make_summary,
    "sarif": make_sarif,
    "har": make_har,
}


def make_artefact(format: str, recording: Recording, arguments: Mapping[str, Json]) -> Artefact:
    """The artefact in one of `FORMATS`; `arguments` are the tool's own, already judged by its schema."""
    return FORMATS[format](recording, arguments)
