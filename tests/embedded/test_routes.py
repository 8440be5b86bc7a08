"""Every route has a caller: a tool file, the code of the server and its commands, or a reason that is written here."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from tests.places import ROOT
from tests.serving.catalog.test_contract import PROMISED
from zorivest_rpc.embedded.rest.routes import AREAS

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
Named = tuple[str, str]

# What neither the code nor a required tool calls and stays, with the reason. A route that gets a caller there leaves
# this table; one that a new tool calls may stay in it, because adding a tool is one file.
KEPT: dict[str, tuple[str, ...]] = {
    "corrections: what is edited, deleted or undone has to be found, changed and taken out": (
        "GET /trades/{}",
        "PUT /trades/{}",
        "DELETE /trades/{}",
        "PUT /trades/{}/report",
        "DELETE /trades/{}/report",
        "DELETE /images/{}",
        "GET /trade-plans/{}",
        "PUT /trade-plans/{}",
        "DELETE /trade-plans/{}",
        "POST /accounts",
        "GET /accounts/{}",
        "PUT /accounts/{}",
        "POST /accounts/{}/balances",
        "GET /accounts/{}/balances",
        "POST /corporate-actions",
        "GET /corporate-actions",
        "GET /corporate-actions/{}",
        "DELETE /corporate-actions/{}",
        "GET /exchange-rates",
        "POST /exchange-rates",
        "GET /tax/profiles/{}",
        "PUT /tax/profiles/{}",
        "GET /import/batches",
        "GET /banking/accounts/{}/transactions",
        "DELETE /scheduling/policies/{}",
    ),
    "the only way in for what a tool reads": (
        "POST /journal",  # link_trade_journal links to these
        "GET /journal/{}",
        "POST /fees/periodic",  # get_fee_breakdown, get_cost_of_free
        "GET /fees/periodic",
        "POST /market-data/bars",  # enrich_trade_excursion, score_execution_quality
        "GET /market-data/ohlcv",
    ),
    "what a person sees of a trade: its card in the console": (
        "GET /images/{}/thumbnail",  # tools give its address as thumbnail_url
        "GET /round-trips/{}",
        "GET /trades/{}/round-trip",
        "GET /trades/{}/fees",
        "GET /mistakes",
        "GET /mistakes/suspected",
        "GET /brokers/{}/positions",
    ),
    "a person's hold on the backend": (
        "POST /auth/lock",
        "GET /auth/status",
        "PUT /mcp-guard/config",  # the only switch of the rate limits
        "GET /backups",  # the only place that tells why the last one failed
        "GET /scheduling/runs/{}",
        "POST /scheduling/runs/{}/cancel",  # the only way to stop a run that the schedule began
    ),
    "the REST contract names it": (
        "GET /settings/resolved",  # typed values beside the strings of /settings
        "POST /tax/lots",  # the contract's tool posts, its route list gets: both are served
    ),
}


def shape(path: str) -> str:
    """A path with its placeholders unnamed."""
    return re.sub(r"\{[^}]*\}", "{}", path.split("?", maxsplit=1)[0]).rstrip("/")


def served() -> set[Named]:
    return {(route.method, shape(route.path)) for area in AREAS for route in area}


def of_tools(*, required: bool = False) -> Iterator[Named]:
    for path in (ROOT / "schemas" / "tools").glob("*/*.json"):
        if required and path.stem not in PROMISED:
            continue
        text = path.read_text(encoding="utf-8")
        yield from ((method, shape(where)) for method, where in re.findall(r'"([A-Z]+) (/[^"]*)"', text))
        progress = json.loads(text).get("progress")
        if progress:
            yield from (("GET", shape(progress)), ("POST", f"{shape(progress)}/cancel"))


def template(node: ast.expr) -> str | None:
    """The path that a string or an f-string spells."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("/"):
        return shape(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        text = "".join(str(part) for part in parts)
        return shape(text) if text.startswith("/") else None
    return None


def of_code() -> Iterator[Named]:
    """What the package outside the backend asks for: the method stands before the path, or is GET."""
    for path in (ROOT / "zorivest_rpc").rglob("*.py"):
        if "embedded" in path.parts:
            continue
        bare: dict[ast.expr, str] = {}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr) and (where := template(node)):
                bare.setdefault(node, where)
            elif isinstance(node, ast.Call):
                for before, after in zip(node.args, node.args[1:], strict=False):
                    if isinstance(before, ast.Constant) and before.value in METHODS and (where := template(after)):
                        bare[after] = ""
                        yield before.value, where
        yield from (("GET", where) for where in bare.values() if where)


# Calls whose method or path is chosen at run time, by the module that makes them.
AT_RUN_TIME: dict[str, tuple[str, ...]] = {
    "cli/approve.py": ("POST /scheduling/policies/{}/approve",),
    "cli/connect.py": ("PUT /market-data/providers/{}", "PUT /brokers/{}"),
    "embedded/demo/load.py": ("DELETE /demo",),
    "cli/disconnect.py": ("DELETE /brokers/{}/key", "DELETE /scheduling/email"),
    "serving/tools/scheduling.py": ("PUT /scheduling/policies/{}",),
}


def called() -> set[Named]:
    return {*of_tools(), *of_code(), *listed(AT_RUN_TIME)}


def always_called() -> set[Named]:
    return {*of_tools(required=True), *of_code()}


def listed(table: dict[str, tuple[str, ...]]) -> list[Named]:
    return [(method, path) for names in table.values() for method, path in (name.split(" ") for name in names)]


def kept() -> list[Named]:
    return listed(KEPT)


def test_every_route_has_a_caller_or_a_reason() -> None:
    assert sorted(served() - called() - set(kept())) == []


def test_a_reason_is_for_a_route_that_is_there_and_that_neither_code_nor_a_required_tool_calls() -> None:
    names = kept()
    assert len(names) == len(set(names))
    assert sorted(set(names) - served()) == []
    assert sorted(set(names) & {*always_called(), *listed(AT_RUN_TIME)}) == []


def test_every_route_of_a_tool_is_served() -> None:
    assert sorted(set(of_tools()) - served()) == []


def test_a_call_that_is_put_together_is_made_by_a_module_that_is_there() -> None:
    for module, names in AT_RUN_TIME.items():
        text = (ROOT / "zorivest_rpc" / module).read_text(encoding="utf-8")
        assert all(f'"{name.split(" ")[0]}"' in text for name in names), module
    assert sorted(set(listed(AT_RUN_TIME)) - served()) == []
    assert sorted(set(listed(AT_RUN_TIME)) & always_called()) == []
