"""Load metrics against the baseline as it was before they counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from zorivest_rpc.devtools.entries import Measured
from zorivest_rpc.devtools.frames import Performance
from zorivest_rpc.devtools.kit import iso
from zorivest_rpc.devtools.measures import METRICS, bare_url
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["judge_performance"]

# more than this share, and more than this much: both, where both are given
LIMITS: Final[dict[str, tuple[float, float]]] = {
    "load": (0.5, 200.0),
    "fcp": (0.5, 200.0),
    "lcp": (0.5, 200.0),
    "requests": (0.5, 5.0),
    "bytes": (1.0, 100.0 * 1024),
    "long_tasks": (1.0, 0.0),
    "blocking_ms": (0.0, 100.0),
    "cls": (0.0, 0.05),
}


def judge_performance(measured: Sequence[Measured], url: str) -> dict[str, Json]:
    """Of one address, else of the one measured last."""
    wanted = bare_url(url)
    one = next((each for each in reversed(measured) if url == "" or each.url == wanted), None)
    if one is None:
        one = next((each for each in reversed(measured) if url in each.url), None)
    if one is None:
        known = ", ".join(each.url for each in measured)
        hint = f"This address was not measured. Measured: {known}." if known else "No page was measured yet."
        return {"url": url, "snapshot": None, "baseline": None, "regressions": [], "verdict": "no_data", "hint": hint}
    now, before = one.latest.item, one.baseline
    regressions = [] if before is None else _find_regressions(now, before)
    verdict = "no_baseline" if before is None else _verdict(now, before, regressions)
    return {
        "url": one.url,
        "snapshot": {**_metrics(now), "ts": iso(now.ts), "slowest": msgspec.to_builtins(now.slowest)},
        "baseline": None if before is None else {**_metrics(before), "documents": one.documents - 1},
        "regressions": regressions,
        "verdict": verdict,
        "hint": "This is the first document of this address; load it again to compare." if before is None else None,
    }


def _verdict(now: Performance, before: Performance, regressions: list[dict[str, Json]]) -> str:
    if regressions:
        return "regressed"
    return "improved" if _find_regressions(before, now) else "unchanged"


def _metrics(item: Performance) -> dict[str, Json]:
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name in METRICS
        if (value := getattr(item, name)) is not None
    }


def _find_regressions(now: Performance, before: Performance) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = []
    for name, (share, much) in LIMITS.items():
        new, old = getattr(now, name), getattr(before, name)
        if new is None or old is None:
            continue
        change = new - old
        if change > 0 and change > much and change > old * share:
            found.append(
                {
                    "metric": name,
                    "baseline": round(old, 4),
                    "current": round(new, 4),
                    "change": round(change, 4),
                    "change_pct": round(100.0 * change / old, 1) if old else None,
                }
            )
    return found
