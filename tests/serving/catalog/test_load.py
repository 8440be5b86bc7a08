"""Reading the files: what a dropped-in file does, and that every mistake in every file is reported at once."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zorivest_rpc
from tests.catalogue import ALL, META
from zorivest_rpc.serving.catalog.load import CHECKED, check, fingerprint, load, schemas_dir
from zorivest_rpc.serving.catalog.spec import routes
from zorivest_rpc.serving.catalog.toolsets import members

NEW_TOOL: dict[str, Any] = {
    "name": "record_balance",
    "title": "Record balance",
    "description": {
        "minimal": "Record one balance snapshot for an account at a given time.",
        "rich": "Record one balance snapshot for an account at a given time. Use when a balance is known, for example "
        'at day end. Not for executions (create_trade). Example: {"account_id":"DU123","balance":1000}. Repeating it '
        "adds nothing when the value did not change.",
    },
    "inputSchema": {
        "type": "object",
        "properties": {
            "account_id": {"type": "string", "description": "Account that has the balance."},
            "balance": {"type": "number", "description": "Amount in the account's currency."},
        },
        "required": ["account_id", "balance"],
        "additionalProperties": False,
    },
    "outputSchema": {"type": "object", "properties": {"balance": {"type": "number"}}, "required": ["balance"]},
    "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    "rest": "POST /accounts/{account_id}/balances",
}


def drop(schemas: Path, toolset: str, tool: dict[str, Any], name: str | None = None) -> Path:
    file = schemas / "tools" / toolset / f"{name or tool['name']}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(tool))
    return file


def change(file: Path, edit: Callable[[Any], object]) -> None:
    value = json.loads(file.read_text())
    edit(value)
    file.write_text(json.dumps(value))


def reported(schemas: Path) -> list[str]:
    return [str(problem) for problem in check(str(schemas))]


def test_a_tool_is_added_by_dropping_in_one_file(schemas: Path) -> None:
    drop(schemas, "accounts", NEW_TOOL)
    assert reported(schemas) == []
    catalogue = load(str(schemas))
    assert len(catalogue.tools) == ALL - META + 1
    assert members(catalogue, "accounts")[-1].name == "record_balance"
    (route,) = routes(members(catalogue, "accounts")[-1])
    assert (route.method, route.path_params, route.body_params) == (
        "POST",
        {"account_id": "account_id"},
        {"balance": "balance"},
    )


def test_a_toolset_is_added_by_a_line_and_a_directory(schemas: Path) -> None:
    change(
        schemas / "toolsets.json",
        lambda value: value["toolsets"].append({"name": "balances", "description": "Balance snapshots of accounts."}),
    )
    drop(schemas, "balances", NEW_TOOL)
    assert reported(schemas) == []
    assert load(str(schemas)).tools[-1].toolset == "balances"


def test_all_problems_of_all_files_are_reported_at_once(schemas: Path) -> None:
    tools = schemas / "tools"
    change(tools / "tax" / "get_tax_lots.json", lambda tool: tool["description"].update(minimal="Too short."))
    change(tools / "tax" / "estimate_tax.json", lambda tool: tool.pop("rest"))
    change(tools / "tax" / "estimate_tax.json", lambda tool: tool.pop("annotations"))
    (tools / "core" / "get_settings.json").write_text("{nonsense")
    drop(schemas, "nowhere", NEW_TOOL)
    drop(schemas, "accounts", NEW_TOOL, name="other_name")
    change(schemas / "clients.json", lambda value: value["clients"][0].update(mode="telepathic"))
    change(schemas / "toolsets.json", lambda value: value["toolsets"][0].update(size=3))
    with pytest.raises(ExceptionGroup) as failed:
        load(str(schemas))
    found = "\n".join(str(problem) for problem in failed.value.exceptions)
    for expected in (
        "tools/tax/get_tax_lots.json#/description/minimal: 10 characters; allowed are 50 to 100",
        "tools/tax/estimate_tax.json: needs either rest or python",
        "tools/tax/estimate_tax.json: 'annotations' is a required property",
        "tools/core/get_settings.json: not JSON",
        "tools/nowhere/record_balance.json: no toolset 'nowhere'",
        "tools/accounts/other_name.json#/name: 'record_balance' in a file called other_name.json",
        "a second tool 'record_balance'",
        "clients.json#/clients/0/mode: 'telepathic' is not one of",
        "toolsets.json#/toolsets/0",
    ):
        assert expected in found, expected


def test_a_start_reports_what_only_a_thorough_look_finds(schemas: Path) -> None:
    """None of these is in the way of decoding a file."""
    tools = schemas / "tools"
    change(tools / "tax" / "get_tax_lots.json", lambda tool: tool["description"].update(minimal="Too short."))
    change(tools / "core" / "get_settings.json", lambda tool: tool["inputSchema"]["properties"]["key"].pop("type"))
    change(tools / "accounts" / "list_brokers.json", lambda tool: tool.update(rest="GET /brokers/{nothing}"))
    with pytest.raises(ExceptionGroup) as failed:
        load(str(schemas))
    assert [str(problem) for problem in failed.value.exceptions] == [
        "tools/accounts/list_brokers.json#/rest: no input 'nothing'",
        "tools/core/get_settings.json#/inputSchema/properties/key: 'type' is a required property",
        "tools/tax/get_tax_lots.json#/description/minimal: 10 characters; allowed are 50 to 100",
    ]


@pytest.mark.parametrize("stamp", [None, "{", '{"sum": 1}', '{"sum": "00000000"}', "[]"])
def test_a_sound_catalogue_is_served_whatever_its_stamp_says(schemas: Path, stamp: str | None) -> None:
    if stamp is None:
        (schemas / CHECKED).unlink()
    else:
        (schemas / CHECKED).write_text(stamp)
    assert load(str(schemas)) == load()


def test_a_file_that_moved_changes_the_sum(schemas: Path) -> None:
    before = fingerprint(str(schemas))
    file = schemas / "tools" / "tax" / "get_tax_lots.json"
    file.rename(schemas / "tools" / "accounts" / file.name)
    assert fingerprint(str(schemas)) != before


MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "unknown key": (lambda tool: tool.update(guardd=True), "'guardd' was unexpected"),
    "rich too long": (
        lambda tool: tool["description"].update(rich="A" + "b" * 400 + "."),
        "402 characters; allowed are",
    ),
    "untyped input": (lambda tool: tool["inputSchema"]["properties"]["balance"].pop("type"), "'type' is a required"),
    "open input": (lambda tool: tool["inputSchema"].update(additionalProperties=True), "False was expected"),
    "number enum": (
        lambda tool: tool["inputSchema"]["properties"]["balance"].update(enum=[1, 2]),
        "1 is not of type 'string'",
    ),
    "fractional step": (
        lambda tool: tool["inputSchema"]["properties"]["balance"].update(multipleOf=0.01),
        "a fraction is judged differently",
    ),
    "class in a pattern": (
        lambda tool: tool["inputSchema"]["properties"]["account_id"].update(pattern=r"^\d+"),
        "different validators",
    ),
    "end in a pattern": (
        lambda tool: tool["inputSchema"]["properties"]["account_id"].update(pattern="^[a-z]+$"),
        "different validators",
    ),
    "format": (
        lambda tool: tool["inputSchema"]["properties"]["account_id"].update(format="uuid"),
        "'format' was unexpected",
    ),
    "nullable input": (
        lambda tool: tool["inputSchema"]["properties"]["balance"].update(type=["number", "null"]),
        "/inputSchema/properties/balance/type",
    ),
    "list of types": (
        lambda tool: tool["inputSchema"]["properties"]["balance"].update(type=["number", "string"]),
        "/inputSchema/properties/balance/type",
    ),
    "list of types further down": (
        lambda tool: tool["inputSchema"]["properties"]["balance"].update(
            type="array", items={"type": "object", "properties": {"deep": {"type": ["number", "string"]}}}
        ),
        "/inputSchema/properties/balance/items/properties/deep/type",
    ),
    "requirement without a property": (
        lambda tool: tool["inputSchema"]["required"].append("currency"),
        "'currency' is required and not described",
    ),
    "default of another type": (
        lambda tool: tool["inputSchema"]["properties"]["account_id"].update(default=7),
        "7 does not fit",
    ),
    "placeholder without input": (lambda tool: tool.update(rest="POST /accounts/{id}/balances"), "no input 'id'"),
    "method": (lambda tool: tool.update(rest="FETCH /accounts"), "/rest"),
    "two ways to run": (lambda tool: tool.update(python="record"), "needs either rest or python"),
    "map to nothing": (
        lambda tool: tool.update(rest={"route": "POST /balances", "body_params": {"amount": "amnt"}}),
        "no input 'amnt'",
    ),
    "body of a read": (
        lambda tool: tool.update(rest={"route": "GET /balances", "body_root": "balance"}),
        "a GET has no body",
    ),
    "gate without token": (lambda tool: tool.update(confirm=True), "confirmation_token belong together"),
    "typed without a gate": (lambda tool: tool.update(confirm_typed=["account_id"]), "of a tool with confirm"),
    "contradicting hints": (
        lambda tool: tool["annotations"].update(readOnlyHint=True, destructiveHint=True),
        "cannot be destructive",
    ),
    "writing from code": (lambda tool: tool.update(ptc=True), "only a tool that only reads"),
    "offline without guard": (lambda tool: tool.update(guarded=False, guard_offline="allow"), "says nothing"),
    "check with nothing": (lambda tool: tool.update(check_with="list_nothing"), "no other tool 'list_nothing'"),
    "guest of nobody": (lambda tool: tool.update(also_in=["tacks"]), "no other toolset 'tacks'"),
    "text about nothing": (
        lambda tool: tool.update(not_found={"problem": "No {acount_id}", "next": "Look."}),
        "no input 'acount_id'",
    ),
    "date default of nothing": (lambda tool: tool.update(dynamic_defaults={"year": "current_year"}), "optional input"),
    "header on a number": (
        lambda tool: tool["inputSchema"]["properties"]["balance"].update({"x-mcp-header": "Balance"}),
        "only a string, an integer or a boolean",
    ),
    "header that is no token": (
        lambda tool: tool["inputSchema"]["properties"]["account_id"].update({"x-mcp-header": "Account Id"}),
        "not a header token",
    ),
    "no output schema": (lambda tool: tool.pop("outputSchema"), "'outputSchema' is a required property"),
    "invalid output schema": (lambda tool: tool.update(outputSchema={"type": "objekt"}), "/outputSchema/type"),
    "dividing output pattern": (
        lambda tool: tool.update(outputSchema={"type": "object", "properties": {"a": {"pattern": r"\w"}}}),
        "different validators",
    ),
}


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """One catalogue with every mistake in a file of its own, checked once: problem texts by file."""
    schemas = Path(shutil.copytree(schemas_dir(), tmp_path_factory.mktemp("mistaken") / "schemas"))
    for number, (edit, _) in enumerate(MISTAKES.values()):
        tool = json.loads(json.dumps({**NEW_TOOL, "name": f"mistake_{number}"}))
        edit(tool)
        drop(schemas, "accounts", tool)
    found: dict[str, list[str]] = {}
    for problem in check(str(schemas)):
        found.setdefault(problem.file, []).append(str(problem))
    return found


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_tool_file_is_found_and_named(mistaken: dict[str, list[str]], mistake: str) -> None:
    file = f"tools/accounts/mistake_{list(MISTAKES).index(mistake)}.json"
    assert any(MISTAKES[mistake][1] in problem for problem in mistaken[file]), mistaken[file]


def test_no_other_file_is_blamed_for_a_mistake(mistaken: dict[str, list[str]]) -> None:
    assert set(mistaken) == {f"tools/accounts/mistake_{number}.json" for number in range(len(MISTAKES))}


def test_headers_must_differ_and_be_reachable(schemas: Path) -> None:
    tool = json.loads(json.dumps(NEW_TOOL))
    properties = tool["inputSchema"]["properties"]
    properties["account_id"]["x-mcp-header"] = "Account"
    properties["other"] = {"type": "string", "description": "Another one.", "x-mcp-header": "account"}
    properties["deep"] = {
        "type": "array",
        "description": "A list of them.",
        "items": {"type": "string", "x-mcp-header": "Deep"},
    }
    drop(schemas, "accounts", tool)
    found = reported(schemas)
    assert any("'account' is used twice" in problem for problem in found)
    assert any("reachable through properties alone" in problem for problem in found)
    assert len(found) == 2


def test_a_repeated_key_is_a_problem(schemas: Path) -> None:
    file = drop(schemas, "accounts", NEW_TOOL)
    file.write_text(file.read_text().replace('"title":', '"title": "Once", "title":', 1))
    assert reported(schemas) == ["tools/accounts/record_balance.json: key 'title' appears twice in one object"]


def test_a_client_name_belongs_to_one_client(schemas: Path) -> None:
    change(schemas / "clients.json", lambda value: value["clients"][3].setdefault("names", []).append("claude-code"))
    change(schemas / "clients.json", lambda value: value["clients"][4].setdefault("names", []).append("Big Name"))
    change(schemas / "clients.json", lambda value: value["clients"][0]["before"][0]["traits"].update(list_changed="?"))
    found = reported(schemas)
    assert len(found) == 3
    assert "name 'claude-code' belongs to 'claude-code'" in found[1]
    assert "'Big Name' is not in its normalised form" in found[2]


def test_a_missing_table_is_reported_and_not_a_crash(schemas: Path) -> None:
    (schemas / "clients.json").unlink()
    (schemas / "tool.schema.json").unlink()
    with pytest.raises(ExceptionGroup) as failed:
        load(str(schemas))
    assert {str(problem).partition(":")[0] for problem in failed.value.exceptions} == {
        "clients.json",
        "tool.schema.json",
    }


def test_a_toolset_without_tools_is_a_problem(schemas: Path) -> None:
    for file in (schemas / "tools" / "behavioral").iterdir():
        file.unlink()
    assert "no tool file in tools/behavioral" in "\n".join(reported(schemas))


def test_files_that_are_not_tools_are_left_alone(schemas: Path) -> None:
    (schemas / "tools" / "tax" / "notes.txt").write_text("not a tool")
    (schemas / "tools" / "tax" / ".draft.json").write_text("{")
    (schemas / "tools" / "README.md").write_text("about this directory")
    assert len(load(str(schemas)).tools) == ALL - META


def test_the_files_lie_beside_the_package_or_inside_it() -> None:
    assert (Path(schemas_dir()) / "tool.schema.json").is_file()


def test_an_installed_package_finds_the_files_inside_itself(tmp_path: Path) -> None:
    package = Path(zorivest_rpc.__file__).parent
    ours = ("serving/__init__.py", *(f"serving/catalog/{name}.py" for name in ("__init__", "load", "spec")))
    for name in ("__init__.py", "errors.py", *ours):
        (tmp_path / "zorivest_rpc" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(package / name, tmp_path / "zorivest_rpc" / name)
    shutil.copytree(schemas_dir(), tmp_path / "zorivest_rpc" / "schemas")
    program = "from zorivest_rpc.serving.catalog.load import *; print(schemas_dir(), len(load().tools))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "zorivest_rpc" / "schemas"), str(ALL - META)]


def test_loading_and_presenting_imports_no_validator() -> None:
    """A start must not pay for what only a broken catalogue needs."""
    program = (
        "import sys; from zorivest_rpc.serving.catalog.load import load\n"
        "from zorivest_rpc.serving.modes import detect, present\n"
        "load(); print([name for name in ('jsonschema', 'jsonschema_rs', 'importlib.resources', 'difflib', 'aiohttp')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
