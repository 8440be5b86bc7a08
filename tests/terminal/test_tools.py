"""`tools list | show | call | search | why` on the terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from base64 import b64decode
from pathlib import Path

import pytest

from tests.catalogue import ALL, ALWAYS, DEFAULT, DEFERRED, count
from tests.serving.product.everything import png
from tests.terminal.conftest import Command, environment


@pytest.mark.one_journal("a command shows the list as a server has it, and list_clients is one more in it")
def test_the_list_is_a_table_that_fits_and_says_whose_it_is(command: Command) -> None:
    done = command("tools", "list", "--as", "cursor")
    assert done.code == 0
    assert done.out.splitlines()[0].split() == ["TOOL", "TOOLSET", "WHAT", "IT", "DOES"]
    assert len([line for line in done.out.splitlines() if "trade-analytics" in line]) >= 19
    assert f"{DEFAULT} tools as Cursor sees them (static: " in " ".join(done.out.split())
    assert done.widest <= 80
    assert "\x1b" not in done.out


@pytest.mark.parametrize(("client", "count"), [("cursor", DEFAULT), ("claude-code", ALL), ("cline", DEFAULT)])
@pytest.mark.one_journal("a command shows the list as a server has it, and list_clients is one more in it")
def test_the_list_as_json_is_what_that_client_gets(command: Command, client: str, count: int) -> None:
    tools = command("tools", "list", "--as", client, "--json").json
    assert len(tools) == count
    marked = [tool for tool in tools if (tool.get("_meta") or {}).get("defer_loading")]
    assert len(marked) == (DEFERRED if client == "claude-code" else 0)


@pytest.mark.one_journal("a command shows the list as a server has it, and list_clients is one more in it")
def test_the_options_of_a_server_shape_the_list(command: Command) -> None:
    names = [tool["name"] for tool in command("tools", "list", "--json", "--toolsets", "tax", "--read-only").json]
    assert "get_tax_lots" in names
    assert "record_quarterly_tax_payment" not in names
    variable = command("tools", "list", "--json", environ={"ZORIVEST_TOOLSETS": "behavioral"}).json
    assert len(variable) == ALWAYS + count("behavioral")


def test_a_tool_is_shown_with_its_inputs_and_facts(command: Command) -> None:
    done = command("tools", "show", "create_trade")
    assert done.code == 0
    assert done.widest <= 80
    for words in ("create_trade (trade-analytics, trade-planning)", "exec_id", "guarded", "asks for confirmation"):
        assert words in done.out
    assert command("tools", "show", "list_brokers").out.count("Takes no input.") == 1


def test_a_tool_as_json_is_its_definition_for_that_client(command: Command) -> None:
    rich = command("tools", "show", "get_sqn", "--as", "claude-code", "--json").json
    minimal = command("tools", "show", "get_sqn", "--as", "cursor", "--json").json
    assert rich["_meta"]["allowed_callers"] == ["code_execution"]
    assert len(rich["description"]) >= 200
    assert len(minimal["description"]) <= 100


def test_every_tool_is_shown_within_the_width() -> None:
    from zorivest_rpc.cli.terminal import paragraph
    from zorivest_rpc.serving.catalog.load import load

    for spec in load().tools:
        assert all(len(line) <= 80 or " " not in line for line in paragraph(spec.description.rich).splitlines())


def test_a_call_answers_and_ends_with_0(command: Command) -> None:
    done = command("tools", "call", "update_settings", "--json-args", '{"settings": {"ui.theme": "dark"}}')
    assert done.code == 0, done.err
    done = command("tools", "call", "get_settings", "key=ui.theme")
    assert done.code == 0
    assert done.json["value"] == "dark"
    whole = command("tools", "call", "get_settings", "key=ui.theme", "--json").json
    assert whole["structuredContent"] == done.json
    assert whole["content"][0]["type"] == "text"


def test_values_take_the_type_that_the_tool_asks_for(command: Command) -> None:
    done = command("tools", "call", "tool_search", "query=2026", "limit=3", "--json")
    assert done.code == 0
    assert command("tools", "call", "zorivest_diagnose", "verbose=true").json["metrics"]["per_tool"] == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("get_settings", "key=no.such.key"), "no.such.key"),
        (("list_trades", "limit=none"), "limit: given"),
        (("get_report_for_trade", "trade_id=nobody"), "nobody"),
        (("create_trade", "--read-only"), "only read"),
        (("sync_broker", "broker_id=b"), "get_confirmation_token"),
    ],
)
def test_a_call_that_fails_ends_with_1_and_says_why(command: Command, words: tuple[str, ...], told: str) -> None:
    done = command("tools", "call", *words)
    assert done.code == 1
    assert told in done.out
    as_json = command("tools", "call", *words, "--json")
    assert as_json.code == 1
    assert as_json.json["isError"] is True


def test_a_call_is_made_as_the_client_that_was_named(command: Command) -> None:
    mode = command("tools", "call", "zorivest_diagnose", "--as", "claude-code").json["client"]["mode"]
    assert mode == "anthropic"
    assert command("tools", "call", "zorivest_diagnose").json["client"]["mode"] == "static"


@pytest.mark.parametrize("writer", ["direct", "plain"])
def test_the_way_to_the_backend_can_be_chosen_for_a_call_too(command: Command, writer: str) -> None:
    assert command("tools", "call", "get_settings", "key=ui.theme", "--backend-writer", writer).code == 0
    assert command("tools", "call", "get_settings", environ={"ZORIVEST_BACKEND_WRITER": writer}).code == 0
    wrong = command("tools", "call", "get_settings", environ={"ZORIVEST_BACKEND_WRITER": f"{writer}ly"})
    assert (wrong.code, "ZORIVEST_BACKEND_WRITER" in wrong.err) == (2, True)


def test_a_diagnosis_sees_what_needs_a_session(command: Command) -> None:
    report = command("tools", "call", "zorivest_diagnose").json
    assert len(report["providers"]) == 14
    assert "problems" not in report


def test_a_search_finds_tools_by_what_they_do(command: Command) -> None:
    done = command("tools", "search", "wash", "sale")
    assert done.code == 0
    assert done.out.splitlines()[1].startswith("find_wash_sales")
    assert done.widest <= 80
    found = command("tools", "search", "wash sale", "--as", "cursor", "--json").json
    assert (found[0]["name"], found[0]["listed"]) == ("find_wash_sales", False)
    assert found[0]["toolset"] == "tax"
    assert found[0]["description"].startswith("Find wash-sale chains")
    assert command("tools", "search", "wash sale", "--as", "claude-code", "--json").json[0]["listed"] is True
    assert command("tools", "search", "xyzzyplugh").code == 1
    limited = command("tools", "search", "wash sale", "--exclude-tools", "find_wash_sales", "--json").json
    assert "find_wash_sales" not in [match["name"] for match in limited]


def test_why_explains_from_the_predicates_that_filter(command: Command) -> None:
    told = command("tools", "why", "get_tax_lots", "--as", "cursor")
    assert told.code == 0
    assert "get_tax_lots is not listed and can be called." in told.out
    assert "To list it: --toolsets default,tax. By its name, or through call_tool, it runs\nanyway.\n" in told.out
    assert told.widest <= 80
    dynamic = command("tools", "why", "get_tax_lots", "--as", "cline", "--toolsets", "behavioral").out
    assert "To list it: --toolsets behavioral,tax or enable_toolset." in " ".join(dynamic.split())
    refused = command("tools", "why", "create_trade", "--read-only", "--json").json
    assert (refused["listed"], refused["callable"], refused["refused"]["code"]) == (False, False, "read_only")
    chosen = command("tools", "why", "get_tax_lots", "--toolsets", "tax", "--json").json
    assert (chosen["listed"], chosen["chosen_by"]) == (True, "--toolsets")
    by_variable = command("tools", "why", "get_tax_lots", "--json", environ={"ZORIVEST_TOOLSETS": "tax"}).json
    assert by_variable["chosen_by"] == "ZORIVEST_TOOLSETS"
    everything = command("tools", "why", "get_tax_lots", "--as", "claude-code").out
    assert "lists everything, because" in everything
    assert "from defaults" not in everything, "what was not decided by them"
    assert "enable_toolset" not in told.out, "Cursor cannot be told of a new list"
    assert "enable_toolset" in command("tools", "why", "get_tax_lots", "--as", "cline").out
    single = command("tools", "why", "get_sqn", "--tools", "get_tax_lots", "--as", "cursor").out
    assert "Listed at start: core, discovery and get_tax_lots (from --tools)." in " ".join(single.split())


@pytest.mark.parametrize("verb", ["show", "call", "why"])
def test_a_mistyped_tool_is_answered_with_the_nearest(command: Command, verb: str) -> None:
    done = command("tools", verb, "get_tax_lot")
    assert (done.code, done.out) == (2, "")
    assert "did you mean get_tax_lots?" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "usage: zorivest-rpc tools list"),
        (("lst",), "no command tools lst; did you mean list?"),
        (("lst",), "usage: zorivest-rpc tools list"),
        (("xyzzy",), "there are list, show, call, search, why"),
        (("show",), "tools show needs one word more"),
        (("show",), "usage: zorivest-rpc tools list"),
        (("list", "--as", "cursr"), "did you mean cursor?"),
        (("list", "--as", "xyzzy"), "there are claude-code, claude-desktop"),
        (("list", "--as"), "a value is missing"),
        (("list", "--toolsets", "taxes"), 'did you mean "tax"?'),
        (("list", "--toolset", "tax"), "did you mean --toolsets?"),
        (("call", "get_settings", "key"), "key=value"),
        (("call", "get_settings", "--json-args", "{"), "not JSON"),
        (("call", "get_settings", "--json-args", "[]"), "must be a JSON object"),
    ],
)
def test_misuse_ends_with_2_and_one_hint(command: Command, words: tuple[str, ...], told: str) -> None:
    done = command("tools", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize("name", ["tools", "toolsets", "budget"])
def test_help_names_the_forms_and_each_option_with_its_variable(command: Command, name: str) -> None:
    done = command(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: zorivest-rpc {name}")
    assert "ZORIVEST_TOOLSETS" in done.out


QUIET = [
    ("tools", "list", "--as", "claude-code", "--json"),
    ("toolsets", "show", "tax"),
    ("install", "cursor", "--dry-run"),
    ("doctor",),
    ("keys", "list"),
    ("backend", "--help"),
    ("serve", "--help"),
    ("--help",),
    ("version",),
]


@pytest.mark.parametrize("words", QUIET, ids=" ".join)
def test_a_reader_that_has_gone_is_no_failure(home: Path, words: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "zorivest_rpc", *words],
            env=environment(home),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert "BrokenPipe" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)


def at_a_terminal(home: Path, words: tuple[str, ...], dialogue: list[tuple[str, str]]) -> tuple[int, str]:
    """The exit code and what was asked, when these questions are answered like this."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "zorivest_rpc", *words],
        env=environment(home),
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
    )
    os.close(follower)
    try:
        asked = ""
        for question, answer in dialogue:
            part = ""
            while question not in part:
                assert select.select([leader], [], [], 30)[0], (asked, part)
                part += os.read(leader, 65536).decode()
            asked += part
            os.write(leader, answer.encode() + b"\n")
        process.communicate(timeout=30)
        return process.returncode, asked
    finally:
        os.close(leader)


@pytest.mark.parametrize(("typed", "code", "locked"), [("y", 0, True), ("", 1, False), ("no", 1, False)])
def test_a_gated_tool_asks_the_person_at_the_terminal(
    command: Command, home: Path, typed: str, code: int, locked: bool
) -> None:
    try:
        words = ("tools", "call", "zorivest_emergency_stop", "reason=lunch")
        done, asked = at_a_terminal(home, words, [("[y/N]", typed)])
        assert done == code
        assert "reason: lunch" in asked
        assert command("tools", "call", "zorivest_diagnose").json["guard"]["locked"] is locked
    finally:
        command("tools", "call", "zorivest_emergency_unlock", "confirm=UNLOCK")


@pytest.mark.parametrize(("quantity", "code"), [("7", 0), ("70", 1), ("seven", 1)])
def test_a_trade_is_confirmed_by_typing_its_symbol_and_quantity(
    command: Command, home: Path, quantity: str, code: int
) -> None:
    id = f"TYPED-{quantity}"
    trade = (f"exec_id={id}", "instrument=SPY", "action=BOT", "quantity=7", "price=1", "account_id=A")
    done, _ = at_a_terminal(
        home, ("tools", "call", "create_trade", *trade), [("Instrument:", "spy"), ("Quantity:", quantity)]
    )
    assert done == code
    trades = command("tools", "call", "list_trades", "limit=100").json["items"]
    assert (id in [each["exec_id"] for each in trades]) is (code == 0)


def test_a_script_is_told_how_to_confirm(command: Command) -> None:
    done = command("tools", "call", "zorivest_emergency_stop")
    assert done.code == 1
    assert "--confirm never" in done.err
    assert command("tools", "call", "zorivest_emergency_stop", "--confirm", "never").code == 0
    assert command("tools", "call", "zorivest_emergency_unlock", "confirm=UNLOCK").code == 0


def test_a_value_can_come_from_a_file(command: Command, tmp_path: Path) -> None:
    trade = ("exec_id=FILE-1", "instrument=SPY", "action=BOT", "quantity=1", "price=1", "account_id=A")
    assert command("tools", "call", "create_trade", *trade, "--confirm", "never").code == 0
    picture, caption, settings = tmp_path / "chart.png", tmp_path / "caption.txt", tmp_path / "settings.json"
    picture.write_bytes(b64decode(png()))
    caption.write_text("grüße from a file")
    words = ("trade_id=FILE-1", f"image_base64=@{picture}", f"caption=@{caption}")
    done = command("tools", "call", "attach_screenshot", *words)
    assert done.code == 0, done.out
    shots = command("tools", "call", "get_trade_screenshots", "trade_id=FILE-1", "--as", "claude-code").json
    assert [shot["caption"] for shot in shots["items"]] == ["grüße from a file"]
    settings.write_text('{"ui.theme": "light"}')
    assert command("tools", "call", "update_settings", f"settings=@{settings}").code == 0
    assert command("tools", "call", "get_settings", "key=ui.theme").json["value"] == "light"
    assert "@me" in command("tools", "call", "get_settings", "key=@@me").out


@pytest.mark.parametrize(("file", "told"), [("no/such", "no such file"), ("chart.png", "not a text")])
def test_a_file_that_cannot_be_used_is_misuse(command: Command, home: Path, file: str, told: str) -> None:
    (home / "chart.png").write_bytes(b64decode(png()))
    done = command("tools", "call", "get_settings", f"key=@{file}")
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_the_page_that_is_opened_without_a_desktop_application_can_be_set(
    command: Command, home: Path, tmp_path: Path
) -> None:
    told = tmp_path / "opened"
    browser = tmp_path / "bin" / "xdg-open"
    browser.parent.mkdir()
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.new && mv {told}.new {told}\n')
    browser.chmod(0o755)
    path = {"PATH": f"{browser.parent}{os.pathsep}{os.environ['PATH']}"}
    page = "https://zorivest.example/download"
    done = command("tools", "call", "zorivest_launch_gui", "--gui-page", page, environ=path)
    assert done.code == 0
    assert done.json["setup_instructions"]["desktop_app"]["url"] == page
    deadline = time.monotonic() + 30
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert told.read_text().strip() == page
    assert "url" not in command("tools", "call", "zorivest_launch_gui").json["setup_instructions"]["desktop_app"]
    wrong = command("tools", "call", "zorivest_launch_gui", environ={"ZORIVEST_GUI_PAGE": "calc.exe"})
    assert wrong.code == 2
    assert "calc.exe" in wrong.err


@pytest.mark.parametrize(("variables", "head"), [({}, b"\x1b[1mTOOLSET"), ({"NO_COLOR": "1"}, b"TOOLSET")])
def test_colours_are_for_terminals_alone(home: Path, variables: dict[str, str], head: bytes) -> None:
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "zorivest_rpc", "toolsets", "list"],
            env=environment(home) | variables,
            stdin=subprocess.DEVNULL,
            stdout=follower,
            stderr=subprocess.DEVNULL,
        )
        os.close(follower)
        shown = b""
        while select.select([leader], [], [], 30)[0]:
            try:
                data = os.read(leader, 65536)
            except OSError:  # the other side has ended
                break
            if not data:
                break
            shown += data
        assert process.wait(30) == 0
    finally:
        os.close(leader)
    assert shown.startswith(head)
