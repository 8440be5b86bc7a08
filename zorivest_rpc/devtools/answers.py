"""What pages answer to live queries, brought into shape: a page can lie, and still cannot break a limit or a schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from zorivest_rpc.devtools.redact import redact_attributes, redact_html, redact_text, redact_url
from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["clean_audit", "clean_dom", "clean_page"]

_TEXT: Final = 500
_SHORT: Final = 200
_URL: Final = 2_048
_MOST_ATTRIBUTES: Final = 50
_MOST_STYLES: Final = 60
_MOST_CHILDREN: Final = 200  # elements below all matches together
_MOST_HEADINGS: Final = 100
_MOST_FORMS: Final = 30
_MOST_FIELDS: Final = 60
_MOST_RULES: Final = 300
_MOST_NODES: Final = 10
_LARGEST: Final = 2**53


def clean_dom(data: Json, *, limit: int, max_depth: int) -> dict[str, Json]:
    given = _object(data)
    budget = [_MOST_CHILDREN]
    matches = [_element(each, max_depth, budget) for each in _objects(given.get("matches"))[:limit]]
    return {
        "url": _url(given.get("url")),
        "title": _text(given.get("title"), _SHORT),
        "match_count": max(_count(given.get("match_count")), len(matches)),
        "returned_count": len(matches),
        "matches": matches,
    }


def _element(given: dict[str, Json], depth: int, budget: list[int]) -> dict[str, Json]:
    attributes = {
        name[:_SHORT]: value[:_TEXT]
        for name, value in list(_object(given.get("attributes"), strict=False).items())[:_MOST_ATTRIBUTES]
        if isinstance(value, str)
    }
    element: dict[str, Json] = {
        "tag": _text(given.get("tag"), 60),
        "text": _text(given.get("text"), _TEXT),
        "visible": given.get("visible") is True,
        "attributes": redact_attributes(attributes),
        "box": _numbers(given.get("box"), ("x", "y", "width", "height")),
    }
    styles = given.get("styles")
    if isinstance(styles, dict):
        element["styles"] = {name[:60]: _text(value, _SHORT) for name, value in list(styles.items())[:_MOST_STYLES]}
    if isinstance(given.get("children"), list) and depth > 0:
        children: list[Json] = []
        for child in _objects(given["children"]):
            if budget[0] <= 0:
                break
            budget[0] -= 1
            children.append(_element(child, depth - 1, budget))
        element["children"] = children
    return element


def clean_page(data: Json) -> dict[str, Json]:
    given = _object(data)
    return {
        "url": _url(given.get("url")),
        "title": _text(given.get("title"), _SHORT),
        "viewport": _numbers(given.get("viewport"), ("width", "height")),
        "scroll": _numbers(given.get("scroll"), ("x", "y")),
        "document_height": _count(given.get("document_height")),
        "headings": [
            {"level": min(6, max(1, _count(each.get("level")))), "text": _text(each.get("text"), _SHORT)}
            for each in _objects(given.get("headings"))[:_MOST_HEADINGS]
        ],
        "links": _count(given.get("links")),
        "images": _count(given.get("images")),
        "interactive": _count(given.get("interactive")),
        "forms": [
            {
                "id": _text(each.get("id"), _SHORT),
                "action": _url(each.get("action")),
                "fields": [_field(field) for field in _objects(each.get("fields"))[:_MOST_FIELDS]],
            }
            for each in _objects(given.get("forms"))[:_MOST_FORMS]
        ],
    }


def _field(given: dict[str, Json]) -> dict[str, Json]:
    return {
        "name": _text(given.get("name"), _SHORT),
        "type": _text(given.get("type"), 40),
        "label": _text(given.get("label"), _SHORT),
        "required": given.get("required") is True,
    }


def clean_audit(data: Json, *, include_passes: bool) -> dict[str, Json]:
    given = _object(data)
    violations, incomplete, passes = (
        [_rule(each) for each in _objects(given.get(name))[:_MOST_RULES]]
        for name in ("violations", "incomplete", "passes")
    )
    by_impact = {
        impact: sum(rule["impact"] == impact for rule in violations)
        for impact in ("critical", "serious", "moderate", "minor")
    }
    audit: dict[str, Json] = {
        "url": _url(given.get("url")),
        "engine": "axe-core" if given.get("engine") == "axe-core" else "builtin",
        "engine_version": _text(given.get("engine_version"), 40),
        "partial": given.get("partial") is True,
        "summary": {
            "violations": len(violations),
            "nodes": sum(rule["node_count"] for rule in violations),
            **by_impact,
            "incomplete": len(incomplete),
        },
        "violations": violations,
        "incomplete": incomplete,
    }
    if include_passes:
        audit["passes"] = passes
    return audit


def _rule(given: dict[str, Json]) -> dict[str, Json]:
    nodes = _objects(given.get("nodes"))
    impact = given.get("impact")
    help_url = _url(given.get("helpUrl"))
    return {
        "id": _text(given.get("id"), 80),
        "impact": impact if impact in ("critical", "serious", "moderate", "minor") else None,
        "description": _text(given.get("description"), _TEXT),
        "help": _text(given.get("help"), _TEXT),
        "helpUrl": help_url if help_url.startswith("https://") else "",
        "tags": [_text(tag, 40) for tag in _list(given.get("tags"))[:30] if isinstance(tag, str)],
        "nodes": [
            {
                "target": [_text(part, _TEXT) for part in _flat(node.get("target"))][:10],
                "html": redact_html(_raw(node.get("html"), _SHORT))[:_SHORT],
                "failureSummary": _text(node.get("failureSummary"), 1_000),
            }
            for node in nodes[:_MOST_NODES]
        ],
        "node_count": max(_count(given.get("node_count")), len(nodes)),
    }


# --- values of any shape


def _object(value: Json, *, strict: bool = True) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if strict:
        raise ToolError(
            "The page's answer could not be read.", code="page_failed", next="Reload the page and call again."
        )
    return {}


def _list(value: Json) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: Json) -> list[dict[str, Any]]:
    return [each for each in _list(value) if isinstance(each, dict)]


def _flat(value: Json) -> Iterable[str]:
    """axe-core's target: selectors, or lists of them where shadow roots are between."""
    for each in _list(value):
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            yield " >>> ".join(part for part in each if isinstance(part, str))


def _raw(value: Json, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _text(value: Json, limit: int) -> str:
    return redact_text(_raw(value, limit))[:limit]


def _url(value: Json) -> str:
    return redact_url(_raw(value, _URL))


def _count(value: Json) -> int:
    if isinstance(value, float) and -_LARGEST < value < _LARGEST:
        value = int(value)
    return min(max(value, 0), _LARGEST) if isinstance(value, int) and not isinstance(value, bool) else 0


def _numbers(value: Json, names: tuple[str, ...]) -> dict[str, float]:
    given = _object(value, strict=False)
    found: dict[str, float] = {}
    for name in names:
        number: Any = given.get(name)
        fits = isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < _LARGEST
        found[name] = round(number, 2) if fits else 0
    return found
