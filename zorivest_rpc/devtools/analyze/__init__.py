"""`analyze`: what the buffers and the page say, judged; one module per target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from zorivest_rpc.devtools.analyze.accessibility import Audits
from zorivest_rpc.devtools.analyze.api import describe_api, write_openapi
from zorivest_rpc.devtools.analyze.changes import find_changes
from zorivest_rpc.devtools.analyze.performance import judge_performance
from zorivest_rpc.devtools.analyze.timeline import make_timeline
from zorivest_rpc.devtools.watch import Watch
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["AnalyzeArguments", "Audits", "Progress", "analyze"]

Progress: TypeAlias = Callable[[float, float, str], None]


class AnalyzeArguments(msgspec.Struct, frozen=True):
    target: Literal["performance", "api", "accessibility", "changes", "timeline"]
    url: str = ""
    url_filter: str = ""
    min_observations: int = 1
    format: Literal["native", "openapi_stub"] = "native"
    scope: str | None = None
    tags: list[str] = []
    include_passes: bool = False
    force_refresh: bool = False
    checkpoint: str | None = None
    mark: str | None = None
    include: list[str] | None = None
    severity: Literal["all", "warnings", "errors_only"] = "all"
    last_n_actions: int | None = None
    page: str | None = None


async def analyze(watch: Watch, audits: Audits, arguments: AnalyzeArguments, progress: Progress) -> dict[str, Json]:
    """The result of `analyze`; each target has its own members beside `target` and `hint`."""
    buffers = watch.buffers
    if arguments.target == "performance":
        result = judge_performance(buffers.measured, arguments.url)
    elif arguments.target == "api":
        endpoints = [
            endpoint
            for endpoint in buffers.endpoints.all()
            if endpoint.seen >= arguments.min_observations and arguments.url_filter in endpoint.origin + endpoint.path
        ]
        result = write_openapi(endpoints) if arguments.format == "openapi_stub" else describe_api(endpoints)
    elif arguments.target == "accessibility":
        page = watch.pages.target(arguments.page)
        audit = await audits.run(
            page,
            scope=arguments.scope,
            tags=arguments.tags,
            include_passes=arguments.include_passes,
            fresh=arguments.force_refresh,
            progress=progress,
        )
        result = {**audit.result, "hint": None}
    elif arguments.target == "changes":
        result = find_changes(
            watch,
            checkpoint=arguments.checkpoint,
            mark=arguments.mark,
            include=arguments.include,
            severity=arguments.severity,
            url=arguments.url_filter,
            page=arguments.page,
        )
    else:
        result = make_timeline(
            watch, url=arguments.url, include=arguments.include, last=arguments.last_n_actions, page=arguments.page
        )
    return {"target": arguments.target, **result}
