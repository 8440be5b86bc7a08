"""An accessibility audit as SARIF 2.1.0, as code hosts and editors read it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import orjson

from zorivest_rpc.devtools.entries import Artefact, Audit, Recording
from zorivest_rpc.devtools.kit import write_uri
from zorivest_rpc.devtools.measures import bare_url
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["make_sarif"]

MEDIA_TYPE: Final = "application/sarif+json"
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"critical": "error", "serious": "error", "moderate": "warning", "minor": "note"}
_GROUPS: Final = {"violations": "fail", "incomplete": "review", "passes": "pass"}


def make_sarif(recording: Recording, arguments: Mapping[str, Json]) -> Artefact:
    audit = recording.audit
    if audit is None:
        raise ValueError("a SARIF report is made of an audit")
    groups = dict(_GROUPS) if arguments.get("include_passes") else {k: v for k, v in _GROUPS.items() if k != "passes"}
    found = [(kind, rule) for group, kind in groups.items() for rule in audit.result.get(group) or ()]
    rules: dict[str, Json] = {}
    for _, rule in found:
        rules.setdefault(rule["id"], _rule(rule))
    index = {id: at for at, id in enumerate(rules)}
    uri = write_uri(bare_url(str(audit.result.get("url") or "")))
    results = [result for kind, rule in found for result in _results(kind, rule, index[rule["id"]], uri)]
    run = {
        "tool": {"driver": _driver(audit, list(rules.values()))},
        "invocations": [{"executionSuccessful": True, "endTimeUtc": _time(audit.at)}],
        "results": results,
    }
    content = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    text = orjson.dumps(content, option=orjson.OPT_INDENT_2).decode()
    return Artefact(text, MEDIA_TYPE, tuple(_notes(audit, found)))


def _notes(audit: Audit, found: list[tuple[str, dict[str, Json]]]) -> Iterator[str]:
    if audit.result.get("partial"):
        engine = audit.result.get("engine")
        yield f"The audit is partial (engine {engine}): what is not in it was perhaps not looked at."
    more = sum(1 for _, rule in found if rule.get("node_count", 0) > len(rule.get("nodes") or ()))
    if more:
        yield f"Of {more} rules only the first elements are listed."


def _driver(audit: Audit, rules: list[Json]) -> dict[str, Json]:
    is_axe = audit.result.get("engine") == "axe-core"
    driver: dict[str, Json] = {
        "name": "axe-core" if is_axe else "zorivest-rpc built-in check",
        "version": str(audit.result.get("engine_version") or "unknown"),
        "rules": rules,
    }
    if is_axe:
        driver["informationUri"] = "https://github.com/dequelabs/axe-core"
    return driver


def _rule(rule: Mapping[str, Json]) -> dict[str, Json]:
    described: dict[str, Json] = {
        "id": rule["id"],
        "shortDescription": {"text": str(rule.get("help") or rule["id"])},
        "fullDescription": {"text": str(rule.get("description") or rule["id"])},
        "defaultConfiguration": {"level": _LEVELS.get(str(rule.get("impact")), "warning")},
        "properties": {"tags": list(dict.fromkeys(map(str, rule.get("tags") or ())))},
    }
    if str(rule.get("helpUrl") or "").startswith(("https://", "http://")):
        described["helpUri"] = write_uri(rule["helpUrl"])
    return described


def _results(kind: str, rule: Mapping[str, Json], index: int, uri: str) -> Iterator[dict[str, Json]]:
    for node in rule.get("nodes") or ():
        selector = " ".join(map(str, node.get("target") or ()))
        digest = hashlib.sha256(f"{rule['id']}\0{selector}".encode()).hexdigest()[:32]
        region = {"startLine": 1, "snippet": {"text": str(node.get("html") or "")}}
        yield {
            "ruleId": rule["id"],
            "ruleIndex": index,
            "kind": kind,
            "level": _LEVELS.get(str(rule.get("impact")), "warning") if kind == "fail" else "none",
            "message": {"text": str(node.get("failureSummary") or rule.get("help") or rule["id"])},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": uri}, "region": region},
                    "logicalLocations": [{"fullyQualifiedName": selector, "kind": "element"}],
                }
            ],
            "partialFingerprints": {"ruleAndSelector/v1": digest},
        }


def _time(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
