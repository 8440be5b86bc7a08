"""One row per MCP revision: its era, its methods, and what its results may hold.

Code never compares revision names; it asks a row for a fact. A method that a row does not name is
"method not found" in that revision, whatever the server offers otherwise.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

__all__ = ["BY_NAME", "LATEST_LEGACY", "MODERN", "REVISIONS", "SUPPORTED_MODERN", "Era", "Revision", "Shape"]


class Era(Enum):
    LEGACY = "legacy"  # a session opened by `initialize`
    MODERN = "modern"  # every request describes itself


class Shape(Enum):
    """How much a definition or a result may hold; revisions that agree share one."""

    BASIC = "basic"  # 2024-11-05, 2025-03-26: no structured output
    STRUCTURED = "structured"  # 2025-06-18: object-rooted output schemas
    TASKS = "tasks"  # 2025-11-25: and execution.taskSupport
    OPEN = "open"  # 2026-07-28: any output schema, no execution


_LEGACY_METHODS: Final = frozenset(
    {
        "initialize",
        "ping",
        "logging/setLevel",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    }
)
_CORE_TASKS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
_MODERN_METHODS: Final = frozenset(
    {
        "server/discover",
        "subscriptions/listen",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
    }
)


class Revision(msgspec.Struct, frozen=True):
    name: str
    era: Era
    shape: Shape
    methods: frozenset[str]
    batches: bool = False
    audio: bool = True  # audio content blocks
    links: bool = True  # resource_link content blocks
    progress_message: bool = True
    completions_capability: bool = True
    elicitation: bool = True
    url_elicitation: bool = False
    core_tasks: bool = False
    priming: bool = False  # an SSE stream opens with an empty event that can be resumed from
    version_header: bool = True  # sent by clients after `initialize`
    modern: bool = False  # the era and the shape once more, as the facts that every call asks for
    structured: bool = False


_ROWS: Final = (
    Revision(
        "2024-11-05",
        Era.LEGACY,
        Shape.BASIC,
        _LEGACY_METHODS,
        audio=False,
        links=False,
        progress_message=False,
        completions_capability=False,
        elicitation=False,
        version_header=False,
    ),
    Revision(
        "2025-03-26",
        Era.LEGACY,
        Shape.BASIC,
        _LEGACY_METHODS,
        batches=True,
        links=False,
        elicitation=False,
        version_header=False,
    ),
    Revision("2025-06-18", Era.LEGACY, Shape.STRUCTURED, _LEGACY_METHODS),
    Revision(
        "2025-11-25",
        Era.LEGACY,
        Shape.TASKS,
        _LEGACY_METHODS | _CORE_TASKS,
        url_elicitation=True,
        core_tasks=True,
        priming=True,
    ),
    Revision("2026-07-28", Era.MODERN, Shape.OPEN, _MODERN_METHODS, url_elicitation=True),
)
REVISIONS: Final = tuple(
    msgspec.structs.replace(row, modern=row.era is Era.MODERN, structured=row.shape is not Shape.BASIC) for row in _ROWS
)
BY_NAME: Final = {row.name: row for row in REVISIONS}
LATEST_LEGACY: Final = next(row for row in reversed(REVISIONS) if not row.modern)
MODERN: Final = REVISIONS[-1]
SUPPORTED_MODERN: Final = tuple(row.name for row in REVISIONS if row.modern)
